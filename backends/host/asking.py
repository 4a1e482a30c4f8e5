"""Starts a prober for each tier and one for the programs of the host, all at once, and hears them out.

Each is bounded: what gives no answer in time is a failed proof, and is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from backends import injected
from backends.keeper.start import KEPT
from backends.record import NamedTuple

Progress = Callable[[str], None]
"""Is told in a few words what was tried, on the caller's own thread."""

PATIENCE = 20.0  # seconds until a prober that gives no answer is ended
# A store of images, and monitors that hang one after another, take longer; nobody waits for them else.
_LONGER = {"container": 40.0, "microvm": 90.0}
_GRACE = 3.0  # for it to end its box
_SCRIPT = Path(__file__).with_name("prober.py")
_LONGEST = 4 << 20
_SHOWN = {"tools": "programs of the host"}
# The files that a tier's programs and Podman are found by.
_VARIABLES = (*KEPT, "PATH", "LANG", "DOCKER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF")


class Answer(NamedTuple):
    """What one prober said: its document, or why there is none."""

    document: dict[str, Any] | None
    why: str
    duration: float


def ask(words: Iterable[str], progress: Progress | None = None, patience: float = 0.0) -> dict[str, Answer]:
    """What the prober of each word answers; never raises for one that fails or hangs.

    ``patience``: seconds for each, 0 for the usual ones.
    """

    def limit(word: str) -> float:
        return patience or _LONGER.get(word, PATIENCE)

    answers: dict[str, Answer] = {}
    poll = select.poll()
    running: dict[int, tuple[str, subprocess.Popen[bytes], bytearray]] = {}
    began, told = time.monotonic(), -1
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    try:
        for word in words:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", os.fspath(_SCRIPT), word, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=variables,
                start_new_session=True,
            )
            assert child.stdout is not None
            running[child.stdout.fileno()] = (word, child, bytearray())
            poll.register(child.stdout.fileno(), select.POLLIN)
        while running:
            now = time.monotonic() - began
            for fd in [fd for fd, (word, _, _) in running.items() if now >= limit(word)]:
                word, child, _ = running.pop(fd)
                poll.unregister(fd)
                child.terminate()
                _end(child)
                mark = injected.MARK if injected.how("hang") else ""
                answers[word] = Answer(None, f"no answer within {limit(word):g} s{mark}", now)
            if progress and len(running) != told:
                told = len(running)
                progress(f"trying {', '.join(_SHOWN.get(word, word) for word, _, _ in running.values())}")
            left = min((limit(word) for word, _, _ in running.values()), default=now) - now
            for fd, _ in poll.poll(max(0.0, left) * 1000):
                word, child, data = running[fd]
                part = os.read(fd, 1 << 16)
                data += part
                if part and len(data) < _LONGEST:
                    continue
                poll.unregister(fd)
                del running[fd]
                _end(child)
                answers[word] = _answer(bytes(data), time.monotonic() - began)
    finally:
        for _, child, _ in running.values():
            child.terminate()
        for _, child, _ in running.values():
            _end(child)
    return answers


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    child.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
    if child.poll() is None:
        child.kill()
        child.wait()


def _answer(data: bytes, took: float) -> Answer:
    try:
        document = json.loads(data)
    except ValueError:
        return Answer(None, "the process that tries it ended without an answer", took)
    if not isinstance(document, dict):
        return Answer(None, "the process that tries it gave an answer of another form", took)
    if "fault" in document:
        return Answer(None, f"the process that tries it failed: {document['fault']}", took)
    return Answer(document, "", took)
