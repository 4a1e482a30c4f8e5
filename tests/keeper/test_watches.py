"""How test runs end that processes of a box started themselves: from inside real boxes, as journalled."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper import watches
from backends.keeper.client import KeeperClient
from backends.keeper.loop import GONE, Loop
from backends.keeper.watches import Watches
from backends.kernel import pidfds
from tests.keeper import boxes
from tests.keeper.boxes import Ran, Running, run
from tests.keeper.test_gate import PYTHON

Row = dict[str, Any]


def told() -> bool:
    """Whether this kernel tells how a process ended."""
    with subprocess.Popen(["/bin/false"], stdin=subprocess.DEVNULL) as child:
        pidfd = os.pidfd_open(child.pid)
    try:
        return pidfds.status(pidfd) == 1 << 8
    except pidfds.Untold:
        return False
    finally:
        os.close(pidfd)


pytestmark = [pytest.mark.boundary, pytest.mark.skipif(not told(), reason=f"needs {pidfds.SINCE}")]


def starts(paths: BoxPaths, *argv: str) -> list[Row]:
    """The records of execs that are test runs, of ``argv`` where one is given."""
    rows = [row for row in boxes.records(paths, "exec") if "test" in row]
    return [row for row in rows if not argv or row["argv"] == list(argv)]


def ends(paths: BoxPaths, *argv: str) -> list[Row]:
    rows = boxes.records(paths, "test-end")
    return [row for row in rows if not argv or row["argv"] == list(argv)]


def plant(paths: BoxPaths, name: str, text: str) -> str:
    """A program of that name in the box's tree; its path inside."""
    boxes.write_script(paths, name, text)
    return f"/work/{name}"


def go(paths: BoxPaths, keeper: KeeperClient, script: str) -> Ran:
    """Run ``script`` in the tree, by a session whose own command line names no test."""
    plant(paths, "go", f"cd /work\n{script}\n")
    return run(keeper, "/bin/sh", "/work/go", limit=120)


def statuses(rows: list[Row]) -> list[int | None]:
    return [row["status"] for row in rows]


def test_the_exit_of_each_test_run_is_told_when_its_session_has_ended(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    plant(box, "pytest", "#!/bin/sh\nexit $1\n")
    ran = go(box, keeper, "./pytest 0; ./pytest 1; ./pytest 77; ls")
    assert ran.exit == 0
    found = ends(box)  # asked for at once: the session's end comes after them
    assert statuses(found) == [0, 1 << 8, 77 << 8]
    assert [row["argv"] for row in found] == [["./pytest", code] for code in ("0", "1", "77")]
    assert [row["test"] for row in found] == [row["test"] for row in starts(box)]
    assert [row["pid"] for row in found] == [row["pid"] for row in starts(box)]
    assert not any("ran" in row or "why" in row for row in found)
    assert all(start["at"] <= end["at"] for start, end in zip(starts(box), found, strict=True))


def test_a_signal_that_ended_it_is_told(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "pytest", "#!/bin/sh\nkill -$1 $$; sleep 60\n")
    go(box, keeper, "./pytest KILL; ./pytest SEGV; ./pytest TERM")
    assert [row["status"] & 0x7F for row in ends(box)] == [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM]


def test_one_that_outlives_its_session_is_followed_to_its_end(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "pytest", "#!/bin/sh\nwhile ! test -e /work/end; do sleep 0.02; done\nexit 3\n")
    go(box, keeper, "setsid ./pytest > /dev/null 2>&1 < /dev/null & sleep 0.2")
    assert ends(box) == [] and len(starts(box, "./pytest")) == 1
    go(box, keeper, "touch /work/end; while ps -e | grep -q pytest; do sleep 0.02; done")
    keeper.call("stop")
    assert statuses(ends(box, "./pytest")) == [3 << 8]


def test_one_that_lives_when_the_box_is_stopped_was_killed(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "pytest", "#!/bin/sh\necho up; sleep 600\n")
    plant(box, "go", "cd /work\n./pytest\ntrue\n")
    session = Running(keeper, ["/bin/sh", "/work/go"])
    session.read(b"up")
    boxes.stop(box)
    session.drop()
    assert statuses(ends(box, "./pytest")) == [signal.SIGKILL]


def test_what_executes_one_program_after_the_other_is_one_run(box: BoxPaths, keeper: KeeperClient) -> None:
    code = "#!/usr/bin/env python3\nimport sys\nsys.exit(4)\n"
    plant(box, "pytest", code)
    go(box, keeper, "sh -c 'exec ./pytest -q'")
    rows = starts(box)
    assert [row["argv"] for row in rows] == [
        ["sh", "-c", "exec ./pytest -q"], ["./pytest", "-q"], ["python3", "./pytest", "-q"]
    ]  # fmt: skip
    assert {row["test"] for row in rows} == {rows[0]["test"]}
    (end,) = ends(box)
    assert (end["argv"], end["status"], end["test"]) == (["./pytest", "-q"], 4 << 8, rows[0]["test"])
    assert "ran" not in end


def test_a_run_that_became_something_else_says_whose_end_it_is(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "pytest", "#!/bin/sh\nexec /bin/true --after\n")
    go(box, keeper, "./pytest")
    (end,) = ends(box)
    assert (end["argv"], end["ran"], end["status"]) == (["./pytest"], ["/bin/true", "--after"], 0)


def test_what_it_forks_without_an_exec_is_no_run_and_does_not_hide_its_end(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    plant(
        box,
        "pytest",
        f"#!{PYTHON}\nimport os, time\n"
        "for code in (0, 7):\n    if not os.fork():\n        time.sleep(0.2); os._exit(code)\n"
        "os._exit(5)\n",
    )
    go(box, keeper, "./pytest; sleep 0.5")
    assert statuses(ends(box)) == [5 << 8] and len(starts(box)) == 1


def test_a_thread_that_executes_one_or_ends_it_is_told(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "pytest", f"#!{PYTHON}\nimport os, threading, time\n"
          "threading.Thread(target=lambda: os._exit(6)).start()\ntime.sleep(60)\n")  # fmt: skip
    code = (
        "import os, threading, time\n"
        "threading.Thread(target=lambda: os.execv('/work/pytest', ['pytest'])).start()\ntime.sleep(60)\n"
    )
    (Path(box.tree) / "thread.py").write_text(code)
    assert run(keeper, PYTHON, "/work/thread.py").exit == 6
    assert statuses(ends(box, "pytest")) == [6 << 8]


def test_a_thousand_quick_runs_are_each_told(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "run_test", "#!/bin/sh\nexit $1\n")
    code = (
        "import subprocess\n"
        "for n in range(0, 1000, 20):\n"
        "    many = [subprocess.Popen(['/work/run_test', str((n + i) % 100)]) for i in range(20)]\n"
        "    for one in many: one.wait()\n"
    )
    assert run(keeper, PYTHON, "-c", code, limit=120).exit == 0
    found = ends(box)
    assert len(found) == 1000 and len({row["test"] for row in found}) == 1000
    assert all(row["status"] == int(row["argv"][1]) << 8 for row in found)
    assert {row["test"] for row in found} == {row["test"] for row in starts(box)}


def test_more_at_a_time_than_are_followed_are_said_not_to_be(box: BoxPaths, keeper: KeeperClient) -> None:
    plant(box, "pytest", f"#!{PYTHON}\n")
    code = (
        "import os\nr, w = os.pipe()\nos.set_inheritable(r, True)\n"
        f"for n in range({watches.MOST + 8}):\n"
        "    if not os.fork():\n"
        "        os.close(w); os.dup2(r, 0); os.execv('/bin/cat', ['pytest'])\n"
        "os.close(w)\n"
        "while True:\n"
        "    try: os.wait()\n"
        "    except ChildProcessError: break\n"
    )
    assert run(keeper, PYTHON, "-c", code, limit=120).exit == 0
    rows = starts(box, "pytest")
    assert len(rows) == watches.MOST + 8
    followed = [row for row in rows if type(row["test"]) is int]
    assert len(followed) + len([row for row in rows if row["test"] == watches.TOO_MANY]) == len(rows)
    assert [row for row in ends(box) if row["status"] != 0] == []
    assert statuses(ends(box)) == [0] * len(followed)


def test_a_failed_exec_leaves_no_run_of_a_name_where_nothing_is(box: BoxPaths, keeper: KeeperClient) -> None:
    (Path(box.tree) / "pytest").write_text("no program")
    go(box, keeper, "./pytest; ./missing/pytest; PATH=/work pytest")
    assert starts(box) == [] and ends(box) == []


def test_without_a_gate_it_is_said_that_none_is_seen(home: object) -> None:
    paths = boxes.make("open", boxes.POLICY._replace(tier="workspace"))
    with boxes.started(paths) as keeper:
        run(keeper, "/bin/true")
    (launch,) = boxes.records(paths, "launch")
    assert ["execs", watches.UNSEEN] in [list(row) for row in launch["not_observed"]]


# ---------------------------------------------------------------- the part by itself


class Said:
    """A record of what was journalled."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __call__(self, kind: str, data: Mapping[str, object]) -> None:
        assert kind == "test-end"
        self.rows.append(dict(data))


def stepped(loop: Loop) -> None:
    loop.step(0.1)


def test_a_pid_that_has_a_new_process_is_a_run_of_its_own() -> None:
    said = Said()
    watched = Watches(Loop(lambda where, error: pytest.fail(f"{where}: {error}")), said)
    old = subprocess.Popen(["/bin/sleep", "60"])
    first = watched.executed(old.pid, ("pytest", "old"), lambda: True)
    old.kill()
    old.wait()
    again = watched.executed(old.pid, ("pytest", "new"), lambda: True)  # the number is free, or another's
    assert first["test"] == 1 and again["test"] in (watches.GONE, 2)
    assert [(row["argv"], row["status"]) for row in said.rows] == [(("pytest", "old"), signal.SIGKILL)]
    watched.close()


def child_with(pid: int) -> subprocess.Popen[bytes] | None:
    """A child that has this very pid, where root may ask for that (ns_last_pid, proc_sys_kernel(5))."""
    for _ in range(200):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            return None
        found = subprocess.Popen(["/bin/sh", "-c", "exit 9"])
        if found.pid == pid:
            return found
        found.wait()
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only it says which pid comes next")
def test_the_end_of_a_reused_pid_is_that_of_its_new_process_alone() -> None:
    for _ in range(20):  # somebody else's process may have taken the number, for as long as it likes
        said = Said()
        watched = Watches(Loop(lambda where, error: pytest.fail(f"{where}: {error}")), said)
        old = subprocess.Popen(["/bin/sleep", "60"])
        watched.executed(old.pid, ("pytest", "old"), lambda: True)
        old.kill()
        old.wait()
        new = child_with(old.pid)
        if new is not None:
            break
        watched.close()
    else:
        pytest.skip("the pid was not to be had")
    assert watched.executed(new.pid, ("pytest", "new"), lambda: True)["test"] == 2
    new.wait()
    watched.count_up()
    assert [(row["argv"][1], row["status"]) for row in said.rows] == [
        ("old", signal.SIGKILL),
        ("new", 9 << 8),
    ]


def test_an_event_of_a_descriptor_that_had_the_number_before_ends_nothing() -> None:
    said, loop = Said(), Loop(lambda where, error: pytest.fail(f"{where}: {error}"))
    watched = Watches(loop, said)
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        watched.executed(child.pid, ("pytest",), lambda: True)
        (heard, _) = next(iter(loop._handlers.values()))
        heard(GONE)
        assert said.rows == []
        child.kill()
    stepped(loop)
    assert statuses(said.rows) == [signal.SIGKILL]


def test_a_process_that_is_not_the_one_that_asked_is_not_followed() -> None:
    said = Said()
    watched = Watches(Loop(lambda where, error: pytest.fail(f"{where}: {error}")), said)
    assert watched.executed(os.getpid(), ("pytest",), lambda: False)["test"] == watches.GONE
    assert watched.executed(os.getpid(), ("pytest",), None) == {}
    assert watched.executed(os.getpid(), ("cc", "-c", "x.c"), lambda: True) == {}
    watched.close()
    assert said.rows == []


@pytest.mark.parametrize("late", [False, True])
def test_a_kernel_that_does_not_tell_is_named(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.13 nothing can be asked; until 6.15 what was collected is unknown."""
    gone: list[int] = []

    def status(pidfd: int) -> int | None:
        if not late or gone:
            raise pidfds.Untold
        return None

    monkeypatch.setattr(pidfds, "status", status)
    said, loop = Said(), Loop(lambda where, error: pytest.fail(f"{where}: {error}"))
    watched = Watches(loop, said)
    child = subprocess.Popen(["/bin/sleep", "60"])
    try:
        known = watched.executed(child.pid, ("pytest",), lambda: True)["test"]
        assert known == (1 if late else watches.OLD_KERNEL)
    finally:
        child.kill()
        child.wait()
    gone.append(child.pid)
    stepped(loop)
    watched.close()
    assert [(row["status"], row["why"]) for row in said.rows] == (
        [(None, watches.OLD_KERNEL)] if late else []
    )


def test_one_that_was_not_collected_has_not_ended_yet() -> None:
    said, loop = Said(), Loop(lambda where, error: pytest.fail(f"{where}: {error}"))
    watched = Watches(loop, said)
    child = subprocess.Popen(["/bin/false"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    time.sleep(0.05)
    assert watched.executed(child.pid, ("make", "test"), lambda: True)["test"] == 1
    handled = loop.handled
    stepped(loop)
    assert said.rows == [] and loop.handled == handled  # a zombie wakes nobody
    child.wait()
    stepped(loop)
    assert statuses(said.rows) == [1 << 8] and watched.executed(1, ("ls",), lambda: True) == {}
