"""Nothing of the source's runs when a proposal is applied, and no configuration changes what is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backends.gate.apply import Request, apply
from backends.trees.git import Git
from tests import support
from tests.gate.applying import BRANCH, commit, run
from tests.gate.world import World

# ------------------------------------------------------------------------------- nothing of theirs runs


def _trap(path: Path, marker: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho $0 >> {marker}\ncat\n")
    path.chmod(0o755)
    return path


HOOKS = (
    "applypatch-msg", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-merge",
    "pre-merge-commit", "post-checkout", "post-index-change", "reference-transaction", "post-rewrite",
    "fsmonitor-watchman", "pre-auto-gc", "update", "post-update", "pre-push",
)  # fmt: skip


@pytest.mark.parametrize("moved", [False, True])
def test_no_hook_filter_driver_or_monitor_of_the_source_runs(
    world: World, tmp_path: Path, moved: bool
) -> None:
    marker = tmp_path / "marker"
    script = _trap(tmp_path / "script", marker)
    # README.md is edited on both sides below, so that a content merge takes place.
    lines = b"".join(b"line %d\n" % n for n in range(30))
    world.base = commit(world, {"README.md": lines, ".gitattributes": b"* filter=f diff=d merge=m\n"})
    world.base_tree = world.git("rev-parse", "HEAD^{tree}")
    tree = world.changed(
        {b"README.md": lines + b"theirs\n", b".husky": {b"post-merge": (0o100755, b"#!/bin/sh\n")}}
    )
    if moved:
        commit(world, {"README.md": b"ours\n" + lines})
    for hook in HOOKS:
        _trap(world.repo / ".git" / "hooks" / hook, marker)
        _trap(world.repo / "hookdir" / hook, marker)
    (world.repo / ".git" / "info" / "exclude").write_text("hookdir\n")
    for key in (
        "core.fsmonitor", "filter.f.smudge", "filter.f.clean", "filter.f.process", "diff.d.textconv",
        "diff.d.command", "merge.m.driver", "diff.external", "core.pager", "core.editor", "core.sshCommand",
        "gpg.program", "core.alternateRefsCommand", "core.askPass", "credential.helper",
        "uploadpack.packObjectsHook",
    ):  # fmt: skip
        world.git("config", key, str(script))
    world.git("config", "core.hooksPath", str(world.repo / "hookdir"))
    world.git("config", "commit.gpgSign", "true")
    world.git("config", "filter.f.required", "true")
    world.git("config", "alias.commit-tree", f"!{script}")
    marker.unlink(missing_ok=True)
    outcome = run(world, tree)
    assert not marker.exists(), marker.read_text()
    assert outcome.mode == ("merge" if moved else "fast-forward")
    assert (world.repo / "README.md").read_bytes() == (b"ours\n" if moved else b"") + lines + b"theirs\n"
    support.run(["git", "status"], cwd=world.repo)
    assert marker.exists(), "the traps work: the person's own Git springs them"
    assert outcome.notes == (
        "changed files are meant to pass the filter f; Cloche runs none: do it in your checkout",
    )


def test_a_hostile_submodule_of_the_checkout_is_not_entered(world: World, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    script = _trap(tmp_path / "script", marker)
    module = support.make_repo(tmp_path / "module")
    world.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "mod")
    world.base = commit(world, {})
    world.base_tree = world.git("rev-parse", "HEAD^{tree}")
    (world.repo / "mod" / "README.md").write_bytes(b"edited in the submodule\n")
    for key in ("core.fsmonitor", "core.pager", "diff.external", "filter.f.clean"):
        support.git(world.repo / "mod", "config", key, str(script))
    (world.repo / ".git" / "modules" / "mod" / "info" / "attributes").write_text("* filter=f\n")
    marker.unlink(missing_ok=True)
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert not marker.exists()
    assert (world.repo / "hello.txt").exists()


def test_the_configuration_of_the_person_does_not_change_what_is_applied(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = (
        "[diff]\n\tnoprefix = true\n\texternal = false\n[color]\n\tui = always\n[core]\n\tquotePath = false\n"
    )
    config += (
        "\tautocrlf = true\n[merge]\n\trenames = false\n[user]\n\tname = Ann\n\temail = ann@example.invalid\n"
    )
    Path(os.environ["HOME"], ".gitconfig").write_text(config)
    world.git("config", "--unset", "user.name")
    tree = world.changed({b"\xc3\xa9.txt": b"a\r\nb\r\n", b"lf.txt": b"a\nb\n"})
    commit(world, {"other.txt": b"other\n"})
    run(world, tree)
    assert world.git("log", "-1", "--format=%an") == "Ann"
    assert world.quarantine.run("cat-file", "blob", f"{tree}:\xc3\xa9.txt".encode("latin-1")) == b"a\r\nb\r\n"
    assert world.git("ls-tree", "--format=%(objectname)", "main", "lf.txt") == world.git(
        "ls-tree", "--format=%(objectname)", tree, "lf.txt"
    )
    home = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=world.repo, capture_output=True, env=home, check=True
    )
    assert done.stdout == b"", "the person's own Git finds the checkout clean"


def test_without_any_identity_the_login_commits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.git("config", "--unset", "user.name")
    world.git("config", "--unset", "user.email")
    run(world, world.changed({b"a": b"x"}))
    assert world.git("log", "-1", "--format=%an") != ""


def test_a_purpose_cannot_forge_trailers_or_reach_a_terminal(world: World) -> None:
    tree = world.changed({b"a": b"x"})
    apply(
        world.paths, world.source, world.snapshot(tree),
        Request(BRANCH, "me", purpose="fix\n\nCloche-Policy: forged\n\x1b[31m"),
    )  # fmt: skip
    subject, *rest = world.git("log", "-1", "--format=%B").split("\n")
    assert subject == "fix Cloche-Policy: forged \\x1b[31m"
    assert not any("forged" in line for line in rest)


def test_a_hook_file_that_was_applied_does_not_run_at_the_next_commit(world: World, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    body = f"#!/bin/sh\ntouch {marker}\n".encode()
    tree = world.changed(
        {b"hooks": {b"pre-commit": (0o100755, body)}, b".githooks": {b"pre-commit": (0o100755, body)}}
    )
    run(world, tree)
    commit(world, {"later": b"x"})
    assert not marker.exists()
    assert not (world.repo / ".git" / "hooks" / "pre-commit").exists()


def test_git_is_started_only_by_the_one_module() -> None:
    for path in (support.ROOT / "backends" / "gate").glob("*.py"):
        text = path.read_text()
        assert "subprocess" not in text and "os.system" not in text and "Popen" not in text, path
    assert Git is not None
