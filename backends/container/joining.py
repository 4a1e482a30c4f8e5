"""How a session enters a container: the OCI runtime's own ``exec``, as Podman's conmon(8) calls it.

``podman exec`` would stand between a session and its keeper with a client, a second conmon and a second
terminal, tell an exit code instead of a wait status, and take three times as long. The runtime it calls is
called here with the same record of the process (runtime-spec config.md, ``process``), so that a session gets
what the container's processes get: its namespaces, filter, no capabilities, no_new_privs. Its streams are the
descriptors themselves, its terminal is made by the container's own devpts, and it becomes a child of whoever
called (a subreaper), who learns its true end.

Lean: a steward imports it.
"""

from __future__ import annotations

import array
import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import struct
import termios

from backends.container import looking
from backends.container.variables import merged
from backends.keeper.init_session import Spawn, Started
from backends.keeper.inside import Inside
from backends.kernel.syscalls import close_from
from backends.record import NamedTuple

_PATIENCE = 10.0  # seconds for a runtime to start one process
_SHELL = "/bin/sh"
_LOG = 64 << 10


class Runtime(NamedTuple):
    """One OCI runtime as it is called: ``argv`` is its program with the options before the verb."""

    name: str  # crun, runc, gvisor
    program: str  # what Podman is given
    argv: tuple[str, ...]


class Process(NamedTuple):
    """What every session of a container is given."""

    uid: int  # inside
    gid: int
    limits: tuple[tuple[str, int, int], ...]  # RLIMIT_*, soft, hard


class Joiner:
    """Starts sessions in one container. ``folder``: 0700, for files of a moment; ``root``: pid 1's root."""

    def __init__(self, runtime: Runtime, container: str, process: Process, folder: str, pid1: int) -> None:
        self._runtime = runtime
        self._container = container
        self._process = process
        self._folder = folder
        self._root = f"/proc/{pid1}/root"
        self._number = 0
        self.variables: dict[str, str] = {}  # the image's own

    def start(self, spawn: Spawn, fds: tuple[int, ...]) -> Started:
        """A session; its ``fds`` stay the caller's. ``OSError`` with the errno that the exec had.

        It is already executing its program when this returns.
        """
        spawn = spawn._replace(env=merged(self.variables, spawn.env))
        argv = self.resolve(spawn.argv, spawn.env.get("PATH", os.defpath), spawn.cwd)
        self._number += 1
        base = os.path.join(self._folder, f"x{self._number}")
        console: socket.socket | None = None
        master = -1
        try:
            with open(f"{base}.json", "w", encoding="ascii") as file:
                json.dump(self._record(spawn, argv), file)
            words = [*self._runtime.argv, "--log", f"{base}.log", "--log-format", "json"]
            words += ["exec", "--detach", "--pid-file", f"{base}.pid", "--process", f"{base}.json"]
            if spawn.size is not None:
                console = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
                console.bind(f"{base}.tty")
                console.listen(1)
                words += ["--console-socket", f"{base}.tty"]
            words.append(self._container)
            status = _run(words, fds if console is None else ())
            if (
                status
                and console is None
                and not os.path.exists(f"{base}.pid")  # nothing was started, or it would run twice
                and failure(f"{base}.log", spawn.argv[0]).errno == errno.EIO
            ):
                status = _run(words, fds)  # of many threads, under the limits of the box: once more
            if status:
                raise failure(f"{base}.log", spawn.argv[0])
            if console is not None and spawn.size is not None:
                master = receive_master(console)
                fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *spawn.size, 0, 0))
            with open(f"{base}.pid", encoding="ascii") as file:
                pid = int(file.read())
            pidfd = os.pidfd_open(pid)
        except BaseException:
            if master >= 0:
                os.close(master)
            raise
        finally:
            if console is not None:
                console.close()
            for kind in ("json", "log", "tty", "pid"):
                remove_file(f"{base}.{kind}")
        # Nothing comes any more: it was executed, and the end of this pipe says so.
        result, report = os.pipe2(os.O_CLOEXEC)
        os.close(report)
        return Started(pid, pidfd, master, result)

    def resolve(self, argv: tuple[str, ...], path: str, cwd: str) -> tuple[str, ...]:
        """``argv`` as it can be executed inside; ``OSError`` where execvp(3) would say so.

        Looked up here, because a runtime tells of a missing program in words only. A file that is neither a
        program nor begins with ``#!`` goes to the shell, as execvp does it.
        """
        root = Inside(os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            looking.folder(root, cwd)
            file = looking.find(root, argv[0], path, cwd)
            if file is None or not looking.needs_shell(root, file):
                return argv
            name = argv[0] if "/" in argv[0] else file.decode("utf-8", "surrogateescape")
            return (_SHELL, name, *argv[1:])
        finally:
            root.close()

    def _record(self, spawn: Spawn, argv: tuple[str, ...]) -> dict[str, object]:
        words = (*argv, *spawn.env, *spawn.env.values(), spawn.cwd)
        if any("\ud800" <= one <= "\udfff" for word in words for one in word):
            # A runtime's record is text: another name would be put in this one's place, without a word.
            raise OSError(errno.EILSEQ, "words that are not UTF-8 cannot be handed to an OCI runtime")
        record: dict[str, object] = {
            "terminal": spawn.size is not None,
            "user": {"uid": self._process.uid, "gid": self._process.gid, "additionalGids": []},
            "args": list(argv),
            "env": [f"{name}={value}" for name, value in spawn.env.items()],
            "cwd": spawn.cwd,
            "capabilities": {
                kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
            },
            "noNewPrivileges": True,
            "rlimits": [
                {"type": kind, "soft": soft, "hard": hard} for kind, soft, hard in self._process.limits
            ],
        }
        if spawn.size is not None:
            record["consoleSize"] = {"height": spawn.size[0], "width": spawn.size[1]}
        return record


def _run(words: list[str], fds: tuple[int, ...]) -> int:
    """The exit code of a runtime that was given ``fds`` as its streams; nothing else stays open in it.

    ``OSError`` ETIMEDOUT when it takes too long: the box's own processes can stop what enters, once it is one
    of them.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            null = os.open("/dev/null", os.O_RDWR)
            given = list(fds) or [null, null, null]
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in given]
            for target, fd in enumerate(high):
                os.dup2(fd, target)
            close_from(3)
            default_signals()
            os.execve(words[0], words, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})  # noqa: S606
        finally:
            os._exit(127)
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        ended = bool(poll.poll(_PATIENCE * 1000))
        if not ended:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(pidfd)
    if not ended:
        raise OSError(errno.ETIMEDOUT, f"it did not start within {_PATIENCE:.0f} s")
    return os.waitstatus_to_exitcode(status)


def default_signals() -> None:
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def receive_master(console: socket.socket) -> int:
    """The master of the terminal that the runtime made inside (runc, docs/terminals.md)."""
    console.settimeout(_PATIENCE)
    connection, _ = console.accept()
    with connection:
        _, ancillary, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(payload[:4])
            return numbers[0]
    raise OSError(errno.EPROTO, "the runtime sent no terminal")


_ERRNO = (
    (re.compile(r"no such file or directory|executable file not found|not found in", re.I), errno.ENOENT),
    (re.compile(r"permission denied", re.I), errno.EACCES),
    (re.compile(r"exec format error", re.I), errno.ENOEXEC),
    (re.compile(r"resource temporarily unavailable", re.I), errno.EAGAIN),
)


def failure(log: str, program: str) -> OSError:
    """What the runtime wrote into its log (JSON lines with ``msg``), as an error with a number."""
    text = ""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file.read(_LOG).splitlines():
                text = _message(line) or text
    except FileNotFoundError:
        text = "it wrote nothing"
    for pattern, number in _ERRNO:
        if pattern.search(text):
            return OSError(number, f"{program}: {text[:300]}")
    return OSError(errno.EIO, f"{program}: the runtime failed: {text[:300]}")


def _message(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return line.strip()
    return str(value.get("msg", "")) if isinstance(value, dict) else ""


def remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
