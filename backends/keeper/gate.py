"""The keeper's answers to seccomp notifications: refuse, count, journal, and never wait.

What is refused here is decided by registers alone. Opens and connects always go on in the kernel, where
mounts, Landlock and namespaces decide; their arguments lie in memory that the caller can change, so what is
read of them is evidence and nothing more (seccomp_unotify(2)). Execs go on too, all but those of a name where
nothing is: they are answered with what the kernel would say, or a caller could exchange the name after it was
looked at, and execute unseen. Whatever cannot be looked at is counted as ``lost``.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable, Mapping

from backends.keeper import callernames
from backends.keeper.budget import Losses
from backends.keeper.callernames import AT_FDCWD
from backends.keeper.callers import Callers
from backends.keeper.denials import Refusal
from backends.keeper.execs import Execs
from backends.keeper.inside import Host, Inside, Untold
from backends.keeper.log import Log
from backends.keeper.loop import GONE, READ, Loop
from backends.keeper.moves import Moves
from backends.keeper.network import NAME_CACHE, Network
from backends.keeper.reach import EXEC, WRITE, Reach, Verdict, normal
from backends.keeper.reach import READ as LOOK
from backends.keeper.uses import Uses
from backends.kernel import notify, seccomp
from backends.kernel.notify import Memory, Notification
from backends.kernel.seccomp import FilterSpec, Notice

LANE = "keeper"
BY_FILTER = "seccomp"
BY_MOUNTS = "mounts, Landlock"
SLICE = 0.005  # seconds of one turn; others wait no longer for a flood
AT_EMPTY_PATH = 0x1000
O_PATH = 0o10000000
ARGV_BYTES = 4096  # of an argv that is journalled
LOST = {"open": "opens", "exec": "execs", "connect": "connects"}


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
        moves: Moves | None = None,
    ) -> None:
        self._moves = moves
        self._loop = loop
        self._fd = fd
        self._init = init
        self._spec = spec
        self._log = log
        self._deny = deny
        self._touched = touched
        self._callers = Callers()
        self._host = Host()
        self._reach: Reach | None = None
        self._inside: Inside | None = None
        self._network: Network | None = None
        self._losses = Losses(record)
        self._uses = Uses(record)
        self.execs = Execs(loop, init, record, self._losses, self._names)
        self.counting = False
        self.name_cache_asked = 0
        notify.prepare(fd)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        loop.add(fd, READ, self._ready, self._failed)

    def begin(self, reach: Reach, network: Network) -> None:
        """Count from now on, by these rules."""
        self._reach, self._network = reach, network
        self.counting = True

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

    def _names(self, path: bytes, status: os.stat_result) -> bool:
        return self._inside is not None and self._inside.names(path, status)

    @property
    def waiting(self) -> bool:
        """Whether calls wait for their time to run out, whatever else happens."""
        return self._moves is not None and self._fd >= 0 and self._moves.waiting > 0

    def tick(self) -> None:
        """Once a second: what was too much to journal one by one."""
        self.execs.tick()
        self._uses.tick()
        self._losses.tick()
        if self._moves is not None and self._fd >= 0:
            self._moves.tick()

    def count_up(self) -> None:
        """Journal now what ended, and what could not be looked at so far."""
        self.execs.count_up()
        self._losses.tick()
        self._uses.tick()

    def close(self) -> None:
        """Nothing of the box is left."""
        self._shut()
        self.execs.end()

    def _shut(self) -> None:
        """Nothing asks any more; processes that ended may still wait to be collected."""
        if self._fd >= 0:
            self._loop.remove(self._fd)
            os.close(self._fd)
            self._fd = -1
        self.execs.close()
        self._losses.tick()
        self._uses.tick()
        if self._inside is not None:
            self._inside.close()
            self._inside = None

    def _failed(self, _error: BaseException) -> None:
        self._log.note("the notification descriptor failed: from now on gated calls get ENOSYS")
        self._shut()

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
            self._shut()

    def _serve(self, note: Notification) -> None:
        """Answer one call, whatever goes wrong with counting it: its caller waits."""
        refusal: int | None = errno.EPERM
        lost = "denials"
        try:
            notice = seccomp.classify(self._spec, note.nr, note.args)
            refusal = notice.errno
            lost = LOST.get(notice.kind, lost)
            if notice.kind == "rename" and self._renames(note, notice):
                return
            # Init serves the keeper, and its memory is closed to us: what it opens is no act of the box. As
            # long as the box lives no other process has its pid.
            if self.counting and (note.pid != self._init or notice.kind == "exec"):
                refusal = self._look(note, notice)
        except (Untold, OSError) as error:
            if notify.valid(self._fd, note.id):
                self._losses.add(lost)
                self._log.note(f"{lost} that cannot be told: {error}", f"cannot tell {lost}")
        except Exception as error:  # noqa: BLE001 (reported; the answer below is the safe one)
            self._losses.add(lost)
            self._log.failure("gate", error)
        if refusal is None:
            notify.proceed(self._fd, note.id)
        else:
            notify.refuse(self._fd, note.id, refusal)

    def _renames(self, note: Notification, notice: Notice) -> bool:
        """Whether a rename waits for init, who is about to make its folder movable."""
        if self._moves is None:
            return False
        try:
            names = self._moves.paths(note, notice.call, self._path)
            inside = self._root(note) if names else None
            return inside is not None and self._moves.ask(note, names, inside)
        except (Untold, OSError):
            return False  # what cannot be told need not wait: the kernel decides

    def moved(self, ident: object) -> None:
        """Init is done with a rename."""
        if self._moves is not None and self._fd >= 0:
            self._moves.answer(ident)

    def _look(self, note: Notification, notice: Notice) -> int | None:
        """Count or journal one call; what it is answered, None to let it go on."""
        if notice.errno is not None:
            caller = self._callers.get(note.pid)
            refusal = Refusal(notice.kind, notice.detail, f"no {notice.call}", LANE, BY_FILTER)
            self._deny(refusal, caller.pid, caller.command)
        elif notice.kind == "open":
            self._open(note, notice)
        elif notice.kind == "exec":
            return self._exec(note, notice)
        elif notice.kind == "connect":
            self._connect(note, notice)
        return notice.errno

    # ------------------------------------------------------------ opens

    def _open(self, note: Notification, notice: Notice) -> None:
        if notice.call == "openat":
            dirfd, pointer, flags = note.args[0], note.args[1], note.args[2]
        else:
            dirfd, pointer, flags = AT_FDCWD, note.args[0], note.args[1]
        writes = notice.call == "creat" or bool(flags & seccomp.O_WRITE and not flags & O_PATH)
        with Memory(note.pid) as memory:
            name = memory.string(pointer)
        if name and notify.valid(self._fd, note.id):
            path = self._path(note, dirfd, name)
            if path is not None:
                self._judge(note, path, WRITE if writes else LOOK)

    def _path(self, note: Notification, dirfd: int, name: bytes) -> bytes | None:
        """The absolute path that the caller means; None where it passed no descriptor. Raises Untold."""
        try:
            return callernames.absolute(note.pid, dirfd, name, self._root(note))
        except FileNotFoundError:
            return None

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
            path = callernames.through(note.pid, normal(target), inside)
            verdict = self._reach.judge(path, want)
        if verdict.allowed:
            if verdict.grant and want != EXEC:  # an exec that gets here found nothing to execute
                self._uses.seen(verdict.rule, verdict.grant, path)
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

    def _exec(self, note: Notification, notice: Notice) -> int | None:
        """Journal an exec; the errno that it ends with where there is nothing to execute."""
        if notice.call == "execve":
            dirfd, name_at, argv_at, flags = AT_FDCWD, note.args[0], note.args[1], 0
        else:
            dirfd, name_at, argv_at, flags = note.args[0], note.args[1], note.args[2], note.args[4]
        try:
            with Memory(note.pid) as memory:
                name = memory.string(name_at)
                argv = memory.strings(argv_at, total=ARGV_BYTES)
                mapped = bool(name or memory.read(name_at, 1))
        except OSError:
            if notify.valid(self._fd, note.id):
                self.execs.unread(self._callers.get(note.pid))
                self._callers.forget(note.pid)
            return None
        if not notify.valid(self._fd, note.id):
            return None
        if not name and not flags & AT_EMPTY_PATH:
            return errno.ENOENT if mapped else errno.EFAULT
        result = self._program(note, dirfd, name)
        path = self._shown(note, dirfd, name)
        if result:
            # A shell tries a name in every folder of PATH: only what is there is executed.
            try:
                self._judge(note, path, EXEC)
            except (Untold, OSError):
                self._losses.add("denials")
            return result
        caller = self._callers.get(note.pid)
        self._callers.forget(note.pid)
        assert self._reach is not None
        verdict = self._reach.judge(path, EXEC)
        if verdict.grant:
            self._uses.seen(verdict.rule, verdict.grant, path)
        words = [word.decode("utf-8", "surrogateescape") for word in argv]
        self.execs.seen(
            caller, path.decode("utf-8", "surrogateescape"), words, lambda: self._waits(note, caller.pid)
        )
        return None

    def _waits(self, note: Notification, pid: int) -> bool:
        """Whether ``pid`` is the process of the thread that called and waits: then it is no other's yet."""
        return os.path.exists(f"/proc/{pid}/task/{note.pid}") and notify.valid(self._fd, note.id)

    def _program(self, note: Notification, dirfd: int, name: bytes) -> int | None:
        """As ``Inside.program`` for what the caller means by ``name``."""
        inside = self._root(note)
        if inside is None:
            return None
        if name.startswith(b"/"):
            return inside.program(name)
        try:
            base = callernames.base(note.pid, dirfd)
        except Untold:
            return None
        except FileNotFoundError:
            return errno.EBADF
        try:
            return inside.program(name, base)
        finally:
            os.close(base)

    def _shown(self, note: Notification, dirfd: int, name: bytes) -> bytes:
        """The path of an exec for the journal: absolute where that can be told, else as it was asked."""
        if name.startswith(b"/"):
            return normal(name)
        try:
            return callernames.absolute(note.pid, dirfd, name, self._root(note))
        except (Untold, FileNotFoundError):
            return name or b"fd/%d" % (dirfd & 0xFFFFFFFF)

    # ------------------------------------------------------------ connects

    def _connect(self, note: Notification, notice: Notice) -> None:
        pointer, size = (
            (note.args[1], note.args[2]) if notice.call == "connect" else (note.args[4], note.args[5])
        )
        with Memory(note.pid) as memory:
            address = notify.read_address(memory, pointer, size)
        if address is None or self._network is None or not notify.valid(self._fd, note.id):
            return
        if address.family == socket.AF_UNIX:
            if not address.text.startswith("@"):
                self._connect_path(note, address.text)
                return
            refusal = self._network.abstract(address.text)
        else:
            self._network.remember(address, lambda: self._callers.get(note.pid))
            refusal = self._network.judge(address)
        if refusal is not None:
            caller = self._callers.get(note.pid)
            self._deny(refusal, caller.pid, caller.command)

    def _connect_path(self, note: Notification, text: str) -> None:
        assert self._reach is not None
        raw = text.encode("utf-8", "surrogateescape")
        if not raw:
            return
        path = self._path(note, AT_FDCWD, raw)
        if path is None:
            return
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
