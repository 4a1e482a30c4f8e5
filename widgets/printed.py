"""What a program printed, as lines to read.

A program on a terminal asks for pasted text in brackets, colours, moves the cursor. A pane has no cursor:
whole control sequences that draw (ECMA-48: CSI and the choice of characters) are taken for what they mean
to a reader, a break, blanks, or nothing, and are never passed on. Strings to the terminal (OSC, DCS and their
like: titles, the clipboard) and what is no whole sequence stay and are shown as escapes, like every other
outside text: who prints them wants something. Linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import re

from widgets.ink import Line, Run
from widgets.visible import expand_tabs, runs, text_of

LONGEST = 4096
"""Characters of one line that are looked at."""

BLANKS = 200
"""Blanks that one movement to the right makes at most."""

_SEQUENCE = re.compile(
    r"\x1b\[(?P<values>[0-?]{0,64})[ -/]{0,4}(?P<final>[@-~])"
    r"|\x1b[()*+\-./#% ][ -~]"
    r"|\x1b[=>78DEHMNOZc]"
    r"|[\x00\x07\x0e\x0f]"
)
_TO_ANOTHER_ROW = frozenset("ABEFHdf")


def _meaning(match: re.Match[str]) -> str:
    final = match["final"]
    if final is None or final == "m":
        return ""
    if final in _TO_ANOTHER_ROW:
        return "\n"
    if final == "C":  # blanks of programs that move instead of printing them
        values = match["values"]
        return " " * min(int(values[:4]) if values.isdecimal() else 1, BLANKS)
    if final == "G":
        return "\r" if match["values"] in ("", "0", "1") else " "
    return ""


def _plain(text: str) -> str:
    return _SEQUENCE.sub(_meaning, text) if not text.isprintable() else text


def _erased(text: str) -> str:
    """The line after its backspaces, which readline sends before it prints over a character."""
    if "\b" not in text:
        return text
    kept: list[str] = []
    for char in text:
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)


def _line(text: str) -> Line:
    """One line; of one that CR rewrote (a progress bar) the last version, after a mark that says so."""
    before, _, last = text.rstrip("\r").rpartition("\r")
    head = (Run("…\\r", "escape"),) if before.strip() else ()
    return (*head, *runs(expand_tabs(_erased(last[:LONGEST]))))


def output_lines(tail: bytes, limit: int) -> list[Line]:
    """The last ``limit`` lines of a program's output; blank ones at the end are left out."""
    text = _plain(text_of(tail[-limit * LONGEST :])).rstrip("\r\n")
    return [_line(one) for one in text.split("\n")[-limit:]] if text else []


def printed_line(value: str | bytes) -> Line:
    """The last line of ``value`` that says something: what a box printed last."""
    kept = [one for one in _plain(text_of(value[-LONGEST:])).split("\n") if one.strip()]
    return _line(kept[-1]) if kept else ()
