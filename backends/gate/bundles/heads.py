"""Which files a patch text changes, read from the text alone (git-diff(1), "Generating patch text"). Pure.

The text is a stranger's. Taken is what Git itself writes with full object ids, nothing looser, so that what
is shown is what ``git apply`` would do: every line belongs to a section, and every section says one thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from backends.errors import ClocheError, Refused
from backends.gate.patch.reading import Outline, outline
from backends.snapshots import FileChange

MOST_FILES = 200_000
_MODES = frozenset((0o100644, 0o100755, 0o120000, 0o160000))
_ESCAPES = {ord(a): ord(b) for a, b in zip('abtnvfr"\\', '\a\b\t\n\v\f\r"\\', strict=True)}
_MODE = re.compile(rb"(old mode|new mode|new file mode|deleted file mode) ([0-7]{6})")
_INDEX = re.compile(rb"index ([0-9a-f]{40}|[0-9a-f]{64})\.\.([0-9a-f]{40}|[0-9a-f]{64})(?: ([0-7]{6}))?")
_ALIKE = re.compile(rb"similarity index \d{1,3}%")


class Head(NamedTuple):
    """What the lines of a section before its first hunk say."""

    path: bytes
    old_path: bytes | None
    modes: dict[bytes, int]
    oids: tuple[str, str] | None
    kept: int | None  # the mode of both sides, said beside the ids


def changes(patch: bytes) -> tuple[FileChange, ...]:
    """The files that ``patch`` changes, in its order; object ids are "" where it does not tell them.

    ``Refused`` (code "patch-unread") where it is not as Git writes it, or changes a file twice.
    """
    found: list[FileChange] = []
    seen: set[bytes] = set()
    pending: FileChange | None = None
    try:
        for part in outline(patch):
            if len(found) == MOST_FILES:
                raise _odd(part.start, f"it changes more than {MOST_FILES} files")
            change = _change(_head(patch, part), part)
            if pending is not None and pending.path == change.path and change.status == "A":
                change = _retyped(pending, change)
                pending = None
            if pending is not None:
                found.append(pending)
            pending = None
            names = {change.path, change.old_path or change.path}
            if change.status == "D":
                pending = change
            else:
                found.append(change)
            if change.status != "T" and names & seen:
                raise _odd(part.start, "a file is changed twice")
            seen |= names
    except Refused:
        raise
    except ClocheError as error:
        raise Refused("the patch cannot be read", error.why, _STEP, code="patch-unread") from error
    if pending is not None:
        found.append(pending)
    return tuple(found)


def _retyped(old: FileChange, new: FileChange) -> FileChange:
    return FileChange(
        new.path,
        None,
        "T",
        old.old_mode,
        new.new_mode,
        old.old_oid,
        new.new_oid,
        None if old.added is None or new.added is None else old.added + new.added,
        None if old.deleted is None or new.deleted is None else old.deleted + new.deleted,
    )


def _change(head: Head, part: Outline) -> FileChange:
    modes, at = head.modes, part.start
    said = frozenset(modes)
    if said == {b"new file mode"}:
        status, old, new = "A", 0, modes[b"new file mode"]
    elif said == {b"deleted file mode"}:
        status, old, new = "D", modes[b"deleted file mode"], 0
    elif said == {b"old mode", b"new mode"}:
        status, old, new = "M", modes[b"old mode"], modes[b"new mode"]
    elif not said:
        status, old, new = "M", head.kept or 0, head.kept or 0
    else:
        raise _odd(at, "its modes contradict each other")
    if head.old_path is not None:
        if status != "M":
            raise _odd(at, "it is new and renamed at once")
        status = "R"
    if (old or new) and not {old, new} - {0} <= _MODES:
        raise _odd(at, "a mode that Git does not have")
    oids = head.oids or ("", "")
    counted = (None, None) if part.binary else (part.added, part.deleted)
    return FileChange(head.path, head.old_path, status, old, new, *oids, *counted)


def _head(patch: bytes, part: Outline) -> Head:
    lines = _lines(patch, part)
    both = next(lines)[len(b"diff --git ") :]
    modes: dict[bytes, int] = {}
    names: dict[bytes, bytes] = {}
    oids: tuple[str, str] | None = None
    kept: int | None = None
    sides: list[bytes] = []
    for line in lines:
        if match := _MODE.fullmatch(line):
            modes[match[1]] = int(match[2], 8)
        elif line.startswith((b"rename from ", b"rename to ")):
            word = b"rename from " if line.startswith(b"rename from ") else b"rename to "
            names[word] = _name(line[len(word) :], part.start)
        elif match := _INDEX.fullmatch(line):
            oids = match[1].decode(), match[2].decode()
            kept = int(match[3], 8) if match[3] else None
        elif line.startswith((b"--- ", b"+++ ")):
            sides.append(line)
        elif not _ALIKE.fullmatch(line):
            raise _odd(part.start, "a line that Git does not write")
    old, new = _names(both, names, part.start)
    for sign, side, name in zip((b"--- ", b"+++ "), (b"a/", b"b/"), (old, new), strict=True):
        for line in (one for one in sides if one.startswith(sign)):
            said = line[4:].removesuffix(b"\t")
            if said != b"/dev/null" and _name(said, part.start) != side + name:
                raise _odd(part.start, "its lines name different files")
    return Head(new, old if names else None, modes, oids, kept)


def _lines(patch: bytes, part: Outline) -> Iterator[bytes]:
    at = part.start
    while at < part.end:
        end = patch.find(b"\n", at, part.end)
        if end < 0:
            raise _odd(at, "its last line does not end")
        line = patch[at:end]
        if line.startswith(b"@@ ") or line == b"GIT binary patch":
            return
        yield line
        at = end + 1


def _names(both: bytes, renamed: dict[bytes, bytes], at: int) -> tuple[bytes, bytes]:
    if renamed:
        if len(renamed) != 2:
            raise _odd(at, "it is renamed from or to nothing")
        old, new = renamed[b"rename from "], renamed[b"rename to "]
        if both != _quoted(b"a/" + old) + b" " + _quoted(b"b/" + new):
            raise _odd(at, "its lines name different files")
        return old, new
    half = (len(both) - 1) // 2
    old, new = _name(both[:half], at), _name(both[half + 1 :], at)
    if (
        both[half : half + 1] != b" "
        or old[:2] != b"a/"
        or new[:2] != b"b/"
        or old[2:] != new[2:]
        or not old[2:]
    ):
        raise _odd(at, "its lines name different files")
    return old[2:], new[2:]


def _quoted(name: bytes) -> bytes:
    """As quote_c_style of Git's quote.c with core.quotePath."""
    out = bytearray()
    back = {code: sign for sign, code in _ESCAPES.items()}
    for code in name:
        if code in back:
            out += b"\\%c" % back[code]
        elif code < 0x20 or code >= 0x7F:
            out += b"\\%03o" % code
        else:
            out.append(code)
    return name if bytes(out) == name else b'"%s"' % out


def _name(text: bytes, at: int) -> bytes:
    if not text.startswith(b'"'):
        return text
    out = bytearray()
    place, end = 1, len(text) - 1
    if end < 1 or text[end:] != b'"':
        raise _odd(at, "a name that is quoted at one end")
    while place < end:
        code = text[place]
        if code != 0x5C:
            out.append(code)
            place += 1
        elif place + 1 < end and text[place + 1] in _ESCAPES:
            out.append(_ESCAPES[text[place + 1]])
            place += 2
        elif re.fullmatch(rb"[0-3][0-7]{2}", text[place + 1 : place + 4]) and place + 4 <= end:
            out.append(int(text[place + 1 : place + 4], 8))
            place += 4
        else:
            raise _odd(at, "a name with an escape that Git does not write")
    return bytes(out)


_STEP = "do not apply it: ask for the export again, on another way"


def _odd(at: int, why: str) -> ClocheError:
    return Refused("the patch cannot be read", f"byte {at}: {why}", _STEP, code="patch-unread")
