"""Laying the statements of one file over those before it: pure, no file system.

A :class:`Draft` holds, for each key of the schema, what holds so far and who said it. Scalars replace,
lists add (a leading "!" takes inherited entries away, "!*" all of them), tables replace name by name.
Statements of foreign code pass through :func:`narrow`, which takes only what makes the policy smaller.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from backends.errors import UsageError
from backends.policy import schema
from backends.policy.files import Stated
from backends.policy.paths import is_pattern
from backends.record import NamedTuple

DEFAULT_SOURCE = "built-in default"


class Held(NamedTuple):
    """A value that holds, who stated it, in which layer (rising), and whether a person did."""

    value: object
    where: str
    layer: int
    explicit: bool


class Ignored(NamedTuple):
    """A statement of foreign code that had no effect, because it does not narrow the policy."""

    path: str
    value: str
    where: str


class Draft:
    """A policy in the making. ``lists`` and ``tables`` map each element to who stated it."""

    def __init__(self) -> None:
        self.layer = 0
        self.scalars: dict[str, Held] = {}
        self.lists: dict[str, dict[str, Held]] = {}
        self.tables: dict[str, dict[str, Held]] = {}
        for key in schema.KEYS:
            if key.is_list:
                self.lists[key.path] = {}
            elif key.kind == "table":
                self.tables[key.path] = {}
            else:
                self.scalars[key.path] = Held(key.default, DEFAULT_SOURCE, 0, False)

    def lay(self, statements: Iterable[Stated], *, explicit: bool) -> None:
        """One more layer. UsageError where "!" takes away what nothing before has granted."""
        self.layer += 1
        for one in statements:
            key = schema.BY_PATH[one.path]
            held = Held(one.value, one.where, self.layer, explicit)
            if key.kind == "table":
                self.tables[one.path][one.name] = held
            elif not key.is_list:
                self.scalars[one.path] = held
            elif str(one.value).startswith("!"):
                if not self._remove(key, str(one.value)[1:]) and one.value != "!*":
                    raise UsageError(
                        f"{one.path} takes away what is not there",
                        f"{one.where}: nothing that this profile extends grants {str(one.value)[1:]}",
                        "remove the line, or name an entry that cloche policy explain shows",
                        code="nothing-to-remove",
                    )
            else:
                self.lists[one.path][str(one.value)] = held

    def narrow(self, statements: Iterable[Stated]) -> list[Ignored]:
        """A layer that came with foreign code: what does not narrow has no effect and is returned."""
        self.layer += 1
        ignored = []
        for one in statements:
            if not self._narrow(schema.BY_PATH[one.path], one):
                shown = f"{one.name}={one.value}" if one.name else str(one.value)
                ignored.append(Ignored(one.path, shown, one.where))
        return ignored

    def _narrow(self, key: schema.Key, one: Stated) -> bool:
        held = Held(one.value, one.where, self.layer, True)
        if key.is_list:
            text = str(one.value)
            if text.startswith("!"):
                return key.narrow == schema.REMOVE and self._remove(key, text[1:])
            if key.narrow == schema.ADD:
                # Expanding a stranger's pattern could walk the whole host.
                if is_pattern(text):
                    return False
                self.lists[key.path].setdefault(text, held)
                return True
            return text in self.lists[key.path]
        if key.kind == "table":
            before = self.tables[key.path].get(one.name)
            return before is not None and before.value == one.value
        before = self.scalars[key.path]
        if before.value == one.value:
            return True
        if key.narrow == schema.LESS and _less(key, one.value, before.value):
            self.scalars[key.path] = held
            return True
        return False

    def _remove(self, key: schema.Key, pattern: str) -> bool:
        entries = self.lists[key.path]
        if pattern == "*":
            found = list(entries)
        elif key.kind == "paths":
            found = [one for one in entries if one == pattern or fnmatchcase(one, pattern)]
        else:
            found = [pattern] if pattern in entries else []
        for one in found:
            del entries[one]
        return bool(found)


def _less(key: schema.Key, new: object, old: object) -> bool:
    """Whether ``new`` permits no more than ``old``: a limit below, false for true, a choice further left."""
    if key.kind == "choice":
        return key.choices.index(str(new)) < key.choices.index(str(old))
    if new is None or old is None:
        return new is not None
    return isinstance(new, int) and isinstance(old, int) and new < old
