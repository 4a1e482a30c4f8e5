"""All attacks in one session, run by the python3 of a box and of an image: prints JSON, one word for each.

Needs nothing but the standard library. The only argument is JSON: numbers of system calls, and what the host
holds ready (a file, sockets, a port). Each attack has a process of its own, so that one that succeeds, hangs
or is ended changes nothing for the next. The word is ``ok`` where the attack went through, the name of the
error, ``SIG...`` where the attacker was ended, or a word of the attack's own.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import json
import mmap
import os
import pty
import resource
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable
from typing import Any

GIVEN: dict[str, Any] = json.loads(sys.argv[1])
NR: dict[str, int] = GIVEN["numbers"]
USER, MOUNT, NET = 0x10000000, 0x20000, 0x40000000
CHILD = 17  # SIGCHLD, which a fork by clone(2) asks for
FIRST = 1  # pid
FORKS = 120  # twice what the policy allows
ATTACKS: dict[str, Callable[[], object]] = {}

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_long] * 7


def attack(ident: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def add(act: Callable[[], object]) -> Callable[[], object]:
        ATTACKS[ident] = act
        return act

    return add


def call(number: int, *args: object) -> int:
    held = [ctypes.create_string_buffer(one) if isinstance(one, bytes) else one for one in args]
    words = [ctypes.addressof(one) if isinstance(one, ctypes.Array) else one for one in held]
    ctypes.set_errno(0)
    got = int(libc.syscall(number, *words, *[0] * (6 - len(words))))
    if got < 0:
        raise OSError(ctypes.get_errno(), "")
    return got


def word(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        names = {value: name for name, value in vars(socket).items() if name.startswith("EAI_")}
        return names.get(error.errno, str(error.errno))
    if isinstance(error, TimeoutError) and error.errno is None:
        return "no answer"
    return errno.errorcode.get(error.errno or 0, str(error))


def run(act: Callable[[], object]) -> str:
    try:
        got = act()
    except OSError as error:
        return word(error)
    except MemoryError:
        return "ENOMEM"
    return got if isinstance(got, str) else "ok"


def apart(act: Callable[[], object], patience: float) -> str:
    """The word for ``act``, done by a process of its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.write(writer, run(act).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode()[:200])
        finally:
            os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], patience)
    said = os.read(reader, 4096).decode() if ready else "hangs"
    os.close(reader)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if not said and os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return said or "nothing"


# ---- files of the host


def write(path: str, data: str = "x") -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(fd, data.encode())
    finally:
        os.close(fd)


def read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY)
    try:
        return "ok" if os.read(fd, 8) else "empty"
    finally:
        os.close(fd)


ATTACKS["write-outside"] = lambda: write(GIVEN["file"])
ATTACKS["read-outside"] = lambda: read(GIVEN["file"])
ATTACKS["write-system"] = lambda: write("/usr/cloche-attack")
ATTACKS["read-shadow"] = lambda: read("/etc/shadow")


@attack("host-processes")
def _host_processes() -> str:
    wanted = GIVEN["marker"][::-1].encode()  # backwards, for the attacker's own arguments not to have it
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if wanted in file.read():
                        return "ok"
            except OSError:
                continue
    return "absent"


ATTACKS["first-memory"] = lambda: read("/proc/1/mem")
ATTACKS["first-root"] = lambda: os.readlink("/proc/1/root") and None
ATTACKS["kernel-memory"] = lambda: read("/proc/kcore")
ATTACKS["kernel-settings"] = lambda: write("/proc/sys/kernel/core_pattern", "|/work/x")
ATTACKS["sysrq"] = lambda: write("/proc/sysrq-trigger", "?")
ATTACKS["sys-write"] = lambda: write("/sys/kernel/cloche-attack")
ATTACKS["cgroup-write"] = lambda: os.mkdir("/sys/fs/cgroup/cloche-attack")


# ---- mounts, namespaces, other processes


def mount(place: bytes = b"/tmp") -> None:
    call(NR["mount"], b"none", place, b"tmpfs", 0, 0)


ATTACKS["mount"] = mount
ATTACKS["unshare-user"] = lambda: call(NR["unshare"], USER)
ATTACKS["unshare-net"] = lambda: call(NR["unshare"], NET)


@attack("unshare-mount")
def _unshare_mount() -> None:
    call(NR["unshare"], USER | MOUNT)
    mount()


@attack("clone3")
def _clone3() -> None:
    fields = [USER, 0, 0, 0, CHILD, 0, 0, 0]
    if call(NR["clone3"], struct.pack("8Q", *fields), 64) == 0:
        os._exit(0)
    os.wait()


@attack("setns")
def _setns() -> None:
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    call(NR["setns"], fd, NET)


ATTACKS["ptrace-first"] = lambda: call(NR["ptrace"], 16, FIRST)  # PTRACE_ATTACH


@attack("ptrace-own")
def _ptrace_own() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    try:
        call(NR["ptrace"], 16, pid)
    finally:
        os.kill(pid, signal.SIGKILL)


ATTACKS["kill-first"] = lambda: os.kill(FIRST, signal.SIGKILL)
ATTACKS["limit-first"] = lambda: resource.prlimit(FIRST, resource.RLIMIT_NOFILE, (3, 3)) and None


# ---- sockets and networks


def make(family: int, kind: int, protocol: int) -> None:
    socket.socket(family, kind, protocol).close()


for _ident, _socket in {
    "socket-raw": (2, 3, 1), "socket-packet": (17, 3, 0), "socket-vsock": (40, 1, 0),
    "socket-alg": (38, 5, 0), "socket-netfilter": (16, 3, 12), "socket-route": (16, 3, 0),
}.items():  # fmt: skip
    ATTACKS[_ident] = functools.partial(make, *_socket)


def connect(address: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect((address, port))


def unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(address)


@attack("udp")
def _udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("192.0.2.1", 53))


ATTACKS["host-abstract"] = lambda: unix("\0" + GIVEN["abstract"])
ATTACKS["host-path"] = lambda: unix(GIVEN["path"])
ATTACKS["host-loopback"] = lambda: connect("127.0.0.1", GIVEN["port"])
ATTACKS["host-address"] = lambda: connect(GIVEN["address"], GIVEN["port"])
ATTACKS["connect-v4"] = lambda: connect("192.0.2.1", 443)
ATTACKS["connect-v6"] = lambda: connect("2001:db8::1", 443)
ATTACKS["connect-mapped"] = lambda: connect("::ffff:192.0.2.1", 443)
ATTACKS["dns"] = lambda: socket.getaddrinfo("example.org", 443) and None


# ---- devices and set-id bits


@attack("mknod")
def _mknod() -> None:
    os.mknod("attack-device", 0o020666, os.makedev(1, 3))


@attack("set-id")
def _set_id() -> None:
    write("attack-set-id")
    call(NR["chmod"] if "chmod" in NR else NR["fchmodat"], *_chmod_words())


def _chmod_words() -> tuple[object, ...]:
    return (b"attack-set-id", 0o4755) if "chmod" in NR else (-100, b"attack-set-id", 0o4755)


# ---- the kernel's wide doors

ATTACKS["keyctl"] = lambda: call(NR["keyctl"], 0, -3, 1)  # the session's keyring, made
ATTACKS["bpf"] = lambda: call(NR["bpf"], 0, struct.pack("4I", 2, 4, 4, 1) + bytes(56), 72)  # a map
_CLOCK = struct.pack("2I5Q", 1, 112, 0, 0, 0, 0, 0x60) + bytes(64)  # a clock of one's own, no kernel in it
ATTACKS["perf"] = lambda: call(NR["perf_event_open"], _CLOCK, 0, -1, -1, 0)
ATTACKS["io_uring"] = lambda: call(NR["io_uring_setup"], 8, bytes(120))
ATTACKS["userfaultfd"] = lambda: call(NR["userfaultfd"], 1)


@attack("tiocsti")
def _tiocsti() -> None:
    master, slave = pty.openpty()
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    try:
        fcntl.ioctl(slave, termios.TIOCSTI, b"x")
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.close(master)


if os.uname().machine == "x86_64":
    ATTACKS["x32"] = lambda: call(0x40000000 | 39)

    @attack("i386")
    def _i386() -> str:
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
        act = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        return "ok" if act() == os.getpid() else "ENOSYS"


# ---- limits


@attack("forks")
def _forks() -> str:
    held: list[int] = []
    said = "ok"
    try:
        for _ in range(FORKS):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            held.append(pid)
    except OSError as error:
        said = word(error)
    for pid in held:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return said


def fill(path: str, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        left = size
        while left > 0:
            left -= os.write(fd, bytes(min(left, 1 << 20)))
    finally:
        os.close(fd)
        os.unlink(path)


@attack("tmp-size")
def _tmp() -> str:
    """Files each below the size that one may have; together they are too much."""
    try:
        for number in range(6):
            fd = os.open(f"/tmp/attack-{number}", os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(fd, bytes(2 << 20))
            os.write(fd, bytes(1 << 20))
            os.close(fd)
    finally:
        for number in range(6):
            if os.path.exists(f"/tmp/attack-{number}"):
                os.unlink(f"/tmp/attack-{number}")
    return "ok"


ATTACKS["file-size"] = lambda: fill("attack-large", 6 << 20)


@attack("memory")
def _memory() -> None:
    held = []
    for _ in range(GIVEN["memory"] // (8 << 20)):
        held.append(bytearray(b"x") * (8 << 20))
    time.sleep(20)  # where somebody looks at times whether it is too much, it is still there


@attack("daemon")
def _daemon() -> None:
    """Two forks, a session of its own, deaf to signals; it beats in a file as long as it lives."""
    if os.fork():
        while not os.path.exists("/work/attack-beat") or not os.path.getsize("/work/attack-beat"):
            time.sleep(0.05)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    code = (
        "import os, signal, time\n"
        "for one in (1, 2, 15): signal.signal(one, signal.SIG_IGN)\n"
        "fd = os.open('/work/attack-beat', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n"
        "while True: os.write(fd, b'.'); time.sleep(0.1)\n"
    )
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, 64)
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", code, GIVEN["daemon"]])


def main() -> None:
    os.chdir("/work")
    alone = set(GIVEN["alone"])
    wanted = GIVEN["attacks"] or [one for one in ATTACKS if one not in alone]
    print(json.dumps({ident: apart(ATTACKS[ident], 60.0 if ident in alone else 20.0) for ident in wanted}))


main()
