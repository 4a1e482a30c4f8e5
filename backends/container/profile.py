"""The seccomp profile of a container, in the form of the OCI runtime specification.

Compiled from the table that the filter of tier ``process`` is made of (:mod:`backends.kernel.denied`,
:mod:`backends.kernel.seccomp`); what a runtime's own default profile lets through (new user namespaces,
mounts, keyrings) is refused here. Nothing asks a keeper: refusals are the kernel's alone and are not counted.

libseccomp(3) compares an argument as 64 bits and only one comparison of the same argument fits one rule, so
"anything beside these" is written as the rules for everything else. Source: runtime-spec config-linux.md.
"""

from __future__ import annotations

import errno
import json
from typing import Any

from backends.kernel import seccomp
from backends.kernel.denied import ARGUED, DENIED

_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_CLONE_NEWTIME = 0x80
_FAMILIES = 64  # AF_MAX is below; from here on one comparison refuses all
_PROTOCOLS = 18  # above IPPROTO_UDP one comparison refuses all
_LOW = 0xFFFFFFFF
_SIGN = 1 << 31

Args = tuple[tuple[int, int, int, str], ...]  # index, value, second value, operator


def build(machine: str, *, unix: bool = True, debug: bool = False) -> bytes:
    """The profile as JSON for ``machine`` (uname -m). ``unix``, ``debug``: ``net.unix``, ``debug``.

    ``KeyError`` for a machine without a table.
    """
    rules: list[dict[str, Any]] = []
    for row in DENIED:
        if not (debug and row.debug):
            rules.append(_rule((row.name,), row.errno))
    for names, args, code in _argued(unix):
        rules.append(_rule(names, code, args))
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": rules,
    }
    return json.dumps(profile, separators=(",", ":")).encode()


def _rule(names: tuple[str, ...], code: int, args: Args = ()) -> dict[str, Any]:
    return {
        "names": list(names),
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": code,
        "errno": errno.errorcode[code],
        "args": [
            {"index": index, "value": value, "valueTwo": second, "op": f"SCMP_CMP_{operator}"}
            for index, value, second, operator in args
        ],
    }


def _bits(mask: int) -> list[int]:
    return [1 << shift for shift in range(32) if mask >> shift & 1]


def _set(index: int, bit: int) -> tuple[int, int, int, str]:
    """The bit of that argument is set: the mask, then what is left of the argument under it."""
    return (index, bit, bit, "MASKED_EQ")


def _argued(unix: bool) -> list[tuple[tuple[str, ...], Args, int]]:
    """The calls that are refused by what their arguments say; the rows of ``denied.ARGUED``."""
    assert len(ARGUED) == 6  # a row more needs a rule more
    found: list[tuple[tuple[str, ...], Args, int]] = []
    for bit in _bits(seccomp.CLONE_NEW):
        found.append((("clone", "unshare"), (_set(0, bit),), errno.EPERM))
    found.append((("unshare",), (_set(0, _CLONE_NEWTIME),), errno.EPERM))
    for request in seccomp.IOCTLS:
        found.append((("ioctl",), ((1, _LOW, request, "MASKED_EQ"),), errno.EPERM))
    for name, mode, flags in seccomp.MODE_CALLS:
        for bit in _bits(seccomp.SET_ID):
            if flags is None:
                found.append(((name,), (_set(mode, bit),), errno.EPERM))
                continue
            for makes in _bits(seccomp.O_MAKES):
                found.append(((name,), (_set(flags, makes), _set(mode, bit)), errno.EPERM))
    return found + _sockets(unix) + _personalities()


def _sockets(unix: bool) -> list[tuple[tuple[str, ...], Args, int]]:
    own = {seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK} | ({seccomp.AF_UNIX} if unix else set())
    found: list[tuple[tuple[str, ...], Args, int]] = []
    for call, allowed in (("socket", own), ("socketpair", {seccomp.AF_UNIX})):
        for family in range(_FAMILIES):
            if family not in allowed:
                found.append(((call,), ((0, family, 0, "EQ"),), errno.EAFNOSUPPORT))
        found.append(((call,), ((0, _FAMILIES, 0, "GE"),), errno.EAFNOSUPPORT))
    for family in (seccomp.AF_INET, seccomp.AF_INET6):
        asked = (0, family, 0, "EQ")
        for kind in range(seccomp.SOCK_TYPE + 1):
            if kind not in (seccomp.SOCK_STREAM, seccomp.SOCK_DGRAM):
                found.append((("socket",), (asked, (1, seccomp.SOCK_TYPE, kind, "MASKED_EQ")), errno.EPERM))
        for protocol in range(_PROTOCOLS):
            if protocol not in seccomp.IP_PROTOCOLS:
                found.append((("socket",), (asked, (2, protocol, 0, "EQ")), errno.EPROTONOSUPPORT))
        found.append((("socket",), (asked, (2, _PROTOCOLS, 0, "GE")), errno.EPROTONOSUPPORT))
    netlink = (0, seccomp.AF_NETLINK, 0, "EQ")
    found.append((("socket",), (netlink, (2, seccomp.NETLINK_ROUTE, 0, "NE")), errno.EPROTONOSUPPORT))
    return found


def _personalities() -> list[tuple[tuple[str, ...], Args, int]]:
    """All but 0, ADDR_NO_RANDOMIZE and the query (all 32 bits set)."""
    rest = [bit for bit in _bits(_LOW) if bit not in (_SIGN, seccomp.ADDR_NO_RANDOMIZE)]
    found: list[tuple[tuple[str, ...], Args, int]] = []
    for bit in rest:
        found.append((("personality",), ((0, bit | _SIGN, bit, "MASKED_EQ"),), errno.EPERM))
    for bit in (*rest, seccomp.ADDR_NO_RANDOMIZE):
        found.append((("personality",), ((0, bit | _SIGN, _SIGN, "MASKED_EQ"),), errno.EPERM))
    return found
