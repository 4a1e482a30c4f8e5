"""The keeper's answers to seccomp notifications: refuse, count, journal, and never wait.

What is refused here is decided by registers alone. Opens, execs and connects always go on in the kernel,
where mounts, Landlock and namespaces decide; their arguments lie in memory that the caller can change, so
what is read of them is evidence and nothing more (seccomp_unotify(2)).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable, Mapping

from backends.evidence.redact import redact_argv
from backends.keeper.budget import Budget
from backends.keeper.callers import Caller, Callers, command_line
from backends.keeper.denials import Refusal
from backends.keeper.inside import Host, Inside
from backends.keeper.log import Log
from backends.keeper.loop import GONE, READ, Loop
from backends.keeper.network import NAME_CACHE, Network
from backends.keeper.reach import EXEC, WRITE, Reach, Verdict, normal
from backends.keeper.reach import READ as LOOK
from backends.kernel import notify, seccomp
from backends.kernel.notify import Memory, Notification
from backends.kernel.seccomp import FilterSpec, Notice

LANE = "keeper"
BY_FILTER = "seccomp"
BY_MOUNTS = "mounts, Landlock"
SLICE = 0.005  # seconds of one turn; others wait no longer for a flood
AT_FDCWD = 0xFFFFFF9C
AT_EMPTY_PATH = 0x1000
O_PATH = 0o10000000
ARGV_BYTES = 4096  # of an argv that is journalled
MAX_PIDS = 8192  # processes whose pid inside is remembered until they end


class Gate:
    """Serves one notify descriptor until the last process under the filter has ended.

    ``deny(refusal, pid, command)`` counts, ``record(kind, data)`` journals, ``touched`` is called when
    something in the tree may have changed. Nothing is counted before ``counting`` is set: until then init
    proves its claims.
    """

    def __init__(
        self,
        loop: Loop,
        fd: int,
        spec: FilterSpec,
        init: int,
        log: Log,
        *,
        deny: Callable[[Refusal, int, str], None],
        record: Callable[[str, Mapping[str, object]], None],
        touched: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._spec = spec
        self._init = init
        self._first: set[int] = set()  # sessions' first processes whose exec is journalled
        self._unread: set[int] = set()  # and those whose exec could not be read
        self._log = log
        self._deny = deny
        self._record = record
        self._touched = touched
        self._callers = Callers()
        self._host = Host()
        self._reach: Reach | None = None
        self._inside: Inside | None = None
        self._network: Network | None = None
        self._execs = Budget("execs", record)
        self.counting = False
        self.name_cache_asked = 0
        self.inside_pids: dict[int, int] = {}
        notify.prepare(fd)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        loop.add(fd, READ, self._ready, self._failed)

    def begin(self, reach: Reach, network: Network) -> None:
        """Count from now on, by these rules."""
        self._reach, self._network = reach, network
        self.counting = True

    def executed(self, pid: int, parent: int, argv: tuple[str, ...]) -> None:
        """A session's first program runs. Its exec could not be read if it was init's own memory that asked:
        init, and its copy until the exec, is closed to an unprivileged keeper too.
        """
        if pid in self._first:
            self._first.discard(pid)
            return
        self._unread.discard(pid)
        path = argv[0]
        if "/" not in path:
            try:
                path = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                self._log.note("a session's program ended before its path could be read")
        self._write_exec(Caller(pid, parent, 0, "", ""), path, argv)

    def _catch_up(self, pid: int) -> None:
        """A first exec that could not be read comes into the journal before what that program executes."""
        if pid in self._unread:
            argv = command_line(pid)
            if argv:
                self.executed(pid, self._init, argv)
                self._first.add(pid)

    def _root(self, note: Notification) -> Inside | None:
        """The box's root, by the first caller that lets us look; none of a box's processes can change it."""
        if self._inside is None:
            try:
                root = os.open(f"/proc/{note.pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                return None
            if not notify.valid(self._fd, note.id):
                os.close(root)
                return None
            self._inside = Inside(root)
        return self._inside

    def tick(self) -> None:
        """Once a second: what was too much to journal one by one."""
        self._execs.tick()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._inside is not None:
            self._inside.close()
            self._inside = None

    def _failed(self, _error: BaseException) -> None:
        self._log.note("the notification descriptor failed: from now on gated calls get ENOSYS")
        self.close()

    def _ready(self, events: int) -> None:
        until = time.monotonic() + SLICE
        waiting = bool(events & READ)
        while waiting:
            note = notify.receive(self._fd)
            if note is not None:
                self._serve(note)
            ready = self._poll.poll(0)
            waiting = bool(ready) and bool(ready[0][1] & select.POLLIN) and time.monotonic() < until
        if events & GONE and not events & READ:
            self.close()

    def _serve(self, note: Notification) -> None:
        """Answer one call, whatever goes wrong with counting it: its caller waits."""
        refusal: int | None = errno.EPERM
        try:
            notice = seccomp.classify(self._spec, note.nr, note.args)
            refusal = notice.errno
            if self.counting:
                self._look(note, notice)
        except Exception as error:  # noqa: BLE001 (reported; the answer below is the safe one)
            self._log.failure("gate", error)
        if refusal is None:
            notify.proceed(self._fd, note.id)
        else:
            notify.refuse(self._fd, note.id, refusal)

    def _look(self, note: Notification, notice: Notice) -> None:
        if notice.errno is not None:
            caller = self._callers.get(note.pid)
            refusal = Refusal(notice.kind, notice.detail, f"no {notice.call}", LANE, BY_FILTER)
            self._deny(refusal, caller.pid, caller.command)
        elif notice.kind == "open":
            self._open(note, notice)
        elif notice.kind == "exec":
            self._exec(note, notice)
        elif notice.kind == "connect":
            self._connect(note, notice)

    # ------------------------------------------------------------ opens

    def _open(self, note: Notification, notice: Notice) -> None:
        if notice.call == "openat":
            dirfd, pointer, flags = note.args[0], note.args[1], note.args[2]
        else:
            dirfd, pointer, flags = AT_FDCWD, note.args[0], note.args[1]
        writes = notice.call == "creat" or bool(flags & seccomp.O_WRITE and not flags & O_PATH)
        name = self._name(note, pointer)
        if not name:
            return
        path = normal(notify.resolve(note.pid, dirfd, name))
        self._judge(note, path, WRITE if writes else LOOK)

    def _name(self, note: Notification, pointer: int) -> bytes:
        """The path that the caller passed; empty when it is gone or passed none."""
        try:
            with Memory(note.pid) as memory:
                name = memory.string(pointer)
        except OSError:
            return b""
        return name if notify.valid(self._fd, note.id) else b""

    def _judge(self, note: Notification, path: bytes, want: str) -> None:
        """Count the attempt if the policy does not grant ``path``, or what it leads to."""
        assert self._reach is not None
        verdict = self._reach.judge(path, want)
        if verdict.own and want == WRITE:
            self._touched()
        inside = self._root(note) if verdict.own else None
        if inside is not None:
            target = inside.target(path)
            if target == path:
                self._absent(note, path, want, verdict, inside)
                return
            path, verdict = target, self._reach.judge(normal(target), want)
        if verdict.allowed:
            return
        if want == WRITE or self._host.may_have(path):
            self._refused(note, want, path, verdict.rule)

    def _absent(self, note: Notification, path: bytes, want: str, verdict: Verdict, inside: Inside) -> None:
        """A look into a place of the box's own that means one of the host's, which is not there."""
        assert self._reach is not None
        masked = self._reach.masked_in_home(path)
        if want == WRITE or not (masked or verdict.covers) or inside.resolve(path) is not None:
            return
        if masked:
            self._refused(note, want, b"~" + path[len(self._reach.home) :], f"fs.deny = {masked}")
        elif self._host.has(path):
            self._refused(note, want, path, verdict.rule)

    def _refused(self, note: Notification, want: str, path: bytes, rule: str) -> None:
        kind = {LOOK: "fs-read", WRITE: "fs-write", EXEC: "exec"}[want]
        caller = self._callers.get(note.pid)
        shown = path.decode("utf-8", "surrogateescape")
        self._deny(Refusal(kind, shown, rule, LANE, BY_MOUNTS), caller.pid, caller.command)

    # ------------------------------------------------------------ execs

    def _exec(self, note: Notification, notice: Notice) -> None:
        if notice.call == "execve":
            dirfd, name_at, argv_at, flags = AT_FDCWD, note.args[0], note.args[1], 0
        else:
            dirfd, name_at, argv_at, flags = note.args[0], note.args[1], note.args[2], note.args[4]
        try:
            with Memory(note.pid) as memory:
                name = memory.string(name_at)
                argv = memory.strings(argv_at, total=ARGV_BYTES)
        except OSError:
            self._remember(self._unread, note.pid)
            return
        if not notify.valid(self._fd, note.id):
            return
        if not name and not flags & AT_EMPTY_PATH:
            return
        path = normal(notify.resolve(note.pid, dirfd, name))
        caller = self._callers.get(note.pid)
        self._callers.forget(note.pid)
        self._catch_up(caller.parent)
        self._catch_up(caller.pid)
        # A shell tries a name in every folder of PATH: only what is there is executed.
        inside = self._root(note)
        if name and inside is not None and not inside.executable(path):
            self._judge(note, path, EXEC)
            return
        if caller.parent == self._init:
            self._remember(self._first, caller.pid)
        words = [word.decode("utf-8", "surrogateescape") for word in argv]
        self._write_exec(caller, path.decode("utf-8", "surrogateescape"), redact_argv(words))

    @staticmethod
    def _remember(pids: set[int], pid: int) -> None:
        if len(pids) >= MAX_PIDS:
            pids.clear()
        pids.add(pid)

    def _write_exec(self, caller: Caller, path: str, argv: tuple[str, ...]) -> None:
        if caller.inside:
            self.inside_pids[caller.inside] = caller.pid
        if len(self.inside_pids) > MAX_PIDS:
            del self.inside_pids[next(iter(self.inside_pids))]
        if not self._execs.take():
            return
        self._record(
            "exec",
            {
                "pid": caller.pid,
                "parent": caller.parent,
                "path": path,
                "argv": argv,
                "comm": caller.name,
            },
        )

    # ------------------------------------------------------------ connects

    def _connect(self, note: Notification, notice: Notice) -> None:
        pointer, size = (
            (note.args[1], note.args[2]) if notice.call == "connect" else (note.args[4], note.args[5])
        )
        try:
            with Memory(note.pid) as memory:
                address = notify.read_address(memory, pointer, size)
        except OSError:
            return
        if address is None or self._network is None or not notify.valid(self._fd, note.id):
            return
        if address.family == socket.AF_UNIX:
            if not address.text.startswith("@"):
                self._connect_path(note, address.text)
                return
            refusal = self._network.abstract(address.text)
        else:
            refusal = self._network.judge(address)
        if refusal is not None:
            caller = self._callers.get(note.pid)
            self._deny(refusal, caller.pid, caller.command)

    def _connect_path(self, note: Notification, text: str) -> None:
        assert self._reach is not None
        raw = text.encode("utf-8", "surrogateescape")
        if not raw:
            return
        path = normal(notify.resolve(note.pid, AT_FDCWD, raw))
        if path in NAME_CACHE:
            self.name_cache_asked += 1
            return
        inside = self._root(note)
        if inside is None or inside.resolve(path) is None:
            if not self._host.may_have(path):
                return  # exists nowhere
        elif self._reach.judge(path, WRITE).allowed:
            return  # a socket of the box's own
        shown = path.decode("utf-8", "surrogateescape")
        refusal = Refusal("socket", f"unix:{shown}", "host sockets are not granted", LANE, BY_MOUNTS)
        caller = self._callers.get(note.pid)
        self._deny(refusal, caller.pid, caller.command)
