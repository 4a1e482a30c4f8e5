"""What a reviewer asks for as Markdown, what of it is quoted, and writing it while names are swapped."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError
from backends.gate import feedback
from backends.gate.feedback import LARGEST, Rejected, encode, render
from backends.gate.patch import MODE, REJECTED, History, Marks, read
from backends.snapshots import ReviewComment
from backends.trees import diff
from backends.verbs.requesting import QUOTED, plain, rejected
from tests.gate.world import World
from tests.trees.test_attacks import RACER

OURS = {"# Changes are requested", "## Summary", "### Rejected"}
SNAPSHOT = "0" * 40

texts = st.text(st.characters(exclude_categories=()), max_size=60)
hostile = texts | st.sampled_from(["```", "`" * 9, "# x\n## y", "\x1b[2J", "\r# x", "> q", "a\u202eb", "\\n"])
names = st.binary(min_size=1, max_size=30).filter(lambda name: b"\0" not in name)


def comment(number: int, path: bytes, text: str, line: int = 1, quote: str = "q") -> ReviewComment:
    return ReviewComment(number, path, "k", "new", line, quote, text, "ann", 1.0)


@given(
    summary=hostile,
    said=st.lists(st.tuples(names, hostile, st.integers(0, 9), hostile), max_size=4),
    parts=st.lists(st.builds(Rejected, names, st.just("its mode"), st.tuples(names)), max_size=3),
)
def test_nothing_in_the_file_passes_for_a_word_of_its_own(
    summary: str, said: list[tuple[bytes, str, int, str]], parts: list[Rejected]
) -> None:
    comments = [comment(n, path, text, line, quote) for n, (path, text, line, quote) in enumerate(said)]
    text = render(SNAPSHOT, summary, comments, (), parts)
    fence = ""
    for line in text.split("\n"):
        if fence:
            assert line == fence or line.startswith("  "), line
            fence = "" if line == fence else fence
        elif match := re.fullmatch(r"(`{3,})text", line):
            fence = match[1]
        elif line.startswith("#"):
            assert line in OURS or re.fullmatch(r"## Points \(\d+\)|### Comment \d+", line), line
    assert not fence
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs") or char in "\n\t" for char in text)
    assert encode(text).decode() == text


def test_what_does_not_fit_is_counted() -> None:
    comments = [comment(n, b"f", "x" * 16000) for n in range(1, 101)]
    text = render(SNAPSHOT, "s" * 64000, comments, (), ())
    assert len(encode(text)) <= LARGEST
    kept = text.count("### Comment ")
    assert 20 < kept < 100 and text.endswith(f"{100 - kept} more points did not fit into this file.\n")


@given(hostile)
def test_what_is_typed_is_one_line_that_no_terminal_obeys(text: str) -> None:
    line = plain(text)
    assert all(unicodedata.category(char)[0] != "C" for char in line)
    assert not {"\n", "\r", "\u2028", "\u2029"} & set(line)
    assert line.encode().decode() == line


def test_rejected_lines_are_quoted_with_their_numbers(world: World) -> None:
    before = b"".join(b"line %d\n" % n for n in range(1, 61))
    after = before.replace(b"line 5\n", b"LINE 5\nand more\n").replace(b"line 50\n", b"")
    base = world.changed({b"f": before, b"tool": b"#!\n", b"image": b"\0a"})
    tree = world.changed({b"f": after, b"tool": (0o100755, b"#!\n"), b"image": b"\0b", b"big": b"x\n" * 99})
    patch = read(diff.diff(world.paths, world.base, base, tree), base)
    files = patch.by_path()
    history = History().set([(b"f", files[b"f"].new_lines(6, 6)), (b"f", files[b"f"].hunk(1))], REJECTED)
    history = history.set([(path, files[path].all) for path in (b"tool", b"image", b"big")], REJECTED)
    assert list(rejected(patch, history.now)) == [
        Rejected(b"big", "the whole change"),
        Rejected(b"f", "added line 6", (b"+and more",), 1),
        Rejected(b"f", "removed line 50", (b"-line 50",), 1),
        Rejected(b"image", "the whole change"),
        Rejected(b"tool", "the whole change"),
    ]
    history = History().set([(b"big", files[b"big"].new_lines(2, 99)), (b"f", Marks())], REJECTED)
    (one,) = rejected(patch, history.now)
    assert (one.where, one.lines, one.total) == ("added lines 2-99", (b"+x",) * QUOTED, 98)
    assert f"... and {98 - QUOTED} more lines" in render(SNAPSHOT, "", (), (), (one,))
    assert files[b"tool"].part(MODE) == files[b"tool"].all


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/etc/x", "a\0"])
def test_only_a_name_is_written(tmp_path: Path, name: str) -> None:
    paths = BoxPaths(tmp_path / "box")
    paths.tree.mkdir(parents=True)
    with pytest.raises(ValueError, match="no name of a file"):
        feedback.write(paths, name, "x", None)


@pytest.mark.boundary
def test_names_that_are_swapped_meanwhile_lead_nowhere(tmp_path: Path) -> None:
    """Links, pipes, folders and files trade places at the very name, as fast as they can."""
    paths = BoxPaths(tmp_path / "box")
    paths.tree.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "victim"
    victim.write_bytes(b"HOST\n")
    before = victim.stat()
    tree = paths.tree
    os.symlink(victim, tree / "to-victim")
    os.symlink(outside / "fresh", tree / "to-nothing")
    os.symlink(outside, tree / "to-folder")
    os.mkfifo(tree / "pipe")
    (tree / "f").write_bytes(b"")
    pairs = [f"f:{name}" for name in ("to-victim", "pipe", "to-nothing", "to-folder")]
    racer = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", RACER, str(tree), *pairs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert racer.stdin is not None
    assert racer.stdout is not None
    assert racer.stdout.readline() == b"ready\n"
    written = 0
    try:
        for _ in range(300):
            try:
                feedback.write(paths, "f", "asked\n", None)
            except ClocheError as error:
                assert error.code in ("feedback-blocked", "not-written")
            else:
                written += 1
            for name, target in (("to-victim", victim), ("to-nothing", outside / "fresh")):
                with contextlib.suppress(FileExistsError):
                    os.symlink(target, tree / name)
    finally:
        racer.stdin.close()
        racer.wait()
    assert written
    after = victim.stat()
    assert victim.read_bytes() == b"HOST\n" and os.listdir(outside) == ["victim"]
    wanted = (before.st_ino, before.st_mode, before.st_mtime_ns, before.st_ctime_ns)
    assert (after.st_ino, after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == wanted
