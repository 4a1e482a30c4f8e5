"""Outside text made safe to print: every control, escape, bidi or invisible character becomes visible.

Names, arguments, output lines and commit subjects come out of boxes. Printed raw they could move the cursor,
set the window's title, write the clipboard or reorder a line (kinds U1, U2).
"""

from __future__ import annotations

# Printable by their category, yet drawn as nothing: fillers, selectors, the grapheme joiner.
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)


def escape(text: str) -> str:
    r"""``text`` with each character that :meth:`str.isprintable` refuses written as ``\n``, ``\x1b``, ``\u202e``.

    That covers C0, C1, format characters (bidi, zero width, tags), line and paragraph separators, private
    use and unassigned ones. A lone surrogate stands for a raw byte of a name (surrogateescape): ``\xff``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() and c not in INVISIBLE else _visible(c) for c in text)


def escape_bytes(data: bytes) -> str:
    """A path or name in raw bytes, decoded as UTF-8 where it is and escaped."""
    return escape(data.decode("utf-8", "surrogateescape"))


def escape_lines(data: bytes) -> str:
    """Text of several lines (a patch): line feeds and tabs stay, all else as in :func:`escape`."""
    text = data.decode("utf-8", "surrogateescape")
    return "\n".join("\t".join(escape(part) for part in line.split("\t")) for line in text.split("\n"))


def _visible(char: str) -> str:
    code = ord(char)
    if char == "\n":
        return "\\n"
    if char == "\r":
        return "\\r"
    if char == "\t":
        return "\\t"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
