"""Generations of a box's policy: what a person accepted after the box was made, each with its own digest.

A box keeps the rules it was started with. A change that a person accepts is journalled at once and laid down
beside the policy; it becomes the policy when somebody next takes the box's lock, which a live keeper holds.
Until then everything on disk agrees with what the keeper enforces.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import Manifest, load, save, write_atomically
from backends.errors import Refused
from backends.policy import canonical
from backends.policy.model import Policy
from backends.record import NamedTuple

NEXT = "next.json"


class Standing(NamedTuple):
    """The policy that a box has, or will have at its next start, with the origin of its values."""

    policy: Policy
    sources: dict[str, str]
    generation: int


def standing(paths: BoxPaths, manifest: Manifest) -> Standing:
    """The newest generation, whether a live box follows it already or not."""
    waiting = _waiting(paths)
    if waiting is not None and waiting.generation > manifest.generation:
        return waiting
    from backends.policy import explain

    sources = explain.decode_sources(paths.sources.read_bytes()) if paths.sources.exists() else {}
    return Standing(canonical.decode(paths.policy.read_bytes()), sources, manifest.generation)


@contextmanager
def turn(paths: BoxPaths) -> Iterator[None]:
    """One acceptance at a time for each box, also while its keeper holds the lock."""
    fd = os.open(paths.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def lay_down(paths: BoxPaths, made: Standing) -> str:
    """Keep a new generation for the next start; returns its digest."""
    text = canonical.encode(made.policy)
    value = {"generation": made.generation, "policy": text.decode("ascii"), "sources": made.sources}
    write_atomically(paths.root / NEXT, json.dumps(value, sort_keys=True).encode("ascii"))
    return canonical.digest(text)


def take_up(paths: BoxPaths, manifest: Manifest) -> Manifest:
    """Make what was laid down the box's policy. The caller holds the lock, and no keeper lives."""
    waiting = _waiting(paths)
    if waiting is None:
        return manifest
    if waiting.generation > manifest.generation:
        from backends.policy import explain  # the keeper, which asks at every start, does without

        text = canonical.encode(waiting.policy)
        # A crash on the way leaves the file that this began with: the next who comes does it again.
        write_atomically(paths.policy, text)
        write_atomically(paths.sources, explain.encode_sources(waiting.sources))
        manifest = load(paths)._replace(policy_digest=canonical.digest(text), generation=waiting.generation)
        save(paths, manifest)
    _file(paths).unlink()
    return manifest


def _file(paths: BoxPaths) -> Path:
    return paths.root / NEXT


def _waiting(paths: BoxPaths) -> Standing | None:
    try:
        data = _file(paths).read_bytes()
    except FileNotFoundError:
        return None
    from backends.policy import explain

    try:
        value = json.loads(data)
        policy = canonical.decode(value["policy"].encode("ascii"))
        sources = explain.decode_sources(json.dumps(value["sources"]).encode("ascii"))
        return Standing(policy, sources, int(value["generation"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(
            "an accepted change of the box's policy cannot be read",
            f"{_file(paths)}: {error}",
            "look at who changed it; without that file the box keeps the policy it has",
            code="generation-broken",
        ) from error
