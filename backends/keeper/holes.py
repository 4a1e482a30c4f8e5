"""Filling the holes that freed objects leave in the interpreter's memory, before processes are forked.

CPython puts a new object into a page that has room beside others of its size. In a process that was just
forked each such page is shared until then, and is copied for the sake of a few bytes: for a keeper, and for
the box's first process, which stays as long as the box. Once no hole is left, what a child makes lies
together in pages that nobody shared. The same holds for what malloc(3) gives: larger objects, and locks.

Source: ``Objects/obmalloc.c`` of CPython: pools of 16 KiB with objects of one size, in steps of 16 up to 512
bytes; ``malloc/malloc.c`` of glibc: chunks in steps of 16 bytes, of which 8 are its own. With other
allocators nothing is lost but the memory, which is bounded.
"""

from __future__ import annotations

import ctypes

from backends.kernel.syscalls import libc

POOL = 1 << 14  # bytes
HEADER = 48  # bytes of a pool that hold no object
SIZES = range(48, 513, 16)  # below lie what numbers take: looking at addresses makes and frees such itself
AROUND = 33  # bytes of an object of bytes beside its content
PART = 4  # so much of a pool tells that all of it has room
MOST = 16  # pools of one size; more holes than that were never seen
NUMBER = 32  # bytes in a pool of a small number, or of a float
# Bytes of a chunk, the large ones first: what is left over of those is filled by the small ones.
CHUNKS = (*range(1 << 16, 1 << 12, -512), *range(1 << 12, 1 << 10, -64), *range(1 << 10, 16, -16))
OVERHEAD = 8  # bytes of a chunk that are malloc's
IN_ROW = 3  # chunks side by side that come from where there are no holes
MOST_CHUNKS = 256  # of one size

_kept: list[bytes] = []
_numbers: list[float] = []


def fill() -> int:
    """Fill the holes for as long as this process and its children live; how many objects it took."""
    for size in SIZES:
        fits = (POOL - HEADER) // size
        in_row = last = 0
        for _ in range(MOST * fits):
            made = bytes(size - AROUND)
            _kept.append(made)
            # What has holes is filled first, so a pool that is filled in a row, from its begin on, has none.
            in_row = in_row + 1 if in_row and id(made) == last + size else int(id(made) % POOL == HEADER)
            last = id(made)
            if in_row > fits // PART:
                break
    _fill_numbers()
    _fill_heap()
    return len(_kept)


def _fill_numbers() -> None:
    """The same for the size of small numbers, of which looking takes some."""
    fits = POOL // NUMBER
    for _ in range(MOST):
        made = [number / 2 for number in range(fits)]
        _numbers.extend(made)
        if max(map(id, made)) - min(map(id, made)) < 2 * POOL:
            break


def _fill_heap() -> None:
    """The same for what malloc(3) gives."""
    malloc, free = libc.malloc, libc.free
    malloc.restype, malloc.argtypes, free.restype, free.argtypes = (
        ctypes.c_void_p, [ctypes.c_size_t], None, [ctypes.c_void_p],
    )  # fmt: skip
    for chunk in CHUNKS:
        row: list[int] = []
        for _ in range(MOST_CHUNKS):
            made = malloc(chunk - OVERHEAD) or 0
            row = [*row, made] if row and made == row[-1] + chunk else [made]
            if len(row) == IN_ROW:
                break
        for made in reversed(row) if chunk > 1 << 10 else ():  # smaller ones malloc would give out as holes
            free(made)
