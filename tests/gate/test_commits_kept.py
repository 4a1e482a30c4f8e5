"""The commits of a real box, kept: proposed, shown, applied, and undone, as people and scripts do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.support import Done

pytestmark = [pytest.mark.flow, pytest.mark.real]
Cli = Callable[..., Done]

STEPS = """
set -e
git config user.name 'An Agent'; git config user.email agent@inside.example
printf 'one\\n' > one; git add one; git commit -qm 'Add one'
printf 'two\\n' > two; chmod +x two; git mv README.md READ.md; git add two; git commit -qm 'Add two

With a reason.'
"""


def ok(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def worked(cli: Cli, box: str, script: str = STEPS) -> None:
    """A box whose agent ran ``script``, proposed."""
    ok(cli("new", box))
    ok(cli("run", box, "--", "/bin/sh", "-c", script))
    ok(cli("propose", box))


def commits_of(cli: Cli, box: str) -> Any:
    return json.loads(ok(cli("review", box, "--json")).out)["commits"]


def test_commits_are_shown_and_applied_as_they_are(cli: Cli, repo: Path) -> None:
    worked(cli, "keeps")
    found = commits_of(cli, "keeps")
    assert found["keepable"] is True and found["why"] == ""
    assert [row["subject"] for row in found["rows"]] == ["Add one", "Add two"]
    base = support.git(repo, "rev-parse", "HEAD")
    plan = json.loads(ok(cli("apply", "keeps", "--keep-commits", "--dry-run", "--json")).out)["plan"]
    assert plan["mode"] == "fast-forward"
    done = json.loads(
        ok(cli("apply", "keeps", "--keep-commits", "--as", "test", "--acknowledge", "all", "--json")).out
    )
    assert done["new"] == found["head"] == support.git(repo, "rev-parse", "main")
    assert support.git(repo, "log", "--format=%s|%an|%ae", f"{base}..main").split("\n") == [
        "Add two|An Agent|agent@inside.example",
        "Add one|An Agent|agent@inside.example",
    ]
    assert support.git(repo, "status", "--porcelain") == ""
    support.git(repo, "fsck", "--strict")


def test_a_series_is_applied_by_git_am_with_the_same_trees_messages_and_authors(cli: Cli, repo: Path) -> None:
    worked(cli, "mails")
    out = repo.parent / "out"
    ok(cli("export", "mails", "--out", str(out), "--series"))
    names = sorted(path.name for path in out.glob("0*.patch"))
    assert names == ["0001-Add-one.patch", "0002-Add-two.patch"]
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["commits"]["identity"] == "claimed by the box"
    ok(cli("verify", str(out)))
    fresh = repo.parent / "fresh"
    support.git(repo.parent, "clone", "-q", str(repo), str(fresh))
    support.git(fresh, "am", "-q", *(str(out / name) for name in names))
    ok(cli("apply", "mails", "--keep-commits", "--as", "test", "--acknowledge", "all"))
    shown = ("log", "-2", "--date=raw", "--format=%T%n%an%n%ae%n%ad%n%B")
    assert support.git(fresh, *shown) == support.git(repo, *shown)


def test_a_series_warns_of_what_only_mails_on_the_way_hold(cli: Cli, repo: Path) -> None:
    worked(
        cli,
        "mails",
        "set -e; git config user.name A; git config user.email a@x\n"
        "echo secret > key; git add key; git commit -qm 'Add key'\n"
        "git rm -q key; echo one > one; git add one; git commit -qm 'Take\u200b it away'\n"
        "echo two > one; git commit -qam 'Two'\n",
    )
    said = [
        "2 versions of files are in the mails and not in the proposal: key in mail 1, one in mail 2",
        "mail 2: its message or who made it holds U+200B ZERO WIDTH SPACE",
    ]
    out = repo.parent / "out"
    plain = ok(cli("export", "mails", "--out", str(out), "--series"))
    assert [line for line in plain.err.splitlines() if "warn" in line] == [f"warn: {one}" for one in said]
    told = json.loads(ok(cli("export", "mails", "--out", str(out), "--series", "--force", "--json")).out)
    assert [(row["id"], row["reason"]) for row in told["warnings"]] == [("commits", one) for one in said]
    assert all(one in (out / "report.md").read_text() for one in said)
    receipt = json.loads((out / "receipt.json").read_text())
    assert [row["reason"] for row in receipt["checks"] if row["id"] == "commits"] == said
    again = ok(cli("review", str(out), "--json"))
    judged = json.loads(again.out)["bundle"]["judged"]
    checks = {one["row"]["reason"]: one["when"] for one in judged if one["row"]["id"] == "commits"}
    assert checks == dict.fromkeys(said, "same")
    one = json.loads(ok(cli("export", "mails", "--out", str(out), "--force", "--json")).out)
    assert one["warnings"] == [] and "in the mails" not in (out / "report.md").read_text()


def test_commits_are_merged_where_the_branch_moved_and_the_apply_can_be_undone(cli: Cli, repo: Path) -> None:
    worked(cli, "moved")
    head = commits_of(cli, "moved")["head"]
    support.write_files(repo, {"beside": b"x\n"})
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "meanwhile")
    before = support.git(repo, "rev-parse", "HEAD")
    kept = ("apply", "moved", "--keep-commits", "--as", "test", "--acknowledge", "all", "--json")
    done = json.loads(ok(cli(*kept, "--message", "Bring it in")).out)
    assert done["mode"] == "merge" and done["commits"][-1] == head
    assert support.git(repo, "rev-parse", "main^1", "main^2").split() == [before, head]
    body = support.git(repo, "log", "-1", "--format=%B")
    assert body.startswith("Bring it in\n\nCloche-Box: ")
    assert (repo / "one").read_bytes() == b"one\n" and (repo / "beside").read_bytes() == b"x\n"
    ok(cli("unapply", "moved", "--as", "test"))
    assert support.git(repo, "rev-parse", "HEAD") == before and not (repo / "one").exists()
    ok(cli("apply", "moved", "--keep-commits", "--as", "test", "--acknowledge", "all", "--onto", "apart"))
    assert support.git(repo, "rev-parse", "apart") == head


def refused(done: Done, code: str) -> str:
    assert done.code in (2, 3), (done.code, done.out, done.err)
    error = json.loads(done.err)
    assert error["code"] == code, error
    return f"{error['why']}: {error['next']}"


def test_what_the_commits_do_not_hold_keeps_them_from_being_kept(cli: Cli, repo: Path) -> None:
    worked(cli, "dirty", STEPS + "printf 'more\\n' >> one; printf x > loose; printf x > $(printf '\\377')\n")
    found = commits_of(cli, "dirty")
    assert found["keepable"] is False and len(found["rows"]) == 2
    top = found["head"][:12]
    assert found["why"] == f"the proposal holds what the last commit {top} does not: loose, one, \udcff"
    for verb in (
        ("apply", "dirty", "--keep-commits", "--as", "t"),
        ("export", "dirty", "--out", "o", "--series"),
    ):
        said = refused(cli(*verb, "--json"), "commits-not-kept")
        assert "loose, one" in said
    assert not (repo / "o").exists()
    base = support.git(repo, "rev-parse", "HEAD")
    ok(cli("apply", "dirty", "--as", "test", "--acknowledge", "all"))
    assert support.git(repo, "rev-parse", "HEAD^") == base
    assert (repo / "loose").read_bytes() == b"x"


def test_commits_are_not_kept_of_a_part_nor_squashed_nor_with_a_message_of_ones_own(
    cli: Cli, repo: Path
) -> None:
    worked(cli, "parts")
    keep = ("apply", "parts", "--keep-commits", "--as", "test", "--json")
    refused(cli(*keep, "--squash"), "usage")
    refused(cli(*keep, "--message", "mine"), "message-unused")
    ok(cli("accept", "parts", "one", "--as", "test"))
    said = refused(cli(*keep), "commits-partial")
    assert "cloche accept parts --all" in said
    assert support.git(repo, "status", "--porcelain") == ""


def test_a_box_without_commits_has_none_to_keep_and_starts_no_git(cli: Cli, repo: Path) -> None:
    worked(cli, "plain", "printf x > new")
    assert commits_of(cli, "plain") is None
    assert "it made none" in refused(
        cli("apply", "plain", "--keep-commits", "--as", "t", "--json"), "commits-not-kept"
    )
    assert "bundle" not in ok(cli("log", "plain")).out


def test_the_journal_and_the_receipt_name_the_commits_and_call_their_authors_a_claim(
    cli: Cli, repo: Path
) -> None:
    worked(cli, "told")
    head = commits_of(cli, "told")["head"]
    ok(cli("apply", "told", "--keep-commits", "--as", "test", "--acknowledge", "all"))
    out = repo.parent / "out"
    ok(cli("export", "told", "--out", str(out), "--series"))
    receipt = json.loads((out / "receipt.json").read_text())
    (applied,) = receipt["applied"]
    assert applied["commits"][-1] == head and applied["identity"] == "claimed by the box"
    assert [row["author"] for row in receipt["commits"]["rows"]] == ["An Agent", "An Agent"]
    assert "Whom they name and when is claimed by the box." in (out / "report.md").read_text()
    ok(cli("export", "told", "--out", str(out), "--force"))
    assert sorted(path.name for path in out.iterdir()) == ["patch.diff", "receipt.json", "report.md"]
    (out / "0001-Add-one.patch").write_bytes(b"mine")
    ok(cli("export", "told", "--out", str(out), "--force", "--series"))
    (out / "0002-Add-two.patch").write_bytes(b"changed")
    assert cli("verify", str(out)).code == 1
