"""System calls that the Python standard library has no function for, and their numbers.

Numbers are the kernel's: ``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h``
(aarch64). A call that an architecture does not have is absent from its column.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping

libc = ctypes.CDLL(None, use_errno=True)

# Always seven words: what is passed without a type is an int of 32 bits, and the upper half of its register
# undefined, which the kernel answers with EINVAL. A pointer takes numbers of either sign, bytes and None.
_syscall = libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 6]
_ZEROS = (0,) * 6

X86_64 = "x86_64"
AARCH64 = "aarch64"
ARCHITECTURES = (X86_64, AARCH64)

# name: (x86-64, aarch64); -1 where the architecture never had the call
NUMBERS: Mapping[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chmod": (90, -1),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "connect": (42, 203),
    "creat": (85, -1),
    "delete_module": (176, 106),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, -1),
    "ioprio_get": (252, 31),
    "ioprio_set": (251, 30),
    "iopl": (172, -1),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, -1),
    "mknodat": (259, 33),
    "modify_ldt": (154, -1),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "open": (2, -1),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "rename": (82, -1),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "sendto": (44, 206),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "signalfd4": (289, 74),
    "settimeofday": (164, 170),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, -1),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, -1),
    "userfaultfd": (323, 282),
    "ustat": (136, -1),
    "vhangup": (153, 58),
}


def architecture() -> str:
    """This machine's name as uname(2) gives it, ``x86_64`` or ``aarch64`` where Cloche has tables."""
    return os.uname().machine


def number(name: str, arch: str | None = None) -> int | None:
    """The number of the call ``name``, or ``None`` where ``arch`` (default: this machine) does not have it.

    ``KeyError`` for a name outside the table, ``NotImplementedError`` for an architecture without one.
    """
    where = arch or architecture()
    if where not in ARCHITECTURES:
        raise NotImplementedError(f"no system call table for {where}")
    value = NUMBERS[name][ARCHITECTURES.index(where)]
    return None if value < 0 else value


def names(arch: str | None = None) -> dict[int, str]:
    """Number to name, for showing what a notification was about."""
    return dict(_columns(arch or architecture()))


def _columns(arch: str) -> Iterator[tuple[int, str]]:
    for name in NUMBERS:
        value = number(name, arch)
        if value is not None:
            yield value, name


Argument = int | bytes | bytearray | None

_column = ARCHITECTURES.index(architecture()) if architecture() in ARCHITECTURES else None
_HERE = {} if _column is None else {name: row[_column] for name, row in NUMBERS.items() if row[_column] >= 0}


def syscall(name: str, *arguments: Argument) -> int:
    """syscall(2) of ``name``. Buffers are passed by address: ``bytes`` to read, ``bytearray`` to be written.

    Returns the call's value; raises ``OSError`` with the kernel's errno and the call's name.
    """
    if name not in _HERE and number(name) is None:
        raise OSError(38, f"{name}: not a system call of this architecture")
    if bytearray in map(type, arguments):
        arguments = tuple(map(_by_address, arguments))
    result: int = _syscall(_HERE[name], *arguments, *_ZEROS[len(arguments) :])
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _by_address(argument: Argument) -> Argument:
    if isinstance(argument, bytearray):
        return ctypes.addressof((ctypes.c_char * len(argument)).from_buffer(argument))
    return argument


PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PR_SET_SECUREBITS = 28

_prctl = libc.prctl
_prctl.restype = ctypes.c_int
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]


def prctl(option: int, first: int | bytes = 0, second: int = 0) -> int:
    """prctl(2); ``bytes`` are passed by address. Raises ``OSError``."""
    result: int = _prctl(option, first, second, 0, 0)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")
    return result


def close_from(first: int) -> None:
    """Closes every descriptor of this process from ``first`` on: close_range(2), Linux 5.9."""
    syscall("close_range", first, 0xFFFFFFFF, 0)
