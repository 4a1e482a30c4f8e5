"""A shell in a container has a terminal of the container's own, which follows the person's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from pathlib import Path

import pytest

from tests import support
from tests.container.world import World


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    made = world.new("typed")
    assert world.cloche("run", "typed", "--", "true").code == 0
    return made


class Screen:
    """``cloche ARGS`` on a terminal of ours."""

    def __init__(self, world: World, *args: str) -> None:
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(world.repo)
            argv = support.cloche_argv(*args)
            os.execve(argv[0], argv, {**os.environ, **world.env, "TERM": "xterm"})
        self.resize(30, 90, told=False)

    def resize(self, rows: int, columns: int, *, told: bool = True) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if told:
            os.kill(self.pid, signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, word: str, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while word.encode() not in self.seen and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.fd, 65536)
        assert word.encode() in self.seen, self.seen[-2000:]
        self.seen = self.seen.partition(word.encode())[2]

    def exit(self) -> int:
        with contextlib.suppress(OSError):
            while os.read(self.fd, 65536):
                pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_a_shell_knows_its_terminal_its_size_and_interrupts(world: World, box: Path) -> None:
    screen = Screen(world, "shell", "typed")
    screen.until("$ ")
    screen.type("tty; stty size\n")
    screen.until("/dev/pts/")
    screen.until("30 90")
    screen.resize(44, 101)
    screen.type("sleep 0.3; stty size\n")
    screen.until("44 101")
    screen.type("sleep 4715\n")
    screen.until("sleep 4715")
    time.sleep(0.5)
    screen.type("\x03")
    screen.type("echo code $?\n")
    screen.until("code 130")
    screen.type("exit 5\n")
    assert screen.exit() == 5


def test_who_comes_back_sees_the_screen_again(world: World, box: Path) -> None:
    first = Screen(world, "shell", "typed")
    first.until("$ ")
    first.type("echo mark$((40 + 2))\n")
    first.until("mark42")
    first.type("\x1d")  # ctrl-]
    assert first.exit() == 0
    shown = world.cloche("ps", "typed").out
    session = [line.split() for line in shown.splitlines()][1][5]
    again = Screen(world, "attach", "typed", session)
    again.until("mark42")
    again.type("exit 0\n")
    assert again.exit() == 0
