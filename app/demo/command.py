"""Calls of ``cloche`` itself: the demonstration uses nothing that a person could not type."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from backends.errors import ClocheError, from_dict

ENTRY = "import sys; from app.cli import main; sys.exit(main())"


def argv(*words: str) -> list[str]:
    """The command line of ``cloche WORDS``; ``-P`` keeps the sample's folder off the import path."""
    return [sys.executable, "-P", "-c", ENTRY, *words]


def typed(*words: str) -> str:
    """The same as a person would type it."""
    return "$ " + shlex.join(["cloche", *words])


def call(folder: Path, *words: str, stdin: int | None = subprocess.DEVNULL) -> int:
    """Run ``cloche WORDS`` in ``folder`` with our own streams; the exit code. ``stdin`` None: our own too."""
    sys.stdout.flush()
    return subprocess.call(argv(*words), cwd=folder, stdin=stdin)


def ask(folder: Path, *words: str) -> dict[str, Any]:
    """The JSON document of ``cloche WORDS --json``; its error is raised as the same kind here.

    A verb on several boxes that failed for some tells of each in its document.
    """
    done = subprocess.run(
        argv(*words, "--json"), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode == 0 or b'"results"' in done.stdout:
        document: dict[str, Any] = json.loads(done.stdout)
        return document
    notes = done.stderr.decode("utf-8", "replace").strip()
    try:
        error = json.loads(notes.splitlines()[-1])
    except (IndexError, ValueError):
        error = None
    if isinstance(error, dict) and "what" in error:
        raise from_dict(error)
    what = typed(*words).removeprefix("$ ")
    raise ClocheError(what, notes or f"it ended with {done.returncode}", "cloche doctor", code="demo")
