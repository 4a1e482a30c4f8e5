"""Pointers of Git LFS: carried byte for byte, named by a check, and never turned into what they name."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.gate import lfs
from tests.gate.applying import run
from tests.gate.world import World, warned

OID = hashlib.sha256(b"elsewhere").hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 9\n".encode()


def test_a_pointer_is_named_with_its_size_and_hash() -> None:
    assert lfs.said(None, POINTER) == (
        f"names a file of Git LFS, 9 bytes, sha256 {OID}: the pointer is carried, its content is neither "
        "here nor reviewed"
    )
    assert lfs.said(POINTER, b"content") == "was a pointer of Git LFS and holds its own content now"
    assert lfs.said(POINTER, None) == ""
    extended = POINTER.replace(b"oid", b"ext-0-foo sha256:" + OID.encode() + b"\noid", 1)
    assert lfs.said(None, extended)


@pytest.mark.parametrize(
    "text", [b"", b"version 1\n", POINTER[:-9], POINTER + b"more\n", POINTER + b"x" * 2000, b"\0" + POINTER]
)
def test_what_only_looks_like_a_pointer_is_none(text: bytes) -> None:
    assert lfs.said(None, text) == ""


@given(st.binary(max_size=1100), st.binary(max_size=1100))
def test_no_content_breaks_it(old: bytes, new: bytes) -> None:
    lfs.said(old, new)
    lfs.said(old, POINTER[:40] + new)


def test_a_pointer_is_carried_as_it_is_and_no_filter_of_the_person_runs(world: World) -> None:
    marker = world.repo.parent / "smudged"
    for key in ("smudge", "clean", "process"):
        world.git("config", f"filter.lfs.{key}", f"touch {marker}")
    tree = world.changed(
        {b".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n", b"a.bin": POINTER}
    )
    assert ("lfs", b"a.bin") in warned(world.checks(tree))
    done = run(world, tree)
    assert (world.repo / "a.bin").read_bytes() == POINTER
    assert not marker.exists()
    assert any("filter lfs" in note for note in done.notes)
