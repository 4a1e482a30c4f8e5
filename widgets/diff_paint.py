"""What each row of a patch looks like, as inked runs: numbers, sign, syntax, changed words, suspects. Pure.

Rows are asked for one by one and only what is drawn is decoded, lexed and compared; a stretch of a hunk is
lexed at once, so that an open comment or string is known to the lines after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from widgets.ink import Line, Run, line
from widgets.lexing import Language, language_of, lex
from widgets.patch import ADDED, FILE, HUNK, META, NOTE, REMOVED, PatchIndex
from widgets.suspects import Suspect, suspects
from widgets.visible import expand_tabs, runs, text_of
from widgets.word_marks import Spans, changed_words

STRETCH = 200
"""Rows of a hunk that are lexed together."""
LEXED = 400
"""Bytes of a row up to which it is lexed: longer ones are generated, and read by no colour."""
NEAR = 50
"""Rows of a block in which the counterpart of a line is looked for."""

WHOLE = (FILE, META, HUNK, NOTE)
"""Kinds of rows that span the view."""

Layer = Sequence[tuple[int, int, str]]
"""Parts of a text from left to right, each with the ink that it gets."""


class Painted(NamedTuple):
    """One row: what stands still at its left, what moves sideways, and the name of what lies beneath."""

    head: Line
    body: Line
    under: str  # added, removed, hunk, file, ""


class Painter:
    """Rows of one patch as lines. A new one is made when anything of how they look changes."""

    def __init__(
        self,
        index: PatchIndex,
        *,
        blanks: bool = False,
        folded: tuple[int, bytes] = (0, b""),
        needle: str = "",
    ) -> None:
        """``blanks`` draws blanks visibly; ``folded`` tells the rows that change blanks only, from a first
        row on; ``needle`` is what was searched for, drawn wherever it stands."""
        self.index = index
        self.blanks = blanks
        self.folded = folded
        self.needle = needle
        last = index.hunks[-1].last if index.hunks else 0
        highest = max((*index.old[max(0, last - 64) : last], *index.new[max(0, last - 64) : last]), default=0)
        self.digits = max(5, len(str(highest)))
        self._languages: dict[int, Language | None] = {}
        self._lexed: Callable[[int, int], dict[int, list[Run]]] = lru_cache(maxsize=12)(self._lex)
        self._words: Callable[[int, int], Spans] = lru_cache(maxsize=256)(self._compare)

    def head_width(self, side: int) -> int:
        """Cells of the numbers and the sign."""
        return self.digits + 3 if side else 2 * self.digits + 4

    def paint(self, row: int, side: int = 0, other: int = -1) -> Painted:
        """One row; ``side`` 0 unified, 1 left, 2 right; ``other`` is the row it stands beside."""
        kind = self.index.kinds[row]
        if kind in WHOLE:
            return self._whole(row, kind)
        old, new = self.index.old[row], self.index.new[row]
        goes_on = not old and not new
        sign, ink, under = chr(kind), "quiet", ""
        if self.blank_change(row):
            sign = "~"
        elif kind == ADDED:
            ink = under = "added"
        elif kind == REMOVED:
            ink = under = "removed"
        if goes_on:
            sign = "↪"
        text = self.text(row)
        odd = suspects(text)
        flag = "!" if any(suspect.kind for suspect in odd) else " "
        head = line(
            (self._numbers(row, side, goes_on), "quiet"), (flag, "look strong"), (sign, ink), (" ", "")
        )
        return Painted(head, self._body(row, text, odd, other), under)

    def blank_change(self, row: int) -> bool:
        """The row and its counterpart differ in blanks only, and that is folded."""
        first, flags = self.folded
        return 0 <= row - first < len(flags) and bool(flags[row - first])

    def text(self, row: int) -> str:
        """The row's text with its tabs as blanks; nothing else is changed."""
        return expand_tabs(text_of(self.index.text(row)))

    def _whole(self, row: int, kind: int) -> Painted:
        index = self.index
        if kind == FILE:
            file = index.file_at(row)
            name = index.files[file].path if file is not None else index.text(row)
            return Painted((), line(" ", *runs(name, "strong")), "file")
        if kind == HUNK:
            head, _, context = text_of(index.text(row)).partition(" @@")
            where = "  " + head.removeprefix("@@ ") + "  "
            return Painted((), line((where, "accent"), *runs(context.strip(), "quiet")), "hunk")
        if index.text(row).startswith(b"GIT binary patch"):
            return Painted((), line(("  binary: its bytes are no lines", "idle")), "")
        return Painted((), line("  ", *runs(index.text(row), "quiet")), "")

    def _numbers(self, row: int, side: int, goes_on: bool) -> str:
        old, new, digits = self.index.old[row], self.index.new[row], self.digits
        if side:
            shown = old if side == 1 else new
            return str(shown).rjust(digits) if shown and not goes_on else " " * digits
        return f"{str(old) if old else '':>{digits}} {str(new) if new else '':>{digits}}"

    # ------------------------------------------------------------ text

    def _body(self, row: int, text: str, odd: Sequence[Suspect], other: int) -> Line:
        layers: list[Layer] = []
        kind = self.index.kinds[row]
        if kind in (ADDED, REMOVED) and (changed := self._changed(row, other)):
            part = "added-part" if kind == ADDED else "removed-part"
            layers.append([(start, end, part) for start, end in changed])
        if self.needle:
            layers.append(occurrences(text, self.needle))
        shown = list(odd)
        if self.blanks:
            shown = sorted((*odd, *self._blanks(row, text)))
        return compose(text, self._runs(row, text), shown, layers)

    def _runs(self, row: int, text: str) -> Sequence[Run]:
        hunk = self.index.hunk_at(row)
        if hunk is None or self.index.sizes[row] > LEXED:
            return (Run(text),)
        if self._language(self.index.hunks[hunk].file) is None:
            return (Run(text),)
        return self._lexed(hunk, (row - self.index.hunks[hunk].first - 1) // STRETCH)[row]

    def _blanks(self, row: int, text: str) -> list[Suspect]:
        raw = text_of(self.index.text(row)).replace(" ", "·")
        marked = expand_tabs(raw, mark="→")
        return [
            Suspect(place, place + 1, "", marked[place])
            for place, char in enumerate(text)
            if char == " " and marked[place] != " "
        ]

    def _language(self, file: int) -> Language | None:
        if file not in self._languages:
            self._languages[file] = language_of(self.index.files[file].path) if file >= 0 else None
        return self._languages[file]

    def _lex(self, hunk: int, stretch: int) -> dict[int, list[Run]]:
        """The lexed rows of a part of a hunk; both sides keep their own open comment or string."""
        where = self.index.hunks[hunk]
        language = self._language(where.file)
        assert language is not None
        first = where.first + 1 + stretch * STRETCH
        last = min(where.last, first + STRETCH)
        states = {REMOVED: "", ADDED: ""}
        done: dict[int, list[Run]] = {}
        for row in range(first, last):
            if self.index.sizes[row] > LEXED:
                continue
            kind = self.index.kinds[row]
            text = self.text(row)
            if kind in states:
                done[row], states[kind] = lex(text, language, states[kind])
            else:
                done[row], after = lex(text, language, states[ADDED])
                states = {REMOVED: after, ADDED: after}
        return done

    # ------------------------------------------------------------ changed words

    def _changed(self, row: int, other: int) -> Sequence[tuple[int, int]]:
        if self.blank_change(row):
            return ()
        kind = self.index.kinds[row]
        partner = other if other >= 0 else self.partner(row)
        if partner < 0 or self.index.kinds[partner] not in (ADDED, REMOVED):
            return ()
        if kind == ADDED:
            return self._words(partner, row).new
        return self._words(row, partner).old

    def _compare(self, old: int, new: int) -> Spans:
        return changed_words(self.text(old), self.text(new))

    def partner(self, row: int) -> int:
        """The changed line at the same place of the neighbouring block, -1 when there is none near."""
        kinds = self.index.kinds
        kind = kinds[row]
        start = row
        while start > 0 and kinds[start - 1] == kind and row - start < NEAR:
            start -= 1
        if kind == ADDED:
            top = start
            while top > 0 and kinds[top - 1] == REMOVED and start - top < NEAR:
                top -= 1
            found = top + (row - start)
            return found if found < start and kinds[found] == REMOVED else -1
        end = row + 1
        while end < len(kinds) and kinds[end] == REMOVED and end - row < NEAR:
            end += 1
        found = end + (row - start)
        if found < len(kinds) and all(kinds[place] == ADDED for place in range(end, found + 1)):
            return found
        return -1


def occurrences(text: str, needle: str) -> list[tuple[int, int, str]]:
    """Where ``needle`` stands in ``text``; capitals count when it has any."""
    if needle == needle.lower():
        lowered = text.lower()
        text = lowered if len(lowered) == len(text) else text
    found: list[tuple[int, int, str]] = []
    place = text.find(needle)
    while place >= 0:
        found.append((place, place + len(needle), "found"))
        place = text.find(needle, place + len(needle))
    return found


def compose(text: str, lexed: Sequence[Run], odd: Sequence[Suspect], layers: Sequence[Layer]) -> Line:
    """``text`` with the inks of its syntax, of each layer above, and with suspects as they are written;
    suspects and the parts of one layer do not overlap."""
    if not odd and not any(layers):
        return tuple(lexed)
    syntax: list[tuple[int, int, str]] = []
    place = 0
    for run in lexed:
        syntax.append((place, place + len(run.text), run.ink))
        place += len(run.text)
    all_layers: list[Layer] = [syntax, *layers]
    cuts = {0, len(text)}
    for layer in all_layers:
        for start, end, _ in layer:
            cuts |= {start, end}
    for suspect in odd:
        cuts |= {suspect.start, suspect.end}
    at = [0] * len(all_layers)
    next_odd = 0
    out: list[Run] = []
    for start, end in pairwise(sorted(cuts)):
        inks: list[str] = []
        for number, layer in enumerate(all_layers):
            while at[number] < len(layer) and layer[at[number]][1] <= start:
                at[number] += 1
            if at[number] < len(layer) and layer[at[number]][0] <= start and layer[at[number]][2]:
                inks.append(layer[at[number]][2])
        while next_odd < len(odd) and odd[next_odd].end <= start:
            next_odd += 1
        shown = text[start:end]
        if next_odd < len(odd) and odd[next_odd].start <= start:
            suspect = odd[next_odd]
            shown = suspect.shown if start == suspect.start else ""
            drawn = suspect.shown in ("·", "→")
            inks = [*inks[1:], "faint"] if drawn and not suspect.kind else [*inks[1:], "escape"]
        if shown:
            out.append(Run(shown, " ".join(inks)))
    return tuple(out)
