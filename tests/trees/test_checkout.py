"""Checkout is raw: the bytes on disk are the blob's bytes, and no path leaves the tree."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.trees import checkout, source
from backends.trees.git import Git
from tests.support import git, make_repo, run

BYTES = {
    "crlf.txt": b"a\r\nb\r\n",
    "cr.txt": b"a\rb",
    "formfeed.txt": b"a\x0cb\n",
    "u2028.txt": "a\u2028b".encode(),
    "latin1.txt": b"caf\xe9\n",
    "nul.bin": b"a\0b\n",
    "nofinal.txt": b"no newline",
    "empty": b"",
    "large.bin": bytes(range(256)) * 12_000,
}
NAMES = [
    b"-rf",
    b"a b",
    b"new\nline",
    b"tab\t",
    b'quo"te',
    b"back\\slash",
    b"\xff\xfe",
    "\U0001f4a9".encode(),
    b"n" * 255,
]


def tree_of(repo: Path) -> tuple[Git, str]:
    return Git(repo / ".git"), git(repo, "rev-parse", "HEAD^{tree}")


def written(repo: Path, dest: Path, owner: tuple[int, int] | None = None) -> list[checkout.Written]:
    dest.mkdir()
    return checkout.checkout(*tree_of(repo), dest, owner=owner)


def test_every_byte_comes_back(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r", BYTES)
    written(repo, tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in BYTES} == BYTES


def test_every_name_comes_back(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r")
    for name in NAMES:
        path = os.fsencode(repo) + b"/d/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "names")
    written(repo, tmp_path / "out")
    folder = os.fsencode(tmp_path / "out" / "d")
    assert sorted(os.listdir(folder)) == sorted(NAMES)
    for name in NAMES:
        with open(folder + b"/" + name, "rb") as file:
            assert file.read() == name


def test_modes_links_and_submodules(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r")
    os.symlink("../outside", repo / "link")
    git(repo, "add", "link")
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},vendor/sub")
    git(repo, "commit", "-q", "-m", "kinds")
    rows = written(repo, tmp_path / "out")
    out = tmp_path / "out"
    assert os.readlink(out / "link") == "../outside"
    assert list((out / "vendor" / "sub").iterdir()) == []
    assert (out / "run.sh").stat().st_mode & 0o111 == 0o111
    assert (out / "README.md").stat().st_mode & 0o111 == 0
    assert [item.row.path for item in rows] == sorted(item.row.path for item in rows)


def test_filters_attributes_and_line_end_conversion_do_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    repo = make_repo(tmp_path / "r", {"a.txt": b"one\ntwo\n"})
    (repo / ".gitattributes").write_text("*.txt filter=evil eol=crlf ident text\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-q", "-m", "attributes")
    git(repo, "config", "filter.evil.smudge", f"touch {marker}; cat")
    git(repo, "config", "core.autocrlf", "true")
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    written(repo, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"one\ntwo\n"
    assert not marker.exists()


def make_tree(repo: Path, *entries: tuple[str, str, bytes]) -> str:
    """A tree object with entries that Git's own commands would refuse: (mode, oid, name)."""
    content = b"".join(
        b"%s %s\0%s" % (mode.encode(), name, bytes.fromhex(oid)) for mode, oid, name in entries
    )
    done = run(["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"], cwd=repo, stdin=content)
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.mark.parametrize(
    "name", [b"..", b".", b".git", b".GIT", b"GIT~1", ".g\u200cit".encode(), b".git::$INDEX_ALLOCATION"]
)
def test_a_hostile_name_is_refused_before_anything_is_written(tmp_path: Path, name: bytes) -> None:
    repo = make_repo(tmp_path / "r", {"a": b"a"})
    blob = git(repo, "rev-parse", "HEAD:a")
    inner = make_tree(repo, ("100644", blob, b"config"))
    tree = make_tree(repo, ("100644", blob, b"a"), ("40000", inner, name))
    (tmp_path / "out").mkdir()
    with pytest.raises(Refused):
        checkout.checkout(Git(repo / ".git"), tree, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "r"]


def test_a_link_that_is_also_a_folder_does_not_lead_outside(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r", {"a": b"evil"})
    blob = git(repo, "rev-parse", "HEAD:a")
    (tmp_path / "victim").mkdir()
    target = run(
        ["git", "hash-object", "-w", "--stdin"], cwd=repo, stdin=str(tmp_path / "victim").encode()
    ).out.strip()
    inner = make_tree(repo, ("100644", blob, b"planted"))
    tree = make_tree(repo, ("120000", target, b"x"), ("40000", inner, b"x"))
    (tmp_path / "out").mkdir()
    with pytest.raises(Refused, match="x"):
        checkout.checkout(Git(repo / ".git"), tree, tmp_path / "out")
    assert list((tmp_path / "victim").iterdir()) == []


def test_a_missing_blob_names_its_path(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r", {"a": b"a", "b": b"b"})
    oid = git(repo, "rev-parse", "HEAD:b")
    (repo / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    (tmp_path / "out").mkdir()
    with pytest.raises(Refused, match="'b'"):
        checkout.checkout(*tree_of(repo), tmp_path / "out")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_files_are_given_to_the_owner(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r")
    os.symlink("README.md", repo / "link")
    git(repo, "add", "link")
    git(repo, "commit", "-q", "-m", "link")
    written(repo, tmp_path / "out", owner=(54321, 54322))
    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in (tmp_path / "out").rglob("*")}
    assert owners == {(54321, 54322)}


def test_unborn_submodule_folder_is_a_folder(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "r")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},sub")
    git(repo, "commit", "-q", "-m", "sub")
    rows = written(repo, tmp_path / "out")
    status = next(item.status for item in rows if item.row.path == b"sub")
    assert stat.S_ISDIR(status.st_mode)


def test_two_names_that_are_one_here_are_refused(tmp_path: Path, repo: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("there already")
    with pytest.raises(Refused, match="README"):
        checkout.checkout(*tree_of(repo), tmp_path / "out")
    assert (tmp_path / "out" / "README.md").read_text() == "there already"


def test_source_and_revision_give_the_tree_that_is_written(repo: Path, tmp_path: Path) -> None:
    place = source.discover(repo)
    assert place is not None
    (tmp_path / "out").mkdir()
    checkout.checkout(source.git(place), source.resolve(place).tree, tmp_path / "out")
    assert git(repo, "--work-tree", str(tmp_path / "out"), "status", "--short") == ""
