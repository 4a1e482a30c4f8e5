"""Patches made of edits, for tests of whatever reads them."""

from __future__ import annotations

from hypothesis import strategies as st

Edit = tuple[str, bytes]  # " ", "-" or "+", and the line


def body(lines: list[Edit]) -> bytes:
    return b"".join(sign.encode() + text + b"\n" for sign, text in lines)


def hunk(lines: list[Edit], old: int = 1, new: int = 1) -> bytes:
    """One hunk as git prints it; ``old`` and ``new`` are the numbers of its first line."""
    gone = sum(sign != "+" for sign, _ in lines)
    came = sum(sign != "-" for sign, _ in lines)
    where = b"@@ -%d,%d +%d,%d @@\n" % (old - (not gone), gone, new - (not came), came)
    return where + body(lines)


def file(lines: list[Edit], path: bytes = b"x.py") -> bytes:
    head = b"diff --git a/%b b/%b\n--- a/%b\n+++ b/%b\n" % (path, path, path, path)
    return head + hunk(lines)


TEXTS = st.sampled_from(
    [b"", b"a", b" a", b"b", b"  b ", b"\tc", b"@@ -1 +1 @@", b"diff --git a/x b/x", b"\\ no"]
)
EDITS = st.lists(st.tuples(st.sampled_from(" -+"), TEXTS), max_size=40)
