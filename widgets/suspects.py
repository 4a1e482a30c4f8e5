"""Characters that make a text read as something else than it is: found, named and written as escapes. Pure.

Control characters, bidirectional and invisible ones (Unicode TR 36, CVE-2021-42574), and letters of other
scripts that look like Latin ones within a Latin word (Unicode TS 39, CVE-2021-42694). A word of another
script is left alone, unless each of its letters looks like a Latin one and nothing else in the line is of
that script.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from widgets.ink import Line, Run
from widgets.patch import ADDED, PatchIndex
from widgets.visible import escape_of, runs, special_in, text_of

CONTROL, BIDI, INVISIBLE, BYTES, LOOKALIKE = "control", "bidi", "invisible", "no UTF-8", "look-alike"

SURVEYED = 50_000
"""Rows that are looked at character by character in one survey; the rest is looked at when it is drawn."""

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Letters and signs that are drawn like the ASCII character beside them (a part of confusables.txt of UTS 39).
_PAIRS = (
    "аa еe оo рp сc уy хx іi јj ѕs ԁd ԛq ԝw һh ӏl ѵv ғf ԍg ҽe ոn սu օo զq հh աw ցg ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM "
    "ΝN ΟO ΡP ΤT ΥY ΧX αa οo νv ρp  АA ВB ЕE КK МM НH ОO РP СC ТT УY ХX ЅS ІI ЈJ ԌG ԜW "
    "ɑa ɡg ıi ɩi ʋv ꞁl ꓐB ꓑP ꓓD ꓔT ꓖG ꓗK ꓙJ ꓚC ꓜZ ꓝF ꓟM ꓠN ꓡL ꓢS ꓣR ꓦV ꓧH ꓪW ꓫX ꓬY ꓮA ꓰE ꓲI ꓳO ꓴU "
    "ꭰD Ꭺ A Ᏼ B Ꮯ C Ꭼ E Ꮋ H Ꭻ J Ꮶ K Ꮮ L Ꮇ M Ꮲ P Ꮪ S Ꭲ T Ꮩ V Ꮃ W Ꮓ Z"
)
_LATIN = {pair[0]: pair[1] for pair in re.findall(r"([^\x00-\x7f]) ?([A-Za-z])", _PAIRS)}
# Signs that read as punctuation a program knows, or as a blank that is none.
_SIGNS = frozenset(
    "\u037e\u01c3\u2024\u2044\u2215\u2216\u2223\u2236\u2217\u204e\u02d0\u0589\u05c3\ua789\u02bc\u02b9\u2032"
    "\u2010\u2011\u2012\u2212\u02c8\u02cb\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u202f\u205f\u2800"
)
_WORD = re.compile(r"[^\W\d_](?:\w)*")
_HARMLESS = bytes(range(0x20, 0x7F)) + b"\t\n"
_TO_LOOK_AT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]|\r(?!\n|$)")


class Suspect(NamedTuple):
    """Characters of a text that are not what they seem, and what is written in their place."""

    start: int
    end: int
    kind: str
    shown: str


def suspects(text: str) -> tuple[Suspect, ...]:
    """What in one line of ``text`` is not what it seems, from left to right. A carriage return at its end is
    shown but is the file's kind of line end, and no suspect: its kind is empty."""
    if text.isascii() and text.isprintable():
        return ()
    found = [
        Suspect(start, end, _kind(text, start, end), "".join(map(escape_of, text[start:end])))
        for start, end in special_in(text)
    ]
    if not text.isascii():
        taken = {place for suspect in found for place in range(suspect.start, suspect.end)}
        found += (look for look in _lookalikes(text) if look.start not in taken)
        found.sort()
    return tuple(found)


def _kind(text: str, start: int, end: int) -> str:
    char = text[start]
    if char == "\r" and end == len(text):
        return ""
    if char in _BIDI:
        return BIDI
    if "\udc80" <= char <= "\udcff":
        return BYTES
    return CONTROL if unicodedata.category(char) == "Cc" else INVISIBLE


def script(char: str) -> str:
    """The first word of the character's name, which tells scripts apart: LATIN, CYRILLIC, GREEK."""
    return unicodedata.name(char, "").partition(" ")[0]


def _lookalikes(text: str) -> Iterable[Suspect]:
    for place, char in enumerate(text):
        if char in _SIGNS:
            yield Suspect(place, place + 1, LOOKALIKE, escape_of(char))
    words = [match for match in _WORD.finditer(text) if not match[0].isascii()]
    for match in words:
        word = match[0]
        latin = any(char.isascii() and char.isalpha() for char in word)
        odd = [at for at, char in enumerate(word) if _latin_like(char)]
        if not odd:
            continue
        letters = sum(char.isalpha() for char in word)
        whole = not latin and len(odd) == letters
        if letters == 1 and script(word[0]) == "GREEK":
            continue  # the alpha of a formula
        if latin or (whole and not _spoken(words, match, script(word[odd[0]]))):
            for at in odd:
                start = match.start() + at
                yield Suspect(start, start + 1, LOOKALIKE, escape_of(word[at]))


def _latin_like(char: str) -> bool:
    if char.isascii():
        return False
    if char in _LATIN:
        return True
    plain = unicodedata.normalize("NFKC", char)  # full-width letters, mathematical alphabets
    return plain != char and plain.isascii() and plain.isalnum()


def _spoken(words: list[re.Match[str]], word: re.Match[str], name: str) -> bool:
    """The line holds a letter of the script that looks like no Latin one: it is written in that script."""
    return any(
        script(char) == name and not _latin_like(char)
        for other in words
        if other is not word
        for char in other[0]
    )


def named(value: str | bytes, ink: str = "") -> Line:
    """A name as inked runs, as :func:`widgets.visible.runs` draws it, look-alike letters as escapes too."""
    text = text_of(value)
    parts: list[Run] = []
    place = 0
    for suspect in suspects(text):
        if suspect.kind == LOOKALIKE:
            parts += (*runs(text[place : suspect.start], ink), Run(suspect.shown, "escape"))
            place = suspect.end
    return (*parts, *runs(text[place:], ink))


class Survey(NamedTuple):
    """The added rows of a patch that hold suspects, and how many of each file's; ``whole`` is false when
    there was more to look at than :data:`SURVEYED`."""

    rows: array[int]
    files: dict[int, tuple[int, str]]  # file: rows, and the kind of the first
    whole: bool


NO_SURVEY = Survey(array("i"), {}, True)


def survey(index: PatchIndex) -> Survey:
    """Looks for suspects in all added lines; to be done off the UI loop."""
    if not index.patch.translate(None, _HARMLESS):
        return NO_SURVEY
    rows = array("i")
    files: dict[int, tuple[int, str]] = {}
    row, looked = -1, 0
    for match in _TO_LOOK_AT.finditer(index.patch):
        here = index.row_of(match.start())
        if here < 0 or here == row:
            continue
        row = here
        if index.kinds[row] != ADDED:
            continue
        looked += 1
        if looked > SURVEYED:
            return Survey(rows, files, False)
        kinds = [suspect.kind for suspect in suspects(text_of(index.text(row))) if suspect.kind]
        if kinds:
            rows.append(row)
            file = index.file_at(row)
            if file is not None:
                count, first = files.get(file, (0, kinds[0]))
                files[file] = (count + 1, first)
    return Survey(rows, files, True)
