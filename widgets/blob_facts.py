"""What a file is when its content is no lines: type by its first bytes, size, hash, dimensions. Pure.

Only the fixed places of each format are read, within the first :data:`HEAD` bytes, and nothing is decoded: no
image library ever gets bytes that came out of a box. Formats: PNG (W3C PNG, 11.2.2), GIF89a (18), JPEG (ITU
T.81, B.2.2), WebP (RFC 9649), BMP (BITMAPINFOHEADER).
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from widgets import units
from widgets.ink import Line, line

HEAD = 64 << 10
"""Bytes from the beginning that are looked at."""
SEGMENTS = 200
"""Segments of a JPEG that are passed over until the one with its dimensions."""

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"GIF87a", "GIF image"),
    (0, b"GIF89a", "GIF image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (8, b"WEBP", "WebP image"),
    (0, b"BM", "BMP image"),
    (0, b"\0\0\1\0", "icon"),
    (4, b"ftypavif", "AVIF image"),
    (4, b"ftyp", "MP4 media"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PK\3\4", "ZIP archive (also jar, wheel, docx)"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (257, b"ustar", "tar archive"),
    (0, b"!<arch>\n", "ar archive (static library, deb)"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"MZ", "Windows program or library"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (0, b"\xca\xfe\xba\xbe", "Java class or universal Mach-O"),
    (0, b"\0asm", "WebAssembly module"),
    (0, b"dex\n", "Android program"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (0, b"wOFF", "WOFF font"),
    (0, b"wOF2", "WOFF2 font"),
    (0, b"OTTO", "OpenType font"),
    (0, b"\0\1\0\0\0", "TrueType font"),
    (0, b"OggS", "Ogg media"),
    (0, b"ID3", "MP3 audio"),
    (0, b"RIFF", "RIFF media"),
    (0, b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
)
RUNS = ("ELF", "Windows program", "Mach-O", "Java class", "WebAssembly", "Android", "ar archive")
"""Types that hold code."""


class BlobFacts(NamedTuple):
    """One side of a changed file. Sizes in bytes, dimensions in pixels (0 when they are not told)."""

    kind: str
    size: int
    sha256: str
    width: int = 0
    height: int = 0

    @property
    def code(self) -> bool:
        """The type is one that runs, or is linked into what runs."""
        return self.kind.startswith(RUNS)


def facts_of(content: bytes) -> BlobFacts:
    """What can be told of a file's content."""
    head = content[:HEAD]
    kind = kind_of(head)
    width, height = dimensions(head)
    return BlobFacts(kind, len(content), hashlib.sha256(content).hexdigest(), width, height)


def kind_of(head: bytes) -> str:
    """The type by magic number; what has none is text or data."""
    if not head:
        return "empty"
    for place, magic, name in _MAGIC:
        if head.startswith(magic, place):
            return name
    return "data" if b"\0" in head[:8000] else "text"


def dimensions(head: bytes) -> tuple[int, int]:
    """Width and height of an image, (0, 0) when it is none or its header is cut or broken."""
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR" and len(head) >= 24:
        return _pair(">II", head, 16)
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        return _pair("<HH", head, 6)
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg(head)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _webp(head)
    if head.startswith(b"BM") and len(head) >= 26 and head[14:18] == b"\x28\0\0\0":
        width, height = _pair("<ii", head, 18)
        return abs(width), abs(height)
    return 0, 0


def _pair(form: str, head: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, head, place)
    return int(first), int(second)


def _jpeg(head: bytes) -> tuple[int, int]:
    place = 2
    for _ in range(SEGMENTS):
        while place < len(head) and head[place] == 0xFF:
            place += 1
        if place + 8 > len(head):
            return 0, 0
        marker = head[place]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # SOF0 to SOF15
            height, width = _pair(">HH", head, place + 4)
            return width, height
        if marker in (0xD9, 0xDA):  # the image ends, or its data begins
            return 0, 0
        place += 1
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:  # markers without a length
            continue
        place += max(2, struct.unpack_from(">H", head, place)[0])
        if place >= len(head) or head[place] != 0xFF:
            return 0, 0
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    form = head[12:16]
    if form == b"VP8 " and len(head) >= 30 and head[23:26] == b"\x9d\x01\x2a":
        width, height = _pair("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L" and len(head) >= 25 and head[20] == 0x2F:
        bits = struct.unpack_from("<I", head, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return 0, 0


def facts_lines(old: BlobFacts | None, new: BlobFacts | None) -> list[Line]:
    """Both sides of a file as lines; ``None`` is a side on which there is none."""
    rows: list[Line] = [(), line(("         before".ljust(37), "quiet"), ("after", "quiet"))]

    def row(name: str, before: str, after: str, ink: str = "") -> None:
        rows.append(line((name.ljust(9), "quiet"), (before[:26].ljust(28), ""), (after, ink)))

    sides = [side for side in (old, new) if side is not None]
    row("type", old.kind if old else "no file", new.kind if new else "no file")
    grown = f" ({new.size - old.size:+,} bytes)" if old and new and new.size != old.size else ""
    row("size", _size(old), _size(new) + grown)
    if any(side.width for side in sides):
        changed = old and new and (old.width, old.height) != (new.width, new.height)
        row("pixels", _pixels(old), _pixels(new), "look" if changed else "")
    rows.append(())
    for name, side in (("before", old), ("after", new)):
        if side is not None:
            rows.append(line((f"sha256 {name}", "quiet")))
            rows.append(line((side.sha256, "")))
    if new is not None and new.code:
        rows += [(), line(("! ", "look strong"), ("this file holds code that cannot be read here", "look"))]
    if old and new and old.sha256 == new.sha256:
        rows += [(), line(("the content is the same; only the name or the mode changed", "quiet"))]
    return rows


def _size(side: BlobFacts | None) -> str:
    return (
        f"{units.size(side.size)} ({side.size:,})"
        if side is not None and side.size >= 1024
        else (f"{side.size:,} bytes" if side is not None else "—")
    )


def _pixels(side: BlobFacts | None) -> str:
    return f"{side.width} × {side.height}" if side is not None and side.width else "—"
