"""What a box prints, filtered before it reaches the user's own terminal.

Dropped are the control strings (OSC, DCS, APC, PM, SOS, and screen's title string), which set titles, write
the clipboard or ask the terminal to type something back, the window operations (CSI ... t), the printer
(CSI ... i) and ENQ. Text, colours and cursor movement pass. Control sequences: ECMA-48, xterm's ctlseqs.
"""

from __future__ import annotations

import codecs
import os
import re

STRING_STARTS = frozenset("]PX^_k")  # after ESC: OSC, DCS, SOS, PM, APC, and the title string of screen(1)
C1_STRINGS = frozenset("\x90\x98\x9d\x9e\x9f")  # DCS, SOS, OSC, PM, APC as single characters
C1_CSI, C1_ST = "\x9b", "\x9c"
DROPPED_FINALS = frozenset("ti")
DROPPED_CONTROLS = frozenset("\x05")
SPECIAL = re.compile("[\x1b\x05\x80-\x9f]")
LONGEST_SEQUENCE = 256
LONGEST_STRING = 1 << 20  # a string that never ends must not swallow a session for ever

# Leaves a terminal as a shell expects it: main screen, visible cursor, no mouse, focus or paste reports.
RESTORE = (
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>"
    b"\x1b[<u\x1b[>4m\x1b[?2026l\x1b[?5l\x1b[r\x1b[4l\x1b[?6l\x1b[?7h\x1b[?25h\x1b(B\x0f\x1b[0m"
)


def terminal_is_utf8() -> bool:
    """Whether the user's locale says that the terminal decodes UTF-8 (locale(7): the first that is set)."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = os.environ.get(name, "")
        if value:
            return "utf-8" in value.lower() or "utf8" in value.lower()
    return True


class OutputFilter:
    """A stream filter; sequences may be cut anywhere between two calls of :meth:`feed`."""

    def __init__(self, utf8: bool = True) -> None:
        """``utf8``: whether the terminal decodes UTF-8; where not, bytes above 0x7F become ``?``."""
        self._utf8 = utf8
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = "ground"
        self._held = ""  # the sequence read so far, passed on only when it turned out harmless
        self._dropped = 0  # length of the string that is being dropped

    def feed(self, data: bytes) -> bytes:
        """The part of ``data`` that may be shown."""
        text = self._decoder.decode(data)
        out: list[str] = []
        at = 0
        while at < len(text):
            if self._state == "ground":
                found = SPECIAL.search(text, at)
                end = found.start() if found else len(text)
                out.append(text[at:end])
                at = end
                if found is None:
                    break
            getattr(self, "_" + self._state)(text[at], out)
            at += 1
        shown = "".join(out)
        return shown.encode() if self._utf8 else shown.encode("ascii", "replace")

    def _ground(self, char: str, out: list[str]) -> None:
        if char == "\x1b":
            self._state, self._held = "escape", char
        elif char == C1_CSI:
            self._state, self._held = "csi", "\x1b["
        elif char in C1_STRINGS:
            self._state, self._dropped = "string", 0
        elif char in DROPPED_CONTROLS or "\x80" <= char <= "\x9f":
            return
        else:
            out.append(char)

    def _escape(self, char: str, out: list[str]) -> None:
        if char == "[":
            self._state, self._held = "csi", self._held + char
        elif char in STRING_STARTS:
            self._state, self._dropped = "string", 0
        elif char == "\x1b":
            self._held = char
        elif " " <= char <= "/":  # intermediate: charset selection, DECALN
            self._held += char
            if len(self._held) > LONGEST_SEQUENCE:
                self._state = "ground"
        elif "0" <= char <= "~":
            self._state = "ground"
            out.append(self._held + char)
        else:
            self._state = "ground"
            self._ground(char, out)

    def _csi(self, char: str, out: list[str]) -> None:
        if " " <= char <= "?":
            self._held += char
            if len(self._held) > LONGEST_SEQUENCE:
                self._state = "skip"
        elif "@" <= char <= "~":
            self._state = "ground"
            if char not in DROPPED_FINALS:
                out.append(self._held + char)
        elif char < " " and char not in "\x18\x1a\x1b":
            # A control inside a sequence acts at once and the sequence goes on.
            if char not in DROPPED_CONTROLS:
                out.append(char)
        else:
            self._state = "ground"
            self._ground(char, out)

    def _skip(self, char: str, out: list[str]) -> None:
        """The rest of an overlong sequence."""
        if not " " <= char <= "?":
            self._state = "ground"
            if not "@" <= char <= "~":
                self._ground(char, out)

    def _string(self, char: str, out: list[str]) -> None:
        self._dropped += 1
        if char in "\x07\x18\x1a" or char == C1_ST or self._dropped > LONGEST_STRING:
            self._state = "ground"
        elif char == "\x1b":
            self._state = "string_escape"

    def _string_escape(self, char: str, out: list[str]) -> None:
        if char == "\\":
            self._state = "ground"
        else:  # any other escape ends the string and begins anew
            self._state, self._held = "escape", "\x1b"
            self._escape(char, out)
