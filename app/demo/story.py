"""The demonstration as text: each command as a person would type it, then what it printed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.demo import cast
from app.demo.command import call, typed


def tell(folder: Path, played: Sequence[cast.Part], missing: Sequence[str]) -> int:
    """Tell the story of every part; the first exit code that is not 0, else 0."""
    say("Three agents work on a sample repository, each in a box of its own.")
    say(f"The repository is {folder}; nothing else of yours is in their reach.")
    for note in missing:
        say(f"({note})")
    codes = [code for number, part in enumerate(played, 1) for code in play(folder, number, part)]
    say("")
    say("The boxes are still there. Look at them in the workbench, then remove everything:")
    say(f"  cd {folder} && cloche")
    say("  cloche demo --remove")
    return next((code for code in codes if code != 0), 0)


def play(folder: Path, number: int, part: cast.Part) -> list[int]:
    """One part: make the box, run the agent, look at what it did and at what it was refused."""
    say(f"\n--- {number}. {part.box}: {part.headline}\n")
    codes = [
        show(folder, "new", part.box, "--purpose", part.purpose),
        show(folder, "run", part.box, "--", *part.brief),
        show(folder, "ps", part.box),
        show(folder, "denials", part.box),
        show(folder, "diff", part.box),
    ]
    if not part.proposes:
        return [*codes, show(folder, "stop", part.box)]
    with tempfile.TemporaryDirectory(prefix="cloche-demo-") as scratch:
        out = str(Path(scratch) / part.box)
        codes.append(show(folder, "propose", part.box, "--stop"))
        codes.append(show(folder, "export", part.box, "--out", out))
        codes.append(show(folder, "verify", out))
        report = Path(out) / "report.md"
        if report.is_file():
            say(f"$ cat {report}")
            say(report.read_text("utf-8", "replace"))
    return codes


def show(folder: Path, *words: str) -> int:
    say(typed(*words))
    code = call(folder, *words)
    say("")
    return code


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
