"""The source repository's history for people: branches, commits, drift. Imported only where it is shown.

GitPython reads it, through a command wrapper whose every ``git`` has the arguments and the environment of
:mod:`backends.trees.git`. It is given the source repository, never a box's tree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import git as gitpython

from backends.trees import source
from backends.trees.git import Git
from backends.trees.values import Source

ENV = "/usr/bin/env"  # env(1) -i: a process of GitPython would inherit the whole environment otherwise


class Commit(NamedTuple):
    """One commit as a list shows it; texts are raw, front ends escape them."""

    id: str
    subject: str
    author: str
    time: float


class Branch(NamedTuple):
    """A local branch and its tip."""

    ref: str  # refs/heads/...
    commit: Commit


class _Command(gitpython.Git):
    """GitPython's ``git``, started as :class:`backends.trees.git.Git` would start it."""

    place: str  # the git directory; GitPython itself hands its commands the work tree

    def __init__(self, working_dir: Any = None) -> None:
        super().__init__(self.place)

    def execute(self, command: Any, *args: Any, **kwargs: Any) -> Any:
        ours = Git(Path(self.place))
        variables = [f"{name}={value}" for name, value in ours.environment().items()]
        kwargs["shell"] = False
        return super().execute([ENV, "-i", *variables, *ours.command(list(command)[1:])], *args, **kwargs)


def _open(origin: Source) -> gitpython.Repo:
    command = type("Command", (_Command,), {"place": origin.common_dir})
    repository: type[gitpython.Repo] = type(
        "Repository", (gitpython.Repo,), {"GitCommandWrapperType": command}
    )
    return repository(origin.common_dir, search_parent_directories=False, expand_vars=False)


def branches(origin: Source) -> tuple[Branch, ...]:
    """Local branches, the latest commit first; those of boxes are left out."""
    with _open(origin) as repository:
        rows = [Branch(head.path, _commit(head.commit)) for head in repository.heads]
    own = [row for row in rows if not row.ref.startswith("refs/heads/cloche/")]
    return tuple(sorted(own, key=lambda row: row.commit.time, reverse=True))


def commits(origin: Source, ref: str, limit: int = 50) -> tuple[Commit, ...]:
    """The latest commits that ``ref`` reaches."""
    with _open(origin) as repository:
        return tuple(_commit(found) for found in repository.iter_commits(ref, max_count=limit))


def gained(origin: Source, base: str, ref: str, limit: int = 50) -> tuple[Commit, ...]:
    """What drift consists of: commits that ``ref`` has and ``base`` has not, latest first.

    Empty when branch or base is gone; the count of all is :func:`backends.trees.source.drift`.
    """
    if not source.tip(origin, ref):
        return ()
    return commits(origin, f"{base}..{ref}", limit)


def _commit(found: gitpython.Commit) -> Commit:
    summary = found.summary
    subject = summary.decode("utf-8", "surrogateescape") if isinstance(summary, bytes) else summary
    return Commit(found.hexsha, subject, found.author.name or "", float(found.committed_date))
