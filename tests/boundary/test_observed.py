"""Attacks on what is observed: processes that close themselves to others are read all the same (E1)."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator

import pytest

from backends.kernel import notify
from tests.boundary import harness
from tests.boundary.harness import Box


@pytest.fixture(scope="module")
def watched() -> Iterator[Box]:
    with harness.box(harness.policy(observe="writes")) as one:
        yield one


EVADE = """
import ctypes, os
libc = ctypes.CDLL(None)
assert libc.prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
assert libc.prctl(3, 0, 0, 0, 0) == 0
try:
    open("/etc/EVADED_OPEN", "w")
except OSError as error:
    print(error.errno)
os.sys.stdout.flush()
child = os.fork()
if child == 0:
    os.execv("/bin/echo", ["/bin/echo", "EVADED_EXEC"])
print(os.waitpid(child, 0)[1])
"""


def test_an_undumpable_process_keeps_no_exec_and_no_open_to_itself(watched: Box) -> None:
    result = watched.python(EVADE)
    assert result.out.split() == ["30", "EVADED_EXEC", "0"]
    assert ("/bin/echo", "EVADED_EXEC") in watched.execs
    assert watched.seen["open", "/etc/EVADED_OPEN"] == 1
    assert watched.seen["unreadable", "open"] == 0


def test_a_program_that_nobody_may_read_is_observed_too(watched: Box) -> None:
    result = watched.sh(
        "cp /bin/sh /tmp/closed && chmod 0111 /tmp/closed &&"
        " /tmp/closed -c 'echo x > /etc/CLOSED_OPEN; /bin/echo CLOSED_EXEC'"
    )
    assert "CLOSED_EXEC" in result.out
    assert ("/bin/echo", "CLOSED_EXEC") in watched.execs
    assert watched.seen["open", "/etc/CLOSED_OPEN"] == 1
    assert watched.seen["unreadable", "open"] == 0


def test_copied_memory_is_that_of_the_process_that_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(
        path: str | os.PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if os.fspath(path).endswith("/mem"):
            raise PermissionError
        return real(path, flags, mode, dir_fd=dir_fd)

    real = os.open
    child = os.fork()
    if child == 0:
        signal.pause()
    monkeypatch.setattr(os, "open", closed)
    with notify.Memory(child) as memory:
        address = ctypes.addressof(text)
        assert memory.string(address) == b"known to both"
        assert memory.read(16, 8) == b""
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        monkeypatch.setattr(memory, "pid", os.getpid())  # as if another process had got the number since
        assert memory.string(address) == b""


text = ctypes.create_string_buffer(b"known to both")
