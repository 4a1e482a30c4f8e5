"""Looking up a session's program and folder in a container's root, from outside, before its runtime is asked.

A runtime tells of what is missing in words only; here it is an errno, as a program on the host would get it.
"""

from __future__ import annotations

import errno
import os
import stat

from backends.keeper.inside import Inside, Untold


def find(root: Inside, name: str, path: str, cwd: str) -> bytes | None:
    """Where ``name`` lies inside, None where that cannot be told; raises as execvp(3)."""
    raw = name.encode("utf-8", "surrogateescape")
    places = [os.path.join(cwd.encode("utf-8", "surrogateescape"), raw)]
    if "/" not in name:
        places = [
            os.path.join(part.encode("utf-8", "surrogateescape") or b".", raw) for part in path.split(":")
        ]
    code = errno.ENOENT
    for place in places:
        answer = root.program(place) if place.startswith(b"/") else None
        if answer == 0:
            return place
        if answer is None:
            return None  # a link that only the kernel can follow: the runtime will say
        if answer == errno.EACCES:
            code = errno.EACCES
    raise OSError(code, f"{name}: {os.strerror(code)}")


def folder(root: Inside, cwd: str) -> None:
    """``OSError`` unless a session can begin in ``cwd``.

    Never through a link of procfs: a runtime that leaks a descriptor of the host's would begin there
    (CVE-2024-21626). Runtimes of today check it themselves, after the change of folder.
    """
    try:
        fd = root.open(cwd.encode("utf-8", "surrogateescape"))
    except Untold as error:
        raise OSError(errno.EACCES, f"{cwd}: it cannot be told which folder this is") from error
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.ENOTDIR, f"{cwd}: {os.strerror(errno.ENOTDIR)}")
    finally:
        os.close(fd)


def needs_shell(root: Inside, file: bytes) -> bool:
    try:
        fd = root.open(file)
    except OSError:
        return False
    try:
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # it may be executed and not read
    finally:
        os.close(fd)
    try:
        head = os.read(own, 4)
    finally:
        os.close(own)
    return not head.startswith((b"\x7fELF", b"#!"))
