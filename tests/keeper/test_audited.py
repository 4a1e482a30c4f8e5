"""Landlock's own records as a second lane: counted once, losses exact, said to be unseen where they are."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from backends.evidence import journal
from backends.evidence.tally import project
from backends.keeper import audited as lanes
from backends.keeper.audited import Audited
from backends.keeper.client import KeeperClient
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.kernel import audit, landlock, netlink
from tests.keeper import boxes
from tests.keeper.boxes import run
from tests.support import wait_until

SET = 1001  # AUDIT_SET
ENABLED = 1  # AUDIT_STATUS_ENABLED


def switch(on: bool) -> None:
    with audit.connect() as sock:
        body = struct.pack("=10I", ENABLED, int(on), 0, 0, 0, 0, 0, 0, 0, 0)
        sock.settimeout(2)
        sock.send(netlink.message(SET, netlink.ACK, 2, body))
        sock.recv(4096)


@contextlib.contextmanager
def told() -> Iterator[str]:
    """The host's audit on, as it was afterwards. Gives why Landlock's records cannot be had all the same.

    It is the whole host's, so one test at a time: another one's end would turn it off in the middle of this.
    """
    if os.geteuid() != 0:
        yield audit.unavailable(landlock.abi())
        return
    with open("/run/cloche-test-audit", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        why = audit.unavailable(landlock.abi())
        if "audit is off" not in why:
            yield why
            return
        switch(True)
        try:
            yield audit.unavailable(landlock.abi())
        finally:
            switch(False)


def rows(keeper: KeeperClient) -> dict[tuple[str, str, str], int]:
    """Kind, object and rule of what Landlock told, with the count."""
    found = keeper.call("tally")["rows"]
    return {
        (one["kind"], one["object"], one["rule"]): one["count"] for one in found if one["lane"] == lanes.LANE
    }


TRIES = """
import os
for act in (
    lambda: os.mkdir("/dev/pts/folder"),
    lambda: os.mkdir("/dev/pts/folder"),
    lambda: os.symlink("a", "/dev/pts/link"),
    lambda: os.mknod("/tmp/device", 0o020600, os.makedev(1, 3)),
    lambda: open("/dev/pts/new", "w"),
):
    try:
        act()
    except PermissionError:
        continue
    raise SystemExit(1)
"""


@pytest.mark.boundary
def test_what_landlock_refuses_beside_opens_is_counted_once_or_said_to_be_unseen() -> None:
    with told() as why, boxes.started(boxes.make()) as keeper:
        assert run(keeper, "/usr/bin/python3", "-c", TRIES).exit == 0
        unseen = [reason for kind, reason in keeper.call("tally")["not_observed"] if kind == "landlock"]
        if why:
            assert why in unseen[0]
            assert rows(keeper) == {}
            return
        assert unseen == []
        expected = {
            ("fs-write", "/dev/pts", "no make_dir granted"): 2,
            ("fs-write", "/dev/pts", "no make_sym granted"): 1,
            ("fs-write", "/dev/pts", "no make_reg granted"): 1,
            ("fs-write", "/tmp", "no make_char granted"): 1,
        }
        wait_until(lambda: rows(keeper) == expected, "each is counted")


@pytest.mark.boundary
def test_of_a_burst_received_and_lost_make_the_exact_number() -> None:
    with told() as why:
        box = boxes.make()
        with boxes.started(box) as keeper:
            script = "import os\nfor _ in range(5000):\n  try: os.mkdir('/dev/pts/x')\n  except OSError: pass"
            assert run(keeper, "/usr/bin/python3", "-c", script).exit == 0
            keeper.call("stop", who="test")
        tally = project(journal.read(box.journal))
        seen = sum(row.count for row in tally.rows if row.lane == lanes.LANE)
        assert seen + dict(tally.lost).get(lanes.LOST, 0) == (0 if why else 5000)


# ---- one event after the other, without a box


class Lane:
    """A lane whose records a test writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, observe: str = "writes") -> None:
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        ours.setblocking(False)
        self.lost = 0
        monkeypatch.setattr(audit, "connect", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        monkeypatch.setattr(audit, "status", lambda _sock: audit.Status(True, self.lost))
        self.denied: Counter[Refusal] = Counter()
        self.told: Counter[str] = Counter()
        loop = Loop(lambda where, error: pytest.fail(f"{where}: {error!r}"))
        self.audited = Audited(loop, Log(2), ours, 77, observe, deny=self._deny, record=self._record)
        self.audited.begin(lambda path, _want: path == b"/granted")

    def _deny(self, refusal: Refusal, _pid: int, _command: str) -> None:
        self.denied[refusal] += 1

    def _record(self, kind: str, data: Mapping[str, Any]) -> None:
        assert kind == "lost"
        self.told[data["what"]] += data["count"]

    def say(self, kind: int, serial: int, text: str, when: float = 4e9) -> None:
        body = f"audit({when:.3f}:{serial}): {text}".encode()
        self._theirs.send(struct.pack("=IHHII", len(body), kind, 0, 0, 0) + body)

    def refuse(self, serial: int, domain: str, right: str, path: str, call: int = 83) -> None:
        self.say(audit.ACCESS, serial, f'domain={domain} blockers={right} path="{path}" dev="vda" ino=1')
        self.say(audit.SYSCALL, serial, f"arch=c000003e syscall={call} success=no exit=-13 pid=4000001")
        self.say(audit.END_OF_EVENT, serial, "")

    def ours(self, serial: int = 1) -> None:
        self.say(audit.DOMAIN, serial, 'domain=a1 status=allocated mode=enforcing pid=77 uid=0 comm="python"')
        self.say(audit.END_OF_EVENT, serial, "")

    def rows(self) -> dict[tuple[str, str], int]:
        self.audited.count_up()
        return {(one.kind, one.object): count for one, count in self.denied.items()}


def test_only_the_boxs_own_domain_counts_also_when_it_is_named_late(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(monkeypatch)
    lane.refuse(1, "a1", "fs.make_dir", "/one")
    lane.refuse(2, "b2", "fs.make_dir", "/another-box")
    lane.say(audit.DOMAIN, 3, 'domain=b2 status=allocated mode=enforcing pid=78 uid=0 comm="python"')
    assert lane.rows() == {} and not lane.audited.known()
    lane.ours(4)
    lane.refuse(5, "a1", "fs.make_dir", "/one")
    lane.refuse(6, "b2", "fs.make_dir", "/another-box")
    assert lane.rows() == {("fs-write", "/one"): 2}
    assert lane.audited.known()
    lane.audited.close()


OPENAT = 257 if os.uname().machine == "x86_64" else 56


@pytest.mark.parametrize(
    ("observe", "right", "path", "call", "counted"),
    [
        ("writes", "fs.write_file", "/outside", OPENAT, False),
        ("writes", "fs.make_reg", "/outside", OPENAT, False),
        ("writes", "fs.write_file", "/granted", OPENAT, True),
        ("writes", "fs.truncate", "/outside", 76, True),
        ("none", "fs.write_file", "/outside", OPENAT, True),
        ("writes", "fs.read_file", "/outside", OPENAT, True),
        ("all", "fs.read_file", "/outside", OPENAT, False),
        ("none", "fs.execute", "/outside", 59, False),
        ("writes", "fs.remove_file", "/outside", 87, True),
        ("writes", "scope.signal", "/outside", 62, True),
        ("writes", "scope.abstract_unix_socket", "/outside", 42, False),
        ("none", "scope.abstract_unix_socket", "/outside", 42, True),
    ],
)
def test_what_the_gate_counts_is_not_counted_again(
    monkeypatch: pytest.MonkeyPatch, observe: str, right: str, path: str, call: int, counted: bool
) -> None:
    lane = Lane(monkeypatch, observe)
    lane.ours()
    lane.refuse(2, "a1", right, path, call)
    assert bool(lane.rows()) is counted
    lane.audited.close()


def test_losses_are_told_at_once_and_the_end_makes_them_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(monkeypatch)
    lane.ours()
    lane.refuse(2, "a1", "fs.make_dir", "/one")
    lane.lost = 3
    lane.audited.tick()
    assert lane.told == {lanes.LOST: 1}
    lane.lost = 5
    lane.audited.tick()
    assert lane.told == {lanes.LOST: 1}, "none of the box's own came in that second"
    lane.say(audit.DOMAIN, 9, "domain=a1 status=deallocated denials=10")
    lane.audited.close()
    assert lane.told == {lanes.LOST: 9}
    assert lane.rows() == {("fs-write", "/one"): 1}


def test_an_event_whose_end_never_comes_is_counted_a_second_later(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(monkeypatch)
    lane.ours()
    lane.say(audit.ACCESS, 2, 'domain=a1 blockers=fs.make_dir path="/one" dev="vda" ino=1')
    assert lane.rows() == {}
    lane.audited.tick()
    lane.audited.tick()
    assert lane.rows() == {("fs-write", "/one"): 1}
    lane.audited.close()
