"""The encoded packet filter, kept in the cache: what a launch reads instead of encoding it anew.

The file is named by a digest of the code that writes it, so another version of Cloche makes its own; it
carries a digest of its content, so that a damaged one is made again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from backends.boxes.layout import cache_dir
from backends.digest import sha256
from backends.errors import Refused
from backends.record import NamedTuple

FOLDER = "egress"
PATIENCE = 30.0  # seconds that encoding may take, once for each user and version
SIZE_LIMIT = 1 << 20
_SOURCES = (Path(__file__).with_name("ruleset.py"), Path(__file__).parents[1] / "kernel" / "nftables.py")


class Artefact(NamedTuple):
    """A batch of nf_tables messages, and what each acknowledged one asks for."""

    batch: bytes
    labels: tuple[str, ...]


def load() -> Artefact:
    """The packet filter, kept or encoded now. ``Refused`` (code ``egress-encoder``) when it cannot be had."""
    kept = cache_dir() / FOLDER / f"{_key()}.nft"
    found = _read(kept)
    if found is not None:
        return found
    data = _encode()
    made = _decode(data)
    if made is None:
        raise _failed("its encoder answered with something else")
    _keep(kept, data)
    return made


def _key() -> str:
    told = sha256()
    for source in _SOURCES:
        told.update(source.read_bytes())
    return told.hexdigest()[:24]


def _read(path: Path) -> Artefact | None:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT)
    except FileNotFoundError:
        return None
    digest, _, rest = data.partition(b"\n")
    return _decode(rest) if digest == sha256(rest).hexdigest().encode() else None


def _decode(data: bytes) -> Artefact | None:
    head, newline, batch = data.partition(b"\n")
    try:
        labels = json.loads(head)["labels"]
    except (ValueError, KeyError, TypeError):
        return None
    return Artefact(batch, tuple(map(str, labels))) if newline and batch else None


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    fresh.write_bytes(sha256(data).hexdigest().encode() + b"\n" + data)
    fresh.rename(path)


def _encode() -> bytes:
    """By another interpreter of this installation: its site-packages are not on a keeper's path."""
    import subprocess

    try:
        done = subprocess.run(
            [sys.executable, "-I", os.fspath(_SOURCES[0])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            env={"LC_ALL": "C.UTF-8"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(f"its encoder did not end within {PATIENCE:.0f} seconds") from error
    except OSError as error:
        raise _failed(f"its encoder did not start: {error.strerror}") from error
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise _failed(f"its encoder ended with status {done.returncode}: {last[:200]}")
    return done.stdout


def _failed(why: str) -> Refused:
    return Refused(
        "the packet filter of a supervised box cannot be encoded",
        why,
        "install Cloche anew with its dependencies (pyroute2)",
        code="egress-encoder",
    )
