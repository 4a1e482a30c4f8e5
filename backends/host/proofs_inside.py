"""What a probe tries inside beside the proofs of every launch: actions that cost too much for each of them.

They are made before the box is forked, so that they know what the host looks like, and run by the process of
:mod:`backends.keeper.init_proofs`: two forks below the box's init, in the final state of every session.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable
from pathlib import Path

from backends.keeper.init_proofs import Failed, Promises, Proof
from backends.kernel import namespaces, pty, rlimits
from backends.kernel.denied import DENIED
from backends.kernel.rlimits import Limits
from backends.kernel.syscalls import number, syscall
from backends.record import NamedTuple

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
TIOCSTI = 0x5412  # ioctl_tty(2)
LISTED = ("198.51.100.7", 443)  # TEST-NET-2 of RFC 5737: nobody's, so nothing is ever sent there

CLAIMS: tuple[tuple[str, str, str], ...] = (  # id, text, what is lost without it
    (
        "denied",
        "What the policy denies below a grant is not there.",
        "a denied key below a granted folder could be read",
    ),
    ("landlock", "Landlock refuses what no rule allows.", "a hole in the mounts would be a hole in the box"),
    (
        "namespaces",
        "Every namespace is the box's own.",
        "what the host shares in one of them could be seen or changed",
    ),
    ("calls", "Every system call of the deny list is refused.", "calls that lead out of boxes could be made"),
    (
        "tiocsti",
        "Nothing can be typed into a terminal.",
        "a program could type commands for the next one to run",
    ),
    (
        "host-socket",
        "A socket on which the host listens is not reached.",
        "a daemon of the host could be asked to act",
    ),
    (
        "host-process",
        "No process of the host can be signalled.",
        "your programs could be stopped from inside",
    ),
    (
        "set-id",
        "No set-user-id bit can be set.",
        "a file could be left that gives its user's rights to others",
    ),
    ("processes-limit", "The limit of processes bites.", "a fork bomb would take the host down"),
)
LISTED_CLAIM = (
    "listed",
    "A listed destination is led to the relay.",
    "nothing could be reached, and a list would mean nothing",
)


class Outside(NamedTuple):
    """What of the host the proofs are to look for. Made before the fork."""

    inodes: tuple[tuple[str, int], ...]  # of our own namespaces
    denied: str  # a host path below a grant that the policy denies, "" when none was found
    abstract: str  # name of an abstract socket that listens
    process: int  # a process of the host that we could signal
    procs: int  # the limit of the policy
    listed: bool  # the policy has LISTED on its list

    @classmethod
    def seen(cls, denied: str, abstract: str, procs: int, *, listed: bool) -> Outside:
        """What the calling process sees."""
        inodes = tuple((name, namespaces.inode("self", name)) for name in NAMESPACES)
        return cls(inodes, denied, abstract, os.getpid(), procs, listed)


def proofs(outside: Outside) -> tuple[Proof, ...]:
    """The proofs, ready for :data:`backends.keeper.init_proofs.more`."""
    actions: dict[str, Callable[[], str]] = {
        "denied": lambda: _denied(outside.denied),
        "landlock": _landlock,
        "namespaces": lambda: _namespaces(outside.inodes),
        "calls": _calls,
        "tiocsti": _tiocsti,
        "host-socket": lambda: _host_socket(outside.abstract),
        "host-process": lambda: _host_process(outside.process),
        "set-id": _set_id,
        "processes-limit": lambda: _processes_limit(outside.procs),
        "listed": _listed,
    }
    rows = (*CLAIMS, LISTED_CLAIM) if outside.listed else CLAIMS
    return tuple((ident, text, _promised(actions[ident])) for ident, text, _ in rows)


def _promised(action: Callable[[], str]) -> Callable[[Promises], str]:
    return lambda _: action()


def _word(error: OSError) -> str:
    return os.strerror(error.errno or 0)


def _denied(path: str) -> str:
    if not path:
        raise Failed("no path below a grant was found that could be denied")
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return f"opening {path}: {_word(error)}"
    raise Failed(f"{path} could be opened")


def _landlock() -> str:
    """A device (0, 0), which is none: the file system lets everybody make one, Landlock nobody."""
    path = _own_name()
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(0, 0))
    except OSError as error:
        if error.errno == errno.EACCES:
            return f"mknod of a whiteout in /tmp, which the file system itself allows: {_word(error)}"
        raise Failed(f"mknod in /tmp: {_word(error)}, which is not Landlock's answer") from error
    path.unlink()
    raise Failed("a device could be made in /tmp")


def _own_name() -> Path:
    """A new name in the box's own /tmp."""
    return Path(f"/tmp/.cloche-proof-{os.urandom(8).hex()}")  # noqa: S108 (the box's own)


def _namespaces(host: tuple[tuple[str, int], ...]) -> str:
    shared = [name for name, inode in host if namespaces.inode("self", name) == inode]
    if shared:
        raise Failed(f"shared with the host: {', '.join(shared)}")
    return f"other ones than the host's: {', '.join(name for name, _ in host)}"


def _calls() -> str:
    tried = 0
    for row in DENIED:
        if number(row.name) is None:
            continue
        try:
            syscall(row.name, 0, 0, 0, 0, 0, 0)
        except OSError as error:
            if error.errno != row.errno:
                raise Failed(f"{row.name}: {_word(error)}, and not {os.strerror(row.errno)}") from error
        else:
            raise Failed(f"{row.name} went through")
        tried += 1
    return f"{tried} calls made, every one refused by the filter's own errno"


def _tiocsti() -> str:
    """On the controlling terminal of one's own session, where the kernel by itself would allow it."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        told = b"the terminal could not be had"
        try:
            os.setsid()
            master = pty.open_master()
            slave = pty.open_slave(master)
            fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
            told = b"+"
            fcntl.ioctl(slave, TIOCSTI, b"#")
        except OSError as error:
            told = _word(error).encode() if told == b"+" else told
        finally:
            os.write(writer, told)
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 200).decode()
    os.close(reader)
    os.waitpid(child, 0)
    if said == "+":
        raise Failed("a character could be typed")
    if said != os.strerror(errno.EPERM):
        raise Failed(f"TIOCSTI: {said}")
    return f"TIOCSTI on the own controlling terminal: {said}"


def _host_socket(abstract: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect("\0" + abstract)
        except OSError as error:
            return f"connect to an abstract socket of the host: {_word(error)}"
    raise Failed("an abstract socket of the host answers")


def _host_process(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return f"kill of the host's process {pid}: {_word(error)}"
    if pid <= 8:  # a number that the box itself may have
        return f"the host's process has the number {pid}, which is the box's own here"
    raise Failed(f"process {pid} of the host can be signalled")


def _set_id() -> str:
    path = _own_name()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        path.chmod(0o600 | stat.S_ISUID)
    except OSError as error:
        return f"chmod u+s of an own file: {_word(error)}"
    finally:
        path.unlink()
    raise Failed("a set-user-id bit could be set")


def _processes_limit(limit: int) -> str:
    """Forks under the limit that a session gets, until the kernel says no."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    parent = os.fork()
    if parent == 0:
        try:
            os.write(writer, struct.pack("=ii", *_fork_on(limit, reader)))
        finally:
            os._exit(0)
    os.close(writer)
    data = os.read(reader, 8)
    os.close(reader)
    os.waitpid(parent, 0)
    if len(data) < 8:
        raise Failed("the forking process gave no answer")
    made, code = struct.unpack("=ii", data)
    if code == 0:
        raise Failed(f"{made} processes could be made, {limit} are allowed")
    return f"after {made} forks under a limit of {limit}: {os.strerror(code)}"


def _fork_on(limit: int, unused: int) -> tuple[int, int]:
    os.close(unused)
    rlimits.apply(Limits(procs=limit))
    made: list[int] = []
    code = 0
    try:
        while len(made) <= limit + 2 and not code:
            try:
                pid = os.fork()
            except OSError as error:
                code = error.errno or errno.EAGAIN
                break
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            made.append(pid)
    finally:
        for pid in made:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return len(made), code


def _listed() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        probe.connect(LISTED)
    return f"connect to {LISTED[0]} port {LISTED[1]}, which is on the list: it goes through"
