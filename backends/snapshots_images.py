"""Images as they are shown: frozen values."""

from __future__ import annotations

from backends.record import NamedTuple


class ImageRow(NamedTuple):
    """One image of Cloche's store. Names and ``source`` may come from an archive of anybody: escape them."""

    digest: str  # sha256:<64 hex> of its configuration
    names: tuple[str, ...]  # whole ones, such as localhost/python:latest
    size: int  # bytes, unpacked
    added: float  # when it came into the store
    source: str  # what it was made from, in words, "" when nobody wrote it down
    boxes: tuple[str, ...]  # keys of the boxes that were made for exactly it


class Built(NamedTuple):
    """An image that was just made or imported."""

    image: ImageRow
    left: tuple[str, ...]  # what was not taken into it, and why
