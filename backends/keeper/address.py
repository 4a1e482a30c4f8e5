"""Where a keeper listens, and sockets whose path is longer than an address holds.

An address of unix(7) has 107 bytes for a path. A longer one is named by a descriptor of its folder, through
the links of proc_pid_fd(5).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, socket_path

BACKLOG = 128  # clients that wait to be taken
LONGEST = 107  # bytes


@contextmanager
def _short(path: str | Path) -> Iterator[str]:
    """A name for ``path`` that fits, good until the block ends."""
    text = os.fspath(path)
    if len(os.fsencode(text)) <= LONGEST:
        yield text
        return
    folder, name = os.path.split(text)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def bind(sock: socket.socket, path: str | Path) -> None:
    """bind(2) to ``path``, however long; raises OSError."""
    with _short(path) as name:
        sock.bind(name)


def connect(sock: socket.socket, path: str | Path) -> None:
    """connect(2) to ``path``, however long; raises OSError."""
    with _short(path) as name:
        sock.connect(name)


def of(paths: BoxPaths, live: liveness.Liveness | None = None) -> str:
    """Where the box's keeper listens: what it wrote down while it lives, else where one would. ``live`` is
    what was just read of it."""
    live = live or liveness.read(paths)
    recorded = live.facts.get("socket")
    return recorded if live.kind == "live" and isinstance(recorded, str) else os.fspath(socket_path(paths))
