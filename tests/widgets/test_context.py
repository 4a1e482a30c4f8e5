"""Another context changes what stands around the changes and nothing of the changes (compared with git's)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.context import STEPS, with_context, words
from widgets.patch import ADDED, REMOVED, SAME, PatchIndex, index_patch

LINES = st.lists(st.sampled_from([b"a", b"b", b"", b"  c", b"-d", b"\\ e"]), max_size=30)


def git_diff(folder: Path, old: bytes, new: bytes, context: int) -> bytes:
    (folder / "old").write_bytes(old)
    (folder / "new").write_bytes(new)
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", f"-U{context}", "--no-indent-heuristic", "old", "new"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1)
    return done.stdout


def changed(index: PatchIndex) -> list[tuple[int, int, int, bytes]]:
    return [
        (index.kinds[row], index.old[row], index.new[row], index.text(row))
        for row in range(len(index))
        if index.kinds[row] in (ADDED, REMOVED)
    ]


OLD = b"".join(b"line %d\n" % n for n in range(1, 61))
NEW = OLD.replace(b"line 10\n", b"ten\n").replace(b"line 17\n", b"").replace(b"line 60\n", b"line 60\nlast")


@pytest.mark.parametrize("context", STEPS)
def test_it_is_what_git_prints_with_that_context(tmp_path: Path, context: int) -> None:
    patch = git_diff(tmp_path, OLD, NEW, 3)
    expected = git_diff(tmp_path, OLD, NEW, min(context, 1000))
    made = with_context(patch, context, NEW)

    def bare(text: bytes) -> list[bytes]:
        """Without the headings of the hunks, which git guesses from the lines above."""
        return [line.split(b" @@")[0] for line in text.split(b"\n")]

    assert bare(made) == bare(expected)


def test_any_change_keeps_its_lines_and_numbers_and_applies(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("context")

    @given(LINES, LINES, st.booleans(), st.booleans(), st.sampled_from(STEPS))
    def holds(old: list[bytes], new: list[bytes], old_end: bool, new_end: bool, context: int) -> None:
        before = b"\n".join(old) + (b"\n" if old_end and old else b"")
        after = b"\n".join(new) + (b"\n" if new_end and new else b"")
        patch = git_diff(folder, before, after, 3)
        made = with_context(patch, context, after)
        was, now = index_patch(patch), index_patch(made)
        assert changed(now) == changed(was)
        lines = after.split(b"\n")
        for row in range(len(now)):
            if now.kinds[row] == SAME:
                assert now.text(row) == lines[now.new[row] - 1]

    holds()


def test_without_the_file_there_can_be_less_but_not_more() -> None:
    patch = (
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -5,7 +5,7 @@ def f():\n a\n b\n c\n-d\n+D\n e\n f\n g\n"
    )
    assert with_context(patch, 10) == patch.replace(b" def f():", b"")
    assert with_context(patch, 0).endswith(b"@@ -8 +8 @@\n-d\n+D\n")


def test_what_has_no_hunks_stays() -> None:
    patch = b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    assert with_context(patch, 0) == patch


def test_the_context_is_said_in_words() -> None:
    assert [words(step) for step in STEPS[2:]] == ["context 3", "context 10", "context 25", "whole file"]
