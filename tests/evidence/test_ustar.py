"""The single-file form: what is written is read back and taken by tar(1); what no export has is refused."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import Refused, UsageError
from backends.evidence import ustar
from backends.evidence.packed import opened

FILES = [
    ("patch.diff", b"x" * 513),
    ("report.md", b""),
    ("receipt.json", b"{}\n"),
    ("0001-a.patch", bytes(1024)),
]


def packed(*files: tuple[str, bytes]) -> bytes:
    return b"".join(ustar.write(files, 1767323045))


def members(data: bytes) -> dict[str, bytes]:
    found = ustar.members(lambda at, size: data[at : at + size], len(data), "x.tar")
    return {one.name: data[one.offset : one.offset + one.size] for one in found}


def test_what_is_written_comes_back_and_tar_takes_it(tmp_path: Path) -> None:
    data = packed(*FILES)
    assert members(data) == dict(FILES)
    (tmp_path / "x.tar").write_bytes(data)
    subprocess.run(["tar", "xf", "x.tar"], cwd=tmp_path, check=True)
    assert {name: (tmp_path / name).read_bytes() for name, _ in FILES} == dict(FILES)
    assert (tmp_path / "report.md").stat().st_mtime == 1767323045


@pytest.mark.parametrize("form", ["gnu", "ustar"])
def test_a_folder_that_tar_packed_is_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "out").mkdir()
    for name, data in FILES:
        (tmp_path / "out" / name).write_bytes(data)
    for args in (["out"], ["-C", "out", "."], ["-C", "out", *(name for name, _ in FILES)]):
        subprocess.run(["tar", f"--format={form}", "-cf", "x.tar", *args], cwd=tmp_path, check=True)
        with opened(tmp_path / "x.tar") as bundle:
            assert {name: bundle.read(name, 4096) for name in bundle.names()} == dict(FILES)


def made(add: Callable[[tarfile.TarFile], None], form: int = tarfile.USTAR_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        add(archive)
    return stream.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", **facts: object) -> bytes:
    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, len(data)
        for key, value in facts.items():
            setattr(info, key, value)
        archive.addfile(info, io.BytesIO(data))

    form = tarfile.GNU_FORMAT if len(name) > 90 else tarfile.USTAR_FORMAT
    return made(add, form)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (entry("../patch.diff"), "name"),
        (entry("a/../patch.diff"), "name"),
        (entry("/etc/passwd"), "name"),
        (entry("..", tarfile.DIRTYPE), "no plain file"),
        (entry("deep/er/patch.diff"), "name"),
        (entry(".hidden"), "name"),
        (entry("\x1b[2J"), "name"),
        (entry("a b"), "name"),
        (entry("x" * 200), "no plain file"),
        (entry("patch.diff", tarfile.SYMTYPE, linkname="/etc/passwd"), "no plain file"),
        (entry("patch.diff", tarfile.LNKTYPE, linkname="report.md"), "no plain file"),
        (entry("patch.diff", tarfile.CHRTYPE), "no plain file"),
        (entry("patch.diff", tarfile.BLKTYPE), "no plain file"),
        (entry("patch.diff", tarfile.FIFOTYPE), "no plain file"),
        (entry("patch.diff", tarfile.GNUTYPE_SPARSE), "no plain file"),
        (entry("patch.diff", tarfile.XHDTYPE, b"11 path=..\n"), "no plain file"),
        (packed(("a", b"1"), ("a", b"2")), "twice"),
        (packed(("a", b"1" * 100))[:600], "longer than the file"),
        (packed(("a", b"1"))[:1024], "cut off"),
        (packed(("a", b"1"))[:1536], "cut off"),
        (packed(("a", b"1")) + b"tail", "behind its end"),
        (packed(("a", b"1")) + bytes(2 << 20), "behind its end"),
        (b"\x1f\x8b" + bytes(600), "compressed"),
        (b"", "cut off"),
        (packed(("a", b"1")).replace(b"0000644", b"0000777", 1), "checksum"),
    ],
)
def test_what_no_export_has_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(Refused, match=why) as caught, opened(tmp_path / "x.tar"):
        pass
    assert caught.value.code == "hostile-bundle"


def test_an_archive_of_two_folders_or_of_too_many_entries_is_refused() -> None:
    def two(archive: tarfile.TarFile) -> None:
        for name in ("a/patch.diff", "b/report.md"):
            archive.addfile(tarfile.TarInfo(name))

    with pytest.raises(Refused, match="another folder"):
        members(made(two))
    with pytest.raises(Refused, match="more than 2000"):
        members(packed(*((f"n{n}", b"") for n in range(2001))))


def test_a_huge_member_is_refused_before_it_is_read(tmp_path: Path) -> None:
    size = 4 << 30
    header = ustar._header("patch.diff", size, 0)
    with open(tmp_path / "x.tar", "wb") as file:  # sparse: it takes no room
        file.write(header)
        file.truncate(512 + size + 1024)
    with opened(tmp_path / "x.tar") as bundle, pytest.raises(Refused, match="more than 64 MiB"):
        bundle.read("patch.diff", 64 << 20)


def test_a_number_in_gnus_binary_form_is_none() -> None:
    block = bytearray(ustar._header("a", 0, 0))
    block[124:136] = b"\x80" + bytes(10) + b"\x01"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(Refused, match="no number"):
        members(bytes(block) + bytes(1024))


def test_pipes_devices_and_nothing_are_no_exports(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "x.tar")
    for path in (tmp_path / "x.tar", Path("/dev/null"), tmp_path / "none"):
        with pytest.raises(UsageError) as caught, opened(path):
            pass
        assert caught.value.code == "no-export"


@given(st.binary(max_size=2048), st.integers(0, 2047), st.binary(max_size=16))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes, at: int, patch: bytes) -> None:
    whole = bytearray(packed(("patch.diff", data)))
    whole[at : at + len(patch)] = patch
    for text in (data, bytes(whole)):
        try:
            found = members(text)
        except Refused:
            continue
        assert all(ustar.NAME.fullmatch(name) for name in found)
