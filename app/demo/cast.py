"""The three boxes of the demonstration and the scripted agent of each."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """One box: what it is for, its agent's command once through, and the same for someone who watches."""

    box: str
    purpose: str
    headline: str
    brief: tuple[str, ...]
    watched: tuple[str, ...]
    proposes: bool
    program: str  # what the box must find inside to play this part


def parts() -> tuple[Part, ...]:
    """The whole cast; what the agents look for in vain includes the real home folder of who runs this."""
    home = str(Path.home())
    fix = ("python3", "agents/fix_watering.py")
    tidy = ("python3", "agents/tidy_notes.py", "--home", home)
    bump = ("sh", "agents/bump_label.sh")
    return (
        Part(
            "fix-watering",
            "rain is ignored when beds are watered",
            "an agent that edits, tests, and leaves a server running",
            fix,
            (*fix, "--pace", "1", "--stay", "900"),
            False,
            "python3",
        ),
        Part(
            "tidy-notes",
            "tidy README.md",
            "an agent that looks for keys, secrets, sockets and a way out",
            tidy,
            (*tidy, "--pace", "0.4", "--rounds", "100"),
            False,
            "python3",
        ),
        Part(
            "bump-label",
            "update plant-label to 1.1.0",
            "an agent that updates one npm package, whose install script looks for secrets",
            bump,
            bump,
            True,
            "npm",
        ),
    )


def absent(part: Part) -> str | None:
    """Why a part cannot be played on this host, with the remedy; None when it can.

    A box sees the system's programs below /usr, not those that a version manager keeps in a home folder.
    """
    found = shutil.which(part.program, path="/usr/local/bin:/usr/bin:/bin")
    if found and Path(found).resolve().is_relative_to("/usr"):
        return None
    where = shutil.which(part.program)
    why = (
        f"{part.program} lies in {where}, where a box does not look"
        if where
        else f"{part.program} is missing"
    )
    return f"without {part.box}: {why}. To see it: apt install {part.program}"
