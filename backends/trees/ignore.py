"""Which untracked files a tree's own ``.gitignore`` files leave out (gitignore(5)).

Patterns come from the tree, so they are matched in the confined walker only, where a pattern that takes
forever ends with the walker's time limit. The user's own excludes are not asked: the same tree gives the same
snapshot for everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

LARGEST = 1 << 20  # bytes of one .gitignore; Git reads them whole, nobody writes such a file by hand


class Rules(NamedTuple):
    """The rules of one folder and of those above it, nearest last."""

    levels: tuple[tuple[int, GitIgnoreSpec], ...]  # length of the folder's prefix, and its patterns
    bad: tuple[str, ...]  # lines of the folder's own file that are no pattern

    def ignores(self, path: bytes, is_folder: bool) -> bool:
        """Whether an untracked ``path`` (from the root) is ignored; the nearest file that has a word wins."""
        text = path.decode("utf-8", "surrogateescape")
        for prefix, spec in reversed(self.levels):
            relative = text[prefix:] + ("/" if is_folder else "")
            verdict = spec.check_file(relative, separators=()).include
            if verdict is not None:
                return verdict
        return False


NO_RULES = Rules((), ())


def warm_up() -> None:
    """Import and use the library once: a confined process can no longer read modules from disk."""
    add(NO_RULES, b"", b"a/*\n!b\n**/c/\n[d-e]?\n").ignores(b"a/x", False)


def add(above: Rules, prefix: bytes, content: bytes) -> Rules:
    """The rules of the folder at ``prefix`` ("" or ending in a slash) that has this ``.gitignore``."""
    from pathspec import GitIgnoreSpec

    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    # Only LF ends a line to Git; str.splitlines would also cut at form feeds and U+2028.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    bad: list[str] = []
    try:
        spec = GitIgnoreSpec.from_lines(lines)
    except ValueError:
        good: list[str] = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
                good.append(line)
            except ValueError:
                bad.append(line)
        spec = GitIgnoreSpec.from_lines(good)
    length = len(prefix.decode("utf-8", "surrogateescape"))
    return Rules((*above.levels, (length, spec)), tuple(bad))
