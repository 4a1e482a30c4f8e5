"""The files of an image that is made here, and the archive that ``podman load`` takes; the same files, the
same bytes.

Order, owners, modes and times are decided here and not by the machine, so that an image that is made twice
has one digest: all of it belongs to root, no set-id bit and no write right of others stays.

Source: tar(5); the Docker image archive of github.com/moby/docker-image-spec, v1.2: ``manifest.json`` names
the configuration and the layers; the configuration holds the digest of each layer.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from backends.digest import sha256
from backends.record import NamedTuple

MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64", "ppc64le": "ppc64le"}
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_BLOCK = 1 << 20


class Entry(NamedTuple):
    """One file of an image. ``kind``: directory, file or link."""

    kind: str
    mode: int = 0o644
    source: str = ""  # of a file: where its bytes are, unless ``data``
    size: int = 0
    mtime: int = 0  # seconds
    target: str = ""  # of a link
    data: bytes | None = None


def folder(mode: int = 0o755) -> Entry:
    """A directory."""
    return Entry("directory", mode)


def text(content: str) -> Entry:
    """A file that is made here."""
    data = content.encode()
    return Entry("file", 0o644, size=len(data), data=data)


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry("link", 0o777, target=target)


def write_layer(entries: Mapping[str, Entry], out: Path) -> None:
    """Write the layer as a tar file. ``OSError`` for a file that cannot be read, or became shorter."""
    with tarfile.open(out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(entries):
            _add(tar, path, entries[path])


def _add(tar: tarfile.TarFile, path: str, entry: Entry) -> None:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mode = entry.mode
    info.mtime = entry.mtime
    if entry.kind == "directory":
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif entry.kind == "link":
        info.type = tarfile.SYMTYPE
        info.linkname = entry.target
        tar.addfile(info)
    elif entry.data is not None:
        info.size = len(entry.data)
        tar.addfile(info, io.BytesIO(entry.data))
    else:
        info.size = entry.size
        with open(entry.source, "rb") as file:
            tar.addfile(info, file)


def write_archive(
    entries: Mapping[str, Entry], out: Path, *, name: str, machine: str, labels: Mapping[str, str]
) -> str:
    """Write a Docker image archive of one layer; returns the digest of its configuration, in hexadecimal.

    ``name`` is a whole one (``localhost/x:latest``), ``machine`` as uname(2) says it. The image's date is
    that of its newest file, which two makings have in common.
    """
    layer = out.with_name(out.name + ".layer")
    try:
        write_layer(entries, layer)
        newest = max((entry.mtime for entry in entries.values()), default=0)
        return wrap(layer, out, name=name, machine=machine, labels=labels, newest=newest)
    finally:
        layer.unlink(missing_ok=True)


def wrap(layer: Path, out: Path, *, name: str, machine: str, labels: Mapping[str, str], newest: int) -> str:
    """Write a Docker image archive around ``layer``, a tar file; ``newest``: the date that it gets."""
    with layer.open("rb") as file:
        diff = _digest(file)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(newest))
    config = {
        "architecture": MACHINES.get(machine, machine),
        "os": "linux",
        "created": created,
        "config": {"Env": [f"PATH={PATH}"], "Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff}"]},
        "history": [{"created": created, "created_by": "cloche image"}],
    }
    described = _json(config)
    ident = sha256(described).hexdigest()
    manifest = [{"Config": f"{ident}.json", "RepoTags": [name], "Layers": [f"{diff}.tar"]}]
    with tarfile.open(out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, "manifest.json", text(_json(manifest).decode()))
        _add(tar, f"{ident}.json", text(described.decode()))
        _add(tar, f"{diff}.tar", Entry("file", source=str(layer), size=layer.stat().st_size))
    return ident


def _digest(file: IO[bytes]) -> str:
    made = sha256()
    while block := file.read(_BLOCK):
        made.update(block)
    return made.hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
