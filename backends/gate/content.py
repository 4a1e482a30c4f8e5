"""What the reviewer's eye may miss in changed files: size, binary bytes, invisible characters. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from backends.evidence.visible import hidden, name_of

LARGE = 1 << 20  # bytes of a file from which on it is pointed out
READ_LIMIT = 8 << 20  # bytes of a file up to which its lines are read
_SNIFFED = 8000  # FIRST_FEW_BYTES of Git's xdiff-interface.c
_EXPECTED = "\t\r\f"  # control characters that text files hold for a reason
_BYTE_ORDER_MARK = "\ufeff"


def is_binary(blob: bytes) -> bool:
    """Git's rule: a NUL byte near the beginning."""
    return b"\0" in blob[:_SNIFFED]


def conflict_lines(old: bytes, new: bytes) -> list[int]:
    """Numbers of the lines that ``new`` adds and that begin a conflict as Git leaves it to be solved.

    A beginning counts where an end follows it (git-merge(1), HOW CONFLICTS ARE PRESENTED): a heading that is
    underlined, or one quoted mark in a text, is none.
    """
    if b"<<<<<<< " not in new or b">>>>>>> " not in new:
        return []
    known = set(old.split(b"\n"))
    found: list[int] = []
    begun: list[int] = []
    for number, line in enumerate(new.split(b"\n"), 1):
        if line.startswith(b"<<<<<<< ") and line not in known:
            begun.append(number)
        elif line.startswith(b">>>>>>> ") and begun:
            found += begun
            begun = []
    return found


def invisible_lines(old: bytes, new: bytes) -> Iterator[tuple[int, str]]:
    """Line number and characters (by name) of each line that ``new`` adds and that hides something.

    A line counts as added when ``old`` holds no equal line. Control sequences of terminals count as well; a
    byte order mark at the very beginning does not.
    """
    if new.isascii() and not any((byte < 32 and byte not in b"\t\r\n\f") or byte == 127 for byte in set(new)):
        return
    known = set(old.split(b"\n"))
    for number, line in enumerate(new.split(b"\n"), 1):
        if line in known:
            continue
        text = line.decode("utf-8", "surrogateescape")
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        found = hidden(text, keep=_EXPECTED)
        if found:
            yield number, ", ".join(map(name_of, found[:4]))
