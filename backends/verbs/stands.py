"""What was tried of a proposal, seen from what is accepted of it now."""

from __future__ import annotations

from backends.boxes.layout import BoxPaths
from backends.gate import tried
from backends.gate.patch import Selection, compose_tree
from backends.snapshots import Trial
from backends.trees import quarantine


def stands(paths: BoxPaths, snapshot: str, tip: str, selection: Selection) -> tuple[str, tuple[Trial, ...]]:
    """``ReviewView.combination``, and every try of ``snapshot``, marked where it fits what is accepted.

    ``tip`` is where the branch is: a try that was merged onto another commit fits no more. Without any try
    nothing is composed.
    """
    trials = tried.read(paths.journal, snapshot)
    if not selection.chosen or selection.whole:
        taken, said = snapshot, "whole"
    elif trials and not selection.blocked:
        taken = compose_tree(quarantine.git(paths), selection)
        said = "ran" if tried.latest(taken, trials) else "not-run"
    else:
        taken, said = "", "not-run"
    marked = (one._replace(fits=one.taken == taken and one.onto in ("", tip)) for one in trials)
    return said, tuple(marked)
