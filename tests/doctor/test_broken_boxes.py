"""Boxes that were broken on purpose: doctor names each cause, why it matters and what to do."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from backends.boxes import liveness, manifest
from backends.boxes.layout import BoxPaths, runtime_dir, socket_path
from backends.doctor import leftovers, room
from backends.engine import Engine, NewBox, Streams
from backends.evidence import journal
from backends.kernel import cgroups
from backends.policy import canonical
from backends.snapshots import Finding
from tests import support
from tests.doctor.conftest import Look

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)


def run(engine: Engine, script: str = "true") -> None:
    assert engine.run("b", ["sh", "-c", script], streams=QUIET).exit == 0


def repair(engine: Engine, paths: BoxPaths, look: Look) -> list[tuple[str, bool]]:
    """Make what is offered; the box is in order then, and its journal says what was done."""
    done = engine.repair(tuple(look(paths).values()), "ada")
    assert look(paths) == {}
    told = [(r.data["fix"], r.data["who"]) for r in journal.read(paths.journal) if r.kind == "repair"]
    assert told == [(one.fix, "ada") for one in done]
    assert journal.verify(paths.journal).problems == ()
    return [(one.fix, one.done) for one in done]


def test_a_box_that_nobody_broke_is_in_order_and_its_own_policy_is_proved(box: BoxPaths, look: Look) -> None:
    found = look(box, proofs=True, everything=True)
    assert {row.verdict for row in found.values()} == {"ok"}, found
    assert "exactly this policy" in found["proof"].evidence and "init proved" in found["proof"].evidence


# 1 ------------------------------------------------------------------------------------------------


def test_a_policy_that_was_changed(engine: Engine, repo: Path, box: BoxPaths, look: Look) -> None:
    kept = box.policy.read_bytes()
    box.policy.write_bytes(kept.replace(b'"deny"', b'"host"'))
    found = look(box, proofs=True)
    assert set(found) == {"policy", "proof"}
    assert found["policy"].verdict == "fail" and manifest.load(box).policy_digest in found["policy"].evidence
    assert found["proof"].verdict == "note", "another policy than the box's proves nothing about it"
    assert found["policy"].remedy == f"cloche doctor {box.key} --fix", "its profile still gives it"

    (repo / "cloche.toml").write_text("[profiles.default.resources]\nprocs = 77\n")
    found = look(box)
    assert found["policy"].remedy == f"cloche diff {box.key} > b.patch && cloche new --profile default"
    assert not found["policy"].fix, "what the profile gives by now is another policy"
    (repo / "cloche.toml").unlink()
    assert repair(engine, box, look) == [("policy", True)]
    assert box.policy.read_bytes() == kept


def test_a_policy_that_was_changed_with_the_digest_in_the_manifest(box: BoxPaths, look: Look) -> None:
    box.policy.write_text(box.policy.read_text().replace('"deny"', '"host"'))
    known = manifest.load(box)
    manifest.save(box, known._replace(policy_digest=canonical.digest(box.policy.read_bytes())))
    assert set(found := look(box)) == {"policy"}
    assert known.policy_digest in found["policy"].evidence and "the journal says" in found["policy"].evidence


# 2 ------------------------------------------------------------------------------------------------


def test_a_deleted_base_reference(engine: Engine, repo: Path, box: BoxPaths, look: Look) -> None:
    ref = "refs/cloche/b/base"
    support.git(repo, "update-ref", "-d", ref)
    found = look(box)
    assert set(found) == {"base"} and found["base"].verdict == "fail" and "is gone" in found["base"].evidence
    subprocess.run(found["base"].remedy, shell=True, check=True)
    assert support.git(repo, "rev-parse", ref) == manifest.load(box).base and look(box) == {}
    support.git(repo, "update-ref", "-d", ref)
    assert repair(engine, box, look) == [("base-ref", True)]
    assert support.git(repo, "rev-parse", ref) == manifest.load(box).base


def test_a_base_that_was_pruned_is_not_repaired(
    engine: Engine, repo: Path, box: BoxPaths, look: Look
) -> None:
    support.git(repo, "update-ref", "-d", "refs/cloche/b/base")
    support.git(repo, "commit", "-q", "--amend", "--reset-author", "-m", "another")
    support.git(repo, "reflog", "expire", "--expire=now", "--all")
    support.git(repo, "gc", "-q", "--prune=now")
    found = look(box)
    assert set(found) == {"base"} and "does not have" in found["base"].evidence
    assert shlex.split(found["base"].remedy)[:3] == ["cloche", "export", box.key] and not found["base"].fix


# 4 ------------------------------------------------------------------------------------------------


def test_a_killed_keeper(engine: Engine, box: BoxPaths, look: Look) -> None:
    run(engine)
    live = liveness.read(box)
    assert live.keeper is not None and live.init is not None
    os.kill(live.keeper.pid, signal.SIGKILL)
    support.wait_until(lambda: not liveness.alive(live.keeper), "the keeper has ended")
    support.wait_until(lambda: not liveness.alive(live.init), "the tree follows its keeper")
    found = look(box)
    assert set(found) == {"keeper"} and found["keeper"].text == "its keeper died"
    assert str(live.keeper.pid) in found["keeper"].evidence
    assert found["keeper"].remedy == f"cloche stop {box.key}"
    assert repair(engine, box, look) == [("settle", True)]
    assert manifest.load(box).state == "idle"


# 5 ------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(at: Path) -> Iterator[None]:
    """``at`` on a file system of one MiB, with what it held."""
    away = at.with_name(at.name + ".away")
    at.rename(away)
    at.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "small", at], check=True)
    try:
        subprocess.run(["cp", "-a", f"{away}/.", at], check=True)
        yield
    finally:
        subprocess.run(["umount", at], check=True)
        at.rmdir()
        away.rename(at)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_full_disk(box: BoxPaths, look: Look) -> None:
    with small_disk(box.root):
        found = look(box)
        assert {"disk", "mounts"} == set(found)
        assert found["disk"].verdict == "fail" and found["disk"].text == "the disk is full"
        assert "of 1 MiB free" in found["disk"].evidence
        assert found["disk"].remedy == f"cloche gc && df -h {box.root}"
        with pytest.raises(OSError, match="No space left"):
            (box.root / "filler").write_bytes(bytes(2 << 20))
        assert set(look(box)) == {"disk", "mounts"}


def test_room_is_judged_by_bytes_and_by_inodes(box: BoxPaths, look: Look) -> None:
    for free, inodes, verdict in (
        (1 << 20, 9, "fail"),
        (10 << 30, 3, "fail"),
        (100 << 20, 99_999, "warn"),
        (10 << 30, None, "ok"),
    ):
        left = room.Room(box.root, free, 100 << 30, inodes)
        with mock.patch.object(room, "look", return_value=left):
            assert look(box, everything=True)["disk"].verdict == verdict, left


# 6 is in test_image.py, 3 in test_relocation.py
# 7 ------------------------------------------------------------------------------------------------


def test_a_torn_journal(engine: Engine, box: BoxPaths, look: Look) -> None:
    with box.journal.open("ab") as file:
        file.write(b'{"data":{"half')
    found = look(box)
    assert set(found) == {"journal"} and found["journal"].verdict == "warn"
    assert "14 bytes after record 1" in found["journal"].evidence
    assert repair(engine, box, look) == [("torn", True)]
    assert [r.data for r in journal.read(box.journal) if r.kind == "torn"] == [{"dropped": 14}]


def test_a_journal_that_lost_records_is_not_repaired(engine: Engine, box: BoxPaths, look: Look) -> None:
    run(engine)
    engine.stop("b")
    lines = box.journal.read_bytes().splitlines(keepends=True)
    box.journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    found = look(box)
    assert set(found) == {"journal"} and found["journal"].verdict == "fail" and not found["journal"].fix
    assert "missing from the end" in found["journal"].evidence and "do not apply" in found["journal"].why
    assert engine.repair(tuple(found.values()), "ada") == ()


# 8 ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_foreign_owner(box: BoxPaths, look: Look) -> None:
    os.chown(box.policy, 12345, 12345)
    found = look(box)
    assert set(found) == {"owner"} and found["owner"].verdict == "fail"
    assert found["owner"].evidence == "policy.json belongs to user 12345"
    subprocess.run(found["owner"].remedy.removeprefix("sudo "), shell=True, check=True)
    assert look(box) == {}


def test_files_that_others_may_write(engine: Engine, box: BoxPaths, look: Look) -> None:
    box.root.chmod(0o755)
    box.journal.chmod(0o666)
    found = look(box)
    assert set(found) == {"owner"} and "mode 0755" in found["owner"].evidence
    assert repair(engine, box, look) == [("private", True)]
    assert box.root.stat().st_mode & 0o777 == 0o700 and box.journal.stat().st_mode & 0o777 == 0o644


def test_what_a_box_left_that_is_gone(engine: Engine, tmp_path: Path) -> None:
    kept, gone = (runtime_dir() / f"{'0' * 19}{number}.sock" for number in (1, 2))
    with socket.socket(socket.AF_UNIX) as listening:
        for path in (kept, gone):
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
            os.utime(path, (1.0, 1.0))
        kept.unlink()
        listening.bind(str(kept))
        os.utime(kept, (1.0, 1.0))
        listening.listen()
        (found,) = (row for row in engine.doctor() if row.id == "stray-sockets")
        assert (found.evidence, found.remedy, found.verdict) == (str(gone), f"rm {gone}", "note")
        (done,) = engine.repair((found,), "ada")
        assert done.done and kept.exists() and not gone.exists()


def test_no_repair_leaves_the_folder_of_boxes(engine: Engine, tmp_path: Path) -> None:
    for subject in ("../../t", "a/../../t", "/t", "", "k/"):
        (done,) = engine.repair((Finding("x", "warn", "", "", "", "", "private", subject),), "ada")
        assert not done.done and "no box" in done.text


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an unprivileged user")
def test_a_folder_that_is_closed_to_us_is_told_and_the_others_are_looked_at(
    engine: Engine, box: BoxPaths
) -> None:
    box.root.chmod(0)
    try:
        failed = [row for row in engine.doctor() if row.subject == box.key and row.verdict == "fail"]
        assert [row.id.rpartition(": ")[2] for row in failed] == ["owner", "manifest"]
        assert failed[0].remedy == f"chmod 700 {box.root}" and "Permission denied" in failed[1].evidence
        assert {row.subject for row in engine.doctor("b")} == {"host", box.key}
        other = engine.make(NewBox(name="c"))
        rows = {row.name: row.state for row in engine.boxes()}
        assert rows == {"b": "damaged", "c": "created"}, "the others are listed"
        assert not any(one.box in (box.key, other.key) for one in engine.gc())
    finally:
        box.root.chmod(0o700)


# 9 ------------------------------------------------------------------------------------------------


def test_a_clock_that_is_behind_what_was_written(box: BoxPaths, look: Look) -> None:
    ahead = time.time() + 7200
    with mock.patch("time.time", return_value=ahead):
        journal.Journal(box.journal).append("policy-note", {})
    found = look(box)
    assert set(found) == {"clock"} and found["clock"].text == "the clock is behind what was written"
    assert found["clock"].remedy == "sudo timedatectl set-ntp true"


# 10 -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_mount_that_was_left(engine: Engine, box: BoxPaths, look: Look) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "left", box.mount], check=True)
    found = look(box)
    assert set(found) == {"mounts"} and found["mounts"].evidence == str(box.mount)
    assert found["mounts"].remedy == f"umount {box.mount}"
    assert repair(engine, box, look) == [("unmount", True)]
    assert leftovers.mounted(box) == []


def test_a_control_group_that_was_left(engine: Engine, box: BoxPaths, look: Look) -> None:
    made = cgroups.create(f"{box.repository_key}-b-0123abcd", procs=9, memory=None)
    if not made.folders:
        pytest.skip("needs root")  # nothing was delegated to us
    found = look(box)
    assert set(found) == {"cgroups"} and found["cgroups"].evidence == made.folders[0]
    assert repair(engine, box, look) == [("cgroups", True)]
    assert not Path(made.folders[0]).exists()


def test_a_control_group_of_a_box_with_a_longer_name_is_not_taken_for_this_ones(
    box: BoxPaths, look: Look
) -> None:
    made = cgroups.create(f"{box.repository_key}-b-c-0123abcd", procs=9, memory=None)
    try:
        assert look(box) == {}
    finally:
        cgroups.remove(made.folders)


def test_a_socket_that_was_left(engine: Engine, box: BoxPaths, look: Look) -> None:
    socket_path(box).touch()
    assert set(found := look(box)) == {"socket"} and found["socket"].verdict == "note"
    assert repair(engine, box, look) == [("socket", True)]


# beyond the ten -----------------------------------------------------------------------------------


def test_a_box_that_was_never_finished(engine: Engine, box: BoxPaths) -> None:
    (box.root / "creating.json").write_bytes(box.manifest.read_bytes())
    box.manifest.unlink()
    (found,) = (row for row in engine.doctor() if row.id.endswith(": unfinished"))
    assert (found.subject, found.fix, found.remedy) == (box.key, "unfinished", "cloche gc")
    (done,) = engine.repair((found,), "ada")
    assert done.done and not box.root.exists()
    told = list(journal.read(box.root.parent.parent / "doctor.jsonl"))
    assert [(r.kind, r.data["fix"], r.data["who"]) for r in told] == [("repair", "unfinished", "ada")]


def test_a_manifest_that_cannot_be_read_ends_no_other_check(box: BoxPaths, look: Look) -> None:
    kept = box.manifest.read_bytes()
    try:
        for text in (b"", b"[]", b"{}", b"\xff\xfe", b'{"version": 9}'):
            box.manifest.write_bytes(text)
            found = look(box)
            assert set(found) == {"manifest"} and found["manifest"].verdict == "fail", text
    finally:
        box.manifest.write_bytes(kept)


def test_damage_of_any_file_is_a_finding_and_never_a_crash(box: BoxPaths, look: Look) -> None:
    for path in (box.live, box.lock, box.layers, box.sources):
        kept = path.read_bytes() if path.exists() else None
        path.write_bytes(b'{"layers": 3, "keeper": [], "pid": []}')
        try:
            look(box)
        finally:
            path.unlink()
            if kept is not None:
                path.write_bytes(kept)


def test_nothing_from_inside_a_box_is_repaired(engine: Engine, box: BoxPaths, look: Look) -> None:
    box.root.chmod(0o755)
    with mock.patch.dict(os.environ, {"CLOCHE_BOX": "b"}), pytest.raises(Exception, match="doctor --fix"):
        engine.repair(tuple(look(box).values()), "ada")
    box.root.chmod(0o700)


@pytest.mark.usefixtures("kept")
def test_the_command_line_fails_repairs_and_is_content(box: BoxPaths, repo: Path, cli: object) -> None:
    assert callable(cli)
    support.git(repo, "update-ref", "-d", "refs/cloche/b/base")
    done = cli("doctor", "b")
    assert done.code == 1
    assert f"FAIL  {box.key}: base: the base is no longer kept" in done.out
    assert "why:    Git may prune" in done.out and "remedy: git -C" in done.out
    done = cli("doctor", "b", "--fix", "--json")
    value = json.loads(done.out)
    assert done.code == 0 and value["ok"]
    assert [(one["fix"], one["done"]) for one in value["repairs"]] == [("base-ref", True)]
    assert {"id", "verdict", "text", "evidence", "remedy", "why", "fix", "subject"} == set(
        value["findings"][0]
    )
