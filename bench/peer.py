"""A program that others use to run one confined command: found, installed, or absent with a reason."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TRUE = "/usr/bin/true"
INSTALL_LIMIT = 300  # seconds
NOT_INSTALLED = "it is not in the benchmark's cache, and nothing was to be installed"


class Absent(NamedTuple):
    """A peer that cannot be had here, and why."""

    reason: str


class Command(NamedTuple):
    """A peer as one command line that runs ``true`` confined."""

    argv: tuple[str, ...]
    env: dict[str, str]
    version: str


class Unavailable(Exception):
    """Why a peer cannot be had."""


def found(make: Callable[[], Command]) -> Command | Absent:
    """What ``make`` returns, tried once; what it raises is the reason of an absence."""
    try:
        command = make()
        call(command.argv, command.env)
    except Unavailable as error:
        return Absent(str(error))
    return command


def call(argv: Sequence[str], env: Mapping[str, str] | None = None, limit: float = 60, cwd: str = "/") -> str:
    """Run one command of a peer's and return what it printed; ``Unavailable`` says how it failed."""
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            argv,
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"{name} is not installed") from error
    except OSError as error:
        raise Unavailable(f"{name} does not start: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{name} did not end within {limit:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{name} ended with {done.returncode}: {said[-1] if said else 'without a word'}")
    return done.stdout.decode(errors="replace").strip()


def program(name: str, package: str) -> str:
    """The path of a program; ``Unavailable`` names the Debian package that has it."""
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"{name} is not installed (Debian: apt-get install {package})")
    return path
