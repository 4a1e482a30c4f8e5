"""The selection as a patch that ``git apply`` takes on the base.

A file that is taken whole keeps the words of Git's own patch. For one that is taken in part the headers and
hunks are written anew: what was not accepted of the removed lines becomes context, what was not accepted of
the added ones is left out (git-diff(1), "Generating patch text with -p").
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from backends.gate.patch.composing import Lines, compose, edits, split
from backends.gate.patch.marks import CONTENT, EXISTS, MODE, NAME
from backends.gate.patch.model import EXECUTABLE, PLAIN, File
from backends.gate.patch.selecting import Chosen, Selection

CONTEXT = 3
NO_END = b"\\ No newline at end of file\n"
_ESCAPES = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))


def wanted(selection: Selection) -> tuple[str, ...]:
    """The blobs that :func:`patch_text` needs: both sides of each file that is taken in part."""
    found: dict[str, None] = {}
    for one in selection.chosen:
        found.update(dict.fromkeys(blobs_of(one)))
    return tuple(found)


def blobs_of(chosen: Chosen) -> tuple[str, ...]:
    """The blobs whose lines decide what a file becomes; none where it is one of the two sides as it is."""
    if chosen.whole or not chosen.file.by_line:
        return ()
    change = chosen.file.change
    return tuple(oid for oid in (change.old_oid, change.new_oid) if oid.strip("0"))


def patch_text(selection: Selection, blobs: Mapping[str, bytes]) -> bytes:
    """The patch; b"" when nothing is taken. ``blobs`` holds what :func:`wanted` names."""
    return b"".join(part for one in selection.chosen for part in _file(one, blobs))


def _file(chosen: Chosen, blobs: Mapping[str, bytes]) -> Iterator[bytes]:
    file, takes = chosen.file, chosen.takes
    if chosen.whole:
        yield file.text
        return
    change = file.change
    made = change.status == "A"
    gone = change.status == "D" and EXISTS in takes.parts
    old, new = file.base_path, file.path if NAME in takes.parts or made else file.base_path
    yield b"diff --git %s %s\n" % (quoted(b"a/" + old), quoted(b"b/" + new))
    mode = b""
    if made:
        yield b"new file mode %o\n" % (EXECUTABLE if MODE in takes.parts else PLAIN)
    elif gone:
        yield b"deleted file mode %o\n" % change.old_mode
    elif MODE in takes.parts:
        yield b"old mode %o\nnew mode %o\n" % (change.old_mode, change.new_mode)
    else:
        mode = b" %o" % change.old_mode
    if NAME in takes.parts:
        yield b"rename from %s\nrename to %s\n" % (quoted(old), quoted(new))
    if not file.by_line:
        if made or CONTENT in takes.parts:
            yield _body(file)
        return
    base, snapshot = blobs.get(change.old_oid, b""), blobs.get(change.new_oid, b"")
    if not takes.lines:
        return
    result = compose(base, snapshot, chosen)
    ids = tuple(oid(text, len(change.old_oid)) for text in (base, result))
    zero = "0" * len(change.old_oid)
    yield b"index %s..%s%s\n" % (
        (zero if made else ids[0]).encode(),
        (zero if gone else ids[1]).encode(),
        mode,
    )
    yield b"--- %s\n" % (b"/dev/null" if made else _side(b"a/" + old))
    yield b"+++ %s\n" % (b"/dev/null" if gone else _side(b"b/" + new))
    yield from hunks(base, snapshot, chosen)


def _body(file: File) -> bytes:
    """What Git's patch says of the content of a file that is taken whole: from its ``index`` line on."""
    at = 0
    while not file.text.startswith(b"index ", at):
        at = file.text.index(b"\n", at) + 1
    return file.text[at:]


def oid(blob: bytes, digits: int) -> str:
    """The object id of a blob in a repository whose ids have that many digits."""
    name = "sha256" if digits == 64 else "sha1"
    digest = hashlib.new(name, b"blob %d\0" % len(blob), usedforsecurity=False)
    digest.update(blob)
    return digest.hexdigest()


def quoted(name: bytes) -> bytes:
    """A name as Git writes it in a patch: in C style where it holds anything unusual (``quote_c_style``)."""
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in name):
        return name
    return b'"' + b"".join(_escaped(byte) for byte in name) + b'"'


def _escaped(byte: int) -> bytes:
    if byte in _ESCAPES:
        return b"\\%c" % _ESCAPES[byte]
    return bytes((byte,)) if 32 <= byte < 127 else b"\\%03o" % byte


def _side(name: bytes) -> bytes:
    """A name behind ``---`` or ``+++``; a tab ends one that holds a space, as Git does for GNU patch."""
    return quoted(name) + b"\t" * (b" " in name)


class _Change(NamedTuple):
    old: int  # place in the base's lines
    gone: int
    new: list[bytes]


def hunks(base: bytes, snapshot: bytes, chosen: Chosen) -> Iterator[bytes]:
    """The hunks that turn the base's file into :func:`compose` of the same."""
    old = split(base)
    result_ended = compose(base, snapshot, chosen)[-1:] in (b"\n", b"")
    ahead = 0  # by how many lines the result has grown so far
    group: list[_Change] = []
    for change in _changes(old, split(snapshot), chosen):
        if group and change.old - (group[-1].old + group[-1].gone) > 2 * CONTEXT:
            yield from _hunk(old, group, ahead, result_ended)
            ahead += _growth(group)
            group = []
        group.append(change)
    if group:
        yield from _hunk(old, group, ahead, result_ended)


def _growth(group: list[_Change]) -> int:
    return sum(len(change.new) - change.gone for change in group)


def _changes(old: Lines, new: Lines, chosen: Chosen) -> Iterator[_Change]:
    done = 0
    for edit in edits(chosen):
        lines = [new.lines[place] for place in edit.new]
        if lines and not old.ended and done < edit.old == len(old.lines):
            # The base's last line stays and gets a line end, which to a patch is another line.
            yield _Change(edit.old - 1, 1, [old.lines[-1], *lines])
        else:
            yield _Change(edit.old, edit.gone, lines)
        done = edit.old + edit.gone


def _hunk(old: Lines, group: list[_Change], ahead: int, result_ended: bool) -> Iterator[bytes]:
    total = len(old.lines)
    start = max(0, group[0].old - CONTEXT)
    end = min(total, group[-1].old + group[-1].gone + CONTEXT)
    before, after = end - start, end - start + _growth(group)
    yield b"@@ -%s +%s @@\n" % (_range(start, before), _range(start + ahead, after))
    at = start
    for number, change in enumerate(group):
        yield from _signed(b" ", old.lines[at : change.old], ended=True)
        at = change.old + change.gone
        yield from _signed(b"-", old.lines[change.old : at], ended=at < total or old.ended)
        last = number == len(group) - 1 and at == total
        yield from _signed(b"+", change.new, ended=not last or result_ended)
    yield from _signed(b" ", old.lines[at:end], ended=end < total or old.ended)


def _range(start: int, count: int) -> bytes:
    """Where a hunk lies on one side; of an empty range the line before it is named."""
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _signed(sign: bytes, lines: Iterable[bytes], *, ended: bool) -> Iterator[bytes]:
    text = b"".join(b"%s%s\n" % (sign, line) for line in lines)
    if text:
        yield text if ended else text + NO_END
