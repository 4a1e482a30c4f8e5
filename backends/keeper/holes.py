"""Filling the holes that freed objects leave in the interpreter's memory, before processes are forked.

CPython puts a new object into a page that has room beside others of its size. In a process that was just
forked each such page is shared until then, and is copied for the sake of a few bytes: for a keeper, and for
the box's first process, which stays as long as the box. Once no hole is left, what a child makes lies
together in pages that nobody shared.

Source: ``Objects/obmalloc.c`` of CPython: pools of 16 KiB with objects of one size, in steps of 16 up to 512
bytes. With another allocator nothing is lost but the memory, which is bounded.
"""

from __future__ import annotations

POOL = 1 << 14  # bytes
HEADER = 48  # bytes of a pool that hold no object
SIZES = range(48, 513, 16)  # below lie what numbers take: looking at addresses makes and frees such itself
AROUND = 33  # bytes of an object of bytes beside its content
MOST = 16  # pools of one size; more holes than that were never seen

_kept: list[bytes] = []


def fill() -> int:
    """Fill the holes for as long as this process and its children live; how many objects it took."""
    for size in SIZES:
        fits = (POOL - HEADER) // size
        in_row = last = 0
        for _ in range(MOST * fits):
            made = bytes(size - AROUND)
            _kept.append(made)
            in_row = in_row + 1 if id(made) == last + size else 1
            last = id(made)
            if in_row == fits:
                break  # a whole pool in one go: what has holes is filled first
    return len(_kept)
