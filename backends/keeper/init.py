"""The box's init: pid 1 inside, and the one launcher of every session.

One process forks all sessions, so they share one Landlock domain, one filter and one listener, and each can
signal the others. It is entered when the boundary stands; it builds nothing. It proves its promises, says
``ready``, then serves the keeper: spawn, freeze, thaw, end. When the keeper goes (the death pipe closes) or
ends it, the kernel ends every process of the namespace with it.
"""

from __future__ import annotations

# What the module signal wraps, without the enumerations that it turns each number into and back: those alone
# cost an init a quarter of a megabyte.
import _signal as plain  # type: ignore[import-not-found]
import _socket
import os
import resource
import select
import signal
import struct
import time

from backends import trace
from backends.keeper import init_moves, init_proofs, init_protocol, init_session
from backends.keeper.init_proofs import Promises
from backends.keeper.init_protocol import Message
from backends.keeper.init_session import Spawn, Started
from backends.kernel import procfs, rlimits, title
from backends.kernel.rlimits import Limits
from backends.kernel.syscalls import PR_SET_DUMPABLE, close_from, prctl, syscall
from backends.record import NamedTuple
from backends.values import Claim

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SIGINFO_SIZE = 128  # sizeof(struct signalfd_siginfo)
_SIGINFO_CODE = 8
_SIGINFO_PID = 12
_SI_USER = 0  # sent by kill(2) and its like, so that the kernel itself wrote who the sender is
SFD_CLOEXEC = 0o2000000
SFD_NONBLOCK = 0o4000
_OOM_SESSION = 900  # oom_score_adj of sessions (proc_pid_oom_score_adj(5)); init keeps what it inherited
# Plain numbers here too.
_IGNORED = tuple(map(int, (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP)))
_KEPT = (signal.SIGKILL, signal.SIGSTOP, *_IGNORED)
_RESET = tuple(int(number) for number in signal.valid_signals() if number not in _KEPT)
_READ = (int(signal.SIGCHLD), int(signal.SIGTERM))
_READ_MASK = struct.pack("=Q", sum(1 << (number - 1) for number in _READ))  # kernel_sigset_t
_SETMASK = int(signal.SIG_SETMASK)
_FREEZE_PATIENCE = 2.0  # seconds until a freeze is reported as incomplete
_STANDING = frozenset("TtZX")  # states of proc_pid_stat(5) in which nothing is executed
_BROKEN = 2  # the exit status of a prover that has told which promise does not hold
_END_PATIENCE = 5.0  # seconds for killed processes to leave, where no namespace ends with us


class Settings(NamedTuple):
    """What init was built for. ``promises`` is ``None`` where nothing confines: there is nothing to prove."""

    name: str  # the box's
    limits: Limits
    promises: Promises | None


if TYPE_CHECKING:
    # The same without its classes, which children of init make of it where they use them.
    Plain = tuple[str, tuple[int | None, ...], tuple[Any, ...] | None]


def main(control: _socket.socket, death: int, settings: Plain) -> NoReturn:
    """Serves until the end. Never returns or raises: an unexpected failure is reported and ends the box."""
    try:
        trace.hold()
        title.replace("cloche-init", f"cloche init {settings[0]}")
        init = Init(control, death, settings)
        init.prepare()
        trace.point("init: prepared")
        if init.prove():
            init.serve()
    except BaseException as error:  # noqa: BLE001 - the box must end, and the keeper be told why
        try:
            init_protocol.send(control, _failure(error))
        except OSError:
            os._exit(3)  # nobody is left to be told
    finally:
        os._exit(1)


class _Pending(NamedTuple):
    """A session whose exec has not been decided yet."""

    id: int
    started: Started
    argv0: str


class Init:
    """``namespaced``: we are pid 1 of our own process namespace; else a subreaper among the host's."""

    def __init__(self, control: _socket.socket, death: int, settings: Plain) -> None:
        self.control = control
        self.death = death
        _, self.limits, self.promises = settings
        self.namespaced = os.getpid() == 1
        self.signals = -1
        self.oom = -1
        self.oom_own = 0
        self.sessions: dict[int, int] = {}  # pid to session
        self.pending: dict[int, _Pending] = {}  # result pipe to session
        self.movers: dict[int, int] = {}  # pid of a child to the rename that waits for it
        self.stopped_before: frozenset[int] = frozenset()
        self.frozen = False
        self.poll = select.poll()

    def prepare(self) -> None:
        # Our own files in /proc are ours only while we are dumpable; nothing of the box runs yet.
        prctl(PR_SET_DUMPABLE, 1)
        self.oom = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self.oom_own = int(os.pread(self.oom, 16, 0))
        prctl(PR_SET_DUMPABLE, 0)
        os.umask(0o022)
        # Nothing that whoever forked us has set: as pid 1 of a namespace, what has no handler cannot be sent
        # from inside.
        for number in _RESET:
            plain.signal(number, plain.SIG_DFL)
        for number in _IGNORED:
            plain.signal(number, plain.SIG_IGN)
        # Signals are read from a descriptor, which tells the sender: inside, nobody may end init.
        plain.pthread_sigmask(_SETMASK, _READ)
        self.signals = syscall("signalfd4", -1, _READ_MASK, len(_READ_MASK), SFD_CLOEXEC | SFD_NONBLOCK)
        for fd in (self.control.fileno(), self.death, self.signals):
            self.poll.register(fd, select.POLLIN)

    def tell(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        if trace.on():
            message = {**message, "trace": trace.held()}
        init_protocol.send(self.control, message, fds)

    # ---- proofs

    def prove(self) -> bool:
        """Have a child prove the promises and say so; whether the box may begin. Nothing of what that runs
        and makes is left in our memory."""
        if self.promises is None:
            self.tell({"ev": "ready", "proofs": []})
            return True
        prover = os.fork()
        if prover == 0:
            try:
                proved = self._prove(Promises(*self.promises))
                os._exit(0 if proved else _BROKEN)
            except BaseException as error:  # noqa: BLE001 - the keeper must be told why
                self.tell(_failure(error))
                os._exit(_BROKEN)
            finally:
                os._exit(1)
        status = -1
        while True:
            # The orphans of the proofs became ours; no session has started yet.
            try:
                pid, ended = os.waitpid(-1, 0)
            except ChildProcessError:
                break
            if pid == prover:
                status = ended
        self.promises = None
        if trace.on():
            trace.held()  # the child told them
        if status not in (0, _BROKEN << 8):
            why = "the process that proves what is promised ended"
            self.tell({"ev": "error", "what": "nothing was proved", "why": why})
        return status == 0

    def _prove(self, promises: Promises) -> bool:
        proving = init_proofs.Proving(promises)
        prepared = self._prepared()  # meanwhile
        claims = (*proving.result(), *prepared)
        failed = [claim for claim in claims if claim.result != init_proofs.PROVED]
        if failed:
            self.tell(
                {
                    "ev": "error",
                    "what": f"the proof {failed[0].id} failed",
                    "why": f"{failed[0].text} {failed[0].evidence}",
                    "proofs": [list(claim) for claim in claims],
                }
            )
            return False
        trace.point("init: proofs")
        self.tell({"ev": "ready", "proofs": [list(claim) for claim in claims]})
        return True

    def _prepared(self) -> tuple[Claim, Claim]:
        """Prepares a child exactly as a session is prepared and lets it tell what it holds and is held to."""
        began = time.perf_counter()
        limits = rlimits.wanted(Limits(*self.limits))
        reader, writer = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            try:
                init_session.prepare((null, writer, null), writer, terminal=False)
                rlimits.apply(Limits(*self.limits))
                close_from(init_session.REPORT)
                held = [fd for fd in sorted(map(int, os.listdir("/proc/self/fd"))) if _is_open(fd)]
                got = [(field, *resource.getrlimit(kind)) for field, kind, _ in limits]
                os.write(1, init_protocol.encode({"fds": held, "limits": got}))
            finally:
                os._exit(0)
        os.close(writer)
        os.close(null)
        answer = os.read(reader, 4096)
        os.close(reader)
        os.waitpid(child, 0)
        seen = init_protocol.decode(answer) if answer else {}
        took = round(time.perf_counter() - began, 6)
        fds = seen.get("fds")
        wanted = [[field, value, rlimits.ceiling(kind, value)] for field, kind, value in limits]
        told = ", ".join(f"{field} {value}" for field, _, value in limits)
        return (
            _told(init_proofs.DESCRIPTORS, fds == [0, 1, 2], f"held: {fds}", took),
            _told(init_proofs.LIMITS, seen.get("limits") == wanted, f"{told}; no core files", 0.0),
        )

    # ---- service

    def serve(self) -> None:
        control = self.control.fileno()
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.death:
                    self.end()
                elif fd == control:
                    self.request()
                elif fd == self.signals:
                    self.take_signals()
                elif fd in self.pending:
                    self.settle(fd)
                else:
                    self.happened(fd)

    def happened(self, fd: int) -> None:
        """Something was told through a descriptor that whoever is more than an init has in ``poll``."""

    def request(self) -> None:
        message, fds = init_protocol.recv(self.control)
        try:
            if message is None:
                self.end()
            else:
                self.answer(message, tuple(fds))
        finally:
            init_protocol.close(fds)

    def answer(self, message: Message, fds: tuple[int, ...]) -> None:
        operation = message.get("op")
        trace.point(f"init: asked to {operation}")
        if operation == "spawn":
            self.spawn(message, fds)
        elif operation == "freeze":
            self.tell({"ev": "frozen", "count": self.freeze()})
        elif operation == "thaw":
            self.tell({"ev": "thawed", "count": self.thaw()})
        elif operation == "movable":
            self.make_movable(message)
        elif operation == "end":
            self.end()
        else:
            self.tell({"ev": "error", "what": "init got an unknown request", "why": repr(operation)})

    def spawn(self, message: Message, fds: tuple[int, ...]) -> None:
        ident = message.get("id")
        try:
            spawn = init_session.parse(message)
            if spawn.size is None and len(fds) != 3:
                raise ValueError("three descriptors are needed without a terminal")
            started = self.start(spawn, fds)
        except ValueError as error:
            self.tell({"ev": "failed", "id": ident, "errno": 22, "why": str(error)})
        except OSError as error:
            why = f"the box cannot start another process: {os.strerror(error.errno or 0)}"
            self.tell({"ev": "failed", "id": ident, "errno": error.errno, "why": why})
        else:
            trace.point("init: forked")
            self.sessions[started.pid] = spawn.id
            self.pending[started.result] = _Pending(spawn.id, started, spawn.argv[0])
            self.poll.register(started.result, select.POLLIN)

    def start(self, spawn: Spawn, fds: tuple[int, ...]) -> Started:
        """Where memory runs out, the kernel must choose a session and not init, whose end is the box's."""
        os.pwrite(self.oom, b"%d" % max(_OOM_SESSION, self.oom_own), 0)
        try:
            return init_session.start(spawn, fds, self.limits)
        finally:
            os.pwrite(self.oom, b"%d" % self.oom_own, 0)

    def make_movable(self, message: Message) -> None:
        """Let a child prepare folders for a rename that waits; :meth:`reap` says when it is done."""
        ident, paths = message.get("id"), message.get("paths")
        if not isinstance(ident, int) or not isinstance(paths, list):
            self.tell({"ev": "error", "what": "init got a request without folders", "why": repr(ident)})
            return
        try:
            pid = os.fork()
        except OSError:
            self.tell({"ev": "movable", "id": ident})
            return
        if pid == 0:
            try:
                init_moves.make_movable([str(path).encode("utf-8", "surrogateescape") for path in paths])
            except OSError:
                os._exit(1)  # the call that waits gets the kernel's own answer
            finally:
                os._exit(0)
        self.movers[pid] = ident

    def settle(self, result: int) -> None:
        """The exec of a session succeeded (end of the pipe) or failed (its errno)."""
        pending = self.pending.pop(result)
        started = pending.started
        self.poll.unregister(result)
        report = os.read(result, 8192)
        trace.point("init: executed")
        os.close(result)
        if report:
            code, _, word = report.decode("utf-8", "surrogateescape").partition(":")
            # What never ran has no exit to tell: the failure says it all.
            self.sessions[started.pid] = -1
            why = f"{word}: {os.strerror(int(code))}"
            self.tell({"ev": "failed", "id": pending.id, "errno": int(code), "why": why})
        else:
            fds = (started.pidfd,) if started.master < 0 else (started.pidfd, started.master)
            self.tell({"ev": "spawned", "id": pending.id, "pid": started.pid}, fds)
        os.close(started.pidfd)
        if started.master >= 0:
            os.close(started.master)

    def take_signals(self) -> None:
        while True:
            try:
                data = os.read(self.signals, _SIGINFO_SIZE)
            except BlockingIOError:
                break
            if ends(data, namespaced=self.namespaced):
                self.end()
        self.reap()

    def reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            trace.point("init: exit")
            for result, pending in list(self.pending.items()):
                if pending.started.pid == pid:
                    self.settle(result)
            if pid in self.movers:
                self.tell({"ev": "movable", "id": self.movers.pop(pid)})
                continue
            ident = self.sessions.pop(pid, None)
            if ident == -1:
                continue
            # A child begins as a copy of init, and the kernel carries that copy's size over exec(2) into
            # ru_maxrss: a figure that is not above init's own says nothing about the program.
            own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.tell(
                {
                    "ev": "exit",
                    "id": ident,
                    "pid": pid,
                    "status": status,
                    "utime": usage.ru_utime,
                    "stime": usage.ru_stime,
                    "maxrss": usage.ru_maxrss * 1024 if usage.ru_maxrss > own else None,
                }
            )

    # ---- stopping everything

    def below(self) -> dict[int, procfs.Stat]:
        """Every process of the box but init."""
        now = procfs.scan()
        if self.namespaced:
            return {pid: found for pid, found in now.stats.items() if pid != 1}
        me = now.stats[os.getpid()]
        return {found.pid: found for found in procfs.descendants(now, me.ident)}

    def freeze(self) -> int:
        """SIGSTOP to all until all stand, however they fork meanwhile; returns how many stand.

        Parents first, each level after the one above it stands: a shell that still ran would see its job stop
        and say so to the person.
        """
        if not self.frozen:
            self.stopped_before = frozenset(pid for pid, found in self.below().items() if found.state == "T")
            self.frozen = True
        deadline = time.monotonic() + _FREEZE_PATIENCE
        while True:
            present = self.below()
            running = {pid for pid, found in present.items() if found.state not in _STANDING}
            if not running or time.monotonic() > deadline:
                return len(present) - len(running)
            _signal_each([pid for pid in running if present[pid].parent not in running], signal.SIGSTOP)
            time.sleep(0.0005)

    def thaw(self) -> int:
        """SIGCONT, children before parents, for the same reason."""
        if not self.frozen:
            return 0
        self.frozen = False
        present = self.below()

        def depth(pid: int) -> int:
            steps = 0
            while pid in present and steps < len(present):
                pid, steps = present[pid].parent, steps + 1
            return steps

        order = sorted((pid for pid in present if pid not in self.stopped_before), key=depth, reverse=True)
        return _signal_each(order, signal.SIGCONT)

    def end(self) -> NoReturn:
        """Ends the box. In a namespace the kernel kills all with us; elsewhere we do it ourselves."""
        if not self.namespaced:
            deadline = time.monotonic() + _END_PATIENCE
            while time.monotonic() < deadline:
                left = [pid for pid, found in self.below().items() if found.state not in "ZX"]
                if not left:
                    break
                # Stopped first: what is about to fork must not outrun its own end.
                _signal_each(left, signal.SIGSTOP)
                _signal_each(left, signal.SIGKILL)
                time.sleep(0.001)
                self.discard()
        os._exit(0)

    def discard(self) -> None:
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return


def ends(data: bytes, *, namespaced: bool) -> bool:
    """Whether a ``struct signalfd_siginfo`` is a SIGTERM from outside: from a process without a pid in here.

    Only under ``SI_USER`` the sender is the kernel's word: rt_sigqueueinfo(2) lets a process claim any other,
    but with a negative code.
    """
    number = int.from_bytes(data[:4], "little")
    code = int.from_bytes(data[_SIGINFO_CODE : _SIGINFO_CODE + 4], "little", signed=True)
    sender = int.from_bytes(data[_SIGINFO_PID : _SIGINFO_PID + 4], "little")
    return number == signal.SIGTERM and (not namespaced or (code == _SI_USER and sender == 0))


def _failure(error: BaseException) -> Message:
    return {"ev": "error", "what": "init failed", "why": f"{type(error).__name__}: {error}"}


def _told(claim: tuple[str, str], held: bool, evidence: str, duration: float) -> Claim:
    return Claim(*claim, init_proofs.PROVED if held else init_proofs.FAILED, evidence, duration)


def _is_open(fd: int) -> bool:
    """False for the descriptor through which the listing itself was made."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _signal_each(pids: list[int], number: int) -> int:
    sent = 0
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        sent += 1
    return sent
