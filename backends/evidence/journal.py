"""The append-only record of one box: one canonical JSON object a line, chained by hashes.

A record is described in :mod:`backends.evidence.chain`. Several processes write one journal: each append
holds flock(2) on the file itself.

A chain shows a change in the middle, not a cut tail: whoever needs that keeps an ``Anchor`` (count and head)
somewhere else and passes it to ``verify``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from backends.errors import Busy, Refused
from backends.evidence.chain import GENESIS, digest, link, parse, record_of
from backends.record import NamedTuple
from backends.values import JournalRecord

LOCK_PATIENCE = 5.0  # seconds; a writer holds the lock for microseconds, so this one is stopped or stuck
_BLOCK = 65536


class Anchor(NamedTuple):
    """How far a journal reached when somebody looked: number of records and the hash of the last one."""

    count: int  # type: ignore[assignment]
    head: str


class Verification(NamedTuple):
    """What a walk over the chain found. ``problems`` is empty when every record is as it was written."""

    count: int  # type: ignore[assignment]
    head: str
    problems: tuple[str, ...]
    torn: int  # bytes of an unfinished last line, which was never acknowledged to its writer


class _Tail(NamedTuple):
    inode: int
    size: int
    seq: int
    head: str


class Journal:
    """A writer. It keeps no descriptor open, so one object may be used by several threads.

    ``patience`` is how long an append waits for the lock, in seconds: little for a writer that must not
    stall.
    """

    def __init__(self, path: Path, patience: float = LOCK_PATIENCE) -> None:
        self.path = path
        self.patience = patience
        self._tail: _Tail | None = None

    def append(self, kind: str, data: Mapping[str, object], *, sync: bool = False) -> JournalRecord:
        """Write one record and return it; with ``sync`` it is on disk when this returns."""
        return self.append_many([(kind, data)], sync=sync)[-1]

    def append_many(
        self, items: Iterable[tuple[str, Mapping[str, object]]], *, sync: bool = False
    ) -> tuple[JournalRecord, ...]:
        """Write several records in one go, in order, with nobody else's between them.

        A last line that an earlier writer left unfinished is cut off first and a ``torn`` record says how
        many bytes that dropped; a last line that is no record stays, and a ``damaged`` record follows it.
        Raises Busy when the lock cannot be had, OSError when the disk refuses: then nothing was added.
        """
        wanted = list(items)
        descriptor = os.open(
            self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            _lock(descriptor, self.path, self.patience)
            status = os.fstat(descriptor)
            tail = self._tail
            notes: list[tuple[str, Mapping[str, object]]] = []
            if tail is None or (tail.inode, tail.size) != (status.st_ino, status.st_size):
                tail, notes = _repair(descriptor, status.st_ino, status.st_size)
            records, text = _link(tail, [*notes, *wanted])
            _write_all(descriptor, text, tail.size)
            if sync:
                os.fsync(descriptor)
                if tail.size == 0:
                    _sync_folder(self.path.parent)
            if records:
                last = records[-1]
                self._tail = _Tail(tail.inode, tail.size + len(text), last.seq, last.hash)
            return tuple(records[len(notes) :])
        finally:
            os.close(descriptor)


def read(path: Path) -> Iterator[JournalRecord]:
    """The records in order. An unfinished last line is left out; a line that is no record comes as one of
    kind ``unreadable`` (no hash) with its line number, so that damage hides nothing after it. No file: none.
    """
    for number, line in _lines(path):
        parsed = parse(line)
        if isinstance(parsed, str):
            yield JournalRecord(number, 0.0, "unreadable", {"line": number, "why": parsed}, "")
        else:
            yield record_of(parsed)


def read_on(
    path: Path, offset: int = 0, line: int = 0, limit: int = 4 << 20
) -> tuple[list[JournalRecord], int]:
    """The records after byte ``offset`` and the offset after them, for a reader that comes back.

    ``offset`` must be 0 or one that this function returned, ``line`` the number of records before it; about
    ``limit`` bytes are read at once. A journal is only cut behind its last finished line, so such an offset
    stays good for as long as the file is the same one.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return [], offset
    found: list[JournalRecord] = []
    with os.fdopen(descriptor, "rb") as stream:
        stream.seek(offset)
        for text in stream.readlines(limit):
            if not text.endswith(b"\n"):
                break
            offset += len(text)
            line += 1
            parsed = parse(text)
            if isinstance(parsed, str):
                found.append(JournalRecord(line, 0.0, "unreadable", {"line": line, "why": parsed}, ""))
            else:
                found.append(record_of(parsed))
    return found, offset


def moment(record: JournalRecord) -> float:
    """When what a record tells happened: its ``at``, before its own time where it waited for others."""
    at = record.data.get("at")
    return float(at) if isinstance(at, (int, float)) and 0 <= record.time - at < 60 else record.time


def head(path: Path) -> Anchor:
    """Count and head of the journal as it is on disk, unverified; ``Anchor(0, GENESIS)`` without a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return Anchor(0, GENESIS)
    try:
        size = os.fstat(descriptor).st_size
        line, _ = _last_line(descriptor, size)
        if not line:
            return Anchor(0, GENESIS)
        parsed = parse(line)
        if isinstance(parsed, str):
            return Anchor(_count_lines(descriptor, size), digest(line))
        record = record_of(parsed)
        return Anchor(record.seq, record.hash)
    finally:
        os.close(descriptor)


def verify(path: Path, anchor: tuple[int, str] | None = None) -> Verification:
    """Walk the whole chain: every line canonical, every hash and link right, ``seq`` without a gap.

    With an ``anchor`` also that the journal still reaches it: the record number ``count`` has that hash.
    """
    problems: list[str] = []
    previous, expected, torn = GENESIS, 1, 0
    at_anchor = GENESIS
    for number, line in _lines(path, keep_torn=True):
        if not line.endswith(b"\n"):
            torn = len(line)
            break
        parsed = parse(line)
        if isinstance(parsed, str):
            problems.append(f"line {number}: {parsed}")
            previous, expected = digest(line), number + 1
        else:
            if parsed["prev"] != previous:
                problems.append(f"line {number}: does not follow the line before it")
            if parsed["seq"] != expected:
                problems.append(f"line {number}: has number {parsed['seq']} instead of {expected}")
            previous, expected = str(parsed["hash"]), number + 1
        if anchor is not None and number == anchor[0]:
            at_anchor = previous
    count = expected - 1
    if anchor is not None:
        if count < anchor[0]:
            problems.append(f"{anchor[0] - count} of {anchor[0]} anchored records are missing from the end")
        elif at_anchor != anchor[1]:
            problems.append(f"record {anchor[0]} is not the one that was anchored")
    return Verification(count, previous, tuple(problems), torn)


def _lock(descriptor: int, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise
        if time.monotonic() > deadline:
            raise Busy(
                "the journal cannot be written",
                f"another process has held {path} for {patience:.1f} seconds",
                "find the stopped process that holds it: fuser -v " + str(path),
                code="journal-busy",
            )
        time.sleep(0.002)


def _repair(descriptor: int, inode: int, size: int) -> tuple[_Tail, list[tuple[str, Mapping[str, object]]]]:
    """Where the chain goes on, and what must be said about the end of the file before it does."""
    notes: list[tuple[str, Mapping[str, object]]] = []
    line, end = _last_line(descriptor, size)
    if end != size:
        os.ftruncate(descriptor, end)
        notes.append(("torn", {"dropped": size - end}))
    if not line:
        return _Tail(inode, end, 0, GENESIS), notes
    parsed = parse(line)
    if isinstance(parsed, str):
        number = _count_lines(descriptor, end)
        notes.append(("damaged", {"line": number, "why": parsed}))
        return _Tail(inode, end, number, digest(line)), notes
    record = record_of(parsed)
    return _Tail(inode, end, record.seq, record.hash), notes


def _link(tail: _Tail, items: list[tuple[str, Mapping[str, object]]]) -> tuple[list[JournalRecord], bytes]:
    records: list[JournalRecord] = []
    lines: list[bytes] = []
    seq, previous = tail.seq, tail.head
    for kind, data in items:
        seq += 1
        record, line = link(seq, previous, time.time(), kind, data)
        previous = record.hash
        records.append(record)
        lines.append(line)
    return records, b"".join(lines)


def _write_all(descriptor: int, text: bytes, size: int) -> None:
    view = memoryview(text)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_line(descriptor: int, size: int) -> tuple[bytes, int]:
    """The last finished line ("" when there is none) and the offset after it."""
    buffer, start, end = b"", size, -1
    while start > 0:
        step = min(_BLOCK, start)
        start -= step
        buffer = os.pread(descriptor, step, start) + buffer
        if end < 0:
            newline = buffer.rfind(b"\n")
            if newline < 0:
                continue
            end = start + newline + 1
        before = buffer.rfind(b"\n", 0, end - start - 1)
        if before >= 0:
            return buffer[before + 1 : end - start], end
    return (buffer[:end], end) if end >= 0 else (b"", 0)


def _count_lines(descriptor: int, size: int) -> int:
    return sum(os.pread(descriptor, _BLOCK, at).count(b"\n") for at in range(0, size, _BLOCK))


def _lines(path: Path, *, keep_torn: bool = False) -> Iterator[tuple[int, bytes]]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Refused(
            "the journal cannot be read",
            f"{path} is a symbolic link, which Cloche never makes",
            "look at who placed it there; a real journal is a plain file",
            code="journal-link",
        ) from error
    with os.fdopen(descriptor, "rb") as stream:
        for number, line in enumerate(stream, 1):
            if keep_torn or line.endswith(b"\n"):
                yield number, line
