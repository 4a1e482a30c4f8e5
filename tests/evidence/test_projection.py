"""One projection: whatever the journal holds, engine, JSON, report and receipt give the same numbers (N3)."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.cli.context import Context
from app.cli.denials import _rows
from app.cli.evidence import denials
from app.cli.table import BY_NAME
from backends.boxes.layout import BoxPaths
from backends.evidence.journal import Anchor, Journal, read
from backends.evidence.receipts import activity, export_receipt, tally_value
from backends.evidence.tally import project
from backends.gate.report import render
from backends.keeper.denials import Denials, Refusal
from backends.snapshots import BoxRow, Diff, DiffStat, ReviewView, SnapshotInfo, Tally
from backends.verbs import records

KINDS = ("fs-read", "fs-write", "exec", "net", "dns", "socket", "syscall", "limit")
# What comes out of a box: any text, also what could take itself for a row of the report.
objects = st.one_of(
    st.sampled_from(["/etc/shadow", "1.2.3.4:443", "a\n  9 x  net forged", "|", "`" * 4, "\udcff"]),
    st.text(max_size=12),
)
refusals = st.builds(
    Refusal, st.sampled_from(KINDS), objects, st.sampled_from(["fs.read", "no x"]),
    st.sampled_from(["keeper", "kernel"]), st.sampled_from(["seccomp", "nftables"]),
)  # fmt: skip
# A life of a box: refusals, repeats of them, seconds that pass, and events that nobody could look at.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("deny"), refusals, st.sampled_from([1, 1, 2, 10_000])),
        st.tuples(st.just("tick"), st.none(), st.just(0)),
        st.tuples(st.just("lost"), st.sampled_from(["denials", "opens", "execs"]), st.integers(1, 50)),
        st.tuples(st.just("other"), st.sampled_from(["exec", "policy", "used"]), st.just(0)),
    ),
    max_size=40,
)


def write(journal: Journal, life: list[tuple[str, Any, int]]) -> tuple[Counter[Refusal], Counter[str]]:
    """Have a keeper's counter write the journal; returns what really happened."""
    happened: Counter[Refusal] = Counter()
    lost: Counter[str] = Counter()
    batch: list[tuple[str, Any]] = []
    counter = Denials(lambda kind, data: batch.append((kind, dict(data))))
    for act, what, count in life:
        if act == "deny":
            happened[what] += count
            counter.add(what, 7, "some command", count)
        elif act == "tick":
            counter.flush(everything=False)
        elif act == "lost":
            lost[what] += count
            batch.append(("lost", {"what": what, "count": count}))
        else:
            batch.append((what, {"count": 5, "rows": []}))
    counter.flush()
    journal.append_many(batch)
    return happened, lost


class _Engine:
    """The two questions that ``cloche denials`` asks, answered by the engine's own code."""

    def __init__(self, paths: BoxPaths) -> None:
        self.paths = paths

    def find(self, _ref: str) -> BoxPaths:
        return self.paths

    def tally(self, _ref: str) -> Tally:
        return records.tally(self.paths)


def printed(paths: BoxPaths) -> dict[str, Any]:
    """What ``cloche denials --json`` prints."""
    context = Context(BY_NAME["denials"], as_json=True)
    context.engine = _Engine(paths)  # type: ignore[assignment]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        denials(context, argparse.Namespace(box="b"))
    value: dict[str, Any] = json.loads(out.getvalue())
    return value


def review(tally: Tally) -> ReviewView:
    """A proposal without a change, of which only the denials matter here."""
    row = BoxRow(
        "k/b", "b", "/r", "process", "default", "proposed", "", "0" * 40, "refs/heads/main", 0, 1.0, "", None,
        "", 0, 0.0, 0, tally.total, None, "", False,
    )  # fmt: skip
    snapshot = SnapshotInfo("1" * 40, "0" * 40, "2" * 40, 1.0, DiffStat(0, 0, 0))
    return ReviewView(
        row, snapshot, "3" * 64, Diff("0" * 40, "1" * 40, (), b"", ()), (), tally, (), "main", "0" * 40
    )


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(life=steps)
def test_every_place_that_shows_denials_gives_the_same_numbers(
    tmp_path: Path, life: list[tuple[str, Any, int]]
) -> None:
    paths = BoxPaths(tmp_path / "k" / "b")
    paths.root.mkdir(parents=True, exist_ok=True)
    paths.journal.unlink(missing_ok=True)
    happened, lost = write(Journal(paths.journal), life)
    total = happened.total() + lost["denials"]

    engine = records.tally(paths)
    assert engine.total == total
    assert Counter({Refusal(*row[:5]): row.count for row in engine.rows}) == happened
    assert engine.others == lost["denials"]
    assert dict(engine.lost) == {what: n for what, n in lost.items() if what != "denials"}

    said = printed(paths)
    assert {key: said[key] for key in ("rows", "total", "others", "not_observed", "lost")} == json.loads(
        json.dumps(tally_value(engine))
    )

    found = list(read(paths.journal))
    proposal = review(project(found))
    done, anchor = activity(found), Anchor(len(found), "0" * 64)
    receipt = json.loads(json.dumps(export_receipt(proposal, done, anchor, {}, {}, 1.0)))
    assert receipt["tally"] == json.loads(json.dumps(tally_value(engine)))

    report = render(proposal, done, anchor, {}, 1.0)
    section = report[
        report.index("\n## What was denied\n") : report.index("\n## What could not be observed\n")
    ]
    assert re.search(rf"^{total} refusals?\.$", section, re.MULTILINE)
    counts = [int(n) for n in re.findall(r"^ {2,}(\d+) x  ", section, re.MULTILINE)]
    rows = [row.count for row in engine.rows] + ([engine.others] if engine.others else [])
    assert counts == rows


def test_ten_thousand_repeats_are_one_row_with_first_and_last(tmp_path: Path) -> None:
    now = 100.0
    batch: list[tuple[str, Any]] = []
    counter = Denials(lambda kind, data: batch.append((kind, dict(data))), clock=lambda: now)
    one = Refusal("net", "1.2.3.4:443", "net.mode = deny", "keeper", "network namespace")
    for n in range(10_000):
        now = 100.0 + n / 100
        counter.add(one, 7, "curl")
        if n % 100 == 99:
            counter.flush(everything=False)
    counter.flush()
    paths = BoxPaths(tmp_path / "k" / "b")
    paths.root.mkdir(parents=True)
    Journal(paths.journal).append_many(batch)
    tally = records.tally(paths)
    assert [(row.count, row.first, row.last) for row in tally.rows] == [(10_000, 100.0, 199.99)]
    assert tally.total == 10_000 and tally.others == 0
    assert len(batch) <= 101, "a record a second at most"


def test_a_row_is_found_by_its_number_and_by_its_object(tmp_path: Path) -> None:
    paths = BoxPaths(tmp_path / "k" / "b")
    paths.root.mkdir(parents=True)
    many, one = Refusal("net", "2", "r", "l", "e"), Refusal("dns", "x", "r", "l", "e")
    write(Journal(paths.journal), [("deny", many, 3), ("deny", one, 1)])
    context = Context(BY_NAME["denials"], as_json=True)
    context.engine = _Engine(paths)  # type: ignore[assignment]
    assert [row.object for row in _rows(context, "b", "1")] == ["2"]
    assert [row.object for row in _rows(context, "b", "x")] == ["x"]
    assert _rows(context, "b", "3") == [] == _rows(context, "b", "0") == _rows(context, "b", "y")
