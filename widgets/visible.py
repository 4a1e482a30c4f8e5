"""Outside text made harmless to look at: every byte that a terminal would obey becomes a visible escape.

File names, argv, output, commit subjects and host names come from a box or from a stranger's repository.
Nothing of theirs may move the cursor, set the title, write the clipboard, hide, or reorder what a person
reads (Unicode TR 36, CVE-2021-42574). Escapes are written as in a program's source (``\\x1b``, ``\\u202e``,
``\\xff`` for a byte that is not UTF-8) and carry their own ink, so they can be told from a literal backslash.

Everything here is pure, and nothing here is ever parsed as markup.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import accumulate

from rich.cells import cell_len
from rich.text import Text

from widgets.ink import Line, Run, crop_line_left, fill_line

MARKS_PER_CELL = 4
"""Combining marks shown on one base character; more are written as escapes (a cell holds no tower)."""

# C0, DEL, C1 (ECMA-48); Cf, Zl, Zp, Cs of Unicode 15; blanks and selectors that take no or misleading room.
_OBEYED = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_SPECIAL = re.compile(f"[{_OBEYED}]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

TAB = 4
"""Columns between tab stops where text is shown as lines (a diff, output)."""


def text_of(value: str | bytes) -> str:
    """Outside bytes as text; a byte that is not UTF-8 survives as a lone surrogate (PEP 383)."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char in _NAMED:
        return _NAMED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(maxsize=1)
def _special_with_towers() -> re.Pattern[str]:
    """Like ``_SPECIAL``, and combining marks beyond the limit. Made at the first text that may hold some:
    the table of marks takes some milliseconds."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(f"[{_OBEYED}]|(?<=[{marks}]{{{MARKS_PER_CELL}}})[{marks}]+")


def _special(text: str) -> re.Pattern[str]:
    return _SPECIAL if text.isascii() or max(text) < "\u0300" else _special_with_towers()


def _escapes(match: re.Match[str]) -> str:
    return "".join(map(_escape, match[0]))


def escape_of(char: str) -> str:
    """A character as it is written where it must not be drawn."""
    return _escape(char)


def special_in(text: str) -> list[tuple[int, int]]:
    """Where ``text`` holds what must not be drawn as it is, tabs aside."""
    return [match.span() for match in _special(text).finditer(text) if match[0] != "\t"]


def visible(value: str | bytes) -> str:
    """One line of outside text as printable text; line ends and tabs are escaped as well."""
    text = text_of(value)
    return _special(text).sub(_escapes, text)


def runs(value: str | bytes, ink: str = "") -> Line:
    """Outside text as inked runs, the escapes in ink ``escape``."""
    text = text_of(value)
    found: list[Run] = []
    end = 0
    for match in _special(text).finditer(text):
        if match.start() > end:
            found.append(Run(text[end : match.start()], ink))
        escaped = _escapes(match)
        if found and found[-1].ink == "escape":
            found[-1] = Run(found[-1].text + escaped, "escape")
        else:
            found.append(Run(escaped, "escape"))
        end = match.end()
    if end < len(text):
        found.append(Run(text[end:], ink))
    return tuple(found)


def fitted(value: str | bytes, width: int, ink: str = "", *, keep: str = "head") -> Line:
    """Outside text in exactly ``width`` cells, its escapes still told from literal backslashes."""
    parts = runs(
        text_of(value)[: 4 * width + 64] if keep == "head" else text_of(value)[-4 * width - 64 :], ink
    )
    cut = crop_line_left(parts, width) if keep == "tail" else parts
    return fill_line(cut, width)


def rich_text(value: str | bytes, style: str = "") -> Text:
    """Outside text for a Rich or Textual renderable: a ``Text`` is never read as markup."""
    result = Text(no_wrap=True, end="")
    for run in runs(value):
        result.append(run.text, "reverse" if run.ink == "escape" else style)
    return result


def expand_tabs(text: str, size: int = TAB, mark: str = " ") -> str:
    """Tabs as spaces by cell columns, ``mark`` in the first cell of each; ``str.expandtabs`` counts
    characters and resets at a CR."""
    if "\t" not in text:
        return text
    parts = text.split("\t")
    column = 0
    out: list[str] = []
    for part in parts[:-1]:
        column += cell_len(part)
        pad = size - column % size
        out.append(part + mark + " " * (pad - 1))
        column += pad
    out.append(parts[-1])
    return "".join(out)


@lru_cache(maxsize=4096)
def crop(text: str, width: int) -> str:
    """Printable text cut to ``width`` cells, with an ellipsis where something was cut."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    return _head(text, width - 1) + "…"


@lru_cache(maxsize=4096)
def crop_left(text: str, width: int) -> str:
    """Like :func:`crop`, but the end is kept: for paths, whose last part says most."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    tail = text[-width:]
    while tail and cell_len(tail) > width - 1:
        tail = tail[1:]
    return "…" + tail


def _head(text: str, width: int) -> str:
    head = text[: width + width * MARKS_PER_CELL]
    if head.isascii():
        return head[:width]
    for index, total in enumerate(accumulate(cell_len(char) for char in head)):
        if total > width:
            return head[:index]
    return head


@lru_cache(maxsize=4096)
def fit(text: str, width: int, align: str = "left", keep: str = "head") -> str:
    """Printable text cropped and padded to exactly ``width`` cells."""
    cut = crop_left(text, width) if keep == "tail" else crop(text, width)
    pad = " " * (width - cell_len(cut))
    return pad + cut if align == "right" else cut + pad
