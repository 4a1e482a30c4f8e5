"""Snapshots hold what is on disk, read what changed only, and stop at their limits naming the path."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.errors import ClocheError, Refused
from backends.snapshots import DiffStat
from backends.trees import quarantine, snapshot
from backends.trees.git import executable
from backends.trees.values import Limits
from tests.support import git, make_repo
from tests.trees.conftest import Box, MakeBox
from tests.trees.test_checkout import BYTES, NAMES


def put(box: Box, path: bytes, content: bytes = b"x\n") -> None:
    whole = os.fsencode(box.tree) + b"/" + path
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    with open(whole, "wb") as file:
        file.write(content)


def test_an_untouched_tree_is_the_base_and_nothing_is_read(box: Box) -> None:
    taken = box.snapshot()
    assert taken.tree == box.base.tree
    assert taken.stat == DiffStat(0, 0, 0)
    assert (taken.read, taken.skipped, taken.findings, taken.ignored) == (0, (), (), 0)
    assert taken.confined.startswith("Landlock ABI ")


def test_additions_edits_removals_modes_and_links_are_taken(box: Box) -> None:
    put(box, b"new/deep/file", b"new\n")
    put(box, b"README.md", b"changed\n")
    (box.tree / "src" / "add.py").unlink()
    (box.tree / "tests" / "test_add.py").chmod(0o755)
    os.symlink("../../outside", box.tree / "link")
    taken = box.snapshot()
    rows = git_rows(box, taken.tree)
    assert sorted(rows) == [b"README.md", b"link", b"new/deep/file", b"run.sh", b"tests/test_add.py"]
    assert rows[b"tests/test_add.py"] == b"100755"
    assert rows[b"link"] == b"120000"
    assert box.blob(taken.tree, "link") == b"../../outside"
    assert taken.stat.files == 5


def git_rows(box: Box, tree: str) -> dict[bytes, bytes]:
    out = quarantine.git(box.paths).run("ls-tree", "-r", "-z", tree)
    return {row.partition(b"\t")[2]: row[:6] for row in out.split(b"\0")[:-1]}


def test_the_tree_is_what_git_itself_would_make_of_the_files(box: Box) -> None:
    for number in range(300):
        put(box, b"many/%d/file" % number, b"%d\n" % number)
    put(box, b"README.md", b"changed\n")
    (box.tree / "run.sh").unlink()
    taken = box.snapshot()
    box.inside("-c", "core.checkStat=default", "add", "-A")
    assert box.inside("write-tree").stdout.decode().strip() == taken.tree


def test_every_byte_and_name_comes_through(box: Box) -> None:
    for text, content in BYTES.items():
        put(box, text.encode(), content)
    for name in NAMES:
        put(box, b"names/" + name, name)
    taken = box.snapshot()
    for text, content in BYTES.items():
        assert box.blob(taken.tree, text) == content, text
    names = [path.removeprefix(b"names/") for path in box.names(taken.tree) if path.startswith(b"names/")]
    assert names == sorted(NAMES)


def test_a_file_becomes_a_folder_and_back(box: Box) -> None:
    (box.tree / "README.md").unlink()
    put(box, b"README.md/inner")
    taken = box.snapshot()
    assert b"README.md/inner" in box.names(taken.tree)
    assert b"README.md" not in box.names(taken.tree)
    (box.tree / "README.md" / "inner").unlink()
    (box.tree / "README.md").rmdir()
    put(box, b"README.md", b"# sample\n\nA small repository.\n")
    assert box.snapshot().tree == box.base.tree


def test_a_tree_without_any_file_is_the_empty_tree(box: Box) -> None:
    for path in [path for path in box.tree.rglob("*") if path.is_file()]:
        path.unlink()
    taken = box.snapshot()
    assert box.names(taken.tree) == []
    assert taken.stat.files == 4


def test_an_empty_base_takes_its_first_file(tmp_path: Path, make_box: MakeBox) -> None:
    (tmp_path / "r").mkdir()
    git(tmp_path / "r", "init", "-q", "-b", "main")
    git(tmp_path / "r", "commit", "-q", "--allow-empty", "-m", "start")
    box = make_box(tmp_path / "r")
    assert box.inside("status", "--porcelain").stdout == b""
    put(box, b"first")
    assert box.names(box.snapshot().tree) == [b"first"]


def test_a_tree_that_is_gone_or_a_link_is_said(box: Box, tmp_path: Path) -> None:
    box.tree.rename(tmp_path / "away")
    os.symlink(tmp_path / "away", box.tree)
    with pytest.raises(ClocheError) as error:
        box.snapshot()
    assert error.value.code == "no-tree"
    box.tree.unlink()
    with pytest.raises(ClocheError, match="No such file"):
        box.snapshot()


def test_an_import_that_fails_is_said_and_leaves_nothing_behind(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RLIMIT_FSIZE in the place of a full disk: writing the pack ends after 256 KiB."""
    for number in range(40):
        put(box, b"m/%d" % number, os.urandom(1 << 16))
    (tmp_path / "git").write_text(f'#!/bin/sh\nulimit -f 512\nexec {executable()} "$@"\n')
    (tmp_path / "git").chmod(0o755)
    with monkeypatch.context() as changed:
        changed.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(ClocheError) as error:
            box.snapshot()
    assert error.value.code == "git-failed"
    assert leftovers(box) == []
    assert len(box.names(box.snapshot().tree)) == 44


def test_a_second_snapshot_reads_only_what_changed_since(box: Box) -> None:
    put(box, b"one", b"1" * 1000)
    assert box.snapshot(settle=0.0).read == 1000
    put(box, b"two", b"2" * 10)
    assert box.snapshot(settle=0.0).read == 10
    assert box.snapshot(settle=0.0).read == 0


def test_what_changed_lately_is_read_again(box: Box) -> None:
    put(box, b"one", b"1" * 1000)
    box.snapshot()
    assert box.snapshot(settle=60.0).read == 1000


def test_an_edit_of_equal_size_and_time_is_seen(box: Box) -> None:
    """S20: the box's own status does not see it (core.checkStat=minimal), the host does."""
    path = box.tree / "README.md"
    before = path.stat()
    path.write_bytes(path.read_bytes().upper())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert box.inside("status", "--porcelain").stdout == b""
    taken = box.snapshot(settle=0.0)
    assert taken.stat.files == 1
    assert box.blob(taken.tree, "README.md") == b"# SAMPLE\n\nA SMALL REPOSITORY.\n"


def test_a_replaced_file_of_equal_size_and_time_is_seen(box: Box) -> None:
    path = box.tree / "README.md"
    before = path.stat()
    put(box, b"other", path.read_bytes().upper())
    os.utime(box.tree / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
    (box.tree / "other").rename(path)
    assert box.blob(box.snapshot(settle=0.0).tree, "README.md").startswith(b"# SAMPLE")


def test_ignored_files_are_left_out_and_counted(box: Box) -> None:
    put(box, b".gitignore", b"*.o\r\n/build/\n!keep.o\n\\#odd\n")
    for path in (b"a.o", b"src/b.o", b"keep.o", b"build/x/y", b"src/build/z", b"#odd"):
        put(box, path)
    taken = box.snapshot()
    names = set(box.names(taken.tree))
    assert {b"keep.o", b"src/build/z", b".gitignore"} <= names
    assert not {b"a.o", b"src/b.o", b"build/x/y", b"#odd"} & names
    assert taken.ignored == 4


def test_the_nearest_ignore_file_decides(box: Box) -> None:
    put(box, b".gitignore", b"*.log\n")
    put(box, b"sub/.gitignore", b"!*.log\n")
    put(box, b"sub/in.log")
    put(box, b"out.log")
    names = box.names(box.snapshot().tree)
    assert b"sub/in.log" in names
    assert b"out.log" not in names


def test_tracked_files_are_never_ignored(box: Box) -> None:
    put(box, b".gitignore", b"*\n")
    put(box, b"src/.gitignore", b"*\n")
    put(box, b"src/add.py", b"changed\n")
    put(box, b"src/other.py")
    taken = box.snapshot()
    assert box.blob(taken.tree, "src/add.py") == b"changed\n"
    assert set(box.names(taken.tree)) == set(box.names(box.base.tree))
    assert taken.ignored == 3


def test_an_ignore_file_that_is_a_link_has_no_rules(box: Box, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("*\n")
    os.symlink(tmp_path / "rules", box.tree / ".gitignore")
    put(box, b"new")
    assert b"new" in box.names(box.snapshot().tree)


def test_a_line_that_is_no_pattern_is_a_finding_and_the_others_hold(box: Box) -> None:
    put(box, b".gitignore", b"!\n*.o\n")
    put(box, b"a.o")
    taken = box.snapshot()
    assert b"a.o" not in box.names(taken.tree)


def test_pipes_sockets_and_devices_are_skipped_with_the_reason(box: Box) -> None:
    os.mkfifo(box.tree / "pipe")
    os.chdir(box.tree)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        os.chdir("/")
        taken = box.snapshot()
    assert dict(taken.skipped) == {b"pipe": "it is a named pipe", b"sock": "it is a socket"}
    assert taken.tree == box.base.tree


def test_a_tracked_file_that_became_a_pipe_is_gone_and_said(box: Box) -> None:
    (box.tree / "README.md").unlink()
    os.mkfifo(box.tree / "README.md")
    taken = box.snapshot()
    assert b"README.md" not in box.names(taken.tree)
    assert taken.skipped == ((b"README.md", "it is a named pipe"),)


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an unprivileged user")
def test_what_cannot_be_read_stays_as_in_the_base_and_is_said(box: Box) -> None:
    (box.tree / "README.md").chmod(0)
    (box.tree / "src").chmod(0)
    put(box, b"new")
    try:
        taken = box.snapshot()
    finally:
        (box.tree / "src").chmod(0o755)
    assert set(box.names(taken.tree)) == {*box.names(box.base.tree), b"new"}
    assert {path for path, _ in taken.skipped} == {b"README.md", b"src"}
    assert all("Permission denied" in why for _, why in taken.skipped)


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit"])
def test_nested_repositories_are_findings_and_are_not_read(box: Box, name: str) -> None:
    put(box, f"sub/{name}/config".encode(), b"[core]\n")
    put(box, b"sub/file")
    taken = box.snapshot()
    assert [(one.kind, one.path) for one in taken.findings] == [("nested-repository", f"sub/{name}".encode())]
    assert set(box.names(taken.tree)) - set(box.names(box.base.tree)) == {b"sub/file"}


def test_only_the_exact_mount_point_is_passed_over(box: Box) -> None:
    put(box, b".git/other", b"[core]\n")
    put(box, b".GIT/config", b"[core]\n")
    taken = box.snapshot()
    assert [one.path for one in taken.findings] == [b".GIT"]
    assert taken.tree == box.base.tree


def test_an_embedded_bare_repository_is_a_finding(box: Box) -> None:
    """G13: no folder is named .git, and Git would still obey it."""
    for path in (b"docs/HEAD", b"docs/objects/x", b"docs/refs/heads/main", b"docs/config"):
        put(box, path)
    taken = box.snapshot()
    assert [(one.kind, one.path) for one in taken.findings] == [("embedded-repository", b"docs")]


def test_a_submodule_stays_at_its_commit(tmp_path: Path, make_box: MakeBox) -> None:
    repo = make_repo(tmp_path / "r")
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/sub")
    git(repo, "commit", "-q", "-m", "submodule")
    box = make_box(repo)
    assert box.snapshot().tree == box.base.tree
    put(box, b"vendor/sub/.git/HEAD", b"ref: refs/heads/x\n")
    put(box, b"vendor/sub/evil.py")
    taken = box.snapshot()
    assert taken.tree == box.base.tree
    assert [(one.kind, one.path) for one in taken.findings] == [("submodule", b"vendor/sub")]


@pytest.mark.parametrize(
    ("prepare", "limits", "code", "path"),
    [
        (lambda box: sparse(box, 20 << 30), {}, "file-too-large", "huge"),
        (lambda box: put(box, b"big", b"x" * 2000), {"file_size": 1000}, "file-too-large", "big"),
        (lambda box: put(box, b"big", b"x" * 2000), {"total_size": 1000}, "tree-too-large", "big"),
        (lambda box: put_many(box, 30), {"entries": 25}, "too-many-entries", "m/"),
        (lambda box: put(box, b"d/" * 12 + b"f"), {"depth": 10}, "too-deep", "d/d/d"),
        (lambda box: put(box, b"src/x"), {"seconds": 0.0}, "too-slow", ""),
    ],
)
def test_every_limit_refuses_naming_the_path(
    box: Box, prepare: Callable[[Box], object], limits: dict[str, float], code: str, path: str
) -> None:
    prepare(box)
    with pytest.raises(Refused) as error:
        box.snapshot(**limits)
    assert error.value.code == code
    assert error.value.why.startswith(path)
    assert leftovers(box) == []


def put_many(box: Box, count: int) -> None:
    for number in range(count):
        put(box, b"m/%d" % number)


def sparse(box: Box, size: int) -> None:
    with open(box.tree / "huge", "wb") as file:
        file.truncate(size)


def leftovers(box: Box) -> list[str]:
    """What an import that did not end would leave in the quarantine."""
    found = [*box.paths.quarantine.glob("fast_import_crash_*"), *box.paths.quarantine.rglob("tmp_*")]
    return [path.name for path in (*found, *box.paths.quarantine.glob("*.new"))]


def test_a_path_longer_than_the_system_takes_is_refused(box: Box) -> None:
    fd = os.open(box.tree, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("n" * 200, dir_fd=fd)
        below = os.open("n" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    with pytest.raises(Refused, match="longer"):
        box.snapshot()


def test_a_large_file_is_streamed_whole(box: Box) -> None:
    content = bytes(range(256)) * (70 << 10)  # beyond what is read at once
    put(box, b"large", content)
    taken = box.snapshot()
    assert box.blob(taken.tree, "large") == content
    assert box.snapshot(settle=0.0).tree == taken.tree


def test_two_snapshots_at_once_take_turns(box: Box) -> None:
    put_many(box, 200)
    trees: list[str] = []
    threads = [threading.Thread(target=lambda: trees.append(box.snapshot().tree)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trees) == 4
    assert len(set(trees)) == 1


def test_skipped_paths_beyond_the_list_are_counted(box: Box) -> None:
    for number in range(1100):
        os.mkfifo(box.tree / f"p{number}")
    taken = box.snapshot()
    assert len(taken.skipped) + taken.unlisted == 1100
    assert len(taken.skipped) == 1000


def test_a_lost_blob_is_read_again(box: Box) -> None:
    """The record of the last walk is no proof that the quarantine still holds what it names."""
    put(box, b"new", b"new\n")
    taken = box.snapshot(settle=0.0)
    oid = quarantine.git(box.paths).line("rev-parse", f"{taken.tree}:new")
    (box.paths.quarantine / "objects" / oid[:2] / oid[2:]).unlink()
    with pytest.raises(ClocheError):
        box.snapshot(settle=0.0)
    assert box.blob(box.snapshot(settle=0.0).tree, "new") == b"new\n"


def test_no_descriptor_is_left_open(box: Box) -> None:
    before = len(os.listdir("/proc/self/fd"))
    box.snapshot()
    with pytest.raises(Refused):
        box.snapshot(seconds=0.0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_landlock_nothing_is_read_unless_the_tier_confines_nothing(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = snapshot.walker_environment
    monkeypatch.setattr(snapshot, "walker_environment", lambda: {**real(), "CLOCHE_LANDLOCK_ABI": "0"})
    with pytest.raises(Refused) as error:
        box.snapshot()
    assert error.value.code == "unconfined"
    taken = snapshot.snapshot(box.paths, box.base.tree, limits=Limits(), confine=False)
    assert taken.tree == box.base.tree
    assert taken.confined == ""
    assert [row.kind for row in taken.findings] == ["reader"], "told wherever the snapshot is reviewed"


def test_the_quarantine_is_for_its_owner_alone(box: Box) -> None:
    assert stat.S_IMODE(box.paths.quarantine.stat().st_mode) == 0o700
