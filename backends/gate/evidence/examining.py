"""Asking the examiner: bounded in time for each text and for all, started again after one that ended it."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

EXAMINER = Path(__file__).with_name("examiner.py")
PATIENCE = 8.0  # seconds for one text
STARTING = 30.0  # seconds for the start, on a busy machine
ALL = 60.0  # seconds for all texts of one proposal
STARTS = 6  # of one proposal: each text that ends it costs one
LARGEST = 24 << 20  # bytes of both sides of a text that is examined
MOST_ANSWER = 8 << 20  # bytes

# One sentence however it came about: what was acknowledged must not change its name from run to run.
BEYOND = "examining it takes more time or memory than it gets"
USED_UP = "what was examined before it used up the time for all"


class Ended(Exception):
    """The examiner gave no answer; the message says why."""


class Examining:
    """One examiner for one proposal; use it as a context. It is started by the first question."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._end = time.monotonic() + ALL
        self._rest = b""
        self.confined = ""
        self.lack = ""
        self.searches: bool | None = None  # None: it was not started

    def __enter__(self) -> Examining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def ask(
        self, what: str, name: str, old: bytes | None, new: bytes | None, *, entropy: bool = False
    ) -> dict[str, Any]:
        """What the examiner says of a text; where there is no answer, a value whose ``note`` says why."""
        size = len(old or b"") + len(new or b"")
        if size > LARGEST:
            return _nothing(f"it is too large to be examined ({size} bytes)")
        wish = {
            "what": what,
            "name": name,
            "entropy": entropy,
            "old": None if old is None else len(old),
            "new": None if new is None else len(new),
        }
        request = json.dumps(wish).encode("ascii") + b"\n" + (old or b"") + (new or b"")
        try:
            self._start()
            limit = min(PATIENCE, self._end - time.monotonic())
            return self._exchange(request, limit)
        except Ended as error:
            self._stop()
            return _nothing(str(error))

    def _start(self) -> None:
        if time.monotonic() > self._end:
            raise Ended(USED_UP)
        if self._child is not None:
            return
        if self._starts == STARTS:
            raise Ended(USED_UP)
        self._starts += 1
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as empty:
            folder = os.open(empty, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._child = subprocess.Popen(
                    [sys.executable, "-I", "-X", "utf8", str(EXAMINER), str(folder), _place()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={"LC_ALL": "C"},
                    cwd="/",
                    pass_fds=[folder],
                )
            finally:
                os.close(folder)
            self._rest = b""
            for stream in (self._child.stdin, self._child.stdout):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
            ready = self._exchange(b"", STARTING)
        self.confined, self.lack = str(ready["confined"]), str(ready["lack"])
        self.searches = ready["searches"] is True
        self._end += time.monotonic() - began  # the start is not the texts' time

    def _exchange(self, request: bytes, seconds: float) -> dict[str, Any]:
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        until = time.monotonic() + seconds
        left = memoryview(request)
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            if left:
                selector.register(child.stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._rest:
                ready = selector.select(max(0.0, until - time.monotonic()))
                if not ready:
                    raise Ended(BEYOND)
                for key, _ in ready:
                    if key.fileobj is child.stdin:
                        left = left[self._write(child.stdin.fileno(), left) :]
                        if not left:
                            selector.unregister(child.stdin)
                    else:
                        self._read(child.stdout.fileno())
        line, _, self._rest = self._rest.partition(b"\n")
        value = json.loads(line)
        assert isinstance(value, dict)
        return value

    def _write(self, fd: int, data: memoryview) -> int:
        try:
            return os.write(fd, data[: 1 << 16])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise Ended(BEYOND) from None

    def _read(self, fd: int) -> None:
        part = os.read(fd, 1 << 16)
        if not part:
            raise Ended(BEYOND)
        self._rest += part
        if len(self._rest) > MOST_ANSWER:
            raise Ended(BEYOND)

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            assert stream is not None
            stream.close()


def _nothing(note: str) -> dict[str, Any]:
    return {"counts": {}, "rows": [], "note": note}


def _place() -> str:
    return str(Path(__file__).parents[3])
