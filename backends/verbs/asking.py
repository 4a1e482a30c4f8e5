"""Questions to many keepers at once, with one time limit for all: a slow or dead one delays nobody.

Only reads are asked this way; what changes a box goes through :mod:`backends.keeper.client`.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.boxes.liveness import Liveness
from backends.keeper import address
from backends.keeper.protocol import MAX_REPLY, VERSION, Decoder, ProtocolError, encode
from backends.record import NamedTuple

LIMIT = 0.4  # seconds for all questions together

Question = tuple[str, Mapping[str, Any]]  # op, fields


class Answers(NamedTuple):
    """What one keeper said: replies by op, as far as they came in time."""

    state: str  # live, slow (connected but late, or its backlog is full), gone (nobody listens)
    replies: dict[str, dict[str, Any]]


class _Asked:
    def __init__(self, paths: BoxPaths, questions: Sequence[Question], live: Liveness | None) -> None:
        self.decoder = Decoder(MAX_REPLY)
        self.replies: dict[str, dict[str, Any]] = {}
        self.waiting = {index: op for index, (op, _) in enumerate(questions, 1)}
        self.state = "slow"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            address.connect(self.socket, address.of(paths, live))
            text = b"".join(
                encode({"v": VERSION, "id": index, "op": op, **fields})
                for index, (op, fields) in enumerate(questions, 1)
            )
            self.socket.sendall(text)
        except OSError as error:
            # EAGAIN: the keeper lives but accepts nobody at the moment (unix(7)).
            self.state = "slow" if error.errno == errno.EAGAIN else "gone"
            self.waiting = {}

    def read(self) -> None:
        """Take what came; the keeper counts as live once everything was answered."""
        try:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            for value in self.decoder.feed(data):
                op = self.waiting.pop(value.get("id", 0), None)
                if op is not None and value.get("ok") is True:
                    self.replies[op] = value
        except BlockingIOError:
            return
        except (OSError, ProtocolError):
            self.waiting = {}
            return
        if not self.waiting:
            self.state = "live"


def ask(
    boxes: Mapping[str, BoxPaths],
    questions: Sequence[Question],
    limit: float | None = None,
    *,
    lives: Mapping[str, Liveness] | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> dict[str, Answers]:
    """Put ``questions`` to the keeper of each box and wait for all of them, ``limit`` seconds at most
    (``LIMIT`` if not given).

    ``lives`` is what was just read of the boxes; ``meanwhile`` is done while the keepers work.
    """
    known = lives or {}
    asked = {key: _Asked(paths, questions, known.get(key)) for key, paths in boxes.items()}
    by_fd = {one.socket.fileno(): one for one in asked.values() if one.waiting}
    poller = select.poll()
    for fd in by_fd:
        poller.register(fd, select.POLLIN)
    limit = LIMIT if limit is None else limit
    until = time.monotonic() + limit
    if meanwhile is not None:
        meanwhile()
        until = max(until, time.monotonic() + limit / 4)  # the answers are there; taking them takes a moment
    while by_fd and (left := until - time.monotonic()) > 0:
        for fd, _ in poller.poll(left * 1000):
            by_fd[fd].read()
            if not by_fd[fd].waiting:
                poller.unregister(fd)
                del by_fd[fd]
    for one in asked.values():
        one.socket.close()
    return {key: Answers(one.state, one.replies) for key, one in asked.items()}
