"""Which OCI runtimes this host has, and how each is called beside Podman.

Whether one works is not asked of it: a container is started with it, and the next is tried where that fails
(crun of Debian 12 refuses hosts with hybrid control groups only then).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from backends.container import gvisor_call
from backends.container.joining import Runtime
from backends.container.podman import SEARCH, Podman

ORDER = ("crun", "runc")  # of runtime = "auto"
REMEDY = "cloche probe says what this host can enforce; as root: apt-get install crun runc"
_STATE = {"crun": "crun", "runc": "runc"}  # where each keeps its state below XDG_RUNTIME_DIR
_PROGRAMS = {gvisor_call.NAME: gvisor_call.PROGRAM}
_ROOTFUL = "/run"


def wanted(runtime: str) -> tuple[str, ...]:
    """The names to try in turn for the policy's ``runtime``."""
    return ORDER if runtime == "auto" else (runtime,)


def likely(podman: Podman, names: tuple[str, ...]) -> tuple[str, ...]:
    """``names`` with those last that could not start a container since this host was booted."""
    return tuple(sorted(names, key=lambda name: _note(podman, name).exists()))


def remember(podman: Podman, failed: Mapping[str, str]) -> None:
    """Another runtime started what these could not: the next launch does not begin with them."""
    for name, why in failed.items():
        _note(podman, name).write_text(why + "\n", encoding="utf-8")


def _note(podman: Podman, name: str) -> Path:
    return podman.run / f"failed-{name}"


def program(name: str) -> str | None:
    """The file of a runtime; None where this host has none."""
    for folder in SEARCH.split(":"):
        path = f"{folder}/{_PROGRAMS.get(name, name)}"
        if os.access(path, os.X_OK):
            return path
    return None


def known(podman: Podman, name: str, *, rootful: bool) -> Runtime | None:
    """The runtime as it is called for the containers that ``podman`` starts with it."""
    file = program(name)
    if file is None:
        return None
    if name == gvisor_call.NAME:
        return gvisor_call.runtime(podman, file)
    if name not in _STATE:
        return None
    # Both take the person's runtime folder where a user namespace is set up, and /run as root outside of one.
    base = _ROOTFUL if rootful else str(podman.run)
    return Runtime(name, file, (file, "--root", f"{base}/{_STATE[name]}"))
