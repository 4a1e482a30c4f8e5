"""Rules of ``.gitignore``: what Git says is what we say, and no pattern takes long."""

from __future__ import annotations

import os
import random
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest

from backends.trees import ignore, wildmatch

PATTERNS = [
    b"a", b"/a", b"a/", b"!a", b"*", b"**", b"/**", b"**/", b"a/b", b"a/*", b"a/**", b"**/a", b"**/a/b",
    b"a/**/b", b"a/**/b/**", b"a**", b"**a/b", b"***", b"a/***/b", b"*.a", b"a*b", b"*a*b*", b"?", b"a?b",
    b"?/b", b"[ab]", b"[!a]", b"[^a]b", b"[a-b]", b"[]a]", b"[]-a]", b"[!]a]", b"[a-]", b"[-a]", b"[\\]]",
    b"[a/b]", b"[[:alpha:]]", b"[[:digit:]a]", b"[[:x:]]", b"[[:alpha:]", b"[[a]", b"[a", b"a\\", b"\\a",
    b"\\*", b"\\!a", b"\\#a", b"#a", b"a ", b"a\\ ", b"a \\ ", b" a", b"!", b"/", b"//a", b"a//b",
    b"a\\/b", b"*/a", b"*/*", b"*/*/b", b"**/*", b"*/**", b"a/**/*b", b"**/**/b", b"a/**/**", b"[b-a]",
    b"[a-\\b]", b"[\\a-b]", b"\xff", b"[\xe0-\xff]", b"?\xff", b".*", b"[.]a", b"a\r", b"[a--]", b"[--a]",
    b"[a-b-c]", b"[[:space:]]", b"[ ]", b"a[]b", b"[!]", b"**b", b"b**b/a", b"a.b", b"*[ab]*[!b]*",
]  # fmt: skip
NAMES = (
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"a.b",
    b".a",
    b"a ",
    b"]",
    b"*",
    b"!a",
    b"#a",
    b"aab",
    b"\xff",
    b"-",
    b"[a",
)


def paths() -> list[bytes]:
    found = [b"/".join(parts) for depth in (1, 2) for parts in product(NAMES, repeat=depth)]
    few = (b"a", b"b", b"ab", b".a")
    return found + [b"/".join(parts) for depth in (3, 4) for parts in product(few, repeat=depth)]


def git_says(top: Path, contents: list[bytes], names: list[bytes]) -> list[set[bytes]]:
    """For each content of a .gitignore the paths that Git ignores, all asked in one go."""
    env = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", top], env=env, check=True)
    for number, content in enumerate(contents):
        (top / f"d{number}").mkdir()
        (top / f"d{number}" / ".gitignore").write_bytes(content)
    asked = b"".join(b"d%d/%b\0" % (number, name) for number in range(len(contents)) for name in names)
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        input=asked,
        cwd=top,
        env=env,
        capture_output=True,
    )
    assert done.returncode in (0, 1), done.stderr
    out: list[set[bytes]] = [set() for _ in contents]
    for answer in done.stdout.split(b"\0")[:-1]:
        folder, _, name = answer.partition(b"/")
        out[int(folder[1:])].add(name)
    return out


def we_say(content: bytes, names: list[bytes]) -> set[bytes]:
    patience = ignore.Patience(60)
    rules = ignore.add(ignore.NO_RULES, b"", content, patience)

    def ignored(name: bytes) -> bool:
        parts = name.split(b"/")
        folders = (b"/".join(parts[:count]) for count in range(1, len(parts)))
        return any(rules.ignores(one, True, patience) for one in folders) or rules.ignores(
            name, False, patience
        )

    return {name for name in names if ignored(name)}


def compare(top: Path, contents: list[bytes]) -> None:
    names = paths()
    for content, wanted in zip(contents, git_says(top, contents, names), strict=True):
        assert we_say(content, names) == wanted, content


def test_every_kind_of_pattern_ignores_what_git_ignores(tmp_path: Path) -> None:
    compare(tmp_path, [pattern + b"\n" for pattern in PATTERNS])


def test_the_last_rule_that_matches_decides_as_in_git(tmp_path: Path) -> None:
    compare(
        tmp_path,
        [
            b"*\n!a\n",
            b"*\n!*/\n!a\n",
            b"a\n!a\na/\n",
            b"!a\na\n",
            b"\xef\xbb\xbfa\n",
            b"a*\n!ab\r\n",
            b"a\n\n#b\nb",
        ],
    )


def test_patterns_at_random_ignore_what_git_ignores(tmp_path: Path) -> None:
    chance = random.Random(7)
    pieces = [
        b"a",
        b"b",
        b"*",
        b"**",
        b"?",
        b"/",
        b"/**/",
        b"[ab]",
        b"[!a]",
        b"[",
        b"]",
        b"-",
        b"\\",
        b"!",
        b".",
        b" ",
    ]
    compare(tmp_path, [b"".join(chance.choices(pieces, k=chance.randint(1, 6))) + b"\n" for _ in range(150)])


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (b"*a" * 14 + b"*b", b"a" * 250),
        (b"*a*" * 80 + b"b", b"a" * 250),
        (b"*[ab]" * 100 + b"c", b"ab" * 125),
        (b"*?" * 120 + b"c", b"a" * 250),
        (b"/" + b"**/a/" * 30 + b"b", b"/".join([b"a"] * 2000)),
        (b"/" + b"**/*a*a*a/" * 30 + b"b", b"/".join([b"aaaa"] * 800)),
        (b"**/" * 1000 + b"b", b"/".join([b"a"] * 2000)),
    ],
)
def test_no_pattern_takes_more_than_a_moment(pattern: bytes, name: bytes) -> None:
    patience = ignore.Patience(60)
    rules = ignore.add(ignore.NO_RULES, b"", pattern + b"\n", patience)
    began = time.process_time()
    for _ in range(10):
        assert not rules.ignores(name, False, patience)
    assert time.process_time() - began < 10.0


def test_stars_find_what_only_a_later_try_would() -> None:
    for pattern, name in ((b"*ab*b", b"aabab"), (b"a*a", b"aa"), (b"*aab", b"aaab"), (b"*a?b*", b"aaabb")):
        assert wildmatch.component(pattern)(name)
    assert not wildmatch.component(b"a*a")(b"a")
    assert not wildmatch.component(b"a")(b"a\n")
    assert not wildmatch.component(b"*a")(b"a\n")


def test_rules_that_use_up_their_time_say_so() -> None:
    patience = ignore.Patience(0.05)
    with pytest.raises(ignore.TooSlow):
        ignore.add(ignore.NO_RULES, b"", b"*a*b\n" * 100_000, patience)
    assert patience.left < 0
    with pytest.raises(ignore.TooSlow):
        ignore.add(ignore.NO_RULES, b"", b"a\n", patience)
