"""Commands of Cloche as processes of their own, forked from one that has loaded the program already.

What a test sees is what a new interpreter would show: a process with its own streams, folder, environment and
exit code. That of loading is left out, which was most of what a short command cost; a few files of tests keep
to new interpreters (see ``COLD`` of tests/conftest.py).
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from backends.keeper import surroundings
from tests import support

LARGEST = 1 << 17  # bytes of a request
# What an interpreter reads when it begins.
FIXED = ("LANG", "LC_", "PYTHON", "CLOCHE_TRACE")
LOADED = (
    "app.cli",
    *(f"backends.{room}" for room in ("boxes", "evidence", "gate", "policy", "trees", "verbs")),
)


def fixed() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(FIXED)}


def _umask(pid: int | str) -> str:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(line for line in text.splitlines() if line.startswith("Umask"))


class Forks:
    """The process that commands are forked from, while it is entered."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Forks:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = self._stack.enter_context(ours)
        self._fixed = fixed()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from tests.forking import serve; serve({theirs.fileno()})"],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()  # by which it ends
        self._process.wait()

    def alike(self) -> bool:
        """Whether a child of that process inherits what one of ours would."""
        pid = self._process.pid
        return (
            fixed() == self._fixed
            and surroundings.of() == surroundings.of(pid)
            and _umask("self") == _umask(pid)
        )

    def run(self, args: Sequence[str], *, cwd: Path, stdin: bytes, timeout: float) -> support.Done:
        """What ``cloche ARGS`` does; its exit code is negative where a signal ended it."""
        request = {"args": list(args), "cwd": os.fspath(cwd), "env": dict(os.environ)}
        pipes = [os.pipe() for _ in range(4)]
        (theirs_in, ours_in), (ours_out, theirs_out), (ours_err, theirs_err), (ours_end, theirs_end) = pipes
        handed = array.array("i", [theirs_in, theirs_out, theirs_err, theirs_end])
        self._channel.sendmsg(
            [json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed.tobytes())]
        )
        for fd in handed:
            os.close(fd)
        got = _exchange(
            ours_in, (ours_out, ours_err, ours_end), stdin, time.monotonic() + timeout, args, timeout
        )
        out, err = (data.decode("utf-8", "replace") for data in got[:2])
        return support.Done(int(got[2].split()[1]), out, err)


def _exchange(
    source: int, sinks: tuple[int, ...], data: bytes, until: float, args: Sequence[str], timeout: float
) -> list[bytes]:
    got = [b"" for _ in sinks]
    os.set_blocking(source, False)
    with selectors.DefaultSelector() as selector:
        for place, fd in enumerate(sinks):
            selector.register(fd, selectors.EVENT_READ, place)
        selector.register(source, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready and time.monotonic() > until:
                for fd in [key.fd for key in selector.get_map().values()]:
                    os.close(fd)
                if words := got[-1].split():
                    os.kill(int(words[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["cloche", *args], timeout, got[0], got[1])
            for key, _ in ready:
                if key.fd == source:
                    try:
                        data = data[os.write(source, data[: 1 << 16]) :] if data else b""
                    except BrokenPipeError:
                        data = b""
                    ended = not data
                else:
                    more = os.read(key.fd, 1 << 16)
                    got[key.data] += more
                    ended = not more
                if ended:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return got


def serve(number: int) -> NoReturn:
    """Fork a command for each request of ``number`` until that is closed."""
    for room in LOADED:
        package = importlib.import_module(room)
        for found in pkgutil.walk_packages(package.__path__, f"{room}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # of a terminal, which who asks us gets as well
    channel = socket.socket(fileno=number)
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in running:
                    selector.unregister(key.fd)
                    pid, end = running.pop(key.fd)
                    os.close(key.fd)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with open(end, "wb") as told:
                        told.write(b" %d" % status)
                    continue
                data, fds, _, _ = socket.recv_fds(channel, LARGEST, 4)
                if not data:
                    os._exit(0)
                pid = os.fork()
                if pid == 0:
                    _command(json.loads(data), fds)
                for fd in fds[:3]:
                    os.close(fd)
                os.write(fds[3], b"%d" % pid)
                pidfd = os.pidfd_open(pid)
                running[pidfd] = pid, fds[3]
                selector.register(pidfd, selectors.EVENT_READ)


def _command(request: Mapping[str, object], fds: list[int]) -> NoReturn:
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        args, cwd, env = request["args"], request["cwd"], request["env"]
        assert isinstance(args, list) and isinstance(cwd, str) and isinstance(env, dict)
        for target, fd in enumerate(fds[:3]):
            os.dup2(fd, target)
        os.closerange(3, 1 << 16)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["-c", *args]
        from app.cli import main

        sys.exit(main())
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
