"""Accepting a proposed change of a profile: a person's act, written, journalled, and never a box's own."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from backends.boxes import generations, liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import ABORTED, APPLIED
from backends.boxes.manifest import load
from backends.errors import Busy, ClocheError, Refused
from backends.evidence.journal import Journal
from backends.policy import canonical
from backends.policy.remedy import Change
from backends.snapshots import Proposal
from backends.verbs import authority, explaining, passage

TEMPORARY = ".cloche-accept"


def accept(paths: BoxPaths, proposal: Proposal, who: str, *, scripted: bool) -> None:
    """See ``Engine.accept_rule``."""
    authority.require_outside("allow")
    if not who.strip():
        raise Refused(
            "the change was not accepted",
            "nobody is named who accepts it",
            "give a name: --as NAME",
            code="no-name",
        )
    with generations.turn(paths):
        manifest = load(paths)
        if manifest.state in (APPLIED, ABORTED):
            raise Refused(
                f"box {paths.name} takes no change of its policy",
                f"it is {manifest.state}: nothing runs in it any more",
                "write the profile yourself, for boxes to come",
                code="wrong-state",
            )
        now = generations.standing(paths, manifest)
        made = explaining.make(paths, manifest, now, Change(proposal.key, proposal.value))
        if made.proposal._replace(live=proposal.live) != proposal:
            raise Busy(
                "the change was not accepted",
                f"{made.proposal.file} is no longer what was shown",
                "look at it again: cloche explain",
                code="changed-meanwhile",
            )
        written = _Written(Path(proposal.file), made.after) if made.proposal.diff else None
        try:
            if made.proposal.live:
                _tell_keeper(paths, proposal.value, who)
            if written is not None:
                written.commit()
        finally:
            if written is not None:
                written.discard()
        _open_generation(paths, made, now.policy, who, scripted=scripted)
    if liveness.read(paths).kind != "live":
        with passage.holding(paths, "allow"):
            return  # taking the lock takes the generation up


def _open_generation(
    paths: BoxPaths, made: explaining.Made, before: Any, who: str, *, scripted: bool
) -> None:
    proposal = made.proposal
    digest = generations.lay_down(paths, made.next)
    Journal(paths.journal).append(
        "policy",
        {
            "generation": made.next.generation,
            "who": who,
            "scripted": scripted,
            "key": proposal.key,
            "value": proposal.value,
            "file": proposal.file,
            "before": canonical.digest(canonical.encode(before)),
            "digest": digest,
            "live": proposal.live,
        },
        sync=True,
    )


def _tell_keeper(paths: BoxPaths, rule: str, who: str) -> None:
    """Have the running box take the destination. Where its keeper cannot, nothing is changed."""
    from backends.keeper import client

    try:
        with client.connect(paths) as keeper:
            keeper.call("allow", rule=rule, who=who)
    except ClocheError as error:
        if error.code != "unknown-operation":
            raise
        raise Refused(
            f"the running box does not take {rule}",
            "its keeper was started by a version of cloche that holds its destinations for good",
            f"end it, accept again, and start it: cloche stop {paths.name}",
            code="needs-restart",
        ) from error


class _Written:
    """The new text of a file: written beside it before anything else is done, put in its place at the end."""

    def __init__(self, target: Path, text: str) -> None:
        self._target = target
        self._temporary = target.with_name(TEMPORARY)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            mode = stat.S_IMODE(target.stat().st_mode)
        except FileNotFoundError:
            mode = 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._temporary, flags, mode)
        except OSError as error:
            raise Refused(
                f"{target} cannot be written",
                f"{self._temporary}: {error.strerror}",
                "make the folder writable, or remove what lies in its way",
                code="unwritable",
            ) from error
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            self.discard()
            raise

    def commit(self) -> None:
        self._temporary.rename(self._target)

    def discard(self) -> None:
        self._temporary.unlink(missing_ok=True)
