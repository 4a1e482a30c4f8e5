"""``cloche demo --tiers``: one box for each tier, or the refusal of it, in the words of the product itself.

What can be had here is what just ran: each box is made and used, and whoever is refused says why and what to
do. The tiers that run an image share one of the host's own programs, which stays in the store.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from app.demo import sample
from app.demo.command import argv, ask
from app.demo.story import say, show
from backends.errors import EXIT_REFUSED, ClocheError

IMAGE = "demo"
PROGRAMS = ("python3", "git")
LOOK = "uname -r; id -un; git log --oneline -1; touch /etc/marked 2>&1 || echo 'nothing was written to /etc'"


class Part(NamedTuple):
    """One box: its name, the tier, what it shows, and whether it is made of an image."""

    box: str
    tier: str
    headline: str
    image: bool
    profile: str = "demo"


PARTS = (
    Part("at-workspace", "workspace", "a worktree of its own, and nothing that confines it", False),
    Part("at-process", "process", "the host's programs, in a root of grants, without a network", False),
    Part("at-supervised", "supervised", "the same, in a network that only a list leads out of", False),
    Part("at-container", "container", "an image's programs, in a rootless container", True),
    Part("at-microvm", "microvm", "an image's programs, under a kernel of their own", True),
    Part("emulated", "microvm", "the same on an emulated processor: no isolation promised", True, "emulated"),
)


def tell(folder: Path) -> int:
    """Make and use a box of every tier; 0 when each ran or was refused, else the first other exit code."""
    say("One box for each tier, on a sample repository: what this host proves, and what it refuses.")
    say(f"The repository is {folder}.")
    has_image = _image(folder)
    codes = []
    for number, part in enumerate(PARTS, 1):
        say(f"\n--- {number}. {part.tier}: {part.headline}\n")
        codes.append(_play(folder, part, has_image))
    say("\nWhat each claim rests on: cloche probe, cloche matrix, and cloche status BOX.")
    say("Remove the boxes and the repository: cloche demo --remove")
    if has_image:
        say(f"The image stays: cloche image rm {IMAGE}")
    return next((code for code in codes if code not in (0, EXIT_REFUSED)), 0)


def _image(folder: Path) -> bool:
    """Whether there is an image to run; makes one where there is none. Says why there cannot be one."""
    try:
        if any(f"localhost/{IMAGE}:latest" in row["names"] for row in ask(folder, "image", "ls")["images"]):
            return True
    except ClocheError as error:
        say(f"({error.what}: {error.why}. {error.next_step})")
        return False
    say("")
    return show(folder, "image", "build", "--from-host", *PROGRAMS, "--name", IMAGE) == 0


def _play(folder: Path, part: Part, has_image: bool) -> int:
    words = ["new", part.box, "--tier", part.tier, "--profile", part.profile]
    if part.image:
        if not has_image:
            say(f"without an image no box of tier {part.tier} can be made")
            return EXIT_REFUSED
        words += ["--image", IMAGE]
    code = show(folder, *words)
    if code != 0:
        return code
    code = show(folder, "run", part.box, "--", "sh", "-c", LOOK)
    if code != 0:
        return code
    return _stop(folder, part.box)


def _stop(folder: Path, box: str) -> int:
    """End its processes, in silence: the box stays for who wants to look."""
    return subprocess.call(argv("stop", box), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def run() -> int:
    """From the start; what an earlier demonstration left is removed first."""
    from app.demo import stage

    folder = sample.folder()
    stage.clear(folder)
    sample.make(folder)
    return tell(folder)
