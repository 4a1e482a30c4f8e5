"""Warnings about what no diff of the proposal shows: a merge's own result, and commits kept on the way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.engine import Engine, NewBox, Streams
from backends.errors import Refused
from backends.snapshots import ApplyPlan, CheckRow
from tests import support
from tests.support import Done

pytestmark = pytest.mark.real
Cli = Callable[..., Done]
NULL = os.open(os.devnull, os.O_RDWR)
NAMED = "git config user.name 'An Agent'; git config user.email agent@inside.example\n"


@pytest.fixture
def engine(home: object, tmp_path: Path) -> Iterator[Engine]:
    repo = support.make_repo(tmp_path / "repo", {"a": b"1\n2\n3\n", "plain": b"x\n"})
    made = Engine(repo)
    made.create(NewBox(name="b"))
    yield made
    for row in made.boxes():
        made.stop(row.name)


def proposed(engine: Engine, script: str) -> None:
    assert engine.run("b", ["sh", "-ec", script], streams=Streams(NULL, NULL, NULL)).exit == 0
    engine.propose("b")


def gained(engine: Engine, files: dict[str, bytes]) -> None:
    """The branch moves on."""
    support.write_files(engine.cwd, files)
    support.git(engine.cwd, "add", "-A")
    support.git(engine.cwd, "commit", "-qm", "moved on")


def refused(engine: Engine, code: str, **how: bool) -> Refused:
    with pytest.raises(Refused) as caught:
        engine.apply("b", as_name="t", part=True, **how)  # type: ignore[arg-type]
    assert caught.value.code == code
    return caught.value


def take(engine: Engine, plan: ApplyPlan) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge([row.key for row in plan.standing], also=plan.checks)


def test_a_warning_that_only_the_merge_causes_is_shown_and_has_to_be_acknowledged(engine: Engine) -> None:
    proposed(engine, "echo y > notes")
    gained(engine, {"NOTES": b"x\n"})
    assert [row for row in engine.review("b").checks if row.verdict != "pass"] == []
    plan = engine.plan_apply("b", as_name="t")
    assert [(row.id, row.reason) for row in plan.standing] == [
        ("invisible-name", "is one with NOTES where case or normal form does not count")
    ]
    assert plan.standing[0] in plan.checks
    tip = support.git(engine.cwd, "rev-parse", "main")
    assert "NOTES" in refused(engine, "warnings-unacknowledged").why
    assert support.git(engine.cwd, "rev-parse", "main") == tip
    take(engine, plan)
    engine.apply("b", as_name="t", part=True, seen=plan)
    told = [one.data for one in engine.journal("b") if one.kind == "acknowledged"]
    assert "'path': 'notes'" in str(told[0]["warnings"])


def test_a_warning_of_the_proposal_is_not_asked_again_for_the_merge(engine: Engine) -> None:
    proposed(engine, "printf '#!/bin/sh\\n' > tool; chmod +x tool")
    gained(engine, {"other": b"x\n"})
    plan = engine.plan_apply("b", as_name="t")
    assert [(row.id, row.path) for row in plan.checks if row.verdict == "warn"] == [("executable", b"tool")]


MIDDLE = NAMED + (
    "printf 'token\\n' > secret; git add secret; git commit -qm 'Add a secret'\n"
    "git rm -q secret; printf 'done\\n' > a; git commit -qam 'Take it away'\n"
)


def commit_rows(rows: tuple[CheckRow, ...]) -> list[str]:
    return [row.reason for row in rows if row.id == "commits"]


def test_what_only_a_commit_on_the_way_holds_is_warned_of_where_commits_are_kept(engine: Engine) -> None:
    proposed(engine, MIDDLE)
    commits = engine.review("b").commits
    assert commits is not None and commits.keepable
    assert commit_rows(engine.plan_apply("b", as_name="t").checks) == []
    plan = engine.plan_apply("b", as_name="t", keep_commits=True)
    (said,) = commit_rows(plan.standing)
    assert said == (
        "1 version of a file is in the kept commits and not in the proposal: "
        f"secret in {commits.rows[0].id[:12]}"
    )
    assert said in refused(engine, "warnings-unacknowledged", keep_commits=True).why
    take(engine, plan)
    engine.apply("b", as_name="t", part=True, seen=plan, keep_commits=True)
    assert support.git(engine.cwd, "show", "HEAD~1:secret") == "token"


def test_commits_that_hold_nothing_else_are_not_warned_of(engine: Engine) -> None:
    proposed(
        engine,
        NAMED + "echo 1 > one; git add one; git commit -qm 1; echo 2 > two; git add two; git commit -qm 2",
    )
    assert commit_rows(engine.plan_apply("b", as_name="t", keep_commits=True).checks) == []


def test_a_message_that_hides_something_is_warned_of(engine: Engine) -> None:
    proposed(
        engine, NAMED + "echo 1 > one; git add one; printf 'One\\n\\n\\033]0;x\\007' | git commit -q -F -"
    )
    (said,) = commit_rows(engine.plan_apply("b", as_name="t", keep_commits=True).standing)
    assert said.endswith("holds U+0007 control character, U+001B control character") and "its message" in said


@pytest.mark.parametrize("line", ["Cloche-Snapshot: 0", "  cloche-policy : x", "CLOCHE-Box: a/b"])
def test_a_commit_that_forges_the_words_of_the_gate_is_not_kept(engine: Engine, line: str) -> None:
    proposed(engine, NAMED + f"echo 1 > one; git add one; printf 'One\\n\\n{line}\\n' | git commit -q -F -")
    found = engine.review("b").commits
    assert found is not None and not found.keepable
    assert "only the gate writes such" in found.why
    refused(engine, "commits-not-kept", keep_commits=True)


def test_at_the_command_line_such_a_warning_has_a_key_like_any_other(engine: Engine, cli: Cli) -> None:
    proposed(engine, MIDDLE)
    flags = ("apply", "b", "--keep-commits")
    plan = json.loads(cli(*flags, "--dry-run", "--json", cwd=engine.cwd).out)["plan"]
    (key,) = [row["key"] for row in plan["standing"]]
    done = cli(*flags, "--as", "t", "--acknowledge", key[:8], cwd=engine.cwd)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("encoding", "message", "why"),
    [
        ("UTF-7", "One\\n\\n+AEM-loche-Snapshot: 0\\n", "only the gate writes such"),
        (
            "cp037",
            "\\303\\223\\226\\203\\210\\205\\140\\302\\226\\247\\172\\100\\247",
            "only the gate writes such",
        ),
        ("X-none", "One\\n", "cannot be read in the encoding that it names"),
    ],
)
def test_a_message_is_judged_as_git_will_show_it(
    engine: Engine, encoding: str, message: str, why: str
) -> None:
    raw = "tree %s\\nparent %s\\nauthor A <a@x> 1700000000 +0000\\ncommitter A <a@x> 1700000000 +0000\\n"
    script = (
        NAMED + "echo 1 > one; git add one\n"
        f"(printf '{raw}encoding {encoding}\\n\\n' $(git write-tree) $(git rev-parse HEAD)\n"
        f"printf '{message}')"
        " > .git/made\ngit update-ref HEAD $(git hash-object -w -t commit .git/made)\n"
    )
    proposed(engine, script)
    found = engine.review("b").commits
    assert found is not None and why in found.why
