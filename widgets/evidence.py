"""What stands beside a diff, in parts that can be folded: each item knows the file that it is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from backends.snapshots import NOT_RUN, ReviewView, SessionRow
from backends.snapshots_evidence import InnerEnd, InnerTest, LockFile, ProposalEvidence, Ran
from widgets import units
from widgets.ink import Line, line
from widgets.tally import tally_rows
from widgets.verdicts import check_paragraph, count_verdicts
from widgets.visible import runs


class Item(NamedTuple):
    """One paragraph; ``path`` and ``line`` (of the proposal, from 1; 0: none) are where Enter leads."""

    text: Line
    indent: int = 2
    path: bytes | None = None
    line: int = 0


class Part(NamedTuple):
    """A title and what belongs to it. ``folded`` is how it begins."""

    id: str
    title: Line
    items: tuple[Item, ...]
    folded: bool = False


def evidence_parts(review: ReviewView) -> tuple[Part, ...]:
    """The worst first: what refuses and warns, then tests, what was changed unseen, what is brought along,
    what ran, what was denied, what was not seen, and last what passed and what nobody wrote by hand."""
    found = review.evidence
    parts = [_gate(review)]
    if found is not None:
        parts += [_tests(found, review), _outside(found), _secrets(found), _locks(found)]
    elif review.tried or review.combination == "not-run":
        parts.append(_tests(None, review))
    parts += [_ran(review, found), _denied(review), _not_read(review), _ignored(review)]
    if found is not None:
        parts.append(_bulk(found))
    parts.append(_passed(review))
    return tuple(part for part in parts if part is not None)


def _title(text: str, count: int | None = None, ink: str = "quiet") -> Line:
    return line((text, "title"), *(() if count is None else ((f" {count}", ink),)))


def _gate(review: ReviewView) -> Part | None:
    order = {"refuse": 0, "warn": 1}
    held = {one.key: one.who for one in (review.progress.acknowledged if review.progress else ())}
    bad = sorted((one for one in review.checks if one.verdict in order), key=lambda one: order[one.verdict])
    if not bad:
        return None
    counts = count_verdicts(review.checks)
    done = sum(1 for one in bad if one.key and one.key in held)
    title = line(
        ("Gate", "title"),
        *(((f" {counts['refuse']} refuse", "denial strong"),) if counts["refuse"] else ()),
        *(((f" {counts['warn']} warn", "look strong"),) if counts["warn"] else ()),
        *(((f" · {done} acknowledged", "quiet"),) if done else ()),
    )
    return Part("gate", title, tuple(Item(*check_paragraph(one, held), one.path) for one in bad))


def _exit(code: int | None, seconds: float | None) -> Line:
    said = "no end seen" if code is None else f"exit {code}"
    took = "" if seconds is None else f"  {units.span(seconds)}"
    return line((f"  {said}", "quiet" if code == 0 else "look"), (took, "quiet"))


def _argv(argv: Iterable[str]) -> Line:
    return runs(" ".join(argv)[:200])


def _inner(one: InnerTest) -> Line:
    """A test command that processes of the box started: how often, and how each ended."""
    text = line(*_argv(one.argv), (f"  ×{one.times} inside", "idle"))
    for end in one.ends or (InnerEnd(None, "", "it was not recorded", one.times),):
        count = "" if one.times == 1 else f"{end.times} "
        known = end.exit is not None
        said = (end.signal or f"exit {end.exit}") if known else "end not recorded: "
        ink = "quiet" if end.exit == 0 else "look" if known else "idle"
        text = line(*text, (f"  {count}", "quiet"), *runs(said, ink), *runs(end.why, "idle"))
    last = one.last
    if last is None:
        return text
    if len(one.ends) > 1 and last.exit is not None:
        text = line(*text, ("  last ", "quiet"), *runs(last.signal or f"exit {last.exit}", "quiet"))
    took = "" if last.seconds is None else f"  {units.span(last.seconds)}"
    became = (("  of what it became: ", "look"), *_argv(last.ran)) if last.ran else ()
    return line(*text, (took, "quiet"), _COVERS.get(last.covers, ""), *became)


_COVERS = {
    "after": ("  after the last change", "live"),
    "during": ("  while files changed", "look"),
    "before": ("  before the last change", "look"),
}


def _tests(found: ProposalEvidence | None, review: ReviewView) -> Part:
    rows: list[Item] = []
    tests = [one for one in found.ran if one.test] if found is not None else []
    for one in tests:
        rows.append(Item(line(*_argv(one.argv), *_exit(one.exit, one.seconds), _COVERS.get(one.covers, ""))))
    if found is not None and found.last_change is not None and tests:
        if not any(one.covers == "after" for one in tests):
            rows.append(Item(line(("none began after the last change", "look"))))
        if found.untimed:
            rows.append(Item(line((f"{found.untimed} removals or links have no time", "idle"))))
    if found is not None:
        rows += [Item(_inner(one)) for one in found.inner]
        if found.more_inner:
            rows.append(Item(line((f"and {found.more_inner} more inside", "look"))))
        rows += [Item(line(("not known: ", "look"), *runs(why, "quiet"))) for why in found.unseen]
    if review.combination == "not-run":
        rows.append(
            Item(line((NOT_RUN, "look strong"), (": what is accepted had the rest beside it", "look")))
        )
    for trial in review.tried:
        what = "  tried on all of it" if trial.whole else "  tried on what was accepted"
        what += " merged" if trial.onto else ""
        fits = "" if trial.fits else ", which was otherwise then"
        text = line(*_argv(trial.argv), *_exit(trial.exit, trial.wall), (what + fits, "quiet"))
        rows.append(Item(line(*text, *(((f"  {trial.denied} denied", "denial"),) if trial.denied else ()))))
    if not rows:
        rows.append(Item(line(("no test run is known", "idle"))))
    return Part("tests", _title("Tests"), tuple(rows))


def _outside(found: ProposalEvidence) -> Part | None:
    if not found.outside:
        return None
    rows = [Item(line(("by the kernel's change time, which a box cannot set", "idle")))]
    for one in found.outside:
        alive = "processes of the box lived" if one.alive else "nothing of the box lived"
        rows.append(
            Item(
                line(*runs(one.path, "look"), (f"  {units.moment(one.time)}, {alive}", "quiet")),
                path=one.path,
            )
        )
    if found.more_outside:
        rows.append(Item(line((f"and {found.more_outside} more", "look"))))
    count = len(found.outside) + found.more_outside
    return Part("outside", _title("Changed while no session ran", count, "look strong"), tuple(rows))


def _secrets(found: ProposalEvidence) -> Part | None:
    if not found.secrets and not found.unsearched:
        return None
    rows = [
        Item(
            line(
                *runs(one.path, "strong"),
                (f":{one.line}", "number"),
                "  ",
                *runs(one.kind, "look" if one.named else "quiet"),
                "  ",
                *runs(one.shown),
                ("" if one.named else "  only random", "idle"),
            ),
            path=one.path,
            line=one.line,
        )
        for one in sorted(found.secrets, key=lambda one: not one.named)
    ]
    for path, why in found.unsearched:
        name = runs(path, "look") if path else line(("not all", "look"))
        rows.append(Item(line(*name, "  ", *runs(why, "quiet")), path=path or None))
    named = sum(one.named for one in found.secrets)
    title = _title("Secrets", len(found.secrets), "look strong" if named else "quiet")
    return Part("secrets", title, tuple(rows), folded=not named and not found.unsearched)


_CHANGES = {"added": ("+", "added"), "removed": ("-", "removed"), "changed": ("~", "accent"),
            "rewritten": ("!", "look strong")}  # fmt: skip


def _locks(found: ProposalEvidence) -> Part | None:
    if not found.locks:
        return None
    rows: list[Item] = []
    for lock in found.locks:
        rows.append(Item(_lock_line(lock), path=lock.path))
        for one in lock.rows:
            sign, ink = _CHANGES.get(one.change, ("?", "look"))
            old, new = runs(one.old, "quiet"), runs(one.new)
            versions = (*old, *line((" → ", "quiet")), *new) if one.change == "changed" else (new or old)
            same = (
                line(("  same version, another source or hash", "look")) if one.change == "rewritten" else ()
            )
            rows.append(Item(line((f"{sign} ", ink), *runs(one.name), " ", *versions, *same), 4, lock.path))
        left = lock.added + lock.removed + lock.changed + lock.rewritten - len(lock.rows)
        if left > 0:
            rows.append(Item(line((f"and {left} more", "quiet")), 4, lock.path))
    total = sum(one.added + one.removed + one.changed + one.rewritten for one in found.locks)
    return Part("locks", _title("Dependencies", total), tuple(rows), folded=len(rows) > 200)


def _lock_line(lock: LockFile) -> Line:
    counts = (("+", lock.added, "added"), ("-", lock.removed, "removed"), ("~", lock.changed, "accent"),
              ("!", lock.rewritten, "look strong"))  # fmt: skip
    said = [(f"  {sign}{count}", ink) for sign, count, ink in counts if count]
    note = line("  ", *runs(lock.note, "look")) if lock.note else ()
    return line(*runs(lock.path, "strong"), *said, *note)


def _ran(review: ReviewView, found: ProposalEvidence | None) -> Part:
    rows = []
    covers: dict[int, Ran] = {one.session: one for one in found.ran} if found is not None else {}
    for session in review.sessions:
        known = covers.get(session.id)
        when = _COVERS.get(known.covers, "") if known is not None and known.test else ""
        rows.append(Item(line(*_argv(session.argv), *_session_end(session), when)))
    if not rows:
        rows.append(Item(line(("nothing ran in this box", "idle"))))
    if found is not None and found.alive is None:
        rows.append(Item(line(("what still runs cannot be told at this tier", "look"))))
    elif found is not None and found.alive:
        rows.append(Item(line((f"{found.alive} processes still alive", "look strong"))))
    return Part("ran", _title("Ran", len(review.sessions)), tuple(rows))


def _session_end(session: SessionRow) -> Line:
    code = "running" if session.exit is None else f"exit {session.exit}"
    took = f"  {units.span(session.ended - session.started)}" if session.ended is not None else ""
    return line((f"  {code}", "quiet" if session.exit == 0 else "look"), (took, "quiet"))


def _denied(review: ReviewView) -> Part:
    total = review.tally.total
    rows = []
    for row in tally_rows(review.tally):
        if row.denial is None:
            rows.append(Item(row.sentence, 9))
        else:
            denial = row.denial
            text = line(
                (f"{denial.kind:<9}", "denial"), *runs(denial.object), (f" ×{denial.count}", "denial")
            )
            rows.append(Item(text, 9))
    return Part("denied", _title("Denied", total, "denial strong" if total else "quiet"), tuple(rows))


def _not_read(review: ReviewView) -> Part | None:
    rows = [
        Item(line(*runs(path, "look"), "  ", *runs(why, "quiet")), path=path)
        for path, why in review.diff.skipped
    ]
    return Part("unread", _title("Not read", len(rows), "look"), tuple(rows)) if rows else None


def _ignored(review: ReviewView) -> Part | None:
    left = review.ignored
    if not left.total:
        return None
    rows = [Item(line(*runs(name, "quiet"))) for name in left.names]
    if left.total > len(rows):
        rows.append(Item(line((f"and {left.total - len(rows)} more", "quiet"))))
    return Part("ignored", _title("Left out by ignore rules", left.total), tuple(rows), folded=True)


def _bulk(found: ProposalEvidence) -> Part | None:
    rows = [
        Item(line((f"{one.kind}  ", "quiet"), *runs(one.path), "  ", *runs(one.rule, "idle")), path=one.path)
        for one in found.bulk
    ]
    return (
        Part("bulk", _title("Generated or vendored", len(rows)), tuple(rows), folded=True) if rows else None
    )


def _passed(review: ReviewView) -> Part | None:
    rows = [Item(*check_paragraph(one)) for one in review.checks if one.verdict not in ("warn", "refuse")]
    return Part("passed", _title("Passed", len(rows)), tuple(rows), folded=True) if rows else None
