"""A box that sets traps in its own repository: nothing of it runs, hangs or is read on the host."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.boxes.layout import BoxPaths
from backends.engine import Engine
from backends.verbs import commits
from tests import support
from tests.support import Done

pytestmark = [pytest.mark.boundary, pytest.mark.flow, pytest.mark.real]
Cli = Callable[..., Done]

NAMED = "git config user.name 'An Agent'; git config user.email agent@inside.example\n"
ONE = NAMED + "printf 'one\\n' > one; git add one; git commit -qm 'Add one'\n"


def ok(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def proposed(cli: Cli, box: str, script: str) -> Any:
    """What is told of the commits of a box in which ``script`` ran."""
    ok(cli("new", box))
    ok(cli("run", box, "--", "/bin/sh", "-ec", script))
    ok(cli("propose", box))
    return json.loads(ok(cli("review", box, "--json")).out)["commits"]


def test_configuration_and_hooks_of_the_box_run_nothing_on_the_host(cli: Cli, repo: Path) -> None:
    marker = repo.parent / "marker"
    trap = f"#!/bin/sh\\necho ran > {marker}\\n"
    found = proposed(
        cli,
        "traps",
        ONE + f"printf '{trap}' > .git/trap; chmod +x .git/trap; printf '{trap}' > trap; chmod +x trap\n"
        "git add trap; git commit -qm 'Add trap'\n"
        "mkdir -p .git/hooks\n"
        "for hook in reference-transaction post-index-change pre-auto-gc post-checkout; do\n"
        "  cp .git/trap .git/hooks/$hook; done\n"
        "for key in core.fsmonitor core.pager core.editor core.sshCommand core.askPass diff.external \\\n"
        "  core.alternateRefsCommand uploadpack.packObjectsHook gpg.program filter.x.process \\\n"
        "  filter.x.smudge credential.helper; do git config $key /work/.git/trap; done\n"
        "git config core.hooksPath /work/.git/hooks; git config alias.bundle '!/work/.git/trap'\n"
        "git config commit.gpgSign true; printf '* filter=x\\n' > .git/info/attributes\n",
    )
    assert found["keepable"] is True
    ok(cli("apply", "traps", "--keep-commits", "--as", "test", "--acknowledge", "all"))
    assert support.git(repo, "rev-parse", "HEAD") == found["head"]
    assert not marker.exists()


REPLACED = ONE + (
    "printf 'two\\n' > one; git commit -qam 'Change one'\n"
    "git replace HEAD $(git commit-tree HEAD^{tree} -p HEAD~2 -m 'Other words')\n"
)


def test_replaced_objects_are_not_what_is_taken(cli: Cli, repo: Path) -> None:
    found = proposed(cli, "replaced", REPLACED)
    assert [row["subject"] for row in found["rows"]] == ["Add one", "Change one"]
    ok(cli("apply", "replaced", "--keep-commits", "--as", "test", "--acknowledge", "all"))
    assert support.git(repo, "for-each-ref", "refs/replace") == ""
    support.git(repo, "fsck", "--strict")


BROKEN = {
    "grafts": ONE + "printf 'two\\n' > two; git add two; git commit -qm two\n"
    "echo $(git rev-parse HEAD HEAD~2) > .git/info/grafts\n",
    "shallow": ONE + "printf 'two\\n' > one; git commit -qam two; git rev-parse HEAD > .git/shallow\n",
    "orphan": ONE + "git checkout -q --orphan other; git commit -qm 'Begin anew'\n",
    "older": "git reset -q --soft HEAD~1\n" + ONE,
    "unborn": "git symbolic-ref HEAD refs/heads/none\n",
    "detached from all": NAMED + "git update-ref --no-deref HEAD $(git commit-tree HEAD^{tree} -m x)\n",
    "corrupt object": ONE + "f=$(git rev-parse HEAD:one | sed 's,^..,&/,'); chmod u+w .git/objects/$f\n"
    "printf 'broken' > .git/objects/$f\n",
    "missing object": ONE + "rm -f .git/objects/$(git rev-parse HEAD:one | sed 's,^..,&/,')\n",
    "head a link": ONE + "rm .git/HEAD; ln -s /etc/passwd .git/HEAD\n",
    "head a pipe": ONE + "rm .git/HEAD; mkfifo .git/HEAD\n",
    "head a folder": ONE + "rm .git/HEAD; mkdir .git/HEAD\n",
    "head endless": ONE + "truncate -s 1G .git/HEAD\n",
    "configuration that never ends": ONE + "rm .git/config; mkfifo .git/config\n",
    "repository gone": ONE + "rm -rf .git/* 2>/dev/null || true\n",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_or_bent_repository_costs_the_commits_and_not_the_proposal(
    cli: Cli, repo: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    support.write_files(repo, {"later": b"x\n"})
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "Second")
    ok(cli("new", "bent"))
    ok(cli("run", "bent", "--", "/bin/sh", "-ec", BROKEN[kind]))
    monkeypatch.setattr(commits, "SECONDS", 2.0)  # for what hangs inside
    engine = Engine(repo)
    engine.propose("bent")
    found = engine.review("bent").commits
    assert found is not None and not found.keepable and found.why and found.rows == ()
    before = support.git(repo, "for-each-ref")
    done = cli("apply", "bent", "--keep-commits", "--as", "test", "--json")
    assert json.loads(done.err)["code"] == "commits-not-kept"
    assert support.git(repo, "for-each-ref") == before
    assert list(engine.find("bent").root.glob("commits-*")) == []
    support.git(repo, "fsck", "--strict")


def test_objects_of_the_host_are_not_reached_by_alternates(cli: Cli, repo: Path) -> None:
    """A stash that was dropped lies in the source's object folder, whose path the box guesses."""
    secret = support.git(repo, "hash-object", "-w", "--stdin", stdin=b"a dropped secret\n")
    found = proposed(
        cli,
        "reaching",
        ONE + f"echo {repo}/.git/objects >> .git/objects/info/alternates\n"
        f"tree=$(printf '100644 blob {secret}\\tstolen\\n' | git mktree --missing)\n"
        "git update-ref HEAD $(git commit-tree $tree -p HEAD -m 'Name it')\n",
    )
    assert found["keepable"] is False and found["rows"] == []
    assert "a dropped secret" not in json.dumps(found)


def test_more_than_the_bound_ends_the_boxs_git(cli: Cli, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(cli("new", "large"))
    large = "head -c 8000000 /dev/urandom > big\n" + ONE + "git add .; git commit -qm big\n"
    ok(cli("run", "large", "--", "/bin/sh", "-ec", large))
    monkeypatch.setattr(commits, "MOST_BYTES", 1 << 20)
    engine = Engine(repo)
    engine.propose("large")
    found = engine.review("large").commits
    assert found is not None and found.why == "its commits take more than 1 MiB"


def test_a_pointer_of_a_submodule_in_the_middle_of_a_history_is_refused(cli: Cli, repo: Path) -> None:
    """Kind G7: a commit that the last one undoes again would dangle in the branch for good."""
    found = proposed(
        cli,
        "mover",
        ONE + "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),mod; git commit -qm 'Point'\n"
        "git rm -q --cached mod; git commit -qm 'Point no more'\n",
    )
    assert found["keepable"] is False
    assert "mod: moves a submodule, whose commits do not travel along" in found["why"]
    ok(cli("apply", "mover", "--as", "test", "--acknowledge", "all"))
    assert support.git(repo, "log", "--format=%s", "-1", "--", "mod") == ""
    support.git(repo, "fsck", "--strict")


def test_words_of_the_box_are_shown_as_what_they_are(cli: Cli, repo: Path) -> None:
    proposed(
        cli,
        "loud",
        "printf x > one; git add one\n"
        "GIT_AUTHOR_NAME=$(printf '\\342\\200\\256evil') GIT_AUTHOR_EMAIL=root@host git -c user.name=x \\\n"
        "  -c user.email=x@x commit -qm \"$(printf '# Heading \\033[2J \\342\\200\\256')\"\n",
    )
    for verb in (("review", "loud"), ("apply", "loud", "--keep-commits", "--dry-run")):
        shown = ok(cli(*verb)).out
        assert "\x1b" not in shown and "\u202e" not in shown
        assert "\\u202eevil <root@host>, as the box says" in shown
    out = repo.parent / "out"
    ok(cli("export", "loud", "--out", str(out)))
    report = (out / "report.md").read_text()
    assert "\x1b" not in report and "\n# Heading" not in report and "\u202e" not in report


def test_head_is_read_through_plain_files_only(tmp_path: Path) -> None:
    paths = BoxPaths(tmp_path / "box")
    (paths.repo / "refs" / "heads").mkdir(parents=True)
    head = paths.repo / "HEAD"
    assert commits.head(paths) == ""
    head.write_text("ref: refs/heads/main\n")
    assert commits.head(paths) == ""
    (paths.repo / "packed-refs").write_text(f"# pack-refs with: sorted\n{'a' * 40} refs/heads/main\n")
    assert commits.head(paths) == "a" * 40
    (paths.repo / "refs" / "heads" / "main").write_text("b" * 40 + "\n")
    assert commits.head(paths) == "b" * 40
    (tmp_path / "outside").write_text("c" * 40 + "\n")
    (paths.repo / "refs" / "heads" / "main").unlink()
    (paths.repo / "refs" / "heads" / "main").symlink_to(tmp_path / "outside")
    assert commits.head(paths) == "a" * 40
    for text in ("ref: refs/../../outside\n", "ref: refs/heads\n", "ref: refs//main\n"):
        head.write_text(text)
        assert commits.head(paths) == ""
    (tmp_path / "heads").mkdir()
    (tmp_path / "heads" / "x").write_text("d" * 40)
    (paths.repo / "refs" / "linked").symlink_to(tmp_path / "heads")
    head.write_text("ref: refs/linked/x\n")
    assert commits.head(paths) == ""
    head.unlink()
    os.mkfifo(head)
    assert commits.head(paths) == ""


def test_after_a_part_was_applied_the_commits_begin_elsewhere(cli: Cli, repo: Path) -> None:
    ok(cli("new", "rest"))
    ok(cli("run", "rest", "--", "/bin/sh", "-ec", ONE + "printf x > two; git add two; git commit -qm two\n"))
    ok(cli("propose", "rest"))
    ok(cli("accept", "rest", "one", "--as", "test"))
    ok(cli("apply", "rest", "--as", "test", "--acknowledge", "all"))
    ok(cli("propose", "rest"))
    found = json.loads(ok(cli("review", "rest", "--json")).out)["commits"]
    assert "was given another base since" in found["why"]
