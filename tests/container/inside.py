"""What attack scripts begin with: raw system calls and the word for what came of each."""

from __future__ import annotations

PRELUDE = r"""
import ctypes, errno, json, os, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_long] * 7
def call(number, *args):
    held = [ctypes.create_string_buffer(one.encode()) if isinstance(one, str) else one for one in args]
    words = [ctypes.addressof(one) if isinstance(one, ctypes.Array) else one for one in held]
    ctypes.set_errno(0)
    got = libc.syscall(number, *words, *[0] * (6 - len(words)))
    return "ok" if got >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "ok"
found = {}
"""
PRINT = "\nprint(json.dumps(found))\n"


def script(body: str) -> str:
    return PRELUDE + body + PRINT
