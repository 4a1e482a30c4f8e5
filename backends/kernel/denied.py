"""The system calls that no confined process gets, each with its reason: the one table of them.

Filters are built from it (:mod:`backends.kernel.seccomp`), notifications are answered by it and
``docs/tiers.md`` prints it. Programs see the errno of the row; ``EPERM`` unless a library knows how to do
without the call only when it is told that the call does not exist (``ENOSYS``).
"""

from __future__ import annotations

import errno

from backends.record import NamedTuple


class DeniedCall(NamedTuple):
    """One refused call. ``counted``: the keeper is asked and counts; else the kernel answers by itself."""

    name: str
    reason: str
    errno: int = errno.EPERM
    counted: bool = True
    debug: bool = False  # allowed within the box when the policy says ``debug = true``


_MOUNT = "changes what the file tree shows; the box's mounts are final"
_KEYS = "kernel keyrings are shared between namespaces of one user"
_URING = "does files and sockets without system calls, past this filter"
_MODULE = "loads code into the kernel"
_CLOCK = "the clock belongs to the host"
_SWAP = "swap belongs to the host"
_QUOTA = "quotas belong to the host"
_NAMES = "the box's name is given"
_DEBUG = (
    "a debugger's call, which the kernel guards least; processes of one box are open to each other without it"
)
_NUMA = "places memory on the host's nodes, also another process's; programs go on without"
_OLD = "serves old programs and tells or changes what no program of today asks for"
_PORTS = "talks to hardware"

DENIED: tuple[DeniedCall, ...] = (
    DeniedCall("acct", "process accounting belongs to the host"),
    DeniedCall("add_key", _KEYS),
    DeniedCall("bpf", "loads programs into the kernel; a frequent way out of it"),
    DeniedCall("chroot", _MOUNT),
    DeniedCall("clock_settime", _CLOCK),
    DeniedCall(
        "clone3",
        "hides its flags in memory, where a filter cannot read them; libraries fall back to clone",
        errno.ENOSYS,
        counted=False,
    ),
    DeniedCall("delete_module", _MODULE),
    DeniedCall("fanotify_init", "watches whole file systems, also beyond the granted folders"),
    DeniedCall("finit_module", _MODULE),
    DeniedCall("fsconfig", _MOUNT),
    DeniedCall("fsmount", _MOUNT),
    DeniedCall("fsopen", _MOUNT),
    DeniedCall("fspick", _MOUNT),
    DeniedCall("init_module", _MODULE),
    DeniedCall(
        "io_setup",
        "takes of a number of requests that all users of the host share; databases go on without",
        errno.ENOSYS,
    ),
    DeniedCall("io_uring_enter", _URING),
    DeniedCall("io_uring_register", _URING),
    DeniedCall("io_uring_setup", _URING),
    DeniedCall("ioperm", _PORTS),
    DeniedCall("iopl", _PORTS),
    DeniedCall("kcmp", _DEBUG, debug=True),
    DeniedCall("kexec_file_load", "replaces the kernel"),
    DeniedCall("kexec_load", "replaces the kernel"),
    DeniedCall("keyctl", _KEYS),
    DeniedCall("lookup_dcookie", "names files by kernel handles"),
    DeniedCall("mbind", _NUMA),
    DeniedCall("memfd_secret", "holds memory that no limit counts and the kernel cannot move"),
    DeniedCall("migrate_pages", _NUMA),
    DeniedCall("modify_ldt", _OLD),
    DeniedCall("mount", _MOUNT),
    DeniedCall("mount_setattr", _MOUNT + "; Landlock does not cover it"),
    DeniedCall("move_mount", _MOUNT),
    DeniedCall("move_pages", _NUMA),
    DeniedCall("name_to_handle_at", "makes handles that open files without a path"),
    DeniedCall("open_by_handle_at", "opens files without a path, also beyond the granted folders"),
    DeniedCall("open_tree", _MOUNT),
    DeniedCall("open_tree_attr", _MOUNT),
    DeniedCall(
        "openat2",
        "hides its mode in memory, where set-id bits cannot be seen; programs fall back to openat",
        errno.ENOSYS,
        counted=False,
    ),
    DeniedCall("perf_event_open", "measures the kernel and other processes; a frequent way out"),
    DeniedCall("pidfd_getfd", "takes descriptors out of another process"),
    DeniedCall("pivot_root", _MOUNT),
    DeniedCall("process_vm_readv", _DEBUG, debug=True),
    DeniedCall("process_vm_writev", _DEBUG, debug=True),
    DeniedCall("ptrace", _DEBUG, debug=True),
    DeniedCall("quotactl", _QUOTA),
    DeniedCall("quotactl_fd", _QUOTA),
    DeniedCall("reboot", "stops the host"),
    DeniedCall("request_key", _KEYS),
    DeniedCall("set_mempolicy", _NUMA),
    DeniedCall("set_mempolicy_home_node", _NUMA),
    DeniedCall("setdomainname", _NAMES),
    DeniedCall("sethostname", _NAMES),
    DeniedCall("setns", "enters another namespace"),
    DeniedCall("settimeofday", _CLOCK),
    DeniedCall("swapoff", _SWAP),
    DeniedCall("swapon", _SWAP),
    DeniedCall("sysfs", _OLD),
    DeniedCall("syslog", "reads the kernel's log, which names addresses and other users' doings"),
    DeniedCall("umount2", _MOUNT),
    DeniedCall("uselib", _OLD),
    DeniedCall("userfaultfd", "stops the kernel in the middle of a copy; a frequent way out"),
    DeniedCall("ustat", _OLD),
    DeniedCall("vhangup", "hangs up terminals"),
)


class Argued(NamedTuple):
    """A call that is refused by what its arguments say; ``allowed`` tells what stays."""

    names: tuple[str, ...]
    refused: str
    allowed: str


ARGUED: tuple[Argued, ...] = (
    Argued(("clone", "unshare"), "any new namespace", "threads, processes, files and folders unshared"),
    Argued(
        ("ioctl",),
        "TIOCSTI (types into a terminal), TIOCLINUX (pastes into a console), TIOCSETD (loads line"
        " disciplines); judged by the 32 bits that the kernel reads, so that high bits hide nothing",
        "every other request that the device or socket and Landlock allow",
    ),
    Argued(
        ("socket", "socketpair"),
        "raw and packet sockets, every family beside the ones allowed, every protocol beside 0, TCP and UDP"
        " (so no MPTCP, UDPLITE, SCTP), netlink beside NETLINK_ROUTE",
        "UNIX (unless net.unix = false), INET and INET6 stream and datagram, NETLINK_ROUTE",
    ),
    Argued(("personality",), "everything else", "0, ADDR_NO_RANDOMIZE (setarch -R) and the query"),
    Argued(
        ("chmod", "fchmod", "fchmodat", "fchmodat2", "creat", "open", "openat", "mknod", "mknodat"),
        "a mode with the set-user-id or set-group-id bit",
        "every other mode",
    ),
    Argued(
        (
            "prlimit64",
            "sched_setaffinity",
            "sched_setattr",
            "sched_setparam",
            "sched_setscheduler",
            "setpriority",
            "ioprio_set",
        ),
        "process 1, the box's init, whose limits and priority every session inherits; every process of a user"
        " at once (PRIO_USER, IOPRIO_WHO_USER), since init is one of them",
        "the box's other processes",
    ),
)

BY_NAME: dict[str, DeniedCall] = {row.name: row for row in DENIED}
