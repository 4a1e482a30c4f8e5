"""``report.md``: what a reviewer reads beside the patch. Pure.

Names, arguments and texts that came out of a box could try to be a heading, a table or a link. They are
written with everything invisible escaped, one to a line, only inside fenced blocks (each fence longer than
any run of its character within) and never at the beginning of a line, so that neither a Markdown reader nor
somebody who prints the file can take them for the report's own words.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping

from backends.evidence.journal import Anchor
from backends.evidence.receipts import Activity, TrafficRow, decided
from backends.evidence.visible import visible
from backends.gate.evidence.told import sections
from backends.snapshots import CLAIMED, Acknowledgement, BoxCommits, FileChange, ReviewView, SessionRow, Trial
from backends.snapshots_evidence import ProposalEvidence

# The tree without entries, by the hash that names it (gitrepository-layout(5), extensions.objectFormat).
EMPTY_TREES = {
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904": "sha1",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321": "sha256",
}
MAX_FILES = 2000
MAX_TEXT = 2000  # characters of one line


def render(
    review: ReviewView, done: Activity, anchor: Anchor, policy: Mapping[str, object], now: float
) -> str:
    """The report on one proposal. ``done`` and ``anchor`` are what the journal showed when it was written."""
    parts = [
        _head(review, anchor, now),
        _changes(review),
        _commits(review.commits),
        _checks(review),
        _evidence(review.evidence),
        _requested(done),
        _decided(review),
        _said(review),
        _tried(review),
        _applied(done),
        _launched(done),
        _ran(review.sessions, done),
        _went(done.traffic),
        _denied(review),
        _unseen(review, done),
        _policy(review, policy, done),
        _how_to_apply(review),
    ]
    return "\n".join(filter(None, parts))


def fenced(lines: Iterable[str]) -> str:
    """A block of untrusted lines; each is made visible and indented."""
    return _block(_cut(visible(line)) for line in lines)


def _cut(line: str) -> str:
    return line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]} ... and {len(line) - MAX_TEXT} characters"


def _block(lines: Iterable[str]) -> str:
    body = [f"  {line}" for line in lines]
    longest = run = 0
    for char in "\n".join(body):
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *body, fence, ""])


def _head(review: ReviewView, anchor: Anchor, now: float) -> str:
    row, snapshot = review.row, review.snapshot
    caveat = f", {row.caveat}" if row.caveat else ""
    return "# Cloche report\n\n" + fenced(
        [
            f"box           {row.name} ({row.key})",
            f"tier          {row.tier}{', which confines nothing' if row.unconfined else caveat}",
            f"purpose       {row.purpose or 'none given'}",
            f"repository    {row.repository or 'none (detached)'}",
            f"base          {snapshot.base} {row.base_ref}",
            f"proposal      tree {snapshot.id}",
            f"frozen        {_date(snapshot.created)}",
            f"reported      {_date(now)}",
            f"journal       {anchor.count} records, head {anchor.head}",
        ]
    )


def _changes(review: ReviewView) -> str:
    stat = review.snapshot.stat
    counts = f"{_many(stat.files, 'file')}, {_many(stat.added, 'line')} added, {stat.deleted} deleted"
    said = f"## What changed\n\n{counts}.\n\n"
    rows = [_change(change) for change in review.diff.changes[:MAX_FILES]]
    if len(review.diff.changes) > MAX_FILES:
        rows.append(f"and {len(review.diff.changes) - MAX_FILES} more files, all of them in patch.diff")
    return said + (fenced(rows) if rows else "Nothing.\n")


def _change(change: FileChange) -> str:
    count = "binary" if change.added is None else f"+{change.added} -{change.deleted}"
    old = f" (was {_name(change.old_path)})" if change.old_path is not None else ""
    return f"{change.status}  {_name(change.path)}{old}  {count}{_mode(change)}"


def _mode(change: FileChange) -> str:
    if change.old_mode == change.new_mode or change.new_mode == 0:
        return ""
    before = f"{change.old_mode:06o} -> " if change.old_mode else ""
    return f"  mode {before}{change.new_mode:06o}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _name(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _commits(found: BoxCommits | None) -> str:
    """Only where the box made any."""
    if found is None:
        return ""
    said = "## What the box committed\n\n"
    if found.keepable:
        said += f"{_many(len(found.rows), 'commit')}, which can be kept as they are. "
    else:
        said += "These commits cannot be kept, so one is made of the whole:\n\n" + fenced([found.why]) + "\n"
    if found.rows:
        rows = (
            f"{row.id}  {row.author} <{row.author_email}>  {_date(row.authored)}  {row.subject}"
            for row in found.rows
        )
        said += f"Whom they name and when is {CLAIMED}.\n\n" + fenced(rows)
    return said


def _checks(review: ReviewView) -> str:
    checks = review.checks
    held = {one.key: one for one in (review.progress.acknowledged if review.progress else ())}
    counts = {verdict: sum(c.verdict == verdict for c in checks) for verdict in ("refuse", "warn", "pass")}
    said = (
        f"## What the gate says\n\n{counts['refuse']} refused, {counts['warn']} to look at, "
        f"{counts['pass']} checks found nothing.\n\n"
    )
    order = {"refuse": 0, "warn": 1, "pass": 2}
    return said + fenced(
        f"{c.verdict:<7} {c.id:<15} {_name(c.path) + ': ' if c.path is not None else ''}{c.reason}"
        f"{_acknowledged(held.get(c.key))}"
        for c in sorted(checks, key=lambda c: order.get(c.verdict, 3))
    )


def _acknowledged(one: Acknowledgement | None) -> str:
    if one is None:
        return ""
    who = f"{'the script ' if one.scripted else ''}{one.who}"
    return f" (acknowledged by {who}, {_date(one.time)})"


def _evidence(found: ProposalEvidence | None) -> str:
    if found is None:
        return ""
    parts = []
    for part in sections(found):
        rows = [*part.lines, *([f"and {part.more} more"] if part.more else [])]
        parts.append(f"## {part.title}\n\n{part.lead}\n" + (f"\n{fenced(rows)}" if rows else ""))
    return "\n".join(parts)


def _decided(review: ReviewView) -> str:
    """Only where anything was decided: without decisions all is applied."""
    done = decided(review)
    if done is None:
        return ""
    said = (
        f"## What was decided\n\n{done['accepted']} lines and parts accepted, {done['rejected']} rejected, "
        f"{done['undecided']} open. `patch.diff` is the whole proposal all the same.\n"
    )
    rows = [
        f"{one.accepted:>6} accepted {one.rejected:>6} rejected {one.undecided:>6} open  {_name(one.path)}"
        f"{', reviewed' if one.reviewed else ''}"
        for one in (review.progress.files if review.progress else ())
    ]
    if len(rows) > MAX_FILES:
        rows[MAX_FILES:] = [f"and {len(rows) - MAX_FILES} more files"]
    said += f"\n{fenced(rows)}"
    if done["combination"]:
        said += (
            f"\nOnly what is accepted is applied by `cloche apply`: {done['combination']}. What ran in the "
            f"box had the rest beside it{'; see what was tried' if review.tried else ''}.\n"
        )
    return said


def _requested(done: Activity) -> str:
    """Only where a reviewer sent an earlier proposal back."""
    if not done.requests:
        return ""
    rows = (
        f"{_date(_time(one))}  {_who(one)} of tree {str(one.get('snapshot'))[:12]}: "
        f"{one.get('comments')} comments, {one.get('rejected')} rejected parts"
        f"{', a summary' if one.get('summary') else ''}"
        for one in done.requests
    )
    return "## What changes were requested\n\nOf earlier proposals of this box:\n\n" + fenced(rows)


def _launched(done: Activity) -> str:
    """On which host, and what was found inside: runtime, kernel, image and its digest."""
    if not done.launches:
        return ""
    return "## Where it ran\n\n" + fenced(_launch(one) for one in done.launches)


def _launch(one: Mapping[str, object]) -> str:
    host, facts = one.get("host"), one.get("facts")
    where = f"{host.get('node')}, Linux {host.get('kernel')}" if isinstance(host, dict) else "unknown"
    inside = [f"{name} {value}" for name, value in facts.items()] if isinstance(facts, dict) else []
    return "; ".join([f"{_date(_time(one))}  {where}", *inside])


def _said(review: ReviewView) -> str:
    """What the reviewer wrote, where they did."""
    progress = review.progress
    if progress is None or not (progress.comments or progress.summary.strip()):
        return ""
    rows = progress.summary.strip().split("\n") if progress.summary.strip() else []
    for one in progress.comments:
        line = f":{'-' if one.side == 'old' else ''}{one.line}" if one.line else ""
        old = " (the file has changed since)" if one.id in progress.stale else ""
        rows.append(f"{_name(one.path)}{line}, {one.who}{old}:")
        rows += [f"  {text}" for text in one.text.split("\n")]
    return "## What the reviewer said\n\n" + fenced(rows)


def _who(data: Mapping[str, object]) -> str:
    return f"{'the script ' if data.get('scripted') is True else ''}{data.get('who')}"


def _time(data: Mapping[str, object]) -> float:
    when = data.get("time")
    return float(when) if isinstance(when, int | float) else 0.0


def _tried(review: ReviewView) -> str:
    """What ran on the accepted part, each time in a fresh box; only where anything was tried."""
    if not review.tried:
        return ""
    said = (
        f"## What was tried\n\n{_many(len(review.tried), 'command')} on what was accepted, each in a fresh "
        "box under the same policy:\n\n"
    )
    return said + fenced(_trial(one) for one in review.tried)


def _trial(one: Trial) -> str:
    where = f"merged onto {one.onto[:12]}" if one.onto else "on its base"
    what = "all of it" if one.whole else "the accepted part"
    fits = "" if one.fits else ", not what is accepted now"
    return (
        f"{' '.join(one.argv)}  (exit {one.exit}, {one.wall:.1f} s, {_many(one.denied, 'refusal')}; {what} "
        f"{where}: tree {one.tree}{fits}; by {one.who})"
    )


def _applied(done: Activity) -> str:
    if not done.applied:
        return ""
    return "## What was applied before\n\n" + fenced(_act(one) for one in done.applied)


def _act(data: Mapping[str, object]) -> str:
    old, new = (str(data.get(name) or "nothing")[:12] for name in ("old", "new"))
    said = f"{data.get('act')}  {data.get('branch')}: {old} -> {new}, by {_who(data)}"
    if data.get("partial") is True:
        said += f"; {data.get('accepted')} accepted, {data.get('left')} left, {data.get('combination')}"
    return said


def _ran(sessions: tuple[SessionRow, ...], done: Activity) -> str:
    said = f"## What ran\n\n{_many(len(sessions), 'session')} started from outside:\n\n"
    said += fenced(_session(session) for session in sessions) if sessions else "None.\n"
    said += f"\n{_many(done.executed, 'program start')} seen in the whole process tree:\n\n"
    rows = [f"{p.times:>6} x  {p.path}  {' '.join(p.argv)}" for p in done.programs]
    if done.others:
        rows.append(f"{done.others:>6} x  other command lines")
    return said + (fenced(rows) if rows else "None.\n")


def _session(session: SessionRow) -> str:
    if session.exit is not None:
        end = f"exit {session.exit}"
    else:
        end = "still running" if session.state == "running" else "its end was not seen"
    wall = "" if session.ended is None else f", {session.ended - session.started:.1f} s"
    cpu = "" if session.cpu is None else f", {session.cpu:.1f} s CPU"
    peak = "" if session.peak_rss is None else f", peak {session.peak_rss / 1048576:.0f} MiB"
    return f"{session.id:>4}  {' '.join(session.argv)}  ({end}{wall}{cpu}{peak})"


def _went(traffic: tuple[TrafficRow, ...]) -> str:
    """Only for a box that reached anything: at other tiers nobody counts what goes where."""
    if not traffic:
        return ""
    rows = []
    for row in sorted(traffic, key=lambda one: (-one.sent - one.received, one)):
        place = f"[{row.address}]:{row.port}" if ":" in row.address else f"{row.address}:{row.port}"
        where = " ".join(filter(None, (row.name, place))) if row.address else "other destinations"
        failed = f", {row.failed} failed" if row.failed else ""
        rows.append(
            f"{where}  {_many(row.connections, 'connection')}{failed}, "
            f"{_many(row.sent, 'byte')} sent, {row.received} received"
        )
    return "## Where its connections went\n\nThrough the relay, to listed destinations:\n\n" + fenced(rows)


def _denied(review: ReviewView) -> str:
    tally = review.tally
    said = f"## What was denied\n\n{_many(tally.total, 'refusal')}.\n\n"
    rows = [
        f"{row.count:>6} x  {row.kind:<9} {row.object}  "
        f"by {row.enforced_by} ({row.rule}), last from: {row.command or 'not known'}"
        for row in tally.rows
    ]
    if tally.others:
        rows.append(f"{tally.others:>6} x  refusals without a row of their own")
    return said + (fenced(rows) if rows else "None was seen; read the next section beside this.\n")


def _unseen(review: ReviewView, done: Activity) -> str:
    rows = [f"{missing.kind}: {missing.reason}" for missing in review.tally.not_observed]
    rows += [f"lost: {count} {what}" for what, count in done.lost]
    rows += [f"left out of the proposal: {_name(path)}: {why}" for path, why in review.diff.skipped]
    rows += [f"ignored, so left out of the proposal: {_name(path)}" for path in review.ignored.names]
    if review.ignored.total > len(review.ignored.names):
        more = review.ignored.total - len(review.ignored.names)
        rows.append(f"ignored, so left out of the proposal: {more} more")
    if review.row.unconfined:
        rows.append(
            "everything outside the tree: this tier confines nothing, and the journal is within reach"
        )
    said = "## What could not be observed\n\nNot observed is not zero.\n\n"
    return said + (fenced(rows) if rows else "Nothing is known to be missing.\n")


def _policy(review: ReviewView, policy: Mapping[str, object], done: Activity) -> str:
    text = json.dumps(policy, indent=1, sort_keys=True, ensure_ascii=True)
    said = f"## Policy\n\nResolved at creation; SHA-256 {_hex(review.policy_digest)}.\n\n"
    if done.generations:
        said = (
            f"## Policy\n\nResolved at creation, and changed since; SHA-256 {_hex(review.policy_digest)}.\n\n"
        )
        said += fenced(_generation(one) for one in done.generations) + "\n"
    return said + _block(text.split("\n"))


def _generation(data: Mapping[str, object]) -> str:
    return (
        f"generation {data.get('generation')}: {data.get('key')} {data.get('value')}, "
        f"accepted by {_who(data)}"
    )


def _how_to_apply(review: ReviewView) -> str:
    row = review.row
    ways = [
        "cloche verify DIR             # is this folder what was exported, and who signed it?",
        "cloche review DIR             # the same with its patch and checks, on any host",
    ]
    if row.base_ref:
        ways.append(f"cloche apply {row.name}")
    ways += _by_hand(review)
    text = "\n".join(f"    {visible(way)}" for way in ways)
    return (
        "## How to apply\n\nWhat is applied is byte for byte what is in `patch.diff`. Containment does not "
        f"certify it: read it first.\n\n{text}\n"
    )


def _by_hand(review: ReviewView) -> list[str]:
    """With Git alone. Nobody has the base of a box that began empty: its patch goes into a new repository."""
    row, snapshot = review.row, review.snapshot
    if snapshot.base_tree in EMPTY_TREES and not row.repository:
        form = f" --object-format={EMPTY_TREES[snapshot.base_tree]}"
        return [
            "# The box began empty. In this folder, with NEW for the folder of a new repository:",
            f'git init -q{form} NEW && git -C NEW apply --index --binary "$PWD/patch.diff"',
        ]
    by_hand = f"git switch --detach {snapshot.base[:64]} && git apply --index --binary patch.diff"
    if row.repository:
        return [by_hand]
    return ["# In a clone of what the box was cloned from (git clone URL NEW && cd NEW):", by_hand]


def _hex(text: str) -> str:
    return "".join(c for c in text if c in "0123456789abcdef")


def _date(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(when))
