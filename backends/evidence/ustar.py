"""The single-file form of an export: a plain ``ustar`` archive (POSIX.1-1988, tar(5)) of its files.

What is read may come from anybody. Nothing is ever unpacked: the headers are walked once, and an entry is
read where it lies. Taken are plain files with the plain names that an export has, each once, in one folder at
most; an archive that holds anything else (a link, a device, a folder up, a long name, a sparse file, an
extension header, text behind its end) is refused whole, naming the entry. That is far less than ``tarfile``
reads, and so is what can go wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from backends.errors import ClocheError, Refused

BLOCK = 512
MOST_MEMBERS = 2000  # an export has at most 500 commits beside its own files
MOST_PADDING = 1 << 20  # bytes of zeros behind the end; tar(1) pads to its record of 10 KiB
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/|\./")
_REPACK = "pack it as tar without compression, or give the folder"
_MAGIC = {b"ustar\x0000": "POSIX", b"ustar  \0": "GNU"}


class Member(NamedTuple):
    """A file of an archive: ``size`` bytes at ``offset``."""

    name: str
    offset: int
    size: int


def write(files: Sequence[tuple[str, bytes]], mtime: int) -> Iterator[bytes]:
    """The bytes of an archive of ``files`` in their order; owned by nobody, all of one time."""
    for name, data in files:
        assert NAME.fullmatch(name) and len(data) < 1 << 33
        yield _header(name, len(data), mtime)
        yield data
        yield bytes(-len(data) % BLOCK)
    yield bytes(2 * BLOCK)


def _header(name: str, size: int, mtime: int) -> bytes:
    fields = (
        name.encode("ascii").ljust(100, b"\0"), b"0000644\0", b"0000000\0", b"0000000\0",
        b"%011o\0" % size, b"%011o\0" % mtime, b" " * 8, b"0", bytes(100), b"ustar\x0000",
        bytes(32), bytes(32), b"0000000\0", b"0000000\0", bytes(155), bytes(12),
    )  # fmt: skip
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def members(read: Callable[[int, int], bytes], size: int, shown: str) -> tuple[Member, ...]:
    """The files of an archive of ``size`` bytes; ``read(offset, length)`` reads of it.

    ``Refused`` (code "hostile-bundle") for anything that no export has; ``shown`` is the archive's name.
    """
    found: dict[str, Member] = {}
    folders: set[str] = set()
    at = count = 0
    while True:
        block = read(at, BLOCK)
        if len(block) != BLOCK:
            raise _bad(shown, "it is cut off")
        if not any(block):
            _require_zeros(read, at, size, shown)
            return tuple(found.values())
        count += 1
        if count > MOST_MEMBERS:
            raise _bad(shown, f"it has more than {MOST_MEMBERS} entries")
        name, length, kind = _entry(block, at, shown)
        folder = _FOLDER.match(name)
        if folder is not None:
            folders.add(folder[0])
        if len(folders) > 1 or (folders and folder is None):
            raise _bad(shown, f"the entry {name!r} lies in another folder than those before")
        plain = name[folder.end() :] if folder else name
        if kind == b"5" and folder and not plain and not length:
            at += BLOCK
            continue
        if kind not in (b"0", b"\0"):
            raise _bad(shown, f"the entry {name!r} is no plain file (type {kind!r})")
        if not NAME.fullmatch(plain):
            raise _bad(shown, f"the entry {name!r} has a name that nothing in an export has")
        if plain in found:
            raise _bad(shown, f"it holds {plain!r} twice")
        if at + BLOCK + length > size:
            raise _bad(shown, f"the entry {name!r} is longer than the file")
        found[plain] = Member(plain, at + BLOCK, length)
        at += BLOCK + length + -length % BLOCK


def _entry(block: bytes, at: int, shown: str) -> tuple[str, int, bytes]:
    if at == 0 and block[257:265] not in _MAGIC:
        raise _bad(shown, "it is no tar archive, or a compressed one", _REPACK)
    if block[257:265] not in _MAGIC:
        raise _bad(shown, f"byte {at}: no entry begins here")
    summed = sum(block[:148]) + 8 * 32 + sum(block[156:])
    if _number(block[148:156]) != summed:
        raise _bad(shown, f"byte {at}: the checksum of the entry is wrong")
    raw = block[:100].split(b"\0", 1)[0]
    if any(block[345:500]) and block[257:265] == b"ustar\x0000":
        raw = block[345:500].split(b"\0", 1)[0] + b"/" + raw
    length = _number(block[124:136])
    if length is None:
        raise _bad(shown, f"byte {at}: the size of the entry is no number")
    return raw.decode("utf-8", "surrogateescape"), length, block[156:157]


def _number(field: bytes) -> int | None:
    """An octal field; the binary form of GNU tar is none."""
    text = field.strip(b" \0")
    return int(text, 8) if re.fullmatch(rb"[0-7]{1,12}", text) else None


def _require_zeros(read: Callable[[int, int], bytes], at: int, size: int, shown: str) -> None:
    if size - at > MOST_PADDING or size - at < 2 * BLOCK or any(read(at, size - at)):
        raise _bad(shown, "there is something behind its end, or its end is cut off")


def _bad(shown: str, why: str, step: str = "do not trust it: ask for it again") -> ClocheError:
    return Refused(f"{shown} cannot be read", why, step, code="hostile-bundle")
