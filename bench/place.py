"""A state of Cloche's for one run of the benchmark, beside the person's own and gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from bench.measure import cloche

ROOT = Path(__file__).resolve().parents[1]
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
SOURCE = ROOT / "bench" / "results" / "source"  # what was fetched once


@contextmanager
def place() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and the environment that keeps all of Cloche's in it, which this process has for the while.
    Boxes that are left at the end are removed, also when SIGTERM asks this process to end.
    """
    work = Path(tempfile.mkdtemp(prefix="cb-", dir="/tmp"))
    env = environment(work)
    before = dict(os.environ)
    os.environ.update(env)
    os.environ.pop(NO_BYTECODE, None)
    asked = signal.signal(signal.SIGTERM, _in_order)
    try:
        yield work, env
    finally:
        signal.signal(signal.SIGTERM, asked)
        os.environ.clear()
        os.environ.update(before)
        end(work, env)


def _in_order(number: int, frame: object) -> NoReturn:
    """Whoever ends a run gets the folders and boxes cleared away first."""
    del frame
    raise SystemExit(128 + number)


def environment(work: Path) -> dict[str, str]:
    """The caller's, with every folder of Cloche's in ``work`` and keepers that do not linger for long."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
    env.pop(NO_BYTECODE, None)  # an installed Cloche has its own, and compiling is not what is measured
    for name in ("STATE", "CACHE", "CONFIG", "DATA"):
        env[f"XDG_{name}_HOME"] = str(work / name.lower())
    (work / "run").mkdir(mode=0o700)
    own = {"XDG_RUNTIME_DIR": str(work / "run"), "CLOCHE_LINGER": "30", "PYTHONPATH": str(ROOT)}
    return {**env, **own}


def end(work: Path, env: dict[str, str]) -> None:
    """Remove every box of this run, then its folders."""
    names = sorted(
        f"{path.parent.parent.name}/{path.parent.name}"
        for path in work.glob("state/cloche/*/*/manifest.json")
    )
    if names:
        subprocess.run(cloche("rm", "--force", *names), cwd=work, env=env, capture_output=True, check=False)
    left = list(work.glob("state/cloche/*/*/manifest.json"))
    if left:
        print(f"boxes left in {work}: {[str(path.parent) for path in left]}")
        return
    shutil.rmtree(work)
