"""What binds the process that reads a box's tree, for good: reads beneath one folder and nothing else.

Landlock leaves only reading beneath the tree; seccomp takes sockets, programs, new processes and every call
that changes metadata. What crosses then is what the walker writes to the descriptors that it was given.
"""

from __future__ import annotations

import ctypes
import errno
import resource
import struct

from backends.kernel import landlock, syscalls
from backends.kernel.bpf import SECCOMP_DATA_ARCH, SECCOMP_DATA_NR, Assembler
from backends.kernel.seccomp import AUDIT_ARCH, RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS, SET_MODE_FILTER

# The only calls of the table in backends.kernel.syscalls that reading a tree needs.
READING = frozenset({"open", "openat"})


def enter(tree: int, seconds: float, memory: int) -> str:
    """Confine this process to reading beneath the folder that ``tree`` is open on; says what binds it.

    ``seconds`` bounds its CPU time, ``memory`` its address space in bytes. Raises ``OSError`` when Landlock
    or seccomp cannot be had: a caller then reads nothing.
    """
    cpu = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    domain = landlock.restrict(
        [(tree, landlock.FS_READ)], net=landlock.NET_BIND_TCP | landlock.NET_CONNECT_TCP
    )
    _install(_filter())
    return f"Landlock ABI {domain.abi}, seccomp"


def _filter() -> bytes:
    asm = Assembler()
    asm.load(SECCOMP_DATA_ARCH)
    asm.equal(AUDIT_ARCH[syscalls.architecture()], "native")
    asm.ret(RET_KILL_PROCESS)
    asm.label("native")
    asm.load(SECCOMP_DATA_NR)
    if syscalls.architecture() == syscalls.X86_64:
        asm.at_least(0x40000000, "refuse")  # __X32_SYSCALL_BIT
    for name in syscalls.NUMBERS:
        value = syscalls.number(name)
        if value is not None and name not in READING:
            asm.equal(value, "refuse")
    asm.ret(RET_ALLOW)
    asm.label("refuse")
    asm.ret(RET_ERRNO | errno.EPERM)
    return asm.assemble()


def _install(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.syscall("seccomp", SET_MODE_FILTER, 0, fprog)
