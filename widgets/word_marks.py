"""Which words of a changed line differ from the line it replaces. Pure, and bounded for hostile lines."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

WORDS = 200
"""Words of one side up to which single words are compared; beyond, the differing middle is one part. The
comparison is quadratic at worst."""
ALIKE = 0.25
"""Share of a line's characters that the two must have in common before single words are marked."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Span = tuple[int, int]


class Spans(NamedTuple):
    """The parts that differ, as places in each text, from left to right."""

    old: tuple[Span, ...]
    new: tuple[Span, ...]


NO_SPANS = Spans((), ())


def differing(old: str, new: str) -> tuple[int, int, int]:
    """What two versions of a line share: length of the common head, and where the differing part ends in
    each. Linear, so any line may be compared."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, len(old) - tail, len(new) - tail


def changed_words(old: str, new: str) -> Spans:
    """The words that differ. Nothing is marked when the lines have too little in common to be versions of one
    line: all would be marked, and say nothing."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    if len(before) > WORDS or len(after) > WORDS:
        head, old_end, new_end = differing(old, new)
        common = head + len(old) - old_end
        if common < ALIKE * max(len(old), len(new)):
            return NO_SPANS
        return Spans(_span(head, old_end), _span(head, new_end))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    blocks = matcher.get_matching_blocks()
    common = sum(len(word.strip()) for block in blocks for word in before[block.a : block.a + block.size])
    if common < ALIKE * max(len(old.strip()), len(new.strip())):
        return NO_SPANS
    return Spans(
        _gaps(before, [(block.a, block.size) for block in blocks]),
        _gaps(after, [(block.b, block.size) for block in blocks]),
    )


def _span(start: int, end: int) -> tuple[Span, ...]:
    return ((start, end),) if end > start else ()


def _gaps(words: list[str], blocks: list[tuple[int, int]]) -> tuple[Span, ...]:
    """What lies between the blocks, as places in the text; parts that only a blank separates are one."""
    spans: list[Span] = []
    word = place = 0
    for first, size in blocks:
        start = place
        while word < first:
            place += len(words[word])
            word += 1
        if place > start:
            spans.append((start, place))
        while word < first + size:
            place += len(words[word])
            word += 1
    joined: list[Span] = []
    text = "".join(words)
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)
