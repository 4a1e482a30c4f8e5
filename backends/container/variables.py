"""The variables of a session in a container: what it was given, over what the image sets."""

from __future__ import annotations

import json
from collections.abc import Mapping

from backends.keeper import environment


def merged(image: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """The environment of a session: what it was given, over what its image sets.

    The search path is the image's where it sets one and nobody asked for another: its programs are there.
    """
    found = {**image, **session}
    if "PATH" in image and session.get("PATH") == environment.PATH:
        found["PATH"] = image["PATH"]
    return found


# What Podman itself adds to a container's environment.
_PODMANS = frozenset({"TERM", "container", "HOSTNAME", "HOME"})
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_variables(record: str) -> dict[str, str]:
    """The variables that an image sets, from ``record``, Podman's folder of a container of it.

    Source: runtime-spec config.md, ``process.env``. Empty where Podman wrote no such file.
    """
    try:
        with open(f"{record}/userdata/config.json", encoding="utf-8", errors="surrogateescape") as file:
            told = json.load(file)["process"]["env"]
    except FileNotFoundError:
        return {}
    pairs = (one.partition("=") for one in told)
    found = {name: value for name, _, value in pairs if name not in _PODMANS}
    if found.get("PATH") == _USUAL_PATH:
        del found["PATH"]
    return found
