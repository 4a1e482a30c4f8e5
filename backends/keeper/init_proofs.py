"""What init tries before anything else runs in the box: each promise as an action that must fail.

All is tried in the final state, by a process two forks below init and in a session of its own: what holds
there holds for every descendant. A tier lists its promises; a result other than ``proved`` ends the launch.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from backends import injected
from backends.kernel import namespaces
from backends.kernel.capabilities import CAPABILITY_SETS
from backends.kernel.syscalls import syscall
from backends.record import NamedTuple
from backends.values import Claim

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import NoReturn

PROVED, FAILED = "proved", "failed"
PATIENCE = 10.0  # seconds for all proofs
EACH = 8.0  # seconds for one of them: a proof that hangs is one that failed, and is named
_NOBODYS_HOST = ("192.0.2.1", 9)  # TEST-NET-1 of RFC 5737, discard


class Promises(NamedTuple):
    """What the box's init has to show. Paths as they are named inside."""

    read_only: tuple[str, ...]  # folders where nothing can be made
    absent: tuple[str, ...]  # host paths that must not be there
    writable: tuple[str, ...]  # folders where the box must be able to work
    network: str  # deny: an empty namespace; host: the host's
    loopback: bool
    sizes: tuple[tuple[str, int], ...]  # private folders and their bounds in bytes
    host_network: int  # inode of the host's network namespace
    refused: tuple[tuple[str, int], ...] = ()  # destinations that a private network must refuse at once


Proof = tuple[str, str, Callable[[Promises], str]]
"""Id, claim, and the action: it returns its evidence, or raises ``Failed`` or ``OSError``."""

more: tuple[Proof, ...] = ()
"""What a probe has tried beside :data:`PROOFS`; set in its own process before it launches a box."""


class Failed(Exception):
    """An attempt went through that a promise says cannot."""


class Proving:
    """Every proof, at work in a process of its own from the start on."""

    def __init__(self, promises: Promises) -> None:
        self._reader, writer = os.pipe2(os.O_CLOEXEC)
        if os.fork() == 0:
            _descend(promises, writer)
        os.close(writer)

    def result(self) -> tuple[Claim, ...]:
        """The claims with what came of them; called once. Never raises for a broken promise."""
        try:
            data = _read(self._reader)
        finally:
            os.close(self._reader)
            _reap()
        if not data:
            text = "the proving process gave no answer"
            return (_claim("proofs", "The proofs run.", FAILED, text, PATIENCE),)
        return tuple(Claim(*row) for row in json.loads(data))


def _reap() -> None:
    """Waits for the prover and the orphans that became ours: no session has started yet."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _claim(ident: str, text: str, result: str, evidence: str, duration: float) -> Claim:
    return Claim(ident, text, result, evidence, round(duration, 6))


def _read(reader: int) -> bytes:
    out = bytearray()
    deadline = time.monotonic() + PATIENCE
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return b""
        chunk = os.read(reader, 65536)
        if not chunk:
            return bytes(out)
        out += chunk


def _descend(promises: Promises, writer: int) -> NoReturn:
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.write(writer, json.dumps(_all(promises)).encode())
    finally:
        os._exit(0)


def _all(promises: Promises) -> list[Claim]:
    signal.signal(signal.SIGALRM, _too_long)
    proofs = {row[0]: row for row in (*PROOFS, *more)}
    order = [*ORDER, *(row[0] for row in more)]
    claims = {ident: _one(*proofs[ident], promises) for ident in order}
    return [claims[ident] for ident in proofs]


def _one(ident: str, text: str, proof: Callable[[Promises], str], promises: Promises) -> Claim:
    began = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, EACH)
    try:
        if injected.meant("hang", ident):
            time.sleep(PATIENCE)
        result, evidence = PROVED, proof(promises)
        if injected.meant("proof", ident):
            raise Failed(f"it was to fail{injected.MARK}; else: {evidence}")
    except Failed as failure:
        result, evidence = FAILED, str(failure)
    except OSError as error:
        result, evidence = FAILED, f"could not be tried: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _claim(ident, text, result, evidence, time.perf_counter() - began)


def _too_long(*_: object) -> NoReturn:
    raise Failed(f"it gave no answer within {EACH:g} s{injected.MARK if injected.how('hang') else ''}")


def _errno(error: OSError) -> str:
    return os.strerror(error.errno or 0)


def _fresh(folder: str) -> str:
    """A name that nobody can have taken before, neither a box that was here nor a host."""
    return f"{folder}/.cloche-proof-{os.urandom(8).hex()}"


def _write_outside(promises: Promises) -> str:
    # A file in one folder and a folder in all: the keeper is asked about each open for writing, and waits.
    path = _fresh(promises.read_only[0])
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        last = f"creating {path}: {_errno(error)}"
    else:
        os.unlink(path)
        raise Failed(f"{path} could be created")
    for folder in promises.read_only:
        path = _fresh(folder)
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            last = f"creating {path}: {_errno(error)}"
        else:
            os.rmdir(path)
            raise Failed(f"{path} could be created")
    return f"{last} ({len(promises.read_only)} folders tried)"


def _work_inside(promises: Promises) -> str:
    for folder in promises.writable:
        path = _fresh(folder)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(path)
    return f"created and removed a file in {', '.join(promises.writable)}"


def _absent(promises: Promises) -> str:
    for path in promises.absent:
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Failed(f"{path} is there: {_errno(error)}") from error
        raise Failed(f"{path} is there")
    return f"{len(promises.absent)} host paths looked up, the box's own folder among them: no such file"


def _bounded(promises: Promises) -> str:
    told = []
    for path, size in promises.sizes:
        found = os.statvfs(path)
        if not 0 < found.f_blocks * found.f_frsize <= size + found.f_frsize or found.f_files == 0:
            raise Failed(f"{path} has {found.f_blocks * found.f_frsize} bytes")
        told.append(f"{path} {found.f_blocks * found.f_frsize} bytes, {found.f_files} files")
    return "; ".join(told)


def _refused(name: str, *arguments: int | bytes | None) -> str:
    try:
        syscall(name, *arguments)
    except OSError as error:
        return f"{name}: {_errno(error)}"
    raise Failed(f"{name} went through")


def _mount(_: Promises) -> str:
    tried = _refused("mount", b"none\0", b"/tmp\0", b"tmpfs\0", 0, None)
    return f"{tried}; {_refused('umount2', b'/proc' + bytes(1), 0)}"


def _user_namespace(_: Promises) -> str:
    return _refused("unshare", namespaces.CLONE_NEWUSER)


def _sockets(_: Promises) -> str:
    tried = []
    for name, family, protocol in (("AF_PACKET", 17, 0x300), ("AF_INET SOCK_RAW", socket.AF_INET, 1)):
        try:
            socket.socket(family, socket.SOCK_RAW, protocol).close()
        except OSError as error:
            tried.append(f"{name}: {_errno(error)}")
        else:
            raise Failed(f"a socket of {name} could be opened")
    return "; ".join(tried)


def _network(promises: Promises) -> str:
    own = namespaces.inode("self", "net")
    if promises.network == "host":
        if own != promises.host_network:
            raise Failed("the network namespace is not the host's")
        return "the network namespace is the host's, as asked"
    if own == promises.host_network:
        raise Failed("the network namespace is the host's")
    names = sorted(name for _, name in socket.if_nameindex())
    # Kernels with tunnel modules give every new namespace their fallback interfaces, which are down.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        up = [name for name in names if namespaces.interface_flags(probe, name) & namespaces.IFF_UP]
    if up != (["lo"] if promises.loopback else []):
        raise Failed(f"interfaces that are up: {', '.join(up) or 'none'}")
    if promises.refused:
        return _private(promises)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(_NOBODYS_HOST)
        except OSError as error:
            return f"interfaces up: {', '.join(up) or 'none'}; connect to {_NOBODYS_HOST[0]}: {_errno(error)}"
    raise Failed(f"connect to {_NOBODYS_HOST[0]} went through")


def _private(promises: Promises) -> str:
    """In a network with a list, what is off the list is refused at once, and the box's own loopback works."""
    told = []
    for address, port in promises.refused:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((address, port)) != errno.ECONNREFUSED:
                raise Failed(f"connect to {address} port {port} was not refused")
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.sendto(b"cloche", (address, port))
            except PermissionError:
                told.append(f"{address} port {port}")
            else:
                raise Failed(f"a datagram to {address} port {port} was not refused")
        with socket.socket(family, socket.SOCK_STREAM) as server, socket.socket(family) as client:
            server.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
            server.listen(1)
            client.settimeout(1.0)
            client.connect(server.getsockname())
    return f"TCP and UDP to {', '.join(told)}: refused at once; the box's loopback answers"


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def _capabilities(_: Promises) -> str:
    status = _status()
    held = [name for name in CAPABILITY_SETS if int(status.get(name, "1"), 16)]
    if held:
        raise Failed(f"not empty: {', '.join(held)}")
    return f"{', '.join(CAPABILITY_SETS)} are 0"


def _filter(_: Promises) -> str:
    status = _status()
    if status.get("NoNewPrivs") != "1" or status.get("Seccomp") != "2":
        raise Failed(f"NoNewPrivs {status.get('NoNewPrivs')}, Seccomp {status.get('Seccomp')}")
    return "NoNewPrivs 1, Seccomp 2"


def _processes(_: Promises) -> str:
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    if pids[0] != 1 or len(pids) > 8:
        raise Failed(f"{len(pids)} processes are in sight, the lowest is {pids[0]}")
    try:
        os.close(os.open("/proc/1/mem", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return f"{len(pids)} processes in sight, all the box's; /proc/1/mem: {_errno(error)}"
    raise Failed("/proc/1/mem could be opened")


def _inherited(_: Promises) -> str:
    if os.getppid() != 1:
        # The middle process may still be ending: an orphan belongs to init then.
        deadline = time.monotonic() + 1.0
        while os.getppid() != 1 and time.monotonic() < deadline:
            time.sleep(0.001)
    if os.getppid() != 1:
        raise Failed(f"the orphan's parent is {os.getppid()}")
    return "all of these were tried by a double-forked process in its own session, whose parent is init now"


PROOFS = (
    ("write-outside", "Nothing outside the box's own folders can be written.", _write_outside),
    ("work-inside", "The box's own folders can be written.", _work_inside),
    ("bounded", "The private folders in memory are bounded.", _bounded),
    ("absent", "What was not granted is not there.", _absent),
    ("mount", "No mount can be made or removed.", _mount),
    ("user-namespace", "No new user namespace can be made.", _user_namespace),
    ("sockets", "Raw and packet sockets are refused.", _sockets),
    ("network", "The network is what the policy says.", _network),
    ("capabilities", "No capability is left.", _capabilities),
    ("filter", "The system call filter is active and no exec adds a privilege.", _filter),
    ("processes", "Only the box's processes are in sight, and its init is closed to them.", _processes),
    ("inherited", "The boundary follows every descendant.", _inherited),
)
# First what the kernel decides alone: the keeper, which is asked about the rest, is just becoming ready to.
ORDER = (
    "bounded", "absent", "network", "capabilities", "filter", "inherited",
    "processes", "work-inside", "write-outside", "mount", "user-namespace", "sockets",
)  # fmt: skip
DESCRIPTORS = ("descriptors", "A session starts with descriptors 0, 1 and 2 only.")
LIMITS = ("limits", "A session starts with the limits of one process set.")
CLAIMS: tuple[tuple[str, str], ...] = (
    *((ident, text) for ident, text, _ in PROOFS),
    DESCRIPTORS,
    LIMITS,
)
