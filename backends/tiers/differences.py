"""What comes of each attack at each tier: the table that ``docs/tiers.md`` shows and that the tests compare.

The same program (``tests/boundary/attack_program.py``) makes every attack inside a box of every tier. What it
is answered must be a word of the table, and the table has no attack that the program does not make.
"""

from __future__ import annotations

from backends.record import NamedTuple

TIERS = ("process", "supervised", "container", "gvisor", "microvm")
REFUSED = "refused"
ABSENT = "not there"
HELD = "held"
INSIDE = "goes through"


class Cell(NamedTuple):
    """What comes of one attack at one tier.

    ``words`` are the answers that the attacker may get: the name of an error (errno(3)), ``ok``, ``SIG...``
    for its end, ``ended`` for its session's. More than one where the host's kernel or the user decides.
    ``told`` begins the kind and the object of its row in ``cloche denials``; "" where it has none.
    """

    outcome: str
    words: tuple[str, ...]
    told: str = ""
    note: str = ""


class Row(NamedTuple):
    """One attack; ``text`` goes on with "a program in the box ...". Cells in the order of :data:`TIERS`."""

    ident: str
    text: str
    cells: tuple[Cell, Cell, Cell, Cell, Cell]

    def at(self, tier: str) -> Cell:
        """``ValueError`` for a tier that the table does not have."""
        return self.cells[TIERS.index(tier)]


def _refused(*words: str, told: str = "", note: str = "") -> Cell:
    return Cell(REFUSED, words, told, note)


def _absent(*words: str, told: str = "", note: str = "") -> Cell:
    return Cell(ABSENT, words or ("ENOENT",), told, note)


def _held(*words: str, note: str = "") -> Cell:
    return Cell(HELD, words, "", note)


def _inside(note: str, *words: str) -> Cell:
    return Cell(INSIDE, words or ("ok",), "", note)


def _row(
    ident: str,
    text: str,
    process: Cell,
    supervised: Cell | None = None,
    *,
    container: Cell | None = None,
    gvisor: Cell | None = None,
    microvm: Cell | None = None,
) -> Row:
    """``supervised`` is as ``process`` where nothing else is said, the tiers of an image as ``container``,
    and that as ``process``, but nobody is told."""
    held = container or process._replace(told="")
    return Row(ident, text, (process, supervised or process, held, gvisor or held, microvm or held))


def _network(ident: str, text: str, tried: str, packet: str) -> Row:
    """A destination that is on no list, over TCP."""
    return _row(
        ident,
        text,
        _refused("ENETUNREACH", told=f"net {tried}"),
        _refused("ECONNREFUSED", told=f"net {packet}"),
        container=_refused("ENETUNREACH"),
        gvisor=_refused("EHOSTUNREACH"),
    )


_OWN = "the guest's own kernel"
_SENTRY = "gVisor's kernel"

_FILES = (
    _row(
        "write-outside",
        "writes a file of the host that everybody may write",
        _absent(),
    ),
    _row("read-outside", "reads that file", _absent()),
    _row(
        "write-system",
        "makes a file in `/usr`",
        _refused("EROFS", told="fs-write /usr/cloche-attack"),
        gvisor=_refused("EACCES"),
    ),
    _row("read-shadow", "reads `/etc/shadow`", _absent()),
    _row("host-processes", "looks for a process of the host in `/proc`", _absent("absent")),
    _row("first-memory", "reads the memory of the box's first process", _refused("EACCES")),
    _row("first-root", "follows `/proc/1/root`", _refused("EACCES")),
    _row(
        "kernel-memory",
        "reads `/proc/kcore`",
        _refused("ENOENT", "EACCES", "empty"),
        gvisor=_absent(),
        microvm=_refused("EACCES", "ENOENT"),
    ),
    _row(
        "kernel-settings",
        "names a program in `/proc/sys/kernel/core_pattern`",
        _refused("EACCES", "EROFS", told="fs-write /proc/sys/kernel/core_pattern"),
    ),
    _row(
        "sysrq",
        "writes `/proc/sysrq-trigger`",
        _refused("ENOENT", "EACCES", "EROFS", told="fs-write /proc/sysrq-trigger"),
    ),
    _row(
        "sys-write",
        "makes a file in `/sys/kernel`",
        _absent(told="fs-write /sys/kernel/cloche-attack"),
        container=_refused("EROFS"),
        gvisor=_refused("EACCES"),
    ),
    _row(
        "cgroup-write",
        "makes a control group",
        _absent(),
        container=_refused("EROFS"),
        gvisor=_refused("EACCES"),
        microvm=_absent(),
    ),
    _row("mknod", "makes a device node", _refused("EACCES"), container=_refused("EPERM")),
    _row(
        "set-id",
        "sets the set-user-id bit on a file of its own",
        _refused("EPERM", told="syscall chmod with a set-id bit"),
        gvisor=_inside("the bit is on the host's disk too, in a folder that nobody else can enter"),
        microvm=_inside("on the host it is a plain file without the bit"),
    ),
)

_PROCESSES = (
    _row("mount", "mounts a file system", _refused("EPERM", told="syscall mount")),
    _row(
        "unshare-user",
        "makes a user namespace",
        _refused("EPERM", told="syscall unshare of a new namespace, flags 0x10000000"),
        gvisor=_inside(f"one of {_SENTRY}, where it gives no right to mount"),
    ),
    _row(
        "unshare-net",
        "makes a network namespace",
        _refused("EPERM", told="syscall unshare of a new namespace, flags 0x40000000"),
    ),
    _row(
        "unshare-mount",
        "makes a user and a mount namespace and mounts in them",
        _refused("EPERM", told="syscall unshare of a new namespace, flags 0x10020000"),
    ),
    _row(
        "clone3",
        "makes a user namespace by clone3(2)",
        _refused("ENOSYS"),
        microvm=_refused("EPERM"),
    ),
    _row(
        "setns",
        "enters a namespace",
        _refused("EPERM", told="syscall setns"),
        gvisor=_refused("ENOTSUP"),
    ),
    _row("ptrace-first", "traces the box's first process", _refused("EPERM", told="syscall ptrace")),
    _row(
        "ptrace-own",
        "traces a process of its own (`debug = false`)",
        _refused("EPERM", told="syscall ptrace"),
        gvisor=_inside(f"{_SENTRY} serves it; it reaches the box's processes alone"),
        microvm=_inside(f"{_OWN} serves it; it reaches the box's processes alone"),
    ),
    _row(
        "kill-first",
        "kills the box's first process",
        _inside("without effect: the kernel drops it (pid_namespaces(7)), the box goes on"),
        container=_refused("EPERM"),
    ),
    _row(
        "limit-first",
        "lowers the limits of the box's first process",
        _refused("EPERM", told="syscall prlimit64 of the box's init"),
    ),
)

_SOCKETS = (
    _row(
        "socket-raw",
        "opens a raw socket",
        _refused("EPERM", told="socket AF_INET SOCK_RAW ICMP"),
        container=_refused("EPROTONOSUPPORT"),
        gvisor=_refused("EPERM"),
        microvm=_refused("EPERM"),
    ),
    _row(
        "socket-packet",
        "opens a packet socket",
        _refused("EAFNOSUPPORT", told="socket AF_PACKET SOCK_RAW"),
        gvisor=_refused("EPERM"),
        microvm=_refused("EPERM"),
    ),
    _row(
        "socket-vsock",
        "opens a socket to the hypervisor",
        _refused("EAFNOSUPPORT", told="socket AF_VSOCK SOCK_STREAM"),
        microvm=_absent("EAFNOSUPPORT", note="the machine has no such device"),
    ),
    _row(
        "socket-alg",
        "opens a socket of the kernel's ciphers",
        _refused("EAFNOSUPPORT", told="socket AF_ALG SOCK_SEQPACKET"),
    ),
    _row(
        "socket-netfilter",
        "opens a netlink socket of the packet filter",
        _refused("EPROTONOSUPPORT", told="socket AF_NETLINK SOCK_RAW 12"),
    ),
    _row(
        "socket-route",
        "opens a netlink socket of routes",
        _inside("it shows the box's own network, which has nothing but a loopback"),
    ),
    _row(
        "host-abstract",
        "connects to an abstract socket of the host",
        _refused("ECONNREFUSED", told="socket unix:@cloche-attack-"),
    ),
    _row(
        "host-path",
        "connects to a socket of the host by its path",
        _absent(told="socket unix:/tmp/cloche-attack-"),
    ),
    _row(
        "host-loopback",
        "connects to a port of the host's `127.0.0.1`",
        _refused("ECONNREFUSED", note="it is the box's own loopback"),
    ),
    _network("host-address", "connects to the host's own address", "HOST", "HOST"),
    _network("connect-v4", "connects to an address that is not listed", "192.0.2.1:443", "192.0.2.1:443"),
    _network("connect-v6", "does so over IPv6", "[2001:db8::1]:443", "[2001:db8::1]:443"),
    _network(
        "connect-mapped", "does so by an IPv4 address in IPv6", "[::ffff:192.0.2.1]:443", "192.0.2.1:443"
    ),
    _row(
        "udp",
        "sends a datagram",
        _refused("ENETUNREACH", told="net 192.0.2.1:53"),
        _refused("EPERM", told="net 192.0.2.1:53/udp"),
        container=_refused("ENETUNREACH"),
        gvisor=_refused("EHOSTUNREACH"),
    ),
    _row(
        "dns",
        "looks up a name that is not listed",
        _refused("EAI_NONAME", "EAI_AGAIN"),
        _refused("EAI_AGAIN", "EAI_NONAME", told="dns example.org", note="by the keeper's resolver"),
    ),
)

_CALLS = (
    _row(
        "keyctl",
        "makes a keyring",
        _refused("EPERM", told="syscall keyctl"),
        gvisor=_refused("EACCES"),
        microvm=_inside(f"a keyring of {_OWN}"),
    ),
    _row("bpf", "loads into the kernel's BPF", _refused("EPERM", told="syscall bpf")),
    _row(
        "perf",
        "opens a performance counter",
        _refused("EPERM", told="syscall perf_event_open"),
        gvisor=_refused("ENODEV"),
        microvm=_refused("EACCES"),
    ),
    _row(
        "io_uring",
        "makes an io_uring",
        _refused("EPERM", told="syscall io_uring_setup"),
        gvisor=_inside(f"one of {_SENTRY}; the host's is not used"),
        microvm=_inside(f"one of {_OWN}"),
    ),
    _row(
        "userfaultfd",
        "takes page faults by userfaultfd(2)",
        _refused("EPERM", told="syscall userfaultfd"),
        gvisor=_refused("ENOSYS"),
        microvm=_inside(f"those of {_OWN}"),
    ),
    _row(
        "tiocsti",
        "types into a terminal (`TIOCSTI`)",
        _refused("EPERM", told="syscall ioctl TIOCSTI"),
        gvisor=_refused("ENOTTY"),
        microvm=_inside(f"a terminal of {_OWN}; the host's is at the other end of a stream of bytes"),
    ),
    _row(
        "x32",
        "makes a call by the x32 table",
        _refused("ENOSYS"),
        container=_refused("SIGSYS"),
        gvisor=_refused("ENOSYS"),
        microvm=_refused("ENOSYS"),
    ),
    _row(
        "i386",
        "makes a call by the 32-bit table",
        _refused("SIGSYS"),
        gvisor=_refused("ENOSYS"),
        microvm=_inside(f"a call of {_OWN}"),
    ),
)

_LIMITS = (
    _row(
        "forks",
        "starts more processes than `procs`",
        _held("EAGAIN"),
        gvisor=_inside(
            "not enforced, as `cloche status` says; what is left is `mem` and the host's own limits",
            *("ok", "EAGAIN", "ended"),
        ),
    ),
    _row(
        "memory",
        "takes more memory than `mem`",
        _held("SIGKILL", "ENOMEM", note="in one process where no control group is to be had"),
        container=_held("SIGKILL", "ENOMEM"),
        gvisor=_held("ended", note="the whole box ends"),
    ),
    _row(
        "file-size",
        "makes a file larger than `file_size`",
        _held("EFBIG"),
        gvisor=_inside("asked of gVisor's kernel, which does not hold it"),
    ),
    _row("tmp-size", "fills `/tmp` beyond `tmp`", _held("ENOSPC")),
    _row(
        "daemon",
        "leaves a daemon that is deaf to signals",
        _inside("until the box stops: it ends with it"),
    ),
)

TABLE: tuple[Row, ...] = (*_FILES, *_PROCESSES, *_SOCKETS, *_CALLS, *_LIMITS)

_TEXT = """\
## What differs

The tests make the attacks below in a box of each tier, by one program, and compare what it is answered with
this table, exactly. Where an attack would leave or reach something, the host is looked at from outside.
`container` is one of crun or runc, `gvisor` is `container` with `runtime = "gvisor"`, `microvm` is a guest of
QEMU with an emulated processor. `supervised` has a list that none of the destinations is on; the others have
`net.mode = "deny"`.

*Goes through* is no hole of itself: at `gvisor` and `microvm` the kernel that serves the call is not the
host's. *Counted* is what has a row in `cloche denials`. At the tiers of an image the kernel answers the
program alone: nothing of this table is observed there, and `cloche denials` says so of each kind.
"""


def render() -> str:
    """The section of ``docs/tiers.md``."""
    lines = [
        _TEXT,
        "| a program in the box | " + " | ".join(f"`{name}`" for name in TIERS) + " |",
        "|---" * (1 + len(TIERS)) + "|",
    ]
    lines += [f"| {row.text} | {' | '.join(map(_cell, row.cells))} |" for row in TABLE]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    shown = () if cell.outcome == INSIDE else cell.words
    answers = " or ".join(f"`{word}`" for word in shown if word not in ("absent", "empty", "ended"))
    parts = [cell.outcome + (f" {answers}" if answers else "")]
    if cell.told:
        parts.append("counted")
    if cell.note:
        parts.append(cell.note)
    return "; ".join(parts)
