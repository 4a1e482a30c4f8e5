"""A box under gVisor is saved with its processes and goes on; every other one is refused by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from backends.container import gvisor_call, gvisor_checkpoint, runtimes
from tests import support
from tests.container.world import ROOTFUL, World

COUNTING = (
    "i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; echo $i > /tmp/m; mv /tmp/m /tmp/n; "
    "sleep 0.1; done"
)


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    if ROOTFUL:
        pytest.skip("needs an unprivileged user: gVisor is driven rootless only")
    if runtimes.program(gvisor_call.NAME) is None:
        pytest.skip("no runsc is installed")
    world.profile("sentry", 'runtime = "gvisor"')
    return world.new("saved", profile="sentry")


def count(box: Path) -> int:
    return int((box / "tree" / "n").read_text())


def begin(world: World) -> None:
    """A process that counts, in a file of the tree and in one of gVisor's own, with streams of its own."""
    text = f"(sh -c '{COUNTING}' </dev/null >/home/box/log 2>&1 &)"
    done = world.cloche("run", "saved", "--", "sh", "-c", text)
    assert done.code == 0, done.err


def saved(world: World, box: Path) -> Path:
    """The checkpoint of the box, which is not live; saved now unless a test before did."""
    path = box / "checkpoint" / "checkpoint.json"
    if not path.exists():
        begin(world)
        assert world.cloche("checkpoint", "saved").code == 0
    assert world.cloche("stop", "saved").code == 0
    return path


def error(world: World, *words: str) -> dict[str, Any]:
    done = world.cloche(*words, "--json")
    assert done.code != 0
    value: dict[str, Any] = json.loads(done.err.splitlines()[-1])
    return value


def test_processes_go_on_where_they_were_and_files_are_as_they_were(world: World, box: Path) -> None:
    assert world.cloche("stop", "saved").code == 0
    before = (box / "journal.jsonl").read_bytes().count(b"\n") if (box / "journal.jsonl").exists() else 0
    begin(world)
    support.wait_until(lambda: (box / "tree" / "n").exists() and count(box) >= 5, "it counts")
    done = world.cloche("checkpoint", "saved")
    assert done.code == 0, done.err
    then = count(box)
    (box / "tree" / "n").write_text("999999")
    (box / "tree" / "extra").write_text("made later")
    again = world.cloche("restore", "saved")
    assert again.code == 0, again.err
    support.wait_until(lambda: count(box) > then, "it goes on counting")
    assert count(box) < 999999 and not (box / "tree" / "extra").exists()
    inside = world.cloche("run", "saved", "--", "sh", "-c", "cat /tmp/n; ps").out
    assert int(inside.split()[0]) > then  # gVisor's own file is there too
    assert "n.new" in inside
    kinds = [json.loads(line)["kind"] for line in (box / "journal.jsonl").read_text().splitlines()[before:]]
    assert [kind for kind in kinds if kind in ("checkpoint", "restored")] == ["checkpoint", "restored"]


def test_it_may_be_gone_on_from_more_than_once(world: World, box: Path) -> None:
    saved(world, box)
    assert world.cloche("run", "saved", "--", "true").code == 0
    assert error(world, "restore", "saved")["code"] == "live"
    for _ in range(2):
        assert world.cloche("stop", "saved").code == 0
        value = json.loads(world.cloche("restore", "saved", "--json").out)
        assert value["checkpoint"]["runtime"] == "gvisor"
        assert value["checkpoint"]["image_digest"].startswith("sha256:")
    assert world.cloche("stop", "saved").code == 0


def test_a_later_launch_is_one_like_any_other(world: World, box: Path) -> None:
    saved(world, box)
    inside = world.cloche("run", "saved", "--", "sh", "-c", "ls /tmp; ps | grep -c '[n].new'").out
    assert inside.split() == ["0"]
    assert world.cloche("stop", "saved").code == 0
    assert world.left() == []


def test_a_box_with_a_command_at_somebodys_streams_is_not_saved(world: World, box: Path) -> None:
    argv = support.cloche_argv("run", "saved", "--", "sleep", "4715")
    client = subprocess.Popen(argv, cwd=world.repo, env={**os.environ, **world.env})
    try:
        support.wait_until(
            lambda: "4715" in world.cloche("run", "saved", "--", "ps").out, "the command runs", timeout=60
        )
        refused = error(world, "checkpoint", "saved")
        assert refused["code"] == "attached" and "sleep 4715" in refused["why"]
        assert world.cloche("run", "saved", "--", "true").code == 0
    finally:
        client.send_signal(signal.SIGTERM)
        client.wait(30)
    assert world.cloche("stop", "saved").code == 0


def test_a_box_that_does_not_run_has_nothing_to_save(world: World, box: Path) -> None:
    assert world.cloche("stop", "saved").code == 0
    assert error(world, "checkpoint", "saved")["code"] == "not-live"


def test_where_processes_do_not_go_on_the_files_stay_and_the_journal_says_so(world: World, box: Path) -> None:
    path = saved(world, box)
    assert world.cloche("run", "saved", "--", "sh", "-c", "echo mine > later").code == 0
    assert world.cloche("stop", "saved").code == 0
    (image,) = path.with_name("state").glob("*.img")
    whole = image.read_bytes()
    image.write_bytes(whole[: len(whole) // 2])
    refused = error(world, "restore", "saved")
    assert (box / "tree" / "later").read_text() == "mine\n"
    assert not (box / "restoring").exists()
    last = json.loads((box / "journal.jsonl").read_text().splitlines()[-1])
    assert last["kind"] == "restore-failed" and refused["why"] in last["data"]["why"]
    assert world.cloche("run", "saved", "--", "cat", "later").out == "mine\n"
    assert world.cloche("stop", "saved").code == 0
    image.write_bytes(whole)
    again = world.cloche("restore", "saved")
    assert again.code == 0, again.err
    assert not (box / "tree" / "later").exists()
    assert world.cloche("stop", "saved").code == 0


def test_another_program_or_image_does_not_go_on(world: World, box: Path) -> None:
    path = saved(world, box)
    kept = path.read_text()
    for field, said in (("version", "runsc"), ("image_digest", "image"), ("policy_digest", "policy")):
        path.write_text(json.dumps({**json.loads(kept), field: "another"}))
        refused = error(world, "restore", "saved")
        assert refused["code"] == "checkpoint-differs" and said in refused["why"]
    path.write_text("{}")
    assert error(world, "restore", "saved")["code"] == "checkpoint-damaged"
    path.unlink()
    assert error(world, "restore", "saved")["code"] == "no-checkpoint"


# ---- the others


@pytest.mark.parametrize("verb", ["checkpoint", "restore"])
def test_a_container_of_another_runtime_is_refused_by_name(world: World, verb: str) -> None:
    if not list((world.root / "s" / "cloche").glob("*/plain")):
        world.new("plain")
    refused = error(world, verb, "plain")
    assert refused["code"] == "no-checkpoints"
    assert "CRIU" in refused["why"] and "gvisor" in refused["next"]


@pytest.mark.parametrize("verb", ["checkpoint", "restore"])
def test_a_box_of_a_tier_without_an_image_is_refused_by_name(world: World, verb: str) -> None:
    if not list((world.root / "s" / "cloche").glob("*/kernel")):
        assert world.cloche("new", "kernel", "--tier", "process", "--profile", "default").code == 0
    refused = error(world, verb, "kernel")
    assert refused["code"] == "no-checkpoints"
    assert "tier process" in refused["why"] and "gvisor" in refused["next"]


def test_the_mark_of_a_restore_is_taken_once(tmp_path: Path) -> None:
    from backends.boxes.layout import BoxPaths

    paths = BoxPaths(tmp_path)
    assert gvisor_checkpoint.taken(paths) == ""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / gvisor_checkpoint.NEXT).touch()
    assert gvisor_checkpoint.taken(paths) == str(tmp_path / "checkpoint" / "state")
    assert gvisor_checkpoint.taken(paths) == ""
