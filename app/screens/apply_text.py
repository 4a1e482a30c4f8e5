"""What the apply dialog says: the commit as it would be made, what moved meanwhile, what conflicts. Pure."""

from __future__ import annotations

from backends.errors import ClocheError, Conflict
from backends.evidence.visible import visible_lines
from backends.snapshots import CLAIMED, RAN, ApplyPlan, CheckRow, ReviewView
from widgets.ink import Line, line
from widgets.visible import runs, visible

Paragraph = Line | tuple[Line, int]
CONFLICTS = 200  # files in conflict that are listed; the rest is counted
COMMITS = 20  # of the box that are named; the rest is counted
WIDE = 10  # columns of the words at the left

MODES = {"fast-forward": "fast-forward", "merge": "merge commit", "squash": "one commit (squash)"}
"""What a person reads for each way; squashing onto a branch that did not move is a fast-forward."""

_MOVED = (
    ("branch", "branch"), ("old", "branch's tip"), ("base", "base"), ("snapshot", "snapshot"),
    ("tree", "content"), ("parents", "parents"), ("author", "author"), ("message", "message"),
    ("accepted", "accepted"),
    ("left", "left in the box"), ("commits", "kept commits"), ("checks", "what the gate found"),
)  # fmt: skip


def said(word: str, *parts: str | Line | tuple[str, str]) -> Paragraph:
    """A row with its word at the left; what does not fit goes on below the rest."""
    return line((f"{word:<{WIDE}}", "quiet"), *parts), WIDE


def short(branch: str) -> str:
    """A branch as people write it."""
    return branch.removeprefix("refs/heads/")


def possible(review: ReviewView, plan: ApplyPlan) -> tuple[str, ...]:
    """The ways in which it can be committed (:data:`app.screens.apply_parts.WAYS`), Git's own first."""
    moved = not plan.new_branch and plan.old != plan.base
    ways: tuple[str, ...] = ("merge",) if moved else ("one",)
    if moved and not plan.partial:
        ways += ("squash",)
    if review.commits is not None and review.commits.keepable and not plan.partial:
        ways += ("keep",)
    return ways


def body_of(plan: ApplyPlan) -> str:
    """The message without the trailers that the gate writes, drawable as it is."""
    body = plan.message.rstrip("\n").removesuffix("\n".join(plan.trailers)).rstrip("\n")
    return "\n".join(visible_lines(body))


def warnings_of(checks: tuple[CheckRow, ...]) -> tuple[CheckRow, ...]:
    """The rows that a person has to acknowledge, each once."""
    return tuple(dict.fromkeys(check for check in checks if check.verdict == "warn"))


def plan_paragraphs(review: ReviewView, plan: ApplyPlan) -> list[Paragraph]:
    """The branch before and after, the exact commit, how much of the proposal it takes, and the digests."""
    name = runs(short(plan.branch), "strong")
    if plan.new_branch:
        where = line(*name, ("  a new branch, made at ", "quiet"), (plan.base[:12], "accent"))
    else:
        where = line(*name, ("  at ", "quiet"), (plan.old[:12], "accent"))
    stat = review.snapshot.stat
    rows: list[Paragraph] = [said("branch", where)]
    if plan.old and plan.old != plan.base:
        moved = line(("moved on since the base ", "look"), (plan.base[:12], "accent"))
        rows.append(said("", moved))
    claim = f"  {CLAIMED}" if plan.commits and not plan.trailers else ""
    rows += [
        said("commit", (MODES.get(plan.mode, plan.mode), "strong")),
        *(said("parent", (parent, "accent")) for parent in plan.parents),
        said("tree", (plan.tree, "accent"), (" a part of the snapshot" if plan.partial else "", "look")),
        said("author", runs(plan.author), (claim, "look")),
        *_kept(review, plan),
    ]
    if plan.partial:
        rows += [
            said(
                "takes",
                (f"{plan.accepted} accepted", "strong"),
                (f"  {plan.left} left: they stay in the box, which goes on with them", "look"),
            ),
            said("", *_combination(plan.combination, "what ran had the rest beside it")),
        ]
    else:
        files = "1 file  " if stat.files == 1 else f"{stat.files} files  "
        change = line(files, (f"+{stat.added}", "added"), " ", (f"-{stat.deleted}", "removed"))
        rows.append(said("takes", ("all of it  ", "strong"), change))
        if plan.combination:
            rows.append(said("", *_combination(plan.combination, "it ran without what the branch gained")))
    digest = visible(review.policy_digest)
    rows += [
        said("snapshot", (plan.snapshot, "accent")),
        said("policy", (digest[:32], "accent")),
        said("", (digest[32:], "accent")),
    ]
    if review.row.unconfined:
        rows.append(line(("! nothing confined this box: what ran could write the result itself", "look")))
    return rows


def _combination(told: str, why: str) -> Line:
    """Whether exactly what is taken ever ran; where it did, with which end."""
    if not told.startswith(RAN):
        return line((told, "look strong"), (f": {why}; T tries it", "look"))
    return line(
        (told, "live strong" if told == f"{RAN}, exit 0" else "look strong"), (": it was tried", "quiet")
    )


def _kept(review: ReviewView, plan: ApplyPlan) -> list[Paragraph]:
    """The commits of the box that are kept, and why they cannot be where there are some."""
    rows = [
        said("keeps" if at == 0 else "", (one.id[:12], "accent"), "  ", *runs(one.subject))
        for at, one in enumerate(plan.commits[:COMMITS])
    ]
    if len(plan.commits) > COMMITS:
        rows.append(said("", (f"and {len(plan.commits) - COMMITS} more", "quiet")))
    found = review.commits
    if found is not None and found.rows and not found.keepable:
        rows.append(said("", ("the box's own commits cannot be kept: ", "quiet"), *runs(found.why, "quiet")))
    return rows


def trailer_paragraphs(plan: ApplyPlan) -> list[Paragraph]:
    """The lines that the gate adds to any message."""
    return [(line(("+ ", "quiet"), *runs(trailer, "quiet")), 4) for trailer in plan.trailers]


def moved_paragraphs(seen: ApplyPlan, now: ApplyPlan) -> list[Paragraph]:
    """What is otherwise in the fresh plan than in the one that was shown; empty when nothing is."""
    rows: list[Paragraph] = []
    for field, word in _MOVED:
        before, after = getattr(seen, field), getattr(now, field)
        if before == after:
            continue
        if field in ("checks", "message", "commits"):
            rows.append((line((f"{word} changed", "look")), 4))
            continue
        was, is_now = (_value(field, value) for value in (before, after))
        rows.append((line((f"{word} ", "look"), *was, (" is now ", "quiet"), *is_now), 4))
    if rows:
        rows.insert(0, line(("Nothing was applied: this moved since it was shown", "look strong")))
        rows.append(line(("Below is what would be done now.", "quiet")))
    return rows


def _value(field: str, value: object) -> Line:
    if field == "branch":
        return runs(short(str(value)), "strong")
    if field == "author":
        return runs(str(value))
    if field == "parents" and isinstance(value, tuple):
        return line((" ".join(str(one)[:12] for one in value), "accent"))
    if isinstance(value, int):
        return line((str(value), "strong"))
    return line((str(value)[:12] or "none", "accent"))


def trouble_paragraphs(error: Exception) -> list[Paragraph]:
    """Why there is no plan, or why it was not carried out; a conflict file by file."""
    if not isinstance(error, ClocheError):
        return [
            line(("the workbench met an error that it does not know", "look strong")),
            runs(f"{type(error).__name__}: {error}"),
            line(("nothing was applied, as far as it can tell; please report this", "quiet")),
        ]
    if isinstance(error, Conflict):
        count = len(error.files)
        rows: list[Paragraph] = [
            line((error.what, "look strong")),
            line(
                (f"{count} {'file conflicts' if count == 1 else 'files conflict'}; nothing was changed", "")
            ),
        ]
        rows += [
            (line(("✗ ", "denial"), *runs(path, "strong"), ("  ", ""), *runs(how, "quiet")), 4)
            for path, how in error.files[:CONFLICTS]
        ]
        if count > CONFLICTS:
            rows.append(line((f"and {count - CONFLICTS} more", "quiet")))
        aside = "Rebase takes the proposal back and merges the branch into the box's files."
        rows.append(line((aside, "quiet")))
        return rows
    return [
        runs(error.what, "look strong"),
        (runs(error.why), 0),
        (line(("next  ", "accent"), *runs(error.next_step, "strong")), 6),
    ]
