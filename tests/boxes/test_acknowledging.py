"""Warnings are taken upon oneself one by one, for exactly the content that they are about, and told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.engine import Engine, NewBox, Streams
from backends.errors import Busy, Refused
from backends.gate import decisions_file
from backends.gate.patch import ACCEPTED, REJECTED
from backends.snapshots import CheckRow
from tests import support
from tests.support import Done

pytestmark = pytest.mark.real
Cli = Callable[..., Done]
NULL = os.open(os.devnull, os.O_RDWR)


def run(engine: Engine, script: str) -> None:
    assert engine.run("b", ["sh", "-ec", script], streams=Streams(NULL, NULL, NULL)).exit == 0


@pytest.fixture
def engine(home: object, tmp_path: Path) -> Iterator[Engine]:
    repo = support.make_repo(tmp_path / "repo", {"a": b"1\n2\n3\n", "plain": b"x\n"})
    made = Engine(repo)
    made.create(NewBox(name="b"))
    run(made, "printf '#!/bin/sh\\n' > tool; chmod +x tool; printf 'a\\0' > data; echo y > plain")
    made.propose("b")
    yield made
    for row in made.boxes():
        made.stop(row.name)


def warnings(engine: Engine) -> dict[tuple[str, bytes | None], CheckRow]:
    return {(row.id, row.path): row for row in engine.review("b").checks if row.verdict == "warn"}


def acknowledged(engine: Engine) -> list[dict[str, object]]:
    return [dict(one.data) for one in engine.journal("b") if one.kind in ("acknowledged", "withdrawn")]


def refused(engine: Engine, code: str) -> Refused:
    with pytest.raises(Refused) as caught:
        engine.apply("b", as_name="t", part=True)
    assert caught.value.code == code
    return caught.value


def test_nothing_is_applied_while_a_warning_stands_and_the_standing_ones_are_named(engine: Engine) -> None:
    tip = support.git(engine.cwd, "rev-parse", "main")
    rows = warnings(engine)
    assert set(rows) == {("executable", b"tool"), ("binary", b"data")}
    assert len({row.key for row in rows.values()}) == 2
    assert {row.key for row in engine.review("b").checks if row.verdict == "pass"} == {""}
    said = refused(engine, "warnings-unacknowledged").why
    assert "tool: is a new executable file" in said and "data: is binary" in said
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([rows["binary", b"data"].key])
    plan = engine.plan_apply("b", as_name="t")
    assert [row.path for row in plan.standing] == [b"tool"]
    said = refused(engine, "warnings-unacknowledged").why
    assert "tool" in said and "data" not in said
    assert support.git(engine.cwd, "rev-parse", "main") == tip
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([rows["executable", b"tool"].key])
    done = engine.apply("b", as_name="t", part=True)
    record = next(one.data for one in engine.journal("b") if one.kind == "apply")
    assert done.new and record["acknowledged"] == [row.key for row in plan.checks if row.key]


def test_who_did_it_is_journalled_before_it_counts(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    key = warnings(engine)["binary", b"data"].key
    with engine.decisions("b", "ann", scripted=True) as desk:
        desk.acknowledge([key])
        desk.acknowledge([key])
    (told,) = acknowledged(engine)
    assert told == {
        "who": "ann",
        "scripted": True,
        "snapshot": engine.review("b").snapshot.id,
        "warnings": [
            {
                "key": key,
                "check": "binary",
                "path": "data",
                "reason": "is binary: nobody can read it in a diff",
            }
        ],
    }
    progress = engine.review("b").progress
    assert progress is not None
    assert [(one.key, one.who, one.scripted) for one in progress.acknowledged] == [(key, "ann", True)]

    other = warnings(engine)["executable", b"tool"].key
    with engine.decisions("b", "bob") as desk:
        monkeypatch.setattr(desk, "_told_of", _fail)
        with pytest.raises(OSError, match="the disk is full"):
            desk.acknowledge([other])
    assert [row.key for row in engine.plan_apply("b", as_name="t").standing] == [other]


def _fail(rows: object) -> dict[str, object]:
    raise OSError("the disk is full")


def test_what_was_acknowledged_can_stand_again(engine: Engine) -> None:
    keys = [row.key for row in warnings(engine).values()]
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge(keys)
        desk.acknowledge(keys[:1], withdraw=True)
        desk.acknowledge(keys[:1], withdraw=True)
    assert [row.key for row in engine.plan_apply("b", as_name="t").standing] == keys[:1]
    assert [one.kind for one in engine.journal("b") if one.kind in ("acknowledged", "withdrawn")] == [
        "acknowledged", "withdrawn"
    ]  # fmt: skip


def test_a_key_of_nothing_that_is_warned_of_is_refused(engine: Engine) -> None:
    with engine.decisions("b", "ann") as desk:
        for key in ("", "0" * 32, "x" * 10_000):
            with pytest.raises(Refused) as caught:
                desk.acknowledge([key])
            assert caught.value.code == "no-such-warning" and len(caught.value.why) < 200
    assert acknowledged(engine) == []


def test_of_two_who_acknowledge_at_once_one_looks_again(engine: Engine) -> None:
    keys = [row.key for row in warnings(engine).values()]
    with engine.decisions("b", "ann") as one, engine.decisions("b", "bob") as two:
        one.acknowledge(keys[:1])
        with pytest.raises(Busy) as caught:
            two.acknowledge(keys[1:])
        assert caught.value.code == "review-changed"
        two.reload()
        two.acknowledge(keys[1:])
    assert [one["who"] for one in acknowledged(engine)] == ["ann", "bob"]


def test_a_new_proposal_keeps_what_is_about_the_same_content(engine: Engine) -> None:
    before = warnings(engine)
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([row.key for row in before.values()])
    engine.reopen("b")
    run(engine, "printf '#!/bin/sh\\nevil\\n' > tool; echo z > plain")
    engine.propose("b")
    after = warnings(engine)
    assert after["binary", b"data"].key == before["binary", b"data"].key
    assert after["executable", b"tool"].key != before["executable", b"tool"].key
    assert after["executable", b"tool"].reason == before["executable", b"tool"].reason
    assert [row.path for row in engine.plan_apply("b", as_name="t").standing] == [b"tool"]
    refused(engine, "warnings-unacknowledged")


def test_a_warning_of_what_is_left_out_does_not_stand_in_the_way(engine: Engine) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"plain", desk.file(b"plain").all)], ACCEPTED)
        desk.set([(b"tool", desk.file(b"tool").all)], REJECTED)
    assert engine.apply("b", as_name="t", part=True).partial


def test_a_part_of_a_file_is_other_content_and_is_acknowledged_as_such(engine: Engine) -> None:
    engine.reopen("b")
    run(engine, "rm data tool; chmod +x a; printf '1\\ntwo\\n3\\n' > a")
    engine.propose("b")
    whole = warnings(engine)["executable", b"a"]
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([whole.key])
        desk.set([(b"a", desk.file(b"a").part("mode"))], ACCEPTED)
        rows = {row.key for row in desk.warnings()}
        assert whole.key in rows and len(rows) == 2
    (standing,) = engine.plan_apply("b", as_name="t").standing
    assert standing.reason == whole.reason and standing.key != whole.key
    refused(engine, "warnings-unacknowledged")
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([standing.key])
    assert engine.apply("b", as_name="t", part=True).partial


def test_a_review_that_was_kept_before_is_read_and_a_forged_one_is_refused(engine: Engine) -> None:
    key = warnings(engine)["binary", b"data"].key
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([key])
        patch, compared = desk.patch, desk.review.snapshot
    kept = json.loads(engine.find("b").review.read_bytes())
    assert kept["acknowledged"] == [[key, "ann", kept["acknowledged"][0][2], False]]
    old = {name: value for name, value in kept.items() if name != "acknowledged"}
    assert decisions_file.parse(written(old), patch, compared).acknowledged == {}
    row = kept["acknowledged"][0]
    for bad in ([[*row], [*row]], [row[:3]], [["x", *row[1:]]], [[key, 1, 2.0, False]],
                [[key, "a", -1, False]],
                [[key, "a", 1, 1]], "x", [["0" * 40, "a", 1.0, False]]):  # fmt: skip
        with pytest.raises(ValueError):
            decisions_file.parse(written({**kept, "acknowledged": bad}), patch, compared)


def written(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def test_scripts_name_keys_or_all_of_them(engine: Engine, cli: Cli) -> None:
    shown = cli("apply", "b", "--dry-run", cwd=engine.cwd)
    keys = [row.key for row in warnings(engine).values()]
    assert all(f"warn {key[:8]}: " in shown.out for key in keys)
    plain = cli("apply", "b", "--as", "t", cwd=engine.cwd)
    assert plain.code == 3 and "--acknowledge" in plain.err and keys[0][:8] in plain.err
    for wrong in ("0123abcd", keys[0][:3], "every", f"{keys[0]},zz"):
        done = cli("apply", "b", "--as", "t", "--acknowledge", wrong, cwd=engine.cwd)
        assert done.code == 3, done
    assert acknowledged(engine) == []
    half = cli("apply", "b", "--as", "t", "--acknowledge", keys[0][:8], cwd=engine.cwd)
    assert half.code == 3 and keys[1][:8] in half.err and keys[0][:8] not in half.err
    reviewed = cli("review", "b", cwd=engine.cwd)
    assert reviewed.out.count("(acknowledged by t)") == 1
    assert cli("apply", "b", "--as", "t", "--acknowledge", "all", cwd=engine.cwd).code == 0
    assert [(one["who"], one["scripted"]) for one in acknowledged(engine)] == [("t", True)] * 2


def test_report_and_receipt_tell_who_acknowledged_what(engine: Engine, cli: Cli, tmp_path: Path) -> None:
    key = warnings(engine)["binary", b"data"].key
    with engine.decisions("b", "ann\n# not a heading") as desk:
        desk.acknowledge([key])
    assert cli("export", "b", "--out", str(tmp_path / "out"), cwd=engine.cwd).code == 0
    report = (tmp_path / "out" / "report.md").read_text()
    assert "(acknowledged by ann" in report and "\n# not" not in report
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert [one["key"] for one in receipt["acknowledged"]] == [key]
    assert key in [one["key"] for one in receipt["checks"]]
    assert cli("verify", str(tmp_path / "out"), cwd=engine.cwd).code == 0
