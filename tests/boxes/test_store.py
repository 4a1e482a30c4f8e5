"""Boxes on disk: listed, found by name, locked by one at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends.boxes import liveness, manifest, store
from backends.boxes.layout import BoxPaths, state_dir
from backends.boxes.manifest import Manifest
from backends.errors import Busy, NoSuchBox, Refused, UsageError
from backends.snapshots import ProcessId
from tests.conftest import Home


def make(key: str, name: str, **fields: object) -> BoxPaths:
    paths = BoxPaths(state_dir() / key / name)
    paths.root.mkdir(parents=True, mode=0o700)
    values: dict[str, object] = {
        "name": name, "repository": "/r", "git_dir": "/r/.git", "repository_key": key, "tier": "process",
        "profile": "default", "state": "created", "base": "0" * 40, "base_tree": "1" * 40,
        "base_ref": "refs/heads/main", "created": 1.5, "policy_digest": "2" * 64, "payload_uid": 1,
        "payload_gid": 1,
    }  # fmt: skip
    manifest.save(paths, Manifest(**{**values, **fields}))  # type: ignore[arg-type]
    return paths


def test_a_manifest_survives_writing_and_reading(home: Home) -> None:
    paths = make("k-1", "a", purpose="x", journal={"count": 3, "head": "ab"})
    known = manifest.load(paths)
    assert known.purpose == "x" and known.journal == {"count": 3, "head": "ab"}
    assert json.loads(paths.manifest.read_text())["version"] == 1
    assert paths.manifest.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "JSON"),
        ("[]", "object"),
        ('{"version": 2}', "version"),
        ('{"version": 1, "name": "a"}', "missing"),
    ],
)
def test_a_damaged_manifest_is_refused_and_still_listed(home: Home, text: str, word: str) -> None:
    paths = make("k-1", "a")
    paths.manifest.write_text(text)
    with pytest.raises(Refused, match=word):
        manifest.load(paths)
    (entry,) = store.entries()
    assert entry.manifest is None and entry.error is not None


def test_a_value_of_another_type_is_refused(home: Home) -> None:
    paths = make("k-1", "a")
    value = json.loads(paths.manifest.read_text())
    for key, bad in (("payload_uid", "0"), ("base", 7), ("created", "now"), ("payload_uid", True)):
        paths.manifest.write_text(json.dumps({**value, key: bad}))
        with pytest.raises(Refused, match=key):
            manifest.load(paths)


def test_boxes_are_found_by_name_and_by_key(home: Home) -> None:
    mine, other = make("k-1", "a"), make("k-2", "b")
    assert store.find("a", "k-1") == mine
    assert store.find("k-2/b", "k-1") == other
    assert store.find("b", "k-1") == other, "the only box of that name anywhere"
    assert store.find("b", None) == other


def test_the_box_of_the_own_repository_wins_and_elsewhere_the_name_is_ambiguous(home: Home) -> None:
    mine = make("k-1", "a")
    make("k-2", "a")
    assert store.find("a", "k-1") == mine
    with pytest.raises(UsageError) as error:
        store.find("a", "k-3")
    assert error.value.code == "ambiguous"
    assert "k-1/a" in error.value.why and "k-2/a" in error.value.why


@pytest.mark.parametrize(
    "ref", ["gone", "k-1/gone", "../k-1/a", "k-1/../a", "/etc", "k-1//a", "a\n", ".", ""]
)
def test_a_name_that_is_no_box_is_no_way_out_of_the_state_folder(home: Home, ref: str) -> None:
    make("k-1", "a")
    with pytest.raises(NoSuchBox):
        store.find(ref, "k-1")


def test_a_link_in_the_state_folder_is_not_listed(home: Home) -> None:
    paths = make("k-1", "a")
    (paths.root.parent / "link").symlink_to(paths.root)
    assert [entry.paths.name for entry in store.entries()] == ["a"]


def test_one_lock_at_a_time_and_a_busy_box_names_who_holds_it(home: Home) -> None:
    paths = make("k-1", "a")
    with store.lock(paths, "propose"):
        assert store.held(paths)
        with pytest.raises(Busy, match="propose") as busy, store.lock(paths, "apply"):
            pass
        assert busy.value.exit_code == 5 and str(os.getpid()) in busy.value.why
    assert not store.held(paths)
    with store.lock(paths, "apply"):
        pass


def test_a_killed_holder_leaves_no_lock_behind(home: Home) -> None:
    paths = make("k-1", "a")
    program = (
        "import sys, time; from pathlib import Path\n"
        "from backends.boxes import store; from backends.boxes.layout import BoxPaths\n"
        "fd = store.take(BoxPaths(Path(sys.argv[1])), 'new'); print('held', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(paths.root)], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    assert store.held(paths)
    child.kill()
    child.communicate()
    with store.lock(paths, "apply"):
        pass


def test_a_lock_on_a_removed_box_protects_nothing(home: Home) -> None:
    paths = make("k-1", "a")
    held = store.take(paths, "rm")
    away = paths.root.with_name("gone")
    paths.root.rename(away)
    os.close(held)
    with pytest.raises(NoSuchBox):
        store.take(paths, "run")


def test_a_lock_file_that_is_a_link_is_not_followed(home: Home) -> None:
    paths = make("k-1", "a")
    target = home.root / "target"
    target.write_text("secret")
    paths.lock.symlink_to(target)
    with pytest.raises(OSError):
        store.take(paths, "run")
    assert target.read_text() == "secret"


def own_identity() -> ProcessId:
    start = liveness.start_time(os.getpid())
    assert start is not None
    return ProcessId(os.getpid(), start)


def test_liveness_is_judged_by_pid_and_start_time(home: Home) -> None:
    paths = make("k-1", "a")
    me = own_identity()

    def said(keeper: ProcessId, **more: object) -> str:
        paths.live.write_text(json.dumps({"keeper": keeper._asdict(), "init": me._asdict(), **more}))
        return liveness.read(paths).kind

    assert liveness.read(paths).kind == ""
    assert said(me) == "live"
    assert said(me, ended=1.0) == ""
    assert said(ProcessId(me.pid, me.start - 1)) == "lost", "the pid was reused by another process"
    paths.live.write_text("torn {")
    assert liveness.read(paths).kind == ""
    paths.live.unlink()


def test_ending_by_identity_spares_the_process_that_reused_the_pid(home: Home) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        start = liveness.start_time(child.pid)
        assert start is not None
        assert liveness.end(ProcessId(child.pid, start - 1), 1.0), "that process is gone already"
        assert child.poll() is None
        assert liveness.end(ProcessId(child.pid, start), 5.0)
    finally:
        child.kill()
        child.wait()


def test_a_state_folder_that_is_missing_lists_nothing(home: Home, tmp_path: Path) -> None:
    assert store.entries() == []
