"""An export as it is found: a folder or a single file, read as hostile.

Plain files by plain names only, each opened below the one folder that was opened first (so that it cannot be
exchanged while it is looked at), no links, no pipes, bounded sizes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from backends.errors import ClocheError, Refused, UsageError
from backends.evidence import ustar

MOST_NAMES = 5000  # of a folder that are looked at
_PIECE = 1 << 20


class Bundle(ABC):
    """The files of one export. ``shown`` is how it was named."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What lies in it (of a very full folder the first 5000); raw."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of one file. Raises as :meth:`read`."""

    @abstractmethod
    def pieces(self, name: str) -> Iterator[bytes]:
        """Its content. Raises as :meth:`read`."""

    def read(self, name: str, most: int) -> bytes:
        """Its content. ``FileNotFoundError``; ``UsageError`` for what is no plain file or cannot be read;
        ``Refused`` (code "too-large") beyond ``most`` bytes."""
        if self.size(name) > most:
            raise Refused(
                f"{name} of {self.shown} cannot be read",
                f"it has more than {most >> 20} MiB",
                "look at it by other means",
                code="too-large",
            )
        data = bytearray()
        for piece in self.pieces(name):  # a file can grow meanwhile
            data += piece
            if len(data) > most:
                raise UsageError(
                    f"{name} of {self.shown} cannot be read",
                    "it grows while it is read",
                    "export again",
                    code="no-export",
                )
        return bytes(data)

    def hash(self, name: str) -> str:
        """SHA-256 of one file in hexadecimal, or the words for why there is none."""
        digest = hashlib.sha256()
        try:
            for piece in self.pieces(name):
                digest.update(piece)
        except FileNotFoundError:
            return "missing"
        except ClocheError as error:
            return error.why
        return digest.hexdigest()


class Folder(Bundle):
    """A folder, by a descriptor that is open."""

    def __init__(self, shown: str, descriptor: int) -> None:
        super().__init__(shown)
        self._descriptor = descriptor

    def names(self) -> tuple[str, ...]:
        with os.scandir(self._descriptor) as entries:
            return tuple(sorted(entry.name for entry in islice(entries, MOST_NAMES)))

    def size(self, name: str) -> int:
        with self._open(name) as descriptor:
            return os.fstat(descriptor).st_size

    def pieces(self, name: str) -> Iterator[bytes]:
        with self._open(name) as descriptor:
            while piece := os.read(descriptor, _PIECE):
                yield piece

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        # A pipe in the folder must not hang whoever looks at it.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UsageError(
                f"{name} of {self.shown} cannot be read",
                os.strerror(error.errno or 0),
                "export again",
                code="no-export",
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(
                    f"{name} of {self.shown} cannot be read",
                    "it is no plain file",
                    "export again",
                    code="no-export",
                )
            yield descriptor
        finally:
            os.close(descriptor)


class Archive(Bundle):
    """A single file, by a descriptor that is open. Raises as :func:`backends.evidence.ustar.members`."""

    def __init__(self, shown: str, descriptor: int) -> None:
        super().__init__(shown)
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        found = ustar.members(lambda at, length: os.pread(descriptor, length, at), size, shown)
        self._members = {one.name: one for one in found}

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._members))

    def size(self, name: str) -> int:
        return self._member(name).size

    def pieces(self, name: str) -> Iterator[bytes]:
        member = self._member(name)
        at, end = member.offset, member.offset + member.size
        while at < end and (piece := os.pread(self._descriptor, min(_PIECE, end - at), at)):
            at += len(piece)
            yield piece

    def _member(self, name: str) -> ustar.Member:
        try:
            return self._members[name]
        except KeyError:
            raise FileNotFoundError(name) from None


@contextmanager
def opened(path: Path) -> Iterator[Bundle]:
    """The export at ``path``: a folder, or a single file. ``UsageError`` (code "no-export") where there is
    neither, ``Refused`` (code "hostile-bundle") for a file that is no plain archive of an export."""
    shown = str(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(
            f"{shown} cannot be read",
            os.strerror(error.errno or 0),
            "name what cloche export wrote: a folder, or a file NAME.tar",
            code="no-export",
        ) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            yield Folder(shown, descriptor)
        elif stat.S_ISREG(mode):
            yield Archive(shown, descriptor)
        else:
            raise UsageError(
                f"{shown} cannot be read",
                "it is neither a folder nor a file",
                "name what cloche export wrote",
                code="no-export",
            )
    finally:
        os.close(descriptor)
