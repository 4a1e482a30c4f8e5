"""The box's own repository: it holds what the base reaches and nothing else, and works at once."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.trees import borrowing, inert, packs
from tests.support import GIT_ENV, SMALL_FILES, git, make_repo
from tests.trees.conftest import Box, MakeBox

SECRET = b"planted secret 8f2e\n"


def objects(box: Box) -> bytes:
    """Every object that the box could read, its content included."""
    return box.inside("cat-file", "--batch", "--batch-all-objects").stdout


def test_head_branch_and_status_are_right_at_once(box: Box) -> None:
    assert box.inside("symbolic-ref", "HEAD").stdout == b"refs/heads/cloche/one\n"
    assert box.inside("rev-parse", "HEAD", "main").stdout.decode().split() == [box.base.commit] * 2
    assert box.inside("status", "--porcelain").stdout == b""
    assert box.inside("fsck", "--strict").returncode == 0


def test_the_first_status_reads_no_file(box: Box) -> None:
    """No entry is "racily clean": an edit that only reading the file could show is not seen."""
    path = box.tree / "README.md"
    before = path.stat()
    path.write_bytes(path.read_bytes().upper())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert box.inside("status", "--porcelain").stdout == b""


def test_the_box_may_commit_branch_and_rebase(box: Box) -> None:
    (box.tree / "new.txt").write_text("new\n")
    box.inside("add", "-A")
    box.inside("commit", "-q", "-m", "inside")
    assert box.inside("log", "--format=%s", "-1").stdout == b"inside\n"
    assert box.inside("config", "user.name").stdout == b"cloche one\n"
    box.inside("switch", "-q", "-c", "other")
    box.inside("commit", "-q", "--allow-empty", "-m", "more")
    box.inside("rebase", "-q", "main")
    box.inside("gc", "-q")
    assert box.inside("fsck", "--strict").returncode == 0


def test_an_edit_is_seen_inside(box: Box) -> None:
    (box.tree / "README.md").write_text("changed\n")
    assert box.inside("status", "--porcelain").stdout == b" M README.md\n"


@pytest.mark.boundary
def test_what_the_base_does_not_reach_cannot_be_read(repo: Path, make_box: MakeBox) -> None:
    """S7: a key that was reset away, a dropped stash, and a later commit stay in the source."""
    (repo / "key").write_bytes(SECRET)
    git(repo, "add", "key")
    blob = git(repo, "rev-parse", ":key")
    git(repo, "commit", "-q", "-m", "oops")
    lost = git(repo, "rev-parse", "HEAD")
    git(repo, "reset", "-q", "--hard", "HEAD^")
    (repo / "README.md").write_bytes(SECRET)
    git(repo, "stash", "-q")
    stash = git(repo, "rev-parse", "stash")
    git(repo, "stash", "drop", "-q")
    box = make_box(repo)
    for oid in (blob, lost, stash):
        assert box.inside("cat-file", "-e", oid, check=False).returncode != 0
        assert git(repo, "cat-file", "-t", oid), "the source still has it"
    assert SECRET not in objects(box)
    assert str(repo) not in (box.paths.repo / "objects" / "info" / "alternates").read_text()


def test_the_next_base_adds_its_difference_only(repo: Path, make_box: MakeBox) -> None:
    first = make_box(repo, "first")
    (repo / "more.txt").write_text("more\n")
    git(repo, "add", "more.txt")
    git(repo, "commit", "-q", "-m", "second")
    second = make_box(repo, "second")
    packed = [
        sorted(path.name for path in (borrowing.borrowed(box.paths)[0] / "pack").glob("*.pack"))
        for box in (first, second)
    ]
    assert len(packed[0]) == 1
    assert len(packed[1]) == 2
    assert set(packed[0]) < set(packed[1])
    assert second.inside("fsck", "--strict").returncode == 0


def test_an_abandoned_base_is_not_lent_to_another_line(repo: Path, make_box: MakeBox) -> None:
    """S7, by the cache: a box of a commit that was reset away must not enrich the next box."""
    (repo / "key").write_bytes(SECRET)
    git(repo, "add", "key")
    git(repo, "commit", "-q", "-m", "oops")
    make_box(repo, "first")
    git(repo, "reset", "-q", "--hard", "HEAD^")
    git(repo, "commit", "-q", "--allow-empty", "-m", "instead")
    assert SECRET not in objects(make_box(repo, "second"))


def test_the_same_base_is_packed_once(repo: Path, make_box: MakeBox) -> None:
    first, second = make_box(repo, "first"), make_box(repo, "second")
    assert borrowing.borrowed(first.paths) == borrowing.borrowed(second.paths)


def test_a_poisoned_pack_changes_nothing_that_the_host_shows(repo: Path, make_box: MakeBox) -> None:
    """S10: what boxes borrow is a copy. The host reads base and changes from the source's own objects."""
    first = make_box(repo, "first")
    evil = make_repo(repo.parent / "evil", {"README.md": b"evil\n"})
    pack = borrowing.borrowed(first.paths)[0] / "pack"
    for part in pack.iterdir():
        part.unlink()
    git(evil, "repack", "-adq")
    for part in (evil / ".git" / "objects" / "pack").iterdir():
        (pack / part.name).write_bytes(part.read_bytes())
    box = make_box(repo, "second")
    assert borrowing.borrowed(box.paths)[0] / "pack" == pack
    assert box.inside("status", check=False).returncode != 0, "inside it is noticed: the base is not there"
    assert (box.tree / "README.md").read_bytes() == SMALL_FILES["README.md"]
    assert box.snapshot().tree == box.base.tree
    (box.tree / "README.md").write_bytes(b"evil\n")
    taken = box.snapshot()
    assert taken.stat == (1, 1, SMALL_FILES["README.md"].count(b"\n"))
    shown = box.patch(taken.tree)
    assert b"+evil\n" in shown and b"-" + SMALL_FILES["README.md"].splitlines()[0] in shown


def test_an_object_of_a_false_content_is_noticed_inside_and_never_read_by_the_host(
    repo: Path, make_box: MakeBox
) -> None:
    """S10: the packs keep their names and their index, the bytes are another's."""
    pack = borrowing.borrowed(make_box(repo, "first").paths)[0] / "pack"
    for part in pack.glob("*.pack"):
        data = bytearray(part.read_bytes())
        data[12:-20] = bytes(byte ^ 0x55 for byte in data[12:-20])
        part.unlink()
        part.write_bytes(data)
    box = make_box(repo, "second")
    assert box.inside("cat-file", "-p", "HEAD^{tree}", check=False).returncode != 0
    assert (box.tree / "README.md").read_bytes() == SMALL_FILES["README.md"]
    assert box.snapshot().tree == box.base.tree
    assert box.patch(box.base.tree) == b""


def test_without_history_only_the_tree_is_there(repo: Path, make_box: MakeBox) -> None:
    (repo / "old").write_bytes(SECRET)
    git(repo, "add", "old")
    git(repo, "commit", "-q", "-m", "had a secret")
    git(repo, "rm", "-q", "old")
    git(repo, "commit", "-q", "-m", "removed it")
    box = make_box(repo, history="none")
    assert SECRET not in objects(box)
    assert b"had a secret" not in objects(box)
    assert box.inside("rev-list", "--count", "HEAD").stdout == b"1\n"
    assert box.inside("rev-parse", "HEAD^{tree}").stdout.decode().strip() == box.base.tree
    assert box.inside("status", "--porcelain").stdout == b""


def test_a_shallow_source_gives_a_whole_repository(repo: Path, tmp_path: Path, make_box: MakeBox) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    box = make_box(tmp_path / "shallow")
    assert box.inside("log", "--format=%s").stdout == b"second\n"
    assert box.inside("fsck").returncode == 0


def test_a_sha256_repository_works_throughout(tmp_path: Path, make_box: MakeBox) -> None:
    path = tmp_path / "r"
    path.mkdir()
    git(path, "init", "-q", "-b", "main", "--object-format=sha256")
    (path / "a").write_text("a\n")
    git(path, "add", "a")
    git(path, "commit", "-q", "-m", "first")
    box = make_box(path)
    assert box.inside("status", "--porcelain").stdout == b""
    (box.tree / "b").write_text("b\n")
    taken = box.snapshot()
    assert len(taken.tree) == 64
    assert box.blob(taken.tree, "b") == b"b\n"


def test_the_mount_point_is_a_repository_of_nothing_that_ends_gits_search(box: Box) -> None:
    """S5: a prompt's or an editor's Git obeys neither the tree's root as a bare repository nor one above."""
    (box.tree / "objects").mkdir()
    (box.tree / "refs" / "heads").mkdir(parents=True)
    (box.tree / "HEAD").write_text("ref: refs/heads/main\n")
    ran = box.paths.root / "ran"
    (box.tree / "config").write_text(
        f'[core]\nbare = false\nworktree = .\nfsmonitor = "touch {ran}; false"\n'
    )
    (box.tree / "sub").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(box.paths.home), "GIT_CONFIG_COUNT": "1",
           "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}  # fmt: skip
    for folder in (box.tree, box.tree / "sub"):
        done = subprocess.run(["git", "status"], cwd=folder, env=env, capture_output=True, text=True)
        assert "On branch box" in done.stdout, done.stderr
    assert not ran.exists()
    assert {path.name for path in (box.tree / ".git").iterdir()} >= {"HEAD", "config", "objects", "refs"}


def test_an_incomplete_mount_point_is_completed_and_a_link_in_its_place_is_not_followed(
    tmp_path: Path,
) -> None:
    def make() -> None:
        fd = os.open(tmp_path, os.O_RDONLY)
        try:
            inert.make(fd)
        finally:
            os.close(fd)

    make()
    first = {path.name: path.stat().st_ino for path in (tmp_path / ".git").iterdir()}
    make()
    assert {path.name: path.stat().st_ino for path in (tmp_path / ".git").iterdir()} == first
    (tmp_path / ".git" / "HEAD").unlink()
    (tmp_path / ".git" / "HEAD").write_text("")
    make()
    assert (tmp_path / ".git" / "HEAD").read_bytes() == inert.FILES["HEAD"]
    (tmp_path / ".git").rename(tmp_path / "aside")
    (tmp_path / ".git").symlink_to("aside")
    with pytest.raises(OSError):
        make()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_borrowed_objects_are_readable_to_the_payload_under_any_umask(repo: Path, make_box: MakeBox) -> None:
    before = os.umask(0o077)
    try:
        box = make_box(repo, owner=(54321, 54322))
    finally:
        os.umask(before)
    folder = borrowing.borrowed(box.paths)[0]
    for path in (folder, *folder.rglob("*")):
        wanted = 0o555 if path.is_dir() else 0o444
        assert path.stat().st_mode & wanted == wanted, path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_everything_but_the_mount_point_belongs_to_the_payload(repo: Path, make_box: MakeBox) -> None:
    box = make_box(repo, owner=(54321, 54322))
    for root in (box.tree, box.paths.repo):
        for path in (root, *root.rglob("*")):
            owner = 0 if path.is_relative_to(box.tree / ".git") else 54321
            assert path.lstat().st_uid == owner, path
    assert box.paths.quarantine.stat().st_uid == 0


def test_a_create_that_fails_leaves_no_half_pack(repo: Path, make_box: MakeBox) -> None:
    oid = git(repo, "rev-parse", "HEAD:README.md")
    (repo / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    with pytest.raises(Refused):
        make_box(repo)
    assert list(packs.root().rglob("*.pack")) == []
    assert [path for path in (packs.root() / "sample").iterdir() if path.is_dir()] == []


def test_prune_keeps_what_boxes_borrow(repo: Path, make_box: MakeBox) -> None:
    box = make_box(repo, "kept")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    other = make_box(repo, "other")
    assert packs.prune(set(borrowing.borrowed(box.paths))) == 0, "both were asked for just now"
    assert packs.prune(set(borrowing.borrowed(box.paths)), age=0) == 1
    assert box.inside("fsck").returncode == 0
    assert not borrowing.borrowed(other.paths)[0].exists()


@pytest.mark.boundary
def test_the_host_takes_no_lock_that_the_box_needs(box: Box) -> None:
    """G3: many commits inside while the host snapshots and diffs: none meets a lock."""
    script = "for i in $(seq 60); do echo $i > f$((i % 7)); git add -A && git commit -q -m $i || exit 1; done"
    env = {**GIT_ENV, "PATH": os.environ["PATH"], **box.variables()}
    inside = subprocess.Popen(["sh", "-c", script], cwd=box.tree, env=env, stderr=subprocess.PIPE)
    taken = 0
    end = time.monotonic() + 60
    while inside.poll() is None and time.monotonic() < end:
        box.snapshot()
        taken += 1
    _, complaint = inside.communicate()
    assert inside.returncode == 0, complaint
    assert b"index.lock" not in complaint
    assert taken > 2


def test_a_repository_of_thousands_of_files_is_written_quickly(big_repo: Path, make_box: MakeBox) -> None:
    start = time.monotonic()
    box = make_box(big_repo)
    assert time.monotonic() - start < 60
    assert len(box.names(box.base.tree)) == 2000
    assert box.inside("status", "--porcelain").stdout == b""
