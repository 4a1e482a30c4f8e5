"""What the process connector is asked to tell of."""

from __future__ import annotations

import os
import select
import signal
import socket

import pytest

from backends.kernel import connector


def ended(how: int) -> int:
    """The pid of a child that ended with the exit code ``how``, or by the signal ``-how``."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
            if how < 0:
                os.kill(os.getpid(), -how)
        finally:
            os._exit(max(how, 0))
    os.waitpid(child, 0)
    return child


def told(sock: socket.socket, last: int) -> list[int]:
    """Every pid that ``sock`` tells of, until it tells of ``last``."""
    seen: list[int] = []
    while last not in seen:
        assert select.select([sock], [], [], 60.0)[0], f"nothing was told of {last}"
        seen += [end.pid for end in connector.ends(sock.recv(4096))]
    return seen


@pytest.mark.skipif(not connector.available(), reason="needs the process connector of Linux 6.6")
def test_with_signals_only_ends_by_one_of_them_are_told() -> None:
    with connector.listen((signal.SIGXCPU, signal.SIGXFSZ)) as some, connector.listen() as every:
        failed, killed = ended(1), ended(-signal.SIGKILL)
        first, second = ended(-signal.SIGXCPU), ended(-signal.SIGXFSZ)
        seen = told(some, second)
        assert first in seen and failed not in seen and killed not in seen
        assert {failed, killed, first} <= set(told(every, second))
