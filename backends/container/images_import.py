"""Images from a file that somebody has: a Docker archive, an OCI archive, or the files of a root.

An archive names itself, and may do so as another image is named here. What it says of its name is not used:
an import gets the name that its person gives, and every other name stays with what it named before.

Source: the Docker image archive (``manifest.json``), the OCI image layout (``oci-layout``) in a tar file.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import tarfile
from pathlib import Path
from typing import IO

from backends.container import images, images_entries
from backends.container.images import Image
from backends.container.podman import Podman, prepare
from backends.errors import ClocheError, UsageError

MOST_BYTES = 32 << 30  # of an archive, unpacked
MOST_MEMBERS = 1_000_000
_MANIFEST = 4 << 20  # bytes of a manifest
_BLOCK = 1 << 20
_ROOT = frozenset(
    ("bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "root", "sbin", "srv", "usr", "var")
)
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_ZSTD = b"\x28\xb5\x2f\xfd"


def import_file(path: Path, name: str) -> Image:
    """Take what is in ``path`` into the store as ``name``. ``UsageError`` for a file that is no image."""
    whole = images.full_name(name)
    kind = kind_of(path)
    podman = prepare()
    if kind == "root":
        with images.scratch(podman, ".tar") as archive:
            ident = _root(path, archive, whole)
            images.load(podman, archive)
        images.remember(podman, ident, f"root: {path.name}")
        return images.pinned(f"sha256:{ident}", podman)
    image = _archive(podman, path, whole)
    images.remember(podman, image.hex, f"{kind} archive: {path.name}")
    return images.pinned(image.digest, podman)


def kind_of(path: Path) -> str:
    """What a tar file is: ``docker``, ``oci`` or ``root``. ``UsageError`` when it is none of them."""
    try:
        with path.open("rb") as file:
            if file.read(4) == _ZSTD:
                raise _unfit(path, "it is compressed by zstd, which is not read here", f"zstd -d {path}")
        with tarfile.open(path, mode="r:*") as tar:
            return _kind(tar, path)
    except FileNotFoundError as error:
        raise _unfit(path, "there is no such file", "cloche image import FILE --name NAME") from error
    except tarfile.ReadError as error:
        raise _unfit(path, "it is no tar file, or a damaged one") from error
    except (OSError, tarfile.TarError, EOFError, lzma.LZMAError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _unfit(path, f"it cannot be read as a tar file: {why}") from error


def _kind(tar: tarfile.TarFile, path: Path) -> str:
    root = False
    for number, member in enumerate(tar):
        if number > MOST_MEMBERS or member.offset > MOST_BYTES:
            raise _unfit(path, f"it has more than {MOST_MEMBERS} members or {MOST_BYTES >> 30} GiB")
        name = member.name.removeprefix("./")
        if name == "oci-layout":
            return "oci"
        if name == "manifest.json" and member.isfile():
            _one(tar, member, path)
            return "docker"
        if name.partition("/")[0] in _ROOT:
            root = True
            if number > 100:
                break
    if root:
        return "root"
    raise _unfit(path, "it holds neither manifest.json nor oci-layout, nor the folders of a root")


def _one(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Docker's archive may hold many images; one name is given to one."""
    file = tar.extractfile(member)
    try:
        if file is None or member.size > _MANIFEST:
            raise ValueError("it is too large")
        described = json.loads(file.read())
        count = len(described)
    except (ValueError, TypeError, RecursionError) as error:
        raise _unfit(path, f"its manifest.json cannot be read: {error}") from error
    if count != 1:
        raise _unfit(path, f"it holds {count} images", "save one by itself: podman save -o FILE IMAGE")


def _root(path: Path, archive: Path, whole: str) -> str:
    """Make a Docker archive around a tar file of a root: the same file makes the same digest."""
    layer = archive.with_name(archive.name + ".root")
    try:
        with _opened(path) as source, layer.open("wb") as out:
            size = 0
            while block := source.read(_BLOCK):
                size += len(block)
                if size > MOST_BYTES:
                    raise _unfit(path, f"it is more than {MOST_BYTES >> 30} GiB")
                out.write(block)
        return images_entries.wrap(
            layer, archive, name=whole, machine=os.uname().machine, labels={}, newest=0
        )
    except (OSError, EOFError, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _unfit(path, f"it cannot be unpacked: {why}") from error
    finally:
        layer.unlink(missing_ok=True)


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        start = file.read(8)
    for magic, opener in _OPENERS:
        if start.startswith(magic):
            return opener(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def _archive(podman: Podman, path: Path, whole: str) -> Image:
    before = images.listing(podman)
    known = {name: image for image in before for name in image.names}
    said = images.call(
        podman,
        "load",
        "--quiet",
        "--input",
        str(path.absolute()),
        timeout=images.LOADING,
        doing="loading the image",
    )
    loaded = [
        line.partition(": ")[2].strip() for line in said.splitlines() if line.startswith("Loaded image")
    ]
    if len(loaded) == 0:
        raise ClocheError(
            "the image is not imported",
            f"podman told no name: {said[:200]!r}",
            "cloche doctor",
            code="podman",
        )
    image = images.find(loaded[0], podman)
    kept = {name for name, other in known.items() if other.digest == image.digest}
    for name in image.names:
        if name in kept or name == whole:
            continue
        former = known.get(name)
        if former is not None:
            images.call(podman, "tag", former.hex, name, doing="giving a name back")
        else:
            images.call(podman, "untag", image.hex, name, doing="taking a name away")
    images.call(podman, "tag", image.hex, whole, doing="naming the image")
    return image


def _unfit(path: Path, why: str, remedy: str = "") -> UsageError:
    return UsageError(
        f"{path} is not imported",
        why,
        remedy or "give a Docker archive, an OCI archive, or a tar file of a root",
        code="no-image",
    )
