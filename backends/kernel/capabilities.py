"""Capabilities: give all of them up so that no later exec brings one back. Source: capabilities(7)."""

from __future__ import annotations

import errno
import struct

from backends.kernel.syscalls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_SECUREBITS,
    prctl,
    syscall,
)

_LINUX_CAPABILITY_VERSION_3 = 0x20080522
# SECBIT_NOROOT | _NO_SETUID_FIXUP | _NO_CAP_AMBIENT_RAISE, each with its lock bit.
_SECUREBITS = 0b11 | 0b11 << 2 | 0b11 << 6
CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def drop_all() -> None:
    """Empties every set of the calling thread, the bounding set included; uid 0 regains none."""
    prctl(PR_SET_SECUREBITS, _SECUREBITS)
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the kernel's last capability
                break
            raise
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    syscall("capset", struct.pack("=Ii", _LINUX_CAPABILITY_VERSION_3, 0), bytes(24))
