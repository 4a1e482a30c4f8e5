"""The system call filter of a confined process: built from the table of refusals, installed with a listener.

Refusals that are to be counted are notifications (seccomp_unotify(2)): the keeper answers them with the errno
of :func:`classify`, which mirrors the filter. Were they plain errors the kernel would not ask, since
``SECCOMP_RET_ERRNO`` outranks ``SECCOMP_RET_USER_NOTIF``. With no listener the kernel answers ``ENOSYS``: the
filter fails closed. What is only observed (opens, execs, connects) is let go on by the keeper; its arguments
lie in memory that the caller can change, so other means enforce there (Landlock, mounts, namespaces).
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence

from backends.kernel import syscalls
from backends.kernel.bpf import SECCOMP_DATA_ARCH, SECCOMP_DATA_NR, Assembler, high, low
from backends.kernel.denied import BY_NAME, DENIED
from backends.kernel.syscalls import AARCH64, PR_SET_NO_NEW_PRIVS, X86_64, number, prctl, syscall
from backends.record import NamedTuple

RET_KILL_PROCESS = 0x80000000
RET_ERRNO = 0x00050000
RET_USER_NOTIF = 0x7FC00000
RET_ALLOW = 0x7FFF0000

AUDIT_ARCH = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
X32_SYSCALL_BIT = 0x40000000  # __X32_SYSCALL_BIT: a second table of the same calls

SET_MODE_FILTER = 1
FILTER_FLAG_NEW_LISTENER = 1 << 3
FILTER_FLAG_WAIT_KILLABLE_RECV = 1 << 5  # Linux 5.19

# CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET. CLONE_NEWTIME shares its bit with the
# exit signal in clone(2), where the kernel ignores it.
CLONE_NEW = 0x7E020000
CLONE_NEWTIME = 0x80

TIOCSTI = 0x5412
TIOCLINUX = 0x541C
TIOCSETD = 0x5423
IOCTLS = {TIOCSTI: "TIOCSTI", TIOCLINUX: "TIOCLINUX", TIOCSETD: "TIOCSETD"}

PER_LINUX = 0
ADDR_NO_RANDOMIZE = 0x0040000
PERSONALITY_QUERY = 0xFFFFFFFF
PERSONALITIES = (PER_LINUX, ADDR_NO_RANDOMIZE, PERSONALITY_QUERY)

SET_ID = 0o6000  # S_ISUID | S_ISGID
O_WRITE = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY | O_RDWR | O_CREAT | O_TRUNC
O_MAKES = 0o100 | 0o20000000  # O_CREAT | __O_TMPFILE: only then the kernel reads a mode

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES = {
    1: "AF_UNIX", 2: "AF_INET", 3: "AF_AX25", 4: "AF_IPX", 5: "AF_APPLETALK", 9: "AF_X25", 10: "AF_INET6",
    15: "AF_KEY", 16: "AF_NETLINK", 17: "AF_PACKET", 21: "AF_RDS", 24: "AF_PPPOX", 29: "AF_CAN",
    30: "AF_TIPC", 31: "AF_BLUETOOTH", 36: "AF_IEEE802154", 38: "AF_ALG", 39: "AF_NFC", 40: "AF_VSOCK",
    41: "AF_KCM",
    43: "AF_SMC", 44: "AF_XDP", 45: "AF_MCTP",
}  # fmt: skip
SOCK_TYPE = 0xF  # SOCK_TYPE_MASK
SOCK_STREAM, SOCK_DGRAM = 1, 2
TYPES = {
    1: "SOCK_STREAM",
    2: "SOCK_DGRAM",
    3: "SOCK_RAW",
    4: "SOCK_RDM",
    5: "SOCK_SEQPACKET",
    10: "SOCK_PACKET",
}
IP_PROTOCOLS = (0, 6, 17)  # unset, IPPROTO_TCP, IPPROTO_UDP
PROTOCOLS = {
    1: "ICMP",
    6: "TCP",
    17: "UDP",
    58: "ICMPV6",
    132: "SCTP",
    136: "UDPLITE",
    255: "RAW",
    262: "MPTCP",
}
NETLINK_ROUTE = 0

# Calls with a mode: (name, index of the mode, index of the flags that say whether it is read, or None).
MODE_CALLS: tuple[tuple[str, int, int | None], ...] = (
    ("chmod", 1, None),
    ("fchmod", 1, None),
    ("fchmodat", 2, None),
    ("fchmodat2", 2, None),
    ("mknod", 1, None),
    ("mknodat", 2, None),
    ("creat", 1, None),
    ("open", 2, 1),
    ("openat", 3, 2),
)
OPEN_CALLS = ("creat", "open", "openat")
RENAME_CALLS = ("rename", "renameat", "renameat2")

# Calls that change a process by its number: (name, index of the pid, index of the kind of number or None, the
# kind that means every process of a user). The kernel asks for nothing but the same uid.
INIT = 1
CHANGE_CALLS: tuple[tuple[str, int, int | None, int], ...] = (
    ("prlimit64", 0, None, 0),
    ("sched_setaffinity", 0, None, 0),
    ("sched_setattr", 0, None, 0),
    ("sched_setparam", 0, None, 0),
    ("sched_setscheduler", 0, None, 0),
    ("setpriority", 1, 0, 2),  # PRIO_USER
    ("ioprio_set", 1, 0, 3),  # IOPRIO_WHO_USER
)


class FilterSpec(NamedTuple):
    """What one box's filter asks about, beside the table of refusals."""

    opens: str = "writes"  # none, writes, all: which opens are notified
    execs: bool = True
    connects: bool = True  # connect, and sendto with an address
    unix: bool = True  # AF_UNIX sockets inside
    debug: bool = False  # ptrace and its like inside
    renames: bool = False  # asked about where the tree is an overlay, which cannot move a folder by itself


class Notice(NamedTuple):
    """What one notification is: ``errno`` to refuse it with, or ``None`` to let it go on."""

    kind: str  # syscall, socket, open, exec, connect, rename
    call: str
    detail: str  # for refusals: what was asked, in kernel names
    errno: int | None


_built: dict[tuple[FilterSpec, str], bytes] = {}


def build(spec: FilterSpec, arch: str | None = None) -> bytes:
    """The filter for ``spec`` as an array of ``struct sock_filter``; assembled once in a process.

    Not kept on disk: whoever could write there would decide what a box may call.
    """
    where = arch or syscalls.architecture()
    if (spec, where) not in _built:
        _built[spec, where] = _assembled(spec, where)
    return _built[spec, where]


def _assembled(spec: FilterSpec, where: str) -> bytes:
    asm = Assembler()
    asm.load(SECCOMP_DATA_ARCH)
    asm.equal(AUDIT_ARCH[where], "native")
    asm.ret(RET_KILL_PROCESS)  # 32-bit calls have other numbers, no table and no user here
    asm.label("native")
    asm.load(SECCOMP_DATA_NR)
    if where == X86_64:
        asm.at_least(X32_SYSCALL_BIT, "enosys")
    for name, target in _dispatch(spec):
        value = number(name, where)
        if value is not None:
            asm.equal(value, target)
    asm.ret(RET_ALLOW)
    _argument_blocks(asm, spec)
    asm.label("enosys")
    asm.ret(RET_ERRNO | errno.ENOSYS)
    asm.label("notify")
    asm.ret(RET_USER_NOTIF)
    asm.label("allow")
    asm.ret(RET_ALLOW)
    return asm.assemble()


def _dispatch(spec: FilterSpec) -> list[tuple[str, str]]:
    """Pairs of a call and the label that judges it, the frequent ones first."""
    pairs = [("openat", "open-2"), ("open", "open-1"), ("ioctl", "ioctl"), ("clone", "clone")]
    if spec.execs:
        pairs += [("execve", "notify"), ("execveat", "notify")]
    if spec.connects:
        pairs += [("connect", "notify"), ("sendto", "sendto")]
    pairs += [("socket", "socket"), ("socketpair", "socketpair")]
    pairs += [("creat", "notify" if spec.opens != "none" else "mode-1")]
    pairs += [(name, f"mode-{mode}") for name, mode, flags in MODE_CALLS if flags is None and name != "creat"]
    pairs += [("unshare", "unshare"), ("personality", "personality")]
    pairs += [(name, f"change-{kind}") for name, _, _, kind in CHANGE_CALLS]
    if spec.renames:
        pairs += [(name, "notify") for name in RENAME_CALLS]
    for row in DENIED:
        if not (row.debug and spec.debug):
            pairs.append((row.name, "notify" if row.counted else "enosys"))
    return pairs


def _argument_blocks(asm: Assembler, spec: FilterSpec) -> None:
    for flags in (2, 1):
        asm.label(f"open-{flags}")
        if spec.opens == "all":
            asm.ret(RET_USER_NOTIF)
            continue
        asm.load(low(flags))
        if spec.opens == "writes":
            asm.any_bit(O_WRITE, "notify")
        # A set-id bit counts only where the kernel reads the mode; elsewhere the register holds anything.
        asm.any_bit(O_MAKES, f"mode-{flags + 1}")
        asm.ret(RET_ALLOW)
    for argument in (1, 2, 3):
        asm.label(f"mode-{argument}")
        asm.load(low(argument))
        asm.any_bit(SET_ID, "notify")
        asm.ret(RET_ALLOW)
    asm.label("ioctl")
    asm.load(low(1))  # the kernel reads 32 bits of the request: bits above must not matter here either
    for request in IOCTLS:
        asm.equal(request, "notify")
    asm.ret(RET_ALLOW)
    asm.label("clone")
    asm.load(low(0))
    asm.any_bit(CLONE_NEW, "notify")
    asm.ret(RET_ALLOW)
    asm.label("unshare")
    asm.load(low(0))
    asm.any_bit(CLONE_NEW | CLONE_NEWTIME, "notify")
    asm.ret(RET_ALLOW)
    asm.label("personality")
    asm.load(low(0))
    for persona in PERSONALITIES:
        asm.equal(persona, "allow")
    asm.ret(RET_USER_NOTIF)
    # The 32 bits of a pid_t. A number of another kind (a group of init's number) reaches nobody.
    for argument, which, kind in sorted(
        {(pid, which, kind) for _, pid, which, kind in CHANGE_CALLS}, key=str
    ):
        asm.label(f"change-{kind}")
        if which is not None:
            asm.load(low(which))
            asm.equal(kind, "notify")
        asm.load(low(argument))
        asm.equal(INIT, "notify")
        asm.ret(RET_ALLOW)
    asm.label("sendto")
    for half in (low(4), high(4)):
        asm.load(half)
        asm.any_bit(0xFFFFFFFF, "notify")
    asm.ret(RET_ALLOW)
    _socket_blocks(asm, spec)


def _socket_blocks(asm: Assembler, spec: FilterSpec) -> None:
    asm.label("socket")
    asm.load(low(0))
    if spec.unix:
        asm.equal(AF_UNIX, "allow")
    asm.equal(AF_INET, "ip")
    asm.equal(AF_INET6, "ip")
    asm.equal(AF_NETLINK, "netlink")
    asm.ret(RET_USER_NOTIF)
    asm.label("socketpair")
    # Pairs reach nobody: they stay, also where sockets with a name do not.
    asm.load(low(0))
    asm.equal(AF_UNIX, "allow")
    asm.ret(RET_USER_NOTIF)
    asm.label("ip")
    asm.load(low(1))
    asm.mask(SOCK_TYPE)
    asm.equal(SOCK_STREAM, "ip-protocol")
    asm.equal(SOCK_DGRAM, "ip-protocol")
    asm.ret(RET_USER_NOTIF)
    asm.label("ip-protocol")
    asm.load(low(2))
    for protocol in IP_PROTOCOLS:
        asm.equal(protocol, "allow")
    asm.ret(RET_USER_NOTIF)
    asm.label("netlink")
    asm.load(low(2))
    asm.equal(NETLINK_ROUTE, "allow")
    asm.ret(RET_USER_NOTIF)


def classify(spec: FilterSpec, nr: int, args: Sequence[int], arch: str | None = None) -> Notice:
    """What a notification of ``nr`` with ``args`` is under ``spec``.

    Only registers are judged, never memory: a refusal here cannot be raced. A call that the filter does not
    know how to ask about is refused.
    """
    name = syscalls.names(arch).get(nr, f"syscall {nr}") if arch else _name(nr)
    words = [value & 0xFFFFFFFF for value in args]
    if name in ("socket", "socketpair"):
        return _classify_socket(spec, name, words)
    if name in ("execve", "execveat"):
        return Notice("exec", name, "", None)
    if name in ("connect", "sendto"):
        return Notice("connect", name, "", None)
    if name in RENAME_CALLS:
        return Notice("rename", name, "", None)
    for call, mode, flags in MODE_CALLS:
        if name == call and (flags is None or words[flags] & O_MAKES) and words[mode] & SET_ID:
            return Notice(
                "syscall", name, f"{name} with a set-id bit, mode {words[mode] & 0o7777:04o}", errno.EPERM
            )
    if name in OPEN_CALLS:
        return Notice("open", name, "", None)
    detail = name
    if name == "ioctl":
        detail = f"ioctl {IOCTLS.get(words[1], hex(words[1]))}"
    elif name in ("clone", "unshare"):
        detail = f"{name} of a new namespace, flags {words[0]:#x}"
    elif any(name == call for call, *_ in CHANGE_CALLS):
        detail = f"{name} of the box's init"
    elif name == "personality":
        detail = f"personality {words[0]:#x}"
    row = BY_NAME.get(name)
    return Notice("syscall", name, detail, row.errno if row else errno.EPERM)


_NAMES: dict[int, str] = {}


def _name(nr: int) -> str:
    if not _NAMES:
        _NAMES.update(syscalls.names())
    return _NAMES.get(nr, f"syscall {nr}")


def _classify_socket(spec: FilterSpec, name: str, words: Sequence[int]) -> Notice:
    family, kind, protocol = words[0], words[1] & SOCK_TYPE, words[2]
    shown = f"{FAMILIES.get(family, family)} {TYPES.get(kind, kind)}"
    if protocol:
        shown += f" {PROTOCOLS.get(protocol, protocol) if family in (AF_INET, AF_INET6) else protocol}"
    if family in (AF_INET, AF_INET6) and name == "socket":
        code = errno.EPERM if kind not in (SOCK_STREAM, SOCK_DGRAM) else errno.EPROTONOSUPPORT
    elif family == AF_NETLINK:
        code = errno.EPROTONOSUPPORT
    elif family == AF_UNIX and not spec.unix:
        code = errno.EPERM
    else:
        code = errno.EAFNOSUPPORT
    return Notice("socket", name, shown, code)


def install(program: bytes) -> int:
    """Installs ``program`` on the calling thread for good and returns its listener (close-on-exec).

    Sets no_new_privs. ``OSError``: EBUSY where a listener is already above us, EINVAL for a bad program.
    """
    held = ctypes.c_char_p(program)  # and not an array: each size of those is a type, which takes memory
    fprog = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.c_void_p.from_buffer(held).value)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    flags = FILTER_FLAG_NEW_LISTENER | FILTER_FLAG_WAIT_KILLABLE_RECV
    try:
        return syscall("seccomp", SET_MODE_FILTER, flags, fprog)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Before Linux 5.19: a signal then makes the caller ask, and be counted, twice.
        return syscall("seccomp", SET_MODE_FILTER, FILTER_FLAG_NEW_LISTENER, fprog)
