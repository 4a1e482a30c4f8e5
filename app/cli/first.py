"""``cloche new [NAME] -- CMD`` without options: the short path from a shell to a new box's first command.

What is imported here is paid for at each such command, as in :mod:`app.cli.run`: no parser, no verb table,
no list of boxes. Any other words take the usual way, which does the same.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from app.cli.run import carry_out
from app.cli.terminated import on_sigterm
from backends.boxes import manifest, names
from backends.engine import Engine, NewBox

if TYPE_CHECKING:
    from backends.snapshots import BoxRow


def fits(words: list[str]) -> bool:
    """Whether these words, after ``new``, are at most a name, and a command after two hyphens."""
    if "--" not in words[:2]:
        return False
    at = words.index("--")
    return not any(word.startswith("-") for word in words[:at]) and len(words) > at + 1


def quick(words: list[str]) -> int:
    """Make the box and run the command; returns its exit code."""
    at = words.index("--")
    for name in words[:at]:
        names.check(name)  # an empty one is a script's unset variable, not a wish for a random name
    # A creation that is told to end takes back what it made, as after an interrupt.
    on_sigterm()
    engine = Engine()
    engine.warm()
    paths = engine.make(NewBox(name="".join(words[:at])))
    known = manifest.load(paths)
    _note(f"box {known.name}: {introduced(known)}")
    if known.tier == "workspace":
        from app.cli.context import UNCONFINED

        _note(UNCONFINED)
    # What is sent to us from here on is meant for the command.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return carry_out(engine, paths.key, words[at + 1 :])


def introduced(box: manifest.Manifest | BoxRow) -> str:
    """What a person should know of a new box, in one line."""
    branch = box.base_ref.removeprefix("refs/heads/")
    where = f"base {box.base[:12]}" + (f" of {branch}" if branch else "")
    return f"tier {box.tier}, profile {box.profile}, {where}"


def _note(text: str) -> None:
    """A remark on standard error; what a name of Git's may hold is made visible."""
    if not (text.isascii() and text.isprintable()):
        from backends.evidence.visible import visible

        text = visible(text)
    sys.stderr.write(text + "\n")
