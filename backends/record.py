"""``typing.NamedTuple`` at a third of its price: what a short command pays at import for each of its values.

The one of :mod:`typing` compiles the annotation of every field. Nothing here looks at annotations while the
program runs, so they stay the texts that they are under ``from __future__ import annotations``; all else is
the same, and type checkers are shown the original.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import Any
    from typing import NamedTuple as NamedTuple
else:
    _OWN = ("__annotations__", "__module__", "__qualname__", "__orig_bases__", "__classcell__")

    class _Made(type):
        """Makes the named tuple of a class's body."""

        def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
            if not bases:
                return super().__new__(mcs, name, bases, body)
            fields = body["__annotations__"]
            given = [field for field in fields if field in body]
            if tuple(given) != tuple(fields)[len(fields) - len(given) :]:
                raise TypeError(f"{name}: a field without a default follows one that has one")
            defaults = [body[field] for field in given]
            made = namedtuple(name, tuple(fields), defaults=defaults, module=body["__module__"])
            made.__qualname__ = body["__qualname__"]
            made.__annotations__ = made.__new__.__annotations__ = fields
            for key, value in body.items():
                if key not in _OWN and key not in fields:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Made):
        """A tuple whose fields are the annotated names of the class's body."""
