"""The lean SHA-256 is SHA-256."""

from __future__ import annotations

import hashlib

import pytest

from backends import digest


@pytest.mark.parametrize("data", [b"", b"abc", b"x" * 100_000])
def test_digests_are_those_of_hashlib(data: bytes) -> None:
    assert digest.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
    made = digest.sha256()
    made.update(data)
    assert made.digest() == hashlib.sha256(data).digest()
