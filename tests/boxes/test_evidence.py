"""The evidence of a real box's proposal: what ran over what, what else changed files, what it brings."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.engine import Engine, NewBox
from backends.snapshots_evidence import ProposalEvidence
from tests import support
from tests.boxes import provided
from tests.boxes.provided import QUIET
from tests.support import Done

pytestmark = pytest.mark.real
Cli = Callable[..., Done]
SECRET = "AKIA" + "IOSFODNN7EXAMPLD"
APART = 0.4
"""Seconds of distance that change times and sessions are kept at: four times what is taken for the same."""


FILES = {"a": b"1\n", "gone": b"x\n", ".gitattributes": b"*.made linguist-generated\n", "t.sh": b"true\n"}
repo = provided.repository(FILES)
engine = provided.engine_with("b")


def run(engine: Engine, script: str) -> None:
    assert engine.run("b", ["sh", "-c", script], streams=QUIET).exit == 0


def proposed(engine: Engine) -> ProposalEvidence:
    engine.propose("b")
    found = engine.review("b").evidence
    assert found is not None
    return found


def files_of(engine: Engine) -> Path:
    paths = engine.find("b")
    return paths.upper if paths.upper.exists() else paths.tree


def test_a_test_run_is_told_beside_the_last_change(engine: Engine) -> None:
    run(engine, "sh t.sh; echo 2 > a")
    time.sleep(APART)
    engine.run("b", ["sh", "./t.sh", "test"], streams=QUIET)
    engine.run("b", ["sh", "-c", "make test || exit 3"], streams=QUIET)
    found = proposed(engine)
    assert [(one.test, one.exit, one.covers) for one in found.ran][-1] == (True, 3, "after")
    assert found.ran[0].covers in ("during", "before") and not found.ran[0].test
    assert found.outside == () and found.alive == 0 and found.last_change is not None

    engine.reopen("b")
    time.sleep(APART)
    run(engine, "echo 3 > a")
    again = proposed(engine)
    assert [one.covers for one in again.ran if one.test] == ["before"]


def test_a_test_run_that_the_box_starts_itself_is_told_with_its_exit_everywhere(
    engine: Engine, cli: Cli, tmp_path: Path
) -> None:
    run(
        engine,
        "printf 'echo 2 > a; sleep 0.3; ./pytest 1; ./pytest 0; ./pytest 0; true' > agent;"
        "printf '#!/bin/sh\\nexit $1\\n' > pytest; chmod +x pytest; sleep 0.5",
    )
    assert engine.run("b", ["sh", "agent"], streams=QUIET).exit == 0
    found = proposed(engine)
    told = {one.argv: one for one in found.inner}
    good, bad = told["./pytest", "0"], told["./pytest", "1"]
    assert [(end.exit, end.times) for end in good.ends] == [(0, 2)]
    assert [(end.exit, end.times) for end in bad.ends] == [(1, 1)]
    assert good.last is not None and (good.last.exit, good.last.covers) == (0, "after")
    assert found.unseen == () and not any(one.test for one in found.ran)

    shown = cli("review", "b", cwd=engine.cwd).out
    assert "Processes of the box started 3 themselves, 2 with exit 0." in shown
    assert "./pytest 1  (inside: exit 1, " in shown and "./pytest 0  (inside: 2 exit 0, " in shown
    document = json.loads(cli("review", "b", "--json", cwd=engine.cwd).out)
    ends = {tuple(one["argv"]): one["ends"] for one in document["evidence"]["inner"]}
    assert ends["./pytest", "1"] == [{"exit": 1, "signal": "", "why": "", "times": 1}]
    assert cli("export", "b", "--out", str(tmp_path / "out"), cwd=engine.cwd).code == 0
    assert "./pytest 1  (inside: exit 1, " in (tmp_path / "out" / "report.md").read_text()
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert receipt["evidence"]["inner"] == document["evidence"]["inner"]


def test_a_tier_that_sees_no_execution_says_that_tests_can_have_run(engine: Engine) -> None:
    (engine.cwd / "cloche.toml").unlink()
    engine.create(NewBox(name="w", tier="workspace"))
    assert engine.run("w", ["sh", "-c", "echo w > w"], streams=QUIET).exit == 0
    engine.propose("w")
    found = engine.review("w").evidence
    assert found is not None and found.inner == ()
    assert found.unseen == (
        "no program that a process of the box starts is seen at this tier, test runs neither",
    )


def test_a_file_that_something_else_changed_is_named_whatever_its_own_times_say(engine: Engine) -> None:
    run(engine, "echo 2 > a; echo b > b; rm gone; touch -d '2001-01-01' b")
    engine.stop("b")
    time.sleep(APART)
    place = files_of(engine)
    (place / "planted").write_text("not the box's\n")
    os.utime(place / "planted", (time.time() - APART - 1, time.time() - APART - 1))
    found = proposed(engine)
    assert [(one.path, one.alive) for one in found.outside] == [(b"planted", False)]
    assert found.untimed == 1 and found.more_outside == 0
    view = engine.review("b")
    assert b"planted" in view.diff.patch


def test_a_process_that_outlived_its_session_is_told_from_nobody(engine: Engine) -> None:
    run(
        engine,
        "setsid sh -c 'sleep 1; echo late > late; mv late done' </dev/null >/dev/null 2>&1 & echo > early",
    )
    place = files_of(engine)
    support.wait_until((place / "done").exists, "the process that was left behind has written")
    support.wait_until(lambda: not engine.processes("b"), "and has ended")
    found = proposed(engine)
    assert [(one.path, one.alive) for one in found.outside] == [(b"done", True)]


def test_a_tier_that_confines_nothing_cannot_tell_what_still_runs(engine: Engine) -> None:
    (engine.cwd / "cloche.toml").unlink()
    engine.create(NewBox(name="w", tier="workspace"))
    assert engine.run("w", ["sh", "-c", "echo w > w"], streams=QUIET).exit == 0
    engine.propose("w")
    found = engine.review("w").evidence
    assert found is not None and found.alive is None


def test_a_box_cannot_date_its_own_change_out_of_its_session(engine: Engine) -> None:
    run(
        engine,
        "echo b > b; for d in 1990-01-01 2001-01-01 2090-01-01; do touch -d $d b; touch -a -d $d b; done;"
        "cp -p b c; mv b d; ln d e; date -s 2001-01-01 >/dev/null 2>&1; echo f > f; touch -r t.sh f; true",
    )
    engine.stop("b")
    time.sleep(APART)
    found = proposed(engine)
    assert found.outside == () and found.last_change is not None
    assert abs(found.last_change - time.time()) < 600


def test_what_it_brings_is_told_everywhere_and_the_secret_nowhere(
    engine: Engine, cli: Cli, tmp_path: Path
) -> None:
    run(
        engine,
        f"(printf 'k = \"'; echo {SECRET[::-1]} | rev | tr -d '\\n'; echo '\"') > conf.py;"
        "printf 'm 1 h1:x\\n' > go.sum; mkdir vendor;"
        "echo c > vendor/c.c; echo g > x.made; printf '* linguist-generated\\n' > .gitattributes",
    )
    found = proposed(engine)
    assert [(one.path, one.line, one.named) for one in found.secrets] == [(b"conf.py", 1, True)]
    assert [(one.path, one.added) for one in found.locks] == [(b"go.sum", 1)]
    # What the proposal's own .gitattributes says folds nothing; the base's does.
    assert {(one.path, one.kind) for one in found.bulk} == {
        (b"go.sum", "generated"), (b"vendor/c.c", "vendored"), (b"x.made", "generated")
    }  # fmt: skip
    shown = cli("review", "b", cwd=engine.cwd).out
    assert "conf.py:1  AWS Access Key" in shown and "go.sum: 1 added" in shown
    document = json.loads(cli("review", "b", "--json", cwd=engine.cwd).out)
    assert document["evidence"]["secrets"][0]["shown"] == "AKI… (20 characters)"
    assert cli("export", "b", "--out", str(tmp_path / "out"), cwd=engine.cwd).code == 0
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## What looks like a secret" in report and "added     m 1" in report
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert receipt["evidence"]["locks"][0]["rows"][0]["name"] == "m"
    assert cli("verify", str(tmp_path / "out"), cwd=engine.cwd).code == 0
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge(row.key for row in desk.warnings())
    engine.apply("b", as_name="t")
    paths = engine.find("b")
    told = [shown, json.dumps(document["evidence"]), json.dumps(document["checks"]), report]
    told += [json.dumps(receipt), paths.journal.read_text(), paths.review.read_text()]
    told += [(paths.root / "manifest.json").read_text()]
    for text in told:
        assert SECRET not in text and SECRET[4:] not in text
