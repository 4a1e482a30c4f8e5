"""Hostile text made visible: what a terminal obeys or an eye cannot see becomes an escape.

For reports and the command line. Control characters (ECMA-48), bidirectional and invisible format characters
(Unicode TR 36, CVE-2021-42574), blanks that are not a space, unassigned and private code points, and bytes
that are no UTF-8 are written as in a program's source: ``\\x1b``, ``\\u202e``, ``\\xff``. A backslash is
doubled, so that no two different texts look the same.
"""

from __future__ import annotations

import re
import unicodedata

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"))
# Letters, marks and symbols by category that are drawn as nothing or as a blank.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
_PLAIN = re.compile(r"[\x20-\x5b\x5d-\x7e]*")
_MAX_MARKS = 4  # combining marks on one character; a tower of more covers the lines around it


def visible(value: str | bytes) -> str:
    """One line of outside text as printable text that tells two different inputs apart."""
    text = text_of(value)
    return text if _PLAIN.fullmatch(text) else _escape_all(text, keep="", double="\\")


def visible_lines(value: str | bytes) -> list[str]:
    """Outside text as lines without their ends: split at LF only, tabs and backslashes kept."""
    return [_escape_all(line, keep="\t\\", double="") for line in text_of(value).split("\n")]


def hidden(text: str, *, keep: str = "") -> tuple[str, ...]:
    """The distinct characters of ``text`` that cannot be seen or change how it reads, without ``keep``.

    Bytes that are no UTF-8 are not among them: they are visible as what they are not.
    """
    if text.isascii() and text.isprintable():
        return ()
    return tuple(
        sorted({c for c in text if c not in keep and _is_hidden(c) and not "\udc80" <= c <= "\udcff"})
    )


def name_of(char: str) -> str:
    """A character for a message: ``U+202E RIGHT-TO-LEFT OVERRIDE``."""
    return f"U+{ord(char):04X} {unicodedata.name(char, 'control character')}"


def text_of(value: str | bytes) -> str:
    """Outside bytes as text; a byte that is not UTF-8 survives as a lone surrogate (PEP 383)."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _is_hidden(char: str) -> bool:
    return char != " " and (unicodedata.category(char) in _HIDDEN_CATEGORIES or char in _BLANK)


def _escape_all(text: str, *, keep: str, double: str) -> str:
    out: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char)[0] == "M" else 0
        if char in double or marks > _MAX_MARKS or (_is_hidden(char) and char not in keep):
            out.append(_escape(char))
        else:
            out.append(char)
    return "".join(out)


def _escape(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    # From U+0080 on \u is used, because \x says a byte that is no UTF-8.
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
