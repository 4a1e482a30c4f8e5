"""Which untracked files a tree's own ``.gitignore`` files leave out (gitignore(5)).

Patterns come from the tree, so they are matched in the confined walker only, by a matcher whose time no
pattern can blow up, and in a time of their own. The user's own excludes are not asked: the same tree gives
the same snapshot for everybody.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from backends.trees import wildmatch
from backends.trees.wildmatch import Pattern, Test

LARGEST = 1 << 20  # bytes of one .gitignore; Git reads them whole, nobody writes such a file by hand
LONGEST = 4096  # bytes of one pattern: no path is longer (PATH_MAX)
_BETWEEN = 64  # patterns between two looks at the clock


class TooSlow(Exception):
    """The rules have used up their time."""


class Patience:
    """The time that all rules of one walk have left."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._began = 0.0

    def __enter__(self) -> Patience:
        self._began = time.monotonic()
        return self

    def check(self) -> None:
        if time.monotonic() - self._began > self.left:
            raise TooSlow

    def __exit__(self, *_: object) -> None:
        self.left -= time.monotonic() - self._began


class Rule(NamedTuple):
    """One line: a test of the last component, or a pattern for the whole path below its folder."""

    includes: bool  # "!": what it matches is not ignored
    folders_only: bool
    last: Test | None
    path: Pattern | None


class Rules(NamedTuple):
    """The rules of one folder and of those above it, nearest last."""

    levels: tuple[
        tuple[int, tuple[Rule, ...]], ...
    ]  # length of the prefix; the folder's rules, last one first
    bad: tuple[bytes, ...]  # lines of the folder's own file that are no pattern

    def ignores(self, path: bytes, is_folder: bool, patience: Patience) -> bool:
        """Whether an untracked ``path`` (from the root) is ignored; the nearest file that has a word wins.

        Folders above it are not asked about: what they ignore is ignored with them. ``TooSlow`` when the time
        of all rules is over.
        """
        with patience:
            for prefix, rules in reversed(self.levels):
                parts = path[prefix:].split(b"/")
                name = parts[-1]
                for number, rule in enumerate(rules):
                    if not number % _BETWEEN:
                        patience.check()
                    if rule.folders_only and not is_folder:
                        continue
                    if rule.last(name) if rule.last else rule.path and rule.path.matches(parts):
                        return not rule.includes
        return False


NO_RULES = Rules((), ())


def add(above: Rules, prefix: bytes, content: bytes, patience: Patience) -> Rules:
    """The rules of the folder at ``prefix`` ("" or ending in a slash) that has this ``.gitignore``.

    ``TooSlow`` when the time of all rules is over.
    """
    rules: list[Rule] = []
    bad: list[bytes] = []
    with patience:
        # Only LF ends a line to Git, which reads a CR before it as part of the end.
        for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n")):
            if not number % _BETWEEN:
                patience.check()
            text = _trimmed(line.removesuffix(b"\r"))
            if not text or text.startswith(b"#"):
                continue
            try:
                rules.append(parse(text))
            except ValueError:
                bad.append(line)
    return Rules((*above.levels, (len(prefix), tuple(reversed(rules)))), tuple(bad))


def _trimmed(line: bytes) -> bytes:
    """Without the blanks at its end, unless a backslash keeps one."""
    text = line.rstrip(b" ")
    backslashes = len(text) - len(text.rstrip(b"\\"))
    return text + b" " if backslashes % 2 and len(text) < len(line) else text


def parse(text: bytes) -> Rule:
    """The rule that a line states. ``ValueError`` for a pattern that can match nothing."""
    if len(text) > LONGEST:
        raise ValueError("it is longer than any path")
    includes = text.startswith(b"!")
    pattern = text[1:] if includes else text
    folders_only = pattern.endswith(b"/")
    if folders_only:
        pattern = pattern[:-1]
    if not pattern:
        raise ValueError("it is empty")
    if b"/" in pattern:
        return Rule(includes, folders_only, None, wildmatch.whole(pattern.removeprefix(b"/")))
    return Rule(includes, folders_only, wildmatch.component(pattern), None)
