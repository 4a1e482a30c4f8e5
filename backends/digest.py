"""SHA-256 without the import of OpenSSL, which costs 3 ms of every command and 3 MB of every keeper.

CPython has an implementation of its own under a private name (``_sha256``, from 3.12 on ``_sha2``); where
neither is there, ``hashlib`` has it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol


class Hash(Protocol):
    """What a hash object of :mod:`hashlib` can do."""

    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


class Maker(Protocol):
    """A constructor of :mod:`hashlib`."""

    def __call__(self, data: bytes = b"", /) -> Hash: ...


def _find() -> Maker:
    for name in ("_sha2", "_sha256"):
        try:
            found: Maker = import_module(name).sha256
        except (ImportError, AttributeError):
            continue
        return found
    made: Maker = import_module("hashlib").sha256
    return made


sha256 = _find()
