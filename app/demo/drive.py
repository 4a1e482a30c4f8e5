"""One scripted agent in the background: ``python -m app.demo.drive BOX``, in the sample repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.demo import cast
from app.demo.command import argv


def start(folder: Path, part: cast.Part) -> None:
    """Start the agent of ``part`` detached; what goes wrong is written to ``.git/demo-BOX.log``."""
    with (folder / ".git" / f"demo-{part.box}.log").open("wb") as log:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "app.demo.drive", part.box],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def drive(name: str) -> int:
    """Play one part to its end, and propose what it made where the part says so."""
    (part,) = (part for part in cast.parts() if part.box == name)
    code = subprocess.call(argv("run", part.box, "--", *part.watched), stdout=subprocess.DEVNULL)
    if code == 0 and part.proposes:
        return subprocess.call(argv("propose", part.box), stdout=subprocess.DEVNULL)
    return code


if __name__ == "__main__":
    sys.exit(drive(sys.argv[1]))
