"""delta, the pager that people read ``git diff`` with: found on the host, or absent with a reason.

Neither PyPI nor npm has a build of it (PyPI's ``git-delta`` holds no program), so nothing is fetched.
"""

from __future__ import annotations

from bench.peer import Absent, Command, Unavailable, call, program

ARGUMENTS = ("--no-gitconfig", "--paging=never", "--width=160", "--true-color=always")
"""All of a patch, coloured, for a terminal as wide as the viewer's."""


def delta() -> Command | Absent:
    """The program, whose version was asked for."""
    try:
        path = program("delta", "git-delta")
        version = call([path, "--version"])
    except Unavailable as error:
        return Absent(str(error))
    if not version.startswith("delta "):  # other programs have that name too
        return Absent(f"{path} is another program: {version[:40]}")
    return Command((path,), {}, version)
