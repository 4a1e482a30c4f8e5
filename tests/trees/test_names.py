"""Names that some system reads as .git, and folders that Git takes for repositories."""

from __future__ import annotations

import pytest

from backends.trees.names import embedded_repositories, hostile, is_dotgit, quote

DOTGIT = (
    b".git", b".GIT", b".gIt", b"git~1", b"GIT~1", b".git ", b".git.", b".git. .", b".git::$INDEX_ALLOCATION",
    b".git:x", b"a\\.git", b".git\\config", ".g\u200cit".encode(), "\u200d.git".encode(),
    ".gi\ufefft".encode(), ".g\u202ait".encode(), ".\u206fGIT".encode(),
)  # fmt: skip
HARMLESS = (
    b".gitignore", b".gitattributes", b".gitmodules", b"git", b".gi", b"git~2", b"x.git", b"\xff.git",
    b"..git", b".git\xff", b"GIT", b".github", "\u00e9.git".encode(), b" .git",
)  # fmt: skip


@pytest.mark.parametrize("name", DOTGIT)
def test_every_spelling_of_dotgit_is_known(name: bytes) -> None:
    assert is_dotgit(name)
    assert hostile(b"a/" + name + b"/config")


@pytest.mark.parametrize("name", HARMLESS)
def test_other_names_are_not_dotgit(name: bytes) -> None:
    assert not is_dotgit(name)
    assert hostile(b"a/" + name) == ""


@pytest.mark.parametrize(
    "path",
    [b"", b"/etc/passwd", b"../x", b"a/../b", b"a//b", b"./a", b"a/.", b"a/", b"a\0b", b"a/" * 3000 + b"x"],
)
def test_paths_that_leave_or_name_nothing_are_hostile(path: bytes) -> None:
    assert hostile(path)


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([b"docs/HEAD", b"docs/objects/x", b"docs/refs/heads/main"], (b"docs",)),
        ([b"HEAD", b"objects/x", b"refs/x"], (b".",)),
        ([b"a/b/head", b"a/b/Objects/x", b"a/b/REFS/x"], (b"a/b",)),
        ([b"docs/HEAD", b"docs/commondir"], (b"docs",)),
        ([b"docs/HEAD", b"docs/objects/x"], ()),
        ([b"docs/HEAD", b"x/objects/x", b"x/refs/x"], ()),
        ([b"docs/objects/refs", b"docs/refs/HEAD"], ()),
    ],
)
def test_embedded_repositories_are_told_by_what_git_asks_for(
    paths: list[bytes], found: tuple[bytes, ...]
) -> None:
    assert embedded_repositories(paths) == found


def test_quoting_escapes_what_ends_a_quoted_string() -> None:
    assert quote(b'a"b\\c\nd\xff') == b'"a\\"b\\\\c\\nd\xff"'
