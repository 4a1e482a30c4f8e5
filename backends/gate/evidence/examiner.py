"""The process that parses hostile text for the gate: lock files, and added lines for secrets.

Started isolated by :mod:`backends.gate.evidence.examining`. It loads what it needs, then binds itself for
good as the reader of a box's tree does (:mod:`backends.trees.confine`): no files, no sockets, no programs,
little memory, little time. A bomb ends this process and nothing else. Requests are a line of JSON and as many
bytes as it names; each is answered by a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

BEYOND = "examining it takes more time or memory than it gets"  # as examining.BEYOND
MEMORY = 1 << 30  # bytes of address space
SECONDS = 120.0  # of CPU time in all; a single text has less (examining.PATIENCE)


def main(fd: int, place: str) -> None:
    """Answer requests on standard input until it ends. ``fd`` is an open folder in which nothing lies."""
    sys.path.append(place)
    from backends.gate.evidence import locks
    from backends.gate.evidence.finding import Detector
    from backends.trees import confine

    lack = ""
    detector = None
    try:
        detector = Detector()
        detector.find(
            "warm.py", b"", b'password = "warmed-up-9"\nx = "ab12cd34ef56ab12cd34ef56"', entropy=True
        )
    except ImportError as error:
        lack = f"detect-secrets cannot be loaded: {error}"
    locks.change("uv.lock", b"", b'[[package]]\nname = "a"\n')
    "warm".encode("idna")
    try:
        confined = confine.enter(fd, SECONDS, MEMORY)
    except OSError as error:
        confined = ""
        lack = f"no text is examined here: what would read it cannot be confined ({error.strerror})"
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    _answer(answers, {"confined": confined, "lack": lack, "searches": bool(detector and confined)})
    while line := requests.readline():
        wish = json.loads(line)
        old, new = _bytes(requests, wish["old"]), _bytes(requests, wish["new"])
        try:
            if not confined:
                said: dict[str, Any] = {"counts": {}, "rows": [], "note": lack}
            elif wish["what"] == "lock":
                said = locks.change(wish["name"], old, new)
            elif detector is None:
                said = {"rows": [], "note": lack}
            else:
                said = detector.find(wish["name"], old or b"", new or b"", entropy=wish["entropy"])
        except MemoryError:
            said = {"counts": {}, "rows": [], "note": BEYOND}
        del old, new
        _answer(answers, said)


def _bytes(stream: BinaryIO, size: int | None) -> bytes | None:
    return None if size is None else stream.read(size)


def _answer(stream: BinaryIO, value: dict[str, Any]) -> None:
    stream.write(json.dumps(value).encode("ascii") + b"\n")
    stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    os._exit(0)
