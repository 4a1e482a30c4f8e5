"""The end of a session reaches who waits for it, in whatever order the keeper's words come."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from backends.engine import Streams
from backends.keeper.client import KeeperClient
from backends.verbs import sessions

EXIT = {"event": "exit", "session": 1, "exit": 130}


class Keeper:
    """A keeper's client whose socket can be read once, for an answer and not for an event."""

    def __init__(self, *queued: dict[str, Any]) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._queued = list(queued)
        self._theirs.send(b"the answer to a signal")

    def fileno(self) -> int:
        return self._ours.fileno()

    def events(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        while self._queued:
            yield self._queued.pop(0)

    def call(self, op: str) -> dict[str, Any]:
        """Everything that waits is received with the reply, and nothing comes after it."""
        self._ours.recv(1 << 10)
        self._queued.append(EXIT)
        return {}


@pytest.fixture
def relay() -> Iterator[Any]:
    master, slave = os.openpty()
    made = sessions._Relay(Streams(slave, slave, slave))
    yield made
    made.close()
    os.close(master)
    os.close(slave)


def test_an_end_that_comes_before_the_answer_to_another_question_is_heard(relay: Any) -> None:
    assert relay.until_exit(cast(KeeperClient, Keeper()), 1) == EXIT


def test_an_end_that_came_with_the_beginning_is_heard(relay: Any) -> None:
    other = {"event": "exit", "session": 7, "exit": 0}
    assert relay.until_exit(cast(KeeperClient, Keeper(other, EXIT)), 1) == EXIT
