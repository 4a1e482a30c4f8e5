"""Sandboxes of gVisor that nobody is at any more: all that watched them was killed at once.

Podman does not find them: it asks ``runsc`` in a user namespace of its own, from where a sandbox of another
one may not be signalled, and that is taken for one that has ended. So they are looked for among the host's
processes, by the folder of state that only this product's have. Their person may signal them: who made a user
namespace has every capability in those below it (user_namespaces(7)).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Collection, Iterator

from backends.container.podman import Podman
from backends.kernel import procfs

_PATIENCE = 5.0  # seconds for a killed sandbox to be gone
_NAME = b"runsc-sandbox"


def sandboxes(engine: Podman) -> Iterator[tuple[int, str]]:
    """The pid of each and the id of its container."""
    for pid in procfs.scan().stats:
        if container := _container(engine, pid):
            yield pid, container


def _container(engine: Podman, pid: int) -> str:
    """Whose sandbox the process is, "" for any other process."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).rstrip(b"\0").split(b"\0")
        if words[0] == _NAME and b"--root=" + os.fsencode(engine.run) + b"/gvisor" in words:
            return words[-1].decode("ascii", "replace")
    return ""


def end(engine: Podman, kept: Collection[str]) -> int:
    """End every sandbox whose container is none of ``kept``; how many. Another box's are never among them."""
    count = 0
    for pid, container in sandboxes(engine):
        if container not in kept:
            count += _kill(engine, pid)
    return count


def end_of_box(engine: Podman, name: str, told: str) -> int:
    """End what an earlier launch of the container ``name`` left. ``told``: lines of names and ids, of all."""
    rows = [line.partition(" ") for line in told.splitlines()]
    return end(engine, {ident for other, _, ident in rows if other != name})


def _kill(engine: Podman, pid: int) -> bool:
    """SIGKILL, and wait for the end. False: it was gone already, or does not go."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not _container(engine, pid):
            return False  # the number is another process's by now
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(_PATIENCE * 1000))
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
