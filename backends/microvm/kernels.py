"""The guest's kernel: one of Debian's (or the like) on this host, with the modules that a guest needs.

Looked for in the folder that ``CLOCHE_GUEST_KERNEL`` names; else in ``.kernel`` of the state folder, in
:data:`SHARED`, and where packages put kernels. A folder holds ``boot/vmlinuz-RELEASE`` and
``lib/modules/RELEASE``, as an unpacked package does. Source: Documentation/arch/x86/boot.rst for the image.
"""

from __future__ import annotations

import lzma
import os
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from backends.boxes.layout import state_dir
from backends.record import NamedTuple

VARIABLE = "CLOCHE_GUEST_KERNEL"
SHARED = Path("/usr/local/lib/cloche/kernel")  # for all users of a host
# What a guest loads, in no order: what they need of others is read from the modules themselves.
WANTED = (
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
    "virtio_rng",
    "9pnet_virtio",
    "9p",
    "overlay",
    "crc32c_generic",
    "ext4",
)
_FIRST = ("virtio_pci", "virtio_console")
REMEDY = (
    "get the kernel package and unpack it, no root is needed: apt-get download linux-image-amd64's package "
    "(apt-cache depends linux-image-amd64 names it), then dpkg-deb -x PACKAGE.deb {place}"
)
_RELEASE = re.compile(r"vmlinu[xz]-([\w.+~-]+)")
_LARGEST = 128 << 20


class Kernel(NamedTuple):
    release: str
    image: Path
    modules: Path  # the folder of its modules


class NoKernel(Exception):
    """No kernel of this host can be a guest's; the text says what was looked at."""


def place() -> Path:
    """Where a person unpacks a kernel package for guests."""
    return state_dir() / ".kernel"


def remedy() -> str:
    return REMEDY.format(place=place())


def find() -> Kernel:
    """The newest kernel that has every module that a guest needs; ``NoKernel`` where there is none."""
    seen: list[str] = []
    for root in _roots():
        found = sorted(_below(root), key=lambda one: _version(one.release), reverse=True)
        for kernel in found:
            missing = [name for name in WANTED if not _present(kernel, name)]
            if not os.access(kernel.image, os.R_OK):
                seen.append(f"{kernel.image} cannot be read by this user")
            elif missing:
                seen.append(f"{kernel.image} has no module {', '.join(missing)}")
            else:
                return kernel
        if not found:
            seen.append(f"no kernel in {root}")
    raise NoKernel("; ".join(seen))


def _roots() -> Iterator[Path]:
    named = os.environ.get(VARIABLE)
    if named:
        yield Path(named)
        return
    yield place()
    yield SHARED
    yield Path("/")


def _below(root: Path) -> Iterator[Kernel]:
    for folder in (root / "boot", root):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            match = _RELEASE.fullmatch(name)
            if match is None:
                continue
            for modules in ("lib/modules", "usr/lib/modules"):
                if (root / modules / match[1]).is_dir():
                    yield Kernel(match[1], folder / name, root / modules / match[1])
                    break


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:6])


def _present(kernel: Kernel, name: str) -> bool:
    return name in _built_in(kernel) or any(True for _ in _files(kernel, name))


def _built_in(kernel: Kernel) -> frozenset[str]:
    try:
        text = (kernel.modules / "modules.builtin").read_text()
    except OSError:
        return frozenset()
    return frozenset(Path(line).stem.replace("-", "_") for line in text.split())


def _index(kernel: Kernel) -> dict[str, Path]:
    """Module name to file; names use underscores wherever files use dashes."""
    found: dict[str, Path] = {}
    for folder, _, names in os.walk(kernel.modules / "kernel"):
        for name in names:
            stem, dot, kind = name.partition(".ko")
            if dot and kind in ("", ".xz"):
                found[stem.replace("-", "_")] = Path(folder, name)
    return found


_indexes: dict[Path, dict[str, Path]] = {}


def _files(kernel: Kernel, name: str) -> Iterator[Path]:
    if kernel.modules not in _indexes:
        _indexes[kernel.modules] = _index(kernel)
    path = _indexes[kernel.modules].get(name)
    if path is not None:
        yield path


def modules(kernel: Kernel) -> list[tuple[str, bytes]]:
    """Name and content of every module that a guest loads, each after those it needs."""
    built_in = _built_in(kernel)
    order: list[tuple[str, bytes]] = []
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done or name in built_in:
            return
        done.add(name)
        path = next(_files(kernel, name), None)
        if path is None:
            return
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        for need in _needs(data):
            add(need)
        order.append((name, data))

    for name in (*_FIRST, *WANTED):
        add(name)
    return order


def _needs(module: bytes) -> list[str]:
    """``depends`` and soft pre-dependencies of a module's .modinfo section."""
    found: list[str] = []
    for match in re.finditer(rb"\0depends=([\w,-]*)\0", b"\0" + module):
        found += [name.decode().replace("-", "_") for name in match[1].split(b",") if name]
    for match in re.finditer(rb"\0softdep=pre: ([\w ,-]+)\0", module):
        found += [name.decode().replace("-", "_") for name in match[1].split() if name != b"post:"]
    return list(dict.fromkeys(found))


def extract(image: Path) -> bytes:
    """The ELF kernel inside a bzImage, so that an emulated processor need not unpack it.

    ``NoKernel`` when it is packed in a way that this host cannot read.
    """
    data = image.read_bytes()
    if data[:4] == b"\x7fELF":
        return data
    if data[0x202:0x206] != b"HdrS":
        raise NoKernel(f"{image} is no Linux kernel for x86")
    sectors = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (sectors + 1) * 512 + offset
    packed = data[start : start + length]
    if packed.startswith(b"\xfd7zXZ\0"):
        found = lzma.LZMADecompressor().decompress(packed, _LARGEST)
    elif packed.startswith(b"\x1f\x8b"):
        import zlib

        found = zlib.decompressobj(31).decompress(packed, _LARGEST)
    elif packed.startswith(b"\x02\x21\x4c\x18"):
        found = _by_program(("lz4", "-dc", "-"), packed, image)
    elif packed.startswith(b"\x28\xb5\x2f\xfd"):
        found = _by_program(("zstd", "-dc", "-"), packed, image)
    else:
        raise NoKernel(f"{image} is packed in an unknown way")
    if found[:4] != b"\x7fELF":
        raise NoKernel(f"{image} holds no ELF kernel")
    return found


def _by_program(argv: tuple[str, ...], data: bytes, image: Path) -> bytes:
    try:
        return subprocess.run(argv, input=data, capture_output=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKernel(f"{image} is packed with {argv[0]}, which cannot be run: {error}") from error
