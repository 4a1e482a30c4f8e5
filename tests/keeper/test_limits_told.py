"""Limits that are hit and programs that are refused show as denials, wherever in the tree they are."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from backends.keeper.client import KeeperClient
from backends.keeper.denials import Refusal
from backends.keeper.exits import Exits
from backends.keeper.limits import Actions
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.kernel import cgroups, connector
from tests.keeper import boxes
from tests.keeper.boxes import run, sh
from tests.support import wait_until

MIB = 1 << 20
PYTHON = "/usr/bin/python3"
told = pytest.mark.skipif(not connector.available(), reason="needs the process connector of Linux 6.6")


def denied(keeper: KeeperClient, kind: str = "limit") -> dict[tuple[str, str], int]:
    """Object and key of the rule, with the count."""
    rows = keeper.call("tally")["rows"]
    return {(one["object"], one["rule"].split(" ")[0]): one["count"] for one in rows if one["kind"] == kind}


@pytest.fixture
def keeper(request: pytest.FixtureRequest) -> Iterator[KeeperClient]:
    """A box with the limits and of the tier that the test names, observing no opens: limits always show."""
    limited: Mapping[str, Any] = request.param
    resources = {key: value for key, value in limited.items() if key != "tier"}
    policy = boxes.limited(**resources)._replace(observe="none", tier=limited.get("tier", "process"))
    with boxes.started(boxes.make(policy=policy)) as found:
        yield found


limits = pytest.mark.parametrize


@told
@pytest.mark.boundary
@limits("keeper", [{"file_size": MIB}, {"file_size": MIB, "tier": "supervised"}], indirect=True)
def test_a_file_that_grew_too_large_is_counted_although_only_a_shell_saw_how_its_writer_ended(
    keeper: KeeperClient,
) -> None:
    script = (
        "head -c 5M /dev/zero > a; (head -c 5M /dev/zero > b) & wait; setsid head -c 5M /dev/zero > c; true"
    )
    assert sh(keeper, script).exit == 0
    wait_until(lambda: denied(keeper) == {("file size", "resources.file_size"): 3}, "three are counted")
    assert sh(keeper, "head -c 1M /dev/zero > d").exit == 0
    assert denied(keeper) == {("file size", "resources.file_size"): 3}
    (row,) = keeper.call("tally")["rows"]
    assert (row["lane"], row["enforced_by"]) == ("kernel", "RLIMIT_FSIZE")
    assert row["command"].startswith("head -c 5M")


@told
@pytest.mark.boundary
@limits("keeper", [{"cpu": 1}], indirect=True)
def test_a_program_that_used_up_its_processor_time_is_counted(keeper: KeeperClient) -> None:
    assert sh(keeper, "sh -c 'while :; do :; done'; echo $?").out.split()[-1:] == [b"152"]  # 128 + SIGXCPU
    wait_until(lambda: denied(keeper) == {("processor time", "resources.cpu"): 1}, "it is counted")


@pytest.mark.boundary
@limits("keeper", [{"cpu": 1}], indirect=True)
def test_a_program_that_ignores_the_first_signal_ends_a_second_later(keeper: KeeperClient) -> None:
    code = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    assert run(keeper, PYTHON, "-c", code).exit == 128 + signal.SIGKILL


@pytest.mark.boundary
@limits("keeper", [{"procs": 30}], indirect=True)
def test_a_box_full_of_processes_is_counted_once_each_time_it_comes_to_be_full(keeper: KeeperClient) -> None:
    code = (
        "import os, time\n"
        "try:\n"
        "    while True:\n"
        "        if os.fork() == 0: time.sleep(2); os._exit(0)\n"
        "except BlockingIOError: print('full', flush=True)\n"
        "time.sleep(2.5)\n"
    )
    for turn in (1, 2):
        assert run(keeper, PYTHON, "-c", code).out == b"full\n"
        expected = {("processes", "resources.procs"): turn}
        wait_until(lambda: denied(keeper) == expected, "it is counted")  # noqa: B023 (called in this turn)
        wait_until(lambda: keeper.call("stat")["processes"] == 0, "they ended")


@pytest.mark.boundary
@pytest.mark.skipif(
    not isinstance(cgroups.find("memory"), cgroups.Hierarchy),
    reason="needs root or a delegated control group",
)
@limits("keeper", [{"mem": 64 * MIB}], indirect=True)
def test_memory_that_a_control_group_refused_is_counted_before_anybody_asks(keeper: KeeperClient) -> None:
    code = "b = []\nwhile True: b.append(bytearray(1 << 20))"
    assert run(keeper, PYTHON, "-c", code).exit == 128 + signal.SIGKILL
    assert denied(keeper)["memory", "resources.mem"] >= 1


@pytest.mark.boundary
@limits("keeper", [{}, {"tier": "supervised"}], indirect=True)
def test_a_program_of_the_host_that_is_not_granted_is_counted_at_every_level(keeper: KeeperClient) -> None:
    program = next(
        path
        for name in sorted(os.listdir("/etc/init.d"))
        if os.access(path := f"/etc/init.d/{name}", os.X_OK)
    )
    assert sh(keeper, f"{program}; sh -c {program}; true").exit == 0
    run(keeper, PYTHON, "-c", f"import os\ntry: os.execv({program!r}, ['x'])\nexcept OSError: pass")
    sh(keeper, "/nonexistent/program; nosuchcommand; true")
    assert denied(keeper, "exec") == {(program, "fs.read"): 3}


# ---------------------------------------------------------------- without a box


class Told:
    def __init__(self) -> None:
        self.rows: list[tuple[Refusal, int, str]] = []
        self.actions = Actions(
            lambda refusal, pid, command: self.rows.append((refusal, pid, command)),
            lambda _ident: None,
            lambda: None,
            lambda: False,
        )


INIT, KNOWN, GONE = 1 << 23, (1 << 23) + 1, 1 << 24  # above every pid (PID_MAX_LIMIT, proc(5))
RESOURCES = boxes.RESOURCES._replace(file_size=7, cpu=3)


def ends(*rows: tuple[int, int, int, int]) -> list[bytes]:
    """Messages of the connector: pid, process, status and parent."""
    found = []
    for pid, group, status, parent in rows:
        event = struct.pack(
            "=IIQIIIIII", connector.PROC_EVENT_EXIT, 0, 0, pid, group, status, 17, parent, parent
        )
        found.append(bytes(16) + struct.pack("=IIIIHH", 1, 1, 0, 0, len(event), 0) + event)
    return found


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Exits, Told, Callable[[list[bytes]], None]]]:
    """A counter of ends that hears what the test sends; the box's namespace is 99."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    monkeypatch.setattr(connector, "available", lambda: True)
    monkeypatch.setattr(connector, "listen", lambda _signals: ours)
    told = Told()
    exits = Exits(Loop(lambda *_: None), Log(), RESOURCES, INIT, 99, told.actions, {KNOWN: "head -c 9"})
    exits.begin()

    def send(messages: list[bytes]) -> None:
        for message in messages:
            theirs.send(message)
        exits.count_up()

    yield exits, told, send
    exits.close()
    theirs.close()


def test_only_ends_of_the_boxs_own_processes_by_a_limit_count(
    fed: tuple[Exits, Told, Callable[[list[bytes]], None]],
) -> None:
    _, told, send = fed
    xfsz, xcpu = int(signal.SIGXFSZ), int(signal.SIGXCPU)
    send(
        ends(
            (GONE, GONE, xfsz, INIT),  # a child of init
            (KNOWN, KNOWN, xfsz, GONE),  # executed something in the box, and its parent is gone
            (GONE + 1, GONE + 1, xcpu, KNOWN),  # a child of one that did
            (GONE + 2, GONE, xfsz, INIT),  # a thread of a process that is counted by its first
            (GONE + 3, GONE + 3, xfsz, 1),  # somebody else's
            (GONE + 4, GONE + 4, int(signal.SIGKILL), INIT),  # ended by something else
            (GONE + 5, GONE + 5, 256, INIT),  # exit 1
        )
    )
    assert [(row.object, row.rule, pid, command) for row, pid, command in told.rows] == [
        ("file size", "resources.file_size = 7", GONE, ""),
        ("file size", "resources.file_size = 7", KNOWN, "head -c 9"),
        ("processor time", "resources.cpu = 3 s", GONE + 1, ""),
    ]


def test_messages_of_another_shape_are_passed_over(
    fed: tuple[Exits, Told, Callable[[list[bytes]], None]],
) -> None:
    _, told, send = fed
    whole = ends((GONE, GONE, int(signal.SIGXFSZ), INIT))[0]
    send([b"x", whole[:40], bytes(len(whole)), whole[:-1], whole[:16] + b"\xff" * 4 + whole[20:]])
    assert told.rows == []


def test_where_the_kernel_does_not_tell_of_all_init_tells_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "available", lambda: False)
    told = Told()
    exits = Exits(Loop(lambda *_: None), Log(), RESOURCES, INIT, 99, told.actions, {})
    exits.begin()
    exits.reaped(GONE, int(signal.SIGXFSZ))
    exits.reaped(31, 256)
    exits.reaped(32, int(signal.SIGKILL))
    assert [row.object for row, _, _ in told.rows] == ["file size"]


@told
@pytest.mark.boundary
@limits("keeper", [{"file_size": MIB}], indirect=True)
def test_a_keeper_whose_box_rests_listens_to_nobody_and_hears_all_again_afterwards(
    keeper: KeeperClient,
) -> None:
    pid = keeper.call("hello")["keeper"]

    def counted(times: int) -> bool:
        return denied(keeper) == {("file size", "resources.file_size"): times}

    for number in (1, 2):
        assert sh(keeper, f"(head -c 5M /dev/zero > {number}) & wait; true").exit == 0
        wait_until(partial(counted, number), "each is counted")
        wait_until(lambda: not listens(pid), "nobody is listened to")
    with_one = boxes.Running(keeper, ["sleep", "60"])
    wait_until(lambda: listens(pid), "ends are listened to while something runs")
    keeper.call("stop", who="test")
    del with_one


def listens(pid: int) -> bool:
    """Whether a process holds a socket of the kernel's process connector."""
    with open("/proc/net/netlink") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    connectors = {f"socket:[{row[-1]}]" for row in rows if row[1] == str(connector.NETLINK_CONNECTOR)}
    held = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            held.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    return bool(connectors & held)


def test_nothing_is_heard_twice(fed: tuple[Exits, Told, Callable[[list[bytes]], None]]) -> None:
    exits, told, send = fed
    send(ends((GONE, GONE, int(signal.SIGXFSZ), INIT)))
    exits.reaped(GONE, int(signal.SIGXFSZ))
    assert len(told.rows) == 1
