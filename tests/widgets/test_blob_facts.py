"""Binary files are told by their first bytes; a header that is cut, broken or hostile tells nothing."""

from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.blob_facts import BlobFacts, dimensions, facts_lines, facts_of, kind_of
from widgets.ink import plain

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 640, 480) + b"\x08\6\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 320, 200) + b"\0\0\0"
JPEG = (
    b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
    + b"\xff\xfe" + struct.pack(">H", 6) + b"hey!"
    + b"\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, 1080, 1920) + b"\0" * 10
)  # fmt: skip
LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 0x4000 | 100, 50)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 99 | 49 << 14)
EXTENDED = (
    b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0" + (4999).to_bytes(3, "little") + (2999).to_bytes(3, "little")
)


@pytest.mark.parametrize(
    ("head", "kind", "size"),
    [
        (PNG, "PNG image", (640, 480)),
        (GIF, "GIF image", (320, 200)),
        (JPEG, "JPEG image", (1920, 1080)),
        (LOSSY, "WebP image", (100, 50)),
        (LOSSLESS, "WebP image", (100, 50)),
        (EXTENDED, "WebP image", (5000, 3000)),
        (b"\x7fELF\2\1\1", "ELF program or library", (0, 0)),
        (b"PK\3\4", "ZIP archive (also jar, wheel, docx)", (0, 0)),
        (b"SQLite format 3\0", "SQLite database", (0, 0)),
        (b"", "empty", (0, 0)),
        (b"a\0b", "data", (0, 0)),
        (b"words", "text", (0, 0)),
    ],
)
def test_types_and_dimensions(head: bytes, kind: str, size: tuple[int, int]) -> None:
    assert (kind_of(head), dimensions(head)) == (kind, size)


@pytest.mark.parametrize("whole", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_a_cut_header_tells_no_dimensions(whole: bytes) -> None:
    size = dimensions(whole)
    for end in range(len(whole)):
        assert dimensions(whole[:end]) in ((0, 0), size)


@given(
    st.sampled_from([PNG[:12], GIF[:6], b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP", b"BM"]), st.binary(max_size=300)
)
def test_any_bytes_are_read_without_a_fault(head: bytes, rest: bytes) -> None:
    width, height = dimensions(head + rest)
    assert width >= 0
    assert height >= 0


def test_a_jpeg_of_markers_only_is_given_up() -> None:
    assert dimensions(b"\xff\xd8" + b"\xff\xd0" * 30_000) == (0, 0)
    assert dimensions(b"\xff\xd8" + b"\xff" * 60_000) == (0, 0)


def test_both_sides_are_said_with_size_hash_and_what_grew() -> None:
    new = facts_of(PNG + b"\0" * 2000)
    lines = "\n".join(plain(row) for row in facts_lines(facts_of(GIF), new))
    assert "GIF image" in lines
    assert "640 × 480" in lines
    assert f"{len(PNG) + 2000:,}" in lines
    assert f"(+{len(PNG) + 2000 - len(GIF):,} bytes)" in lines
    assert hashlib.sha256(GIF).hexdigest() in lines
    assert new.sha256 in lines


def test_a_side_that_is_missing_and_code_are_said() -> None:
    lines = "\n".join(plain(row) for row in facts_lines(None, facts_of(b"\x7fELF")))
    assert "no file" in lines
    assert "code that cannot be read here" in lines
    same = BlobFacts("data", 3, "a" * 64)
    assert "content is the same" in plain(facts_lines(same, same)[-1])
