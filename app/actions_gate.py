"""The actions of the review screen, and why one of them cannot be done now."""

from __future__ import annotations

from app.action import Action, Situation
from backends.snapshots import ReviewView


def _refused(review: ReviewView | None) -> str:
    if review is None:
        return "the review is not read yet"
    refused = sum(check.verdict == "refuse" for check in review.checks)
    return f"the gate refuses this result ({refused} checks)" if refused else ""


def _export(situation: Situation) -> str:
    return situation.busy or _refused(situation.review)


def _apply(situation: Situation) -> str:
    review = situation.review
    if situation.busy or review is None:
        return situation.busy or "the review is not read yet"
    if review.row.state == "applied":
        return "this result was applied already"
    if not review.row.repository:
        return "the box has no repository to apply to; export works"
    done = review.progress
    if situation.undo or (done is not None and (done.accepted or done.rejected)):
        return ""  # what is refused may be left out: what is accepted is judged when it is planned
    return _refused(review)


def _file(situation: Situation) -> str:
    return "" if situation.file else "no file is selected"


def _decide(situation: Situation) -> str:
    return situation.busy or situation.deciding or _file(situation)


def _said(situation: Situation) -> str:
    return situation.busy or situation.deciding


def _undo(situation: Situation) -> str:
    return _said(situation) or ("" if situation.undo else "no decision of this proposal can be taken back")


def _redo(situation: Situation) -> str:
    return _said(situation) or ("" if situation.redo else "no decision was taken back")


def _request(situation: Situation) -> str:
    review = situation.review
    if situation.busy or review is None:
        return situation.busy or "the review is not read yet"
    return "" if review.row.state == "proposed" else f"the box is {review.row.state}: it takes no requests"


def _since(situation: Situation) -> str:
    review = situation.review
    if review is None:
        return "the review is not read yet"
    done = review.progress
    return "" if done is None or done.since else "no proposal of this box was reviewed before this one"


def _try(situation: Situation) -> str:
    review = situation.review
    if situation.busy or situation.trying or review is None:
        return situation.busy or situation.trying or "the review is not read yet"
    if review.row.state != "proposed":
        return f"the box is {review.row.state}: nothing of it is proposed"
    if review.row.unconfined:
        return "a workspace box is a worktree of your repository; apply it onto a new branch instead"
    return ""


GATE: tuple[Action, ...] = (
    # Gate
    Action(
        "accept",
        "space",
        "accept",
        "Accept the line, range, block, hunk or file under the cursor; again: it is open as before",
        ("gate",),
        reason=_decide,
    ),
    Action(
        "reject",
        "minus,x",
        "reject",
        "Reject the line, range, block, hunk or file under the cursor; again: it is open as before",
        ("gate",),
        reason=_decide,
    ),
    Action(
        "comment",
        "c",
        "comment",
        "Comment on the line, or in the list on the file; change or delete your comment there",
        ("gate",),
        reason=_decide,
    ),
    Action(
        "apply",
        "P",
        "apply",
        "Carry this snapshot onto the branch the box came from",
        ("gate",),
        danger=True,
        reason=_apply,
    ),
    Action(
        "request",
        "R",
        "request",
        "Request changes: what you said goes where the agent reads it, and the box goes on",
        ("gate",),
        reason=_request,
    ),
    Action(
        "undo",
        "z",
        "undo",
        "Take the last decision back; comments and marks have keys of their own",
        ("gate",),
        reason=_undo,
    ),
    Action(
        "try",
        "T",
        "try",
        "Run a command on exactly what is accepted, in a fresh box, on its base or on today's tip",
        ("gate",),
        reason=_try,
    ),
    Action(
        "reviewed",
        "m",
        "reviewed",
        "Mark the file as reviewed and go to the next; the mark falls off when the file changes",
        ("gate",),
        reason=_decide,
    ),
    Action("search", "slash", "search", "Search the whole diff for a text", ("gate",)),
    Action(
        "since",
        "i",
        "since",
        "Show only what this proposal says otherwise than the last one that was reviewed, or all of it again",
        ("gate",),
        reason=_since,
    ),
    Action("sides", "d", "sides", "Switch between unified and side by side", ("gate", "box", "compare")),
    Action(
        "export", "E", "export", "Write patch, report and receipt into a folder", ("gate",), reason=_export
    ),
    Action("redo", "Z", "redo", "Take it again", ("gate",), footer=False, reason=_redo),
    Action(
        "summary",
        "C",
        "summary",
        "Write what you think of the whole proposal",
        ("gate",),
        footer=False,
        reason=_said,
    ),
    Action(
        "comments",
        "L",
        "comments",
        "Every comment, with those whose file has changed since: go there, change, delete",
        ("gate",),
        footer=False,
        reason=_said,
    ),
    Action("next-file", "J", "file", "Next file", ("gate",), footer=False, reason=_file),
    Action("last-file", "K", "file", "File before", ("gate",), footer=False, reason=_file),
    Action("next-hunk", "l", "hunk", "Next hunk", ("gate",), footer=False),
    Action("last-hunk", "h", "hunk", "Hunk before", ("gate",), footer=False),
    Action("whole", "F", "full", "Give the diff the whole screen, or take it back", ("gate",), footer=False),
    Action("next-found", "n", "next match", "Next row that holds the text", ("gate",), footer=False),
    Action("last-found", "N", "match before", "Row before that holds the text", ("gate",), footer=False),
    Action(
        "more-context",
        "right_curly_bracket",
        "more",
        "More unchanged lines around changes, up to the whole file",
        ("gate",),
        footer=False,
    ),
    Action(
        "less-context",
        "left_curly_bracket",
        "less",
        "Fewer unchanged lines around changes",
        ("gate",),
        footer=False,
    ),
    Action(
        "editor",
        "e",
        "editor",
        "Open a read-only copy of the file in your editor (VISUAL, EDITOR)",
        ("gate",),
        reason=_file,
    ),
)
