"""What a profile states, value by value, as it was written."""

from __future__ import annotations

from backends.record import NamedTuple


class Stated(NamedTuple):
    """One value that somebody wrote. Lists and tables give one of these for each element.

    ``name`` is the variable or service of a table's element; ``where`` is "file:line".
    """

    path: str
    name: str
    value: object
    where: str


class ProfileText(NamedTuple):
    """What one file says about one profile."""

    name: str
    where: str
    extends: Stated | None
    stated: tuple[Stated, ...]
