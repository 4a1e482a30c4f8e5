"""Reading proc(5): hostile names, order of the tree, identity."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from backends.kernel import procfs
from backends.kernel.procfs import Scan, Stat
from backends.snapshots import ProcessId
from tests import support


def stat(pid: int, parent: int, start: int = 100, name: str = "x", ticks: int = 0, session: int = 0) -> Stat:
    return Stat(pid, name, "S", parent, pid, session or pid, 0, ticks, 0, 1, start, 4096)


def scan(*stats: Stat, at: float = 10.0) -> Scan:
    children: dict[int, list[int]] = {}
    for found in stats:
        children.setdefault(found.parent, []).append(found.pid)
    return Scan(at, {found.pid: found for found in stats}, {k: tuple(sorted(v)) for k, v in children.items()})


def test_a_name_may_hold_brackets_spaces_and_newlines() -> None:
    tail = " S 7 8 9 34816 8 4194560 1 2 3 4 55 66 0 0 20 0 3 0 4242 1000 250 18446744073709551615 0 0"
    found = procfs.parse_stat(b"12 (a) R 1 (b\n)" + tail.encode())
    assert found.name == "a) R 1 (b\n"
    assert (found.pid, found.state, found.parent, found.group, found.session) == (12, "S", 7, 8, 9)
    assert (found.utime, found.stime, found.threads, found.start) == (55, 66, 3, 4242)
    assert found.rss == 250 * procfs.PAGE


def test_a_name_that_is_no_utf_8_survives() -> None:
    tail = " S 7 8 9 0 8 0 1 2 3 4 55 66 0 0 20 0 3 0 4242 1000 250 0"
    assert procfs.parse_stat(b"12 (\xff)" + tail.encode()).name == "\udcff"


def test_the_tree_is_in_depth_first_order_below_init() -> None:
    now = scan(stat(1, 0), stat(10, 1), stat(11, 10), stat(12, 10), stat(13, 11), stat(14, 10), stat(20, 1))
    rows = procfs.tree(now, ProcessId(10, 100), commands=False)
    assert [(row.ident.pid, row.depth) for row in rows] == [(11, 0), (13, 1), (12, 0), (14, 0)]
    assert rows[0].parent is None
    assert rows[1].parent == ProcessId(11, 100)


def test_another_process_with_the_inits_pid_has_no_tree() -> None:
    now = scan(stat(10, 1, start=555), stat(11, 10))
    assert procfs.tree(now, ProcessId(10, 100), commands=False) == ()
    assert procfs.descendants(now, ProcessId(10, 100)) == ()


def test_cpu_is_measured_between_two_scans_of_the_same_process() -> None:
    before = scan(stat(10, 1), stat(11, 10, ticks=100), stat(12, 10, start=1, ticks=900), at=10.0)
    now = scan(stat(10, 1), stat(11, 10, ticks=100 + procfs.TICKS), stat(12, 10, start=2, ticks=950), at=12.0)
    cpu = {row.ident.pid: row.cpu for row in procfs.tree(now, ProcessId(10, 100), before, commands=False)}
    assert cpu == {11: 50.0, 12: 0.0}


def test_descendants_share_the_session_of_their_first_process() -> None:
    now = scan(stat(10, 1), stat(11, 10), stat(12, 11), stat(13, 10, session=11), stat(14, 10))
    rows = procfs.tree(now, ProcessId(10, 100), sessions={11: 3}, commands=False)
    assert {row.ident.pid: row.session for row in rows} == {11: 3, 12: 3, 13: 3, 14: None}


def test_identity_is_pid_and_start_time() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    ident = procfs.identify(pid)
    assert ident is not None
    assert procfs.alive(ident)
    assert not procfs.alive(ProcessId(pid, ident.start + 1))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert not procfs.alive(ident)
    assert procfs.identify(pid) is None


def test_a_scan_sees_ourselves() -> None:
    now = procfs.scan()
    assert now.stats[os.getpid()].parent == os.getppid()
    assert os.getpid() in procfs.members(os.stat("/proc/self/ns/pid").st_ino, [os.getpid(), 1 << 22])


CROWD = """
import ctypes, os, threading, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
def fork():
    if os.fork() == 0:
        time.sleep(600)
def fork_and_stay():
    fork()
    time.sleep(600)
for _ in range(3):
    fork()
threading.Thread(target=fork_and_stay, daemon=True).start()
if (between := os.fork()) == 0:
    os.setsid()
    fork()
    os._exit(0)
os.waitpid(between, 0)
print("ready", flush=True)
time.sleep(600)
"""


def test_lists_of_children_lead_to_everything_below_a_process_as_a_scan_does() -> None:
    with subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        crowd = ident_of(parent.pid)

        def scanned() -> set[ProcessId]:
            return {one.ident for one in procfs.descendants(procfs.scan(), crowd) if one.state != "Z"}

        try:  # three children, a thread's, and a daemon's whose parent ended
            support.wait_until(lambda: len(scanned()) == 5, "all of them are there")
            near = procfs.near(parent.pid)
            assert near is not None
            assert {one.ident for one in near.values() if one.state != "Z"} == scanned()
        finally:
            for ident in (*scanned(), crowd):
                os.kill(ident.pid, signal.SIGKILL)


def test_nothing_is_near_a_process_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert procfs.near(gone.pid) == {}


def test_the_load_of_a_box_is_the_sum_of_its_rows() -> None:
    before = procfs.scan()
    init = ident_of(os.getppid())
    rows = procfs.tree(before, init, before, commands=False)
    assert procfs.load(before, init, before) == (len(rows), 0.0, sum(row.rss for row in rows))
    assert procfs.load(before, init._replace(start=1)) == (0, 0.0, 0)


def ident_of(pid: int) -> ProcessId:
    ident = procfs.identify(pid)
    assert ident is not None
    return ident
