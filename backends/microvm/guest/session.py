"""One command inside a guest: its process, its control group, its streams."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from collections import deque
from typing import NoReturn

from backends.keeper import init_session
from backends.keeper.init_session import Spawn
from backends.kernel import pty, rlimits
from backends.kernel.rlimits import Limits
from backends.kernel.syscalls import PR_SET_NO_NEW_PRIVS, prctl
from backends.microvm import frames
from backends.microvm.guest.root import GROUPS, ROOT
from backends.record import NamedTuple

INPUT, OUTPUT, ERRORS = 0, 1, 2


class Account(NamedTuple):
    """As whom sessions run, and what each of their processes is held to."""

    uid: int
    gid: int
    limits: Limits


class Session:
    """``fds`` are our ends by stream: input, output and, without a terminal, errors; -1 once closed."""

    def __init__(self, spawn: Spawn, account: Account) -> None:
        self.id = spawn.id
        self.terminal = spawn.size is not None
        self.group = f"{GROUPS}/box/{spawn.id}"
        self.credit = {INPUT: frames.Credit(), OUTPUT: frames.Credit(), ERRORS: frames.Credit()}
        self.waiting: deque[bytes] = deque()  # input that the command has not read
        self.ending = False  # input ends after that
        self.exit: tuple[int, float, float, int] | None = None
        self.born = time.monotonic()
        os.mkdir(self.group)
        try:
            self.fds, self.pid, self.result = _start(spawn, account, self.group)
        except OSError:
            os.rmdir(self.group)
            raise
        for fd in {fd for fd in self.fds.values() if fd >= 0}:
            os.set_blocking(fd, False)

    @property
    def drained(self) -> bool:
        """Nothing that was printed before now is left to read."""
        return self.fds[OUTPUT] < 0 and self.fds[ERRORS] < 0

    def close(self, stream: int) -> None:
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0 and fd not in self.fds.values():
            os.close(fd)

    def feed(self) -> int:
        """Give the command what waits for it; how many bytes it took or will never take."""
        took = 0
        while self.waiting:
            data = self.waiting[0]
            try:
                if self.fds[INPUT] < 0:
                    raise BrokenPipeError
                sent = os.write(self.fds[INPUT], data)
            except BlockingIOError:
                return took
            except OSError:
                sent = len(data)  # nobody reads it any more
                self.close(INPUT)
            took += sent
            if sent == len(data):
                self.waiting.popleft()
            else:
                self.waiting[0] = data[sent:]
        if self.ending and not self.terminal:
            self.close(INPUT)
        return took

    def signal(self, number: int) -> None:
        """To the command's process group, or the terminal's foreground, as a keeper's signal goes."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            return

    def resize(self, rows: int, columns: int) -> None:
        if self.terminal and self.fds[OUTPUT] >= 0:
            pty.set_size(self.fds[OUTPUT], rows, columns)

    def kill(self) -> None:
        """SIGKILL to all of its control group, whatever left its process group (cgroups(7), cgroup.kill)."""
        write(f"{self.group}/cgroup.kill", "1")

    def remove(self) -> bool:
        """Let go of the control group; False while something still runs in it."""
        for stream in (INPUT, OUTPUT, ERRORS):
            self.close(stream)
        try:
            os.rmdir(self.group)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise
        return True


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _start(spawn: Spawn, account: Account, group: str) -> tuple[dict[int, int], int, int]:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        if spawn.size is not None:
            master = pty.open_master(f"{ROOT}/dev/pts/ptmx")
            ours.append(master)
            slave = pty.open_slave(master)
            theirs.append(slave)
            os.fchown(slave, account.uid, 5)
            pty.set_size(slave, *spawn.size)
            inner = (slave, slave, slave)
            fds = {INPUT: master, OUTPUT: master, ERRORS: -1}
        else:
            pairs = []
            for _ in range(3):
                pair = os.pipe2(os.O_CLOEXEC)
                ours.extend(pair)
                pairs.append(pair)
            inner = (pairs[0][0], pairs[1][1], pairs[2][1])
            for fd in inner:
                os.fchown(fd, account.uid, account.gid)  # or nobody could open /dev/stdout again
            theirs = list(inner)
            ours = [pairs[0][1], pairs[1][0], pairs[2][0]]
            fds = {INPUT: ours[0], OUTPUT: ours[1], ERRORS: ours[2]}
        result, report = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _child(spawn, inner, report, account, group)
        os.close(report)
    except OSError:
        for fd in {*ours, *theirs}:
            os.close(fd)
        raise
    for fd in theirs:
        os.close(fd)
    return fds, pid, result


def _child(spawn: Spawn, fds: tuple[int, ...], report: int, account: Account, group: str) -> NoReturn:
    word = "start"
    try:
        write(f"{group}/cgroup.procs", "0")  # before anything can fork
        os.setsid()
        init_session.prepare(fds, report, terminal=spawn.size is not None)
        os.umask(0o022)
        os.chroot(ROOT)
        rlimits.apply(account.limits)
        os.setgroups([])
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        word = spawn.cwd
        os.chdir(spawn.cwd)
        word = spawn.argv[0]
        file = init_session.find(spawn.argv[0], spawn.env.get("PATH", os.defpath))
        init_session.execute(file, spawn.argv, spawn.env)
    except OSError as error:
        os.write(init_session.REPORT, f"{error.errno or 0}:{word}".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(127)


def waiting_in(fd: int) -> bool:
    """Whether the pipe or terminal ``fd`` has something to read (ioctl_tty(2), FIONREAD)."""
    answer = fcntl.ioctl(fd, 0x541B, b"\0\0\0\0")
    return int.from_bytes(answer, "little") > 0


KNOWN_SIGNALS = frozenset(int(number) for number in signal.valid_signals())
