"""The seal of a shared layer: what every file and folder in it was when it was made, to tell later changes.

For one folder the seal holds its own state and, for each entry, name, type, size, times and inode. The change
time (ctime) cannot be set back, so content that was rewritten in place shows, also with size and modification
time restored. Checking costs one stat(2) for each file and reads no content: about 0.1 s for 50,000 files on
one core, so the folders are shared out among processes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from backends.kernel.syscalls import close_from
from backends.record import NamedTuple

MAGIC = b"cloche-seal-1\n"
_BLOCK = struct.Struct(">II")  # lengths of a folder's path and of its records
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_WORKERS = 4
ALONE = 2000  # files that one process checks faster than two can be started
AT_ONCE = 32  # files that are checked faster than a process can be started


class Block(NamedTuple):
    """One folder: its path in the layer, "" for the root, and the records of it and of its entries."""

    path: bytes
    records: bytes


class Broken(NamedTuple):
    """The first thing found that is not as it was sealed."""

    path: bytes
    why: str


def records(fd: int) -> tuple[bytes, list[bytes]]:
    """The records of the folder open on ``fd``, and the names of the folders in it."""
    rows: list[bytes] = []
    folders: list[bytes] = []
    with os.scandir(fd) as listing:
        for entry in listing:
            name = os.fsencode(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
                rows.append(name + b"/\0")  # its state is in its own block
            else:
                rows.append(name + b"\0" + _state(entry.stat(follow_symlinks=False)))
    rows.sort()
    folders.sort()
    return _state(os.fstat(fd)) + b"".join(rows), folders


def _state(status: os.stat_result) -> bytes:
    # A folder's size and link count are the file system's own affair.
    size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    return b"%o %d %d %d %d %d %d\0" % (
        status.st_mode,
        size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_uid,
        status.st_rdev,
    )


def write(tree: Path, seal: Path) -> None:
    """Seal the folder ``tree`` as it is now into the file ``seal``."""
    with open(seal, "wb") as file:
        file.write(MAGIC)
        for block in _blocks(tree):
            file.write(_BLOCK.pack(len(block.path), len(block.records)) + block.path + block.records)
        file.flush()
        os.fsync(file.fileno())


def _blocks(tree: Path) -> Iterator[Block]:
    root = os.open(tree, FOLDER_FLAGS)
    try:
        waiting = [b""]
        while waiting:
            path = waiting.pop()
            fd = os.open(path or b".", FOLDER_FLAGS, dir_fd=root)
            try:
                found, folders = records(fd)
            finally:
                os.close(fd)
            yield Block(path, found)
            waiting += [path + b"/" + name if path else name for name in folders]
    finally:
        os.close(root)


def parse(data: bytes) -> list[Block] | None:
    """The blocks of a seal, ``None`` when the file is torn or none of ours."""
    if not data.startswith(MAGIC):
        return None
    blocks: list[Block] = []
    at = len(MAGIC)
    while at < len(data):
        if at + _BLOCK.size > len(data):
            return None
        path, length = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        if at + path + length > len(data):
            return None
        blocks.append(Block(data[at : at + path], data[at + path : at + path + length]))
        at += path + length
    return blocks


class Check:
    """Checks seals in processes of its own, so that a launch goes on meanwhile.

    For a caller without other threads. Owns its children until :meth:`result` or :meth:`abandon`.
    """

    def __init__(self, layers: list[tuple[Path, Path]], workers: int | None = None) -> None:
        """``layers``: pairs of a sealed folder and its seal."""
        self._running: list[tuple[int, int]] = []
        self._found: Broken | None = None
        jobs: list[tuple[Path, list[Block]]] = []
        for tree, seal in layers:
            blocks = _read(seal)
            if blocks is None:
                self._found = Broken(b"", f"{seal} is missing or torn")
                return
            jobs.append((tree, blocks))
        if not jobs:
            return
        total = sum(block.records.count(b"\0") for _, blocks in jobs for block in blocks) // 2
        if total <= AT_ONCE and workers is None:
            self._found = _first(jobs, 0, 1)
            return
        count = workers or (1 if total <= ALONE else min(MOST_WORKERS, os.cpu_count() or 1))
        for number in range(count):
            self._start(jobs, number, count)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Readable, each, when a process of the check has its answer."""
        return tuple(reader for _, reader in self._running)

    def _start(self, jobs: list[tuple[Path, list[Block]]], number: int, count: int) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid:
            os.close(writer)
            self._running.append((pid, reader))
            return
        answer = b"?the check itself failed"
        try:
            # Where a disk hangs, so does this process: nobody must wait for what it would hold open.
            os.dup2(writer, 3)
            writer = 3
            close_from(4)
            found = _first(jobs, number, count)
            answer = b"ok" if found is None else found.path + b"\0" + found.why.encode()
        except BaseException as error:  # noqa: BLE001 (the parent is told, and takes it for a broken seal)
            answer = b"\0" + f"it could not be checked: {type(error).__name__}: {error}".encode()
        finally:
            os.write(writer, answer[:8192])
            os._exit(0)

    def result(self) -> Broken | None:
        """Waits; what is broken, or ``None`` when everything is as it was sealed."""
        for pid, reader in self._running:
            answer = b""
            while part := os.read(reader, 8192):
                answer += part
            os.close(reader)
            with contextlib.suppress(ChildProcessError):  # a keeper that ends reaps whatever it finds
                os.waitpid(pid, 0)
            if answer != b"ok" and self._found is None:
                path, _, why = answer.partition(b"\0")
                self._found = Broken(path, why.decode("utf-8", "replace") or "the check gave no answer")
        self._running = []
        return self._found

    def abandon(self) -> None:
        """End the check without its result."""
        import select
        import signal

        for pid, reader in self._running:
            poller = select.poll()
            poller.register(reader, select.POLLIN)
            if poller.poll(0):
                continue  # it ended, and where children are not waited for its number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.result()


def _first(jobs: list[tuple[Path, list[Block]]], number: int, count: int) -> Broken | None:
    """What is broken in the share of worker ``number`` of ``count``."""
    for tree, blocks in jobs:
        found = compare(tree, blocks[number::count])
        if found is not None:
            return found
    return None


def _read(seal: Path) -> list[Block] | None:
    try:
        return parse(seal.read_bytes())
    except FileNotFoundError:
        return None


def compare(tree: Path, blocks: list[Block]) -> Broken | None:
    """The first of ``blocks`` that is no longer what lies in ``tree``."""
    try:
        root = os.open(tree, FOLDER_FLAGS)
    except OSError as error:
        return Broken(b"", f"it cannot be opened: {error.strerror}")
    try:
        for block in blocks:
            try:
                fd = os.open(block.path or b".", FOLDER_FLAGS, dir_fd=root)
            except OSError as error:
                return Broken(block.path, f"it cannot be opened: {error.strerror}")
            try:
                now, _ = records(fd)
            finally:
                os.close(fd)
            if now != block.records:
                return _name(block, now)
        return None
    finally:
        os.close(root)


def _name(block: Block, now: bytes) -> Broken:
    """Which entry of a changed folder is the first that differs, and how."""
    then_own, then_rows = _rows(block.records)
    now_own, now_rows = _rows(now)
    for name in sorted(set(then_rows) | set(now_rows)):
        path = block.path + b"/" + name if block.path else name
        if name not in now_rows:
            return Broken(path, "it is gone")
        if name not in then_rows:
            return Broken(path, "it was not there")
        if then_rows[name] != now_rows[name]:
            return Broken(path, "it was changed or replaced")
    assert then_own != now_own
    return Broken(block.path, "the folder was changed")


def _rows(data: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    own, *parts = data.split(b"\0")[:-1]
    rows: dict[bytes, bytes] = {}
    at = 0
    while at < len(parts):
        if parts[at].endswith(b"/"):
            rows[parts[at][:-1]] = b""
            at += 1
        else:
            rows[parts[at]] = parts[at + 1]
            at += 2
    return own, rows
