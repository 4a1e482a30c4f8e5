"""Putting the demonstration on: make the sample, start its agents, open the workbench; and clear it away."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from app.demo import cast, drive, sample, story
from app.demo.command import ask, call
from backends.errors import EXIT_BUSY, from_dict

PATIENCE = 60.0  # seconds that removing waits for agents that start, or propose
GOODBYE = "Remove it all: cloche demo --remove"


def run(text: bool, as_json: bool) -> int:
    """Play the demonstration from the start."""
    folder = sample.folder()
    clear(folder)
    sample.make(folder)
    absent = {part: why for part in cast.parts() if (why := cast.absent(part))}
    played = [part for part in cast.parts() if part not in absent]
    terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if not as_json and (text or not terminal):
        return story.tell(folder, played, list(absent.values()))
    for why in absent.values():
        sys.stderr.write(why + "\n")
    for part in played:
        ask(folder, "new", part.box, "--purpose", part.purpose)
        drive.start(folder, part)
    if as_json:
        document(folder, removed=False)
        return 0
    code = call(folder, stdin=None)
    sys.stderr.write(f"The agents go on. Open it again: cd {folder} && cloche\n{GOODBYE}\n")
    return code


def remove(as_json: bool) -> int:
    """Remove the boxes of the sample repository, live ones too, and the repository itself."""
    folder = sample.folder()
    removed = clear(folder)
    if as_json:
        document(folder, removed=removed)
    else:
        sys.stdout.write(
            f"removed {folder} and its boxes\n" if removed else "there is no demonstration to remove\n"
        )
    return 0


def clear(folder: Path) -> bool:
    """What ``remove`` does; each demonstration begins with it, so that all begin from the same state."""
    rows = ask(Path("/"), "ls", "--all")["boxes"]
    keys = [row["key"] for row in rows if row["repository"] == str(folder)]
    until, left = time.monotonic() + PATIENCE, keys
    while left:
        failed = [row for row in ask(Path("/"), "rm", "--force", *left)["results"] if row["error"]]
        # An agent of the demonstration before may be at work on its box just now.
        for error in (row["error"] for row in failed):
            if error["exit"] != EXIT_BUSY or time.monotonic() > until:
                raise from_dict(error)
        left = [row["box"] for row in failed]
    return sample.remove(folder) or bool(keys)


def document(folder: Path, *, removed: bool) -> None:
    value = {"schema": "cloche.demo/1", "folder": str(folder), "removed": removed}
    sys.stdout.write(json.dumps(value) + "\n")
