"""Landlock's own word on what it refused: a second lane beside the gate, where root can read the audit.

The gate sees what is asked, before mounts and Landlock decide; this lane sees what Landlock refused, also by
calls that no gate looks at: making, removing and moving, signals, devices. A refusal that the gate counts is
not counted here again. Audit loses records in bursts, and counts those of the whole host together. How many
refusals of this box were lost is known at its end, when the kernel tells how many its domain had; until then
each second in which some were is told as one.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Mapping

from backends.keeper.budget import Losses
from backends.keeper.callers import Callers
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop
from backends.keeper.reach import READ as LOOK
from backends.keeper.reach import WRITE
from backends.kernel import audit
from backends.kernel.audit import Record
from backends.kernel.seccomp import OPEN_CALLS
from backends.kernel.syscalls import number

LANE = "kernel"
BY = "Landlock"
LOST = "refusals of Landlock"
PER_TURN = 256  # records that are read before others have their turn
MAX_OPEN = 256  # events of which the end is waited for
FIRST_WORD = 0.2  # seconds that the record of init's own refusal gets
LAST_WORD = 0.3  # seconds that the kernel gets at a box's end to tell how many refusals there were
COARSE = 0.005  # seconds; the clock of audit's time stamps moves once a tick

_OPENING = frozenset(number(name) for name in OPEN_CALLS)
_READS = ("fs.read_file", "fs.read_dir")
_OPENED = (*_READS, "fs.write_file", "fs.truncate", "fs.make_reg")  # what open(2) may be refused for


class Audited:
    """Counts the refusals of the Landlock domain that ``init`` made; owns ``sock`` (see ``audit.listen``)."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        sock: socket.socket,
        init: int,
        observe: str,
        *,
        deny: Callable[[Refusal, int, str], None],
        record: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._loop = loop
        self._log = log
        self._sock: socket.socket | None = sock
        self._asking = audit.connect()
        self._init = init
        self._observe = observe
        self._deny = deny
        self._losses = Losses(record)
        self._callers = Callers()
        self._lost_before = audit.status(self._asking).lost
        self._overrun = False
        self._told = 0  # losses that were told before their number was known
        self._open: dict[int, list[Record]] = {}
        self._aged: tuple[int, ...] = ()  # those that were open a second ago: no end of them will come
        self._early: list[Record] = []  # refusals of a domain that may be ours
        self._domain = ""
        self._received = 0  # refusals of our domain, all of them
        self._received_before = 0
        self._since = float("inf")
        self._allowed: Callable[[bytes, str], bool] = lambda _path, _want: False
        self._ended = False
        self._off = False
        loop.add(sock.fileno(), READ, self._ready)

    def known(self) -> bool:
        """Whether a record has told which domain is the box's. Init had itself refused something, so one must
        come: that the lane works is seen, not assumed."""
        until = time.monotonic() + FIRST_WORD
        self.count_up()
        while not self._domain and time.monotonic() < until:
            time.sleep(0.002)
            self.count_up()
        return bool(self._domain)

    def begin(self, allowed: Callable[[bytes, str], bool]) -> None:
        """Count from now on: what was refused before were our own proofs.

        ``allowed`` says whether the gate takes an open of a path for granted, and so does not count it.
        """
        self._allowed = allowed
        self._since = time.time() - COARSE

    def tick(self) -> None:
        """Once a second: what no end came for, and what the host lost."""
        self.count_up()
        for serial in self._aged:
            self._event(self._open.pop(serial, []))
        self._aged = tuple(self._open)
        if self._sock is not None:
            status = audit.status(self._asking)
            # With none of ours the losses are hardly ours; the end corrects it.
            if status.lost != self._lost_before and self._received != self._received_before:
                self._overrun = True
            self._lost_before, self._received_before = status.lost, self._received
            if self._overrun and not self._ended:
                self._overrun = False
                self._lose(1)
            if not status.enabled and not self._off:
                self._log.note("the host's audit was switched off: Landlock's refusals are told no more")
                self._lose(1)
            self._off = not status.enabled
        self._losses.tick()

    def count_up(self) -> None:
        """Count what has come so far."""
        if self._sock is not None:
            self._ready(READ)

    def close(self) -> None:
        """The box has ended: wait a moment for the kernel's last word on it."""
        if self._sock is None:
            return
        until = time.monotonic() + LAST_WORD
        while self._domain and not self._ended and not self._off and time.monotonic() < until:
            self.count_up()
            time.sleep(0.005)
        self._aged = tuple(self._open)
        self.tick()
        self._loop.remove(self._sock.fileno())
        self._sock.close()
        self._asking.close()
        self._sock = None

    def _lose(self, count: int) -> None:
        self._losses.add(LOST, count)
        self._told += count

    def _ready(self, _events: int) -> None:
        assert self._sock is not None
        for _ in range(PER_TURN):
            try:
                record = audit.read(self._sock)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._overrun = True
                self._log.note("audit records came faster than they could be read", "audit")
                continue
            if record is None:
                continue
            if record.kind == audit.END_OF_EVENT:
                self._event(self._open.pop(record.serial, []))
                continue
            if record.serial not in self._open and len(self._open) >= MAX_OPEN:
                self._event(self._open.pop(next(iter(self._open))))
            self._open.setdefault(record.serial, []).append(record)

    # ------------------------------------------------------------ one event

    def _event(self, records: list[Record]) -> None:
        for one in records:
            if one.kind == audit.DOMAIN:
                self._heard_of(one.fields)
        call = next((one.fields for one in records if one.kind == audit.SYSCALL), {})
        for one in records:
            if one.kind == audit.ACCESS:
                self._refused(one._replace(fields={**call, **one.fields}))

    def _heard_of(self, fields: Mapping[str, str]) -> None:
        ours = fields.get("domain") == self._domain
        if fields.get("status") == "allocated" and fields.get("pid") == str(self._init):
            if not self._domain:
                self._domain = fields.get("domain", "")
                early, self._early = self._early, []
                for one in early:
                    self._refused(one)
        elif fields.get("status") == "deallocated" and ours and self._domain:
            self._ended = True
            told = fields.get("denials", "")
            if told.isascii() and told.isdigit():
                self._lose(max(0, int(told) - self._received - self._told))

    def _refused(self, one: Record) -> None:
        if not self._domain:
            if len(self._early) < MAX_OPEN:
                self._early.append(one)
            return
        if one.fields.get("domain") != self._domain:
            return
        self._received += 1
        pid = int(text) if (text := one.fields.get("pid", "")).isdigit() and len(text) < 10 else 0
        if one.when < self._since or pid == self._init:
            return
        refusal = self._refusal(one.fields)
        if refusal is not None:
            self._deny(refusal, pid, self._command(pid, one.fields))

    def _command(self, pid: int, fields: Mapping[str, str]) -> str:
        caller = self._callers.get(pid)
        if pid and caller.name and not caller.command.startswith("["):
            return caller.command  # else it has ended, and its name is all that is left
        return fields.get("exe") or fields.get("comm") or ""

    def _refusal(self, fields: Mapping[str, str]) -> Refusal | None:
        """What is to be counted of one refusal; ``None`` where the gate has counted it."""
        rights = fields.get("blockers", "").split(",")
        first = rights[0]
        words = ", ".join(right.partition(".")[2] or right for right in rights)
        rule = f"no {words} granted"
        if first == "fs.execute":
            return None  # the gate looks at every exec
        if first.startswith("fs."):
            reads = first in _READS
            kind, want = ("fs-read", LOOK) if reads else ("fs-write", WRITE)
            asked = self._observe == "all" or (self._observe == "writes" and not reads)
            return None if asked and self._opened(fields, rights, want) else self._row(kind, fields, rule)
        if first == "scope.abstract_unix_socket":
            return None if self._observe != "none" else self._row("socket", fields, rule)
        return self._row("syscall", fields, rule)

    def _opened(self, fields: Mapping[str, str], rights: list[str], want: str) -> bool:
        """Whether it was an open that the gate, which looks at opens, has counted."""
        number = fields.get("syscall", "")
        opening = not number.isdigit() or int(number) in _OPENING
        if not opening or not any(right in _OPENED for right in rights):
            return False
        return not self._allowed(fields.get("path", "").encode("utf-8", "surrogateescape"), want)

    def _row(self, kind: str, fields: Mapping[str, str], rule: str) -> Refusal:
        shown = fields.get("path") or fields.get("ocomm") or fields.get("blockers", "")
        return Refusal(kind, shown, rule, LANE, BY)
