"""A repository that Git made once, written again without Git: most tests begin with the same one."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

HEADER = struct.Struct(">4sII")  # gitformat-index(5): signature, version, number of entries
ENTRY = struct.Struct(">10I20sH")  # what stat(2) told, object id, flags; then the name


class Copy(NamedTuple):
    """All files of one repository but its index, and that; paths are relative."""

    folders: tuple[str, ...]
    files: tuple[tuple[str, int, bytes], ...]
    staged: bytes


def read(root: Path) -> Copy:
    """A repository with no more than folders and regular files, to be written elsewhere."""
    folders, files = [], []
    for folder, names, found in os.walk(root):
        folders += [os.path.relpath(os.path.join(folder, name), root) for name in names]
        for name in found:
            path = Path(folder, name)
            assert not path.is_symlink(), path
            if path != root / ".git" / "index":
                files.append((os.path.relpath(path, root), path.stat().st_mode & 0o7777, path.read_bytes()))
    return Copy(tuple(folders), tuple(files), (root / ".git" / "index").read_bytes())


def write(root: Path, copy: Copy) -> None:
    """The same repository at ``root``, with an index that knows the new files as ``git add`` would."""
    root.mkdir(parents=True)
    for folder in copy.folders:
        os.mkdir(os.path.join(root, folder))
    for name, mode, content in copy.files:
        number = os.open(os.path.join(root, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(number, content)
            os.fchmod(number, mode)
        finally:
            os.close(number)
    (root / ".git" / "index").write_bytes(_index(root, copy.staged))


def _index(root: Path, old: bytes) -> bytes:
    new = bytearray(old[:-20])
    signature, version, count = HEADER.unpack_from(new)
    assert (signature, version) == (b"DIRC", 2)
    place = HEADER.size
    for _ in range(count):
        *_, oid, flags = ENTRY.unpack_from(new, place)
        begin = place + ENTRY.size
        end = new.index(0, begin)
        found = os.lstat(root / os.fsdecode(bytes(new[begin:end])))
        numbers = (
            *divmod(found.st_ctime_ns, 10**9), *divmod(found.st_mtime_ns, 10**9), found.st_dev, found.st_ino,
            0o100755 if found.st_mode & 0o100 else 0o100644, found.st_uid, found.st_gid, found.st_size,
        )  # fmt: skip
        ENTRY.pack_into(new, place, *(number & 0xFFFFFFFF for number in numbers), oid, flags)
        place += (ENTRY.size + end - begin + 8) & ~7  # one zero byte at least, up to a multiple of eight
    return bytes(new) + hashlib.sha1(new, usedforsecurity=False).digest()


def loose(git_dir: Path, kind: str, content: bytes) -> str:
    """Write one object of a repository, whatever it says; its id (gitformat-loose(5))."""
    whole = b"%s %d\0%s" % (kind.encode(), len(content), content)
    other = b"objectformat = sha256" in (git_dir / "config").read_bytes().lower()
    oid = hashlib.new("sha256" if other else "sha1", whole, usedforsecurity=False).hexdigest()
    path = git_dir / "objects" / oid[:2] / oid[2:]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(whole, 1))
        path.chmod(0o444)
    return oid
