"""Which OCI runtimes this host has, and how each is called beside Podman.

Whether one works is not asked of it: a container is started with it, and the next is tried where that fails
(crun of Debian 12 refuses hosts with hybrid control groups only then).
"""

from __future__ import annotations

import os

from backends.container.joining import Runtime
from backends.container.podman import SEARCH, Podman

ORDER = ("crun", "runc")  # of runtime = "auto"
REMEDY = "cloche probe says what this host can enforce; as root: apt-get install crun runc"
_STATE = {"crun": "crun", "runc": "runc"}  # where each keeps its state below XDG_RUNTIME_DIR
_ROOTFUL = "/run"


def wanted(runtime: str) -> tuple[str, ...]:
    """The names to try in turn for the policy's ``runtime``."""
    return ORDER if runtime == "auto" else (runtime,)


def program(name: str) -> str | None:
    """The file of a runtime; None where this host has none."""
    for folder in SEARCH.split(":"):
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK):
            return path
    return None


def known(podman: Podman, name: str, *, rootful: bool) -> Runtime | None:
    """The runtime as it is called for the containers that ``podman`` starts with it."""
    file = program(name)
    if file is None or name not in _STATE:
        return None
    # Both take the person's runtime folder where a user namespace is set up, and /run as root outside of one.
    base = _ROOTFUL if rootful else str(podman.run)
    return Runtime(name, file, (file, "--root", f"{base}/{_STATE[name]}"))
