"""JSON values of a stranger as the frozen values of :mod:`backends.snapshots`, by their annotations. Pure."""

from __future__ import annotations

import math
import os
import re
import sys
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

LARGEST = 1 << 62
LATEST = 1e15  # what a time may be: no calendar has one beyond


# Texts that are this program's own words or ids in every honest receipt: who draws them need not escape.
WORDS: Mapping[str, frozenset[str]] = {
    "CheckRow": frozenset(("id", "verdict", "key")),
    "Acknowledgement": frozenset(("key",)),
    "SessionRow": frozenset(("state",)),
    "NotObserved": frozenset(("kind",)),
    "Trial": frozenset(("snapshot", "taken", "onto", "tree", "box")),
    "BoxCommit": frozenset(("id", "tree")),
    "BoxCommits": frozenset(("head",)),
    "ReviewComment": frozenset(("side",)),
    "Ran": frozenset(("covers",)),
    "InnerEnd": frozenset(("signal",)),
    "InnerRun": frozenset(("signal", "covers")),
    "Dependency": frozenset(("change",)),
    "Bulk": frozenset(("kind",)),
}
_WORD = re.compile(r"[A-Za-z0-9._ -]{0,100}")


class Misfit(ValueError):
    """A value is not what it should be. The text says which and what it is instead."""


def decode(kind: Any, value: object, where: str) -> Any:
    """``value`` as a ``kind``: a text, a number, bytes of a name, a tuple, a named tuple, or one of several.

    A member that a named tuple has a default for may be missing; others are ``Misfit``. What it does not have
    is left out.
    """
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _either(typing.get_args(kind), value, where)
    if origin is tuple:
        return _row(typing.get_args(kind), value, where)
    if kind is type(None):
        if value is not None:
            raise Misfit(f"{where} is not null")
        return None
    if kind is bytes:
        return _name(value, where)
    if kind in (int, float):
        return _number(kind, value, where)
    if kind in (str, bool):
        if type(value) is not kind:
            raise Misfit(f"{where} is no {'text' if kind is str else 'boolean'}")
        return value
    if hasattr(kind, "_fields"):
        return _record(kind, value, where)
    raise TypeError(f"{where}: nothing is known of {kind!r}")


def member(value: object, name: str, where: str = "") -> Any:
    """A member of an object, None where it has none; ``Misfit`` where there is no object."""
    if not isinstance(value, dict):
        raise Misfit(f"{where or name} belongs to no object")
    return value.get(name)


def word(value: str, where: str) -> str:
    """A text that is a word of this program or an id; ``Misfit`` for anything that needs escaping."""
    if not _WORD.fullmatch(value):
        raise Misfit(f"{where} is no word")
    return value


def _either(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    (kind,) = (one for one in kinds if one is not type(None))
    return decode(kind, value, where)


def _row(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise Misfit(f"{where} is no list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(decode(kinds[0], one, f"{where}[{at}]") for at, one in enumerate(value))
    if len(value) != len(kinds):
        raise Misfit(f"{where} does not have {len(kinds)} parts")
    pairs = zip(kinds, value, strict=True)
    return tuple(decode(kind, one, f"{where}[{at}]") for at, (kind, one) in enumerate(pairs))


def _name(value: Any, where: str) -> bytes:
    if type(value) is not str:
        raise Misfit(f"{where} is no text")
    try:
        return os.fsencode(value)
    except UnicodeEncodeError as error:
        raise Misfit(f"{where} is no name that a file can have") from error


def _number(kind: type[int] | type[float], value: Any, where: str) -> int | float:
    if kind is int:
        if type(value) is not int or abs(value) > LARGEST:
            raise Misfit(f"{where} is no whole number")
        return value
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > LATEST:
        raise Misfit(f"{where} is no number")
    return float(value)


def _record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise Misfit(f"{where} is no object")
    found: dict[str, Any] = {}
    own = WORDS.get(kind.__name__, frozenset())
    for name, hint in _hints(kind).items():
        if name in value:
            found[name] = decode(hint, value[name], f"{where}.{name}")
            if name in own:
                word(found[name], f"{where}.{name}")
        elif name not in kind._field_defaults:
            raise Misfit(f"{where}.{name} is missing")
    return kind(**found)


@lru_cache(maxsize=64)
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))
    return {name: hints[name] for name in kind._fields}
