"""The demonstration as text: each command as a person would type it, then what it printed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from app.demo import cast, sample
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
    out = sample.result(folder)
    codes.append(show(folder, "propose", part.box, "--stop"))
    codes.append(show(folder, "export", part.box, "--out", str(out)))
    codes.append(show(folder, "verify", str(out)))
    report = (out / "report.md").read_text("utf-8", "replace") if out.is_dir() else ""
    say(report.partition("\n## Policy")[0])
    say(f"({out}/report.md goes on with the policy and with how to apply the patch)")
    return codes


def show(folder: Path, *words: str) -> int:
    say(typed(*words))
    code = call(folder, *words)
    say("")
    return code


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
