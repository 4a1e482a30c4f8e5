"""What a box's program may say to the terminal emulator: whole, short, known sequences and nothing else.

The emulator (pyte) trusts its input: thousands of combining marks on one cell take it seconds, a number of
4,000 digits raises, an unfinished string grows without end, a private SGR raises. So bytes are cut into
tokens here first (ECMA-48), in linear time: text passes, known sequences pass with bounded parameters, and
what addresses the terminal itself rather than the screen (titles, clipboard, device strings) is dropped.
"""

from __future__ import annotations

import codecs
import re

DIGITS = 4
"""Digits of one parameter; no screen has 10,000 rows."""

PARAMETERS = 32
"""Parameters of one sequence."""

PENDING = 4096
"""Characters of an unfinished sequence that are kept until it ends; beyond, the sequence is given up."""

_ESC = "\x1b"
_CSI = re.compile(r"\x1b\[([0-?]*)([ -/]*)([@-~])")
_CSI_START = re.compile(r"\x1b\[[0-?]*[ -/]*\Z")
_STRING = re.compile(r"\x1b[\]PX^_]")
_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|\x18|\x1a")
_DESIGNATE = re.compile(r"\x1b([()*+\-./])([ -~])")
_PLAIN = re.compile(r"[^\x1b\x80-\x9f]+")
_DROPPED = dict.fromkeys([*range(0x00, 0x07), 0x0E, 0x0F, *range(0x10, 0x1B), *range(0x1C, 0x20), 0x7F])
_FINALS = frozenset("@ABCDEFGHJKLMPSTXabcdefghlmnr`")
"""Final bytes that the emulator knows and that only concern the screen (cursor, erase, scroll, modes)."""

_SINGLE = frozenset("DEHMc78")
_GRAPHIC = str.maketrans(
    "`afgjklmnopqrstuvwxyz{|}~", "◆▒°±┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"
)  # DEC special graphics, VT100


class Bounds:
    """Cuts one session's output into what may pass. Keeps an unfinished sequence for the next call."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._in_string = False
        self._sets = {"(": False, ")": False}  # whether G0 and G1 hold the line-drawing set
        self._shifted = False

    def pass_on(self, data: bytes) -> str:
        """The part of ``data`` that the emulator may see."""
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        out: list[str] = []
        place = 0
        size = len(text)
        while place < size:
            if self._in_string:
                end = _STRING_END.search(text, place)
                if end is None:
                    self._rest = _ESC if text.endswith(_ESC) else ""
                    break
                self._in_string = False
                place = end.end()
                continue
            plain = _PLAIN.match(text, place)
            if plain is not None:
                self._text(plain[0], out)
                place = plain.end()
                continue
            if text[place] != _ESC:
                out.append("\ufffd")  # C1: in UTF-8 no program needs it
                place += 1
                continue
            moved = self._sequence(text, place, out)
            if moved is None:
                if size - place > PENDING:
                    place += 1
                    continue
                self._rest = text[place:]
                break
            place = moved
        return "".join(out)

    def _text(self, text: str, out: list[str]) -> None:
        if "\x0e" in text or "\x0f" in text:
            for part in re.split("([\x0e\x0f])", text):
                if part in ("\x0e", "\x0f"):
                    self._shifted = part == "\x0e"
                else:
                    self._text(part, out)
            return
        text = text.translate(_DROPPED)
        if self._sets[")" if self._shifted else "("]:
            text = text.translate(_GRAPHIC)
        out.append(text)

    def _sequence(self, text: str, place: int, out: list[str]) -> int | None:
        """The place after the sequence at ``place``; ``None`` while it is unfinished."""
        found = _CSI.match(text, place)
        if found is not None:
            out.append(_bounded(found[1], found[2], found[3]))
            return found.end()
        if _CSI_START.match(text, place):
            return None
        if _STRING.match(text, place):
            self._in_string = True
            return place + 2
        designated = _DESIGNATE.match(text, place)
        if designated is not None:
            if designated[1] in self._sets:
                self._sets[designated[1]] = designated[2] == "0"
            return designated.end()
        if place + 1 >= len(text) or (text[place + 1] in "()*+-./#% " and place + 2 >= len(text)):
            return None
        follower = text[place + 1]
        if follower in "#% ":
            return place + 3
        if follower in _SINGLE:
            if follower == "c":
                self._sets = {"(": False, ")": False}
                self._shifted = False
            out.append(_ESC + follower)
        return place + 1 if follower == _ESC else place + 2


def _bounded(parameters: str, between: str, final: str) -> str:
    """The sequence with bounded parameters, "" for one that the emulator does not need or would trip over."""
    private = parameters.startswith("?")
    if between or final not in _FINALS or (parameters[:1] in "<=>" and parameters):
        return ""
    if private and final not in "hlJK":
        return ""
    numbers = [
        part.split(":", 1)[0][:DIGITS] if part.split(":", 1)[0].isdecimal() else ""
        for part in parameters.removeprefix("?").split(";")[:PARAMETERS]
    ]
    if private and final in "hl":
        # 3 switches to 132 columns: the pane decides its own width.
        numbers = [number for number in numbers if number not in ("3", "")]
        if not numbers:
            return ""
    if final in "JK":
        numbers = numbers[:1] if numbers[0] in ("", "0", "1", "2", "3") else []
        if not numbers or (final == "K" and numbers[0] == "3"):
            return ""
        private = False
    if final in "ABCDEFGHLMPSTX@abdefr`":
        numbers = numbers[:2] if final in "Hfr" else numbers[:1]
    elif final in "cng":
        numbers = numbers[:1]
    return f"{_ESC}[{'?' if private else ''}{';'.join(numbers)}{final}"
