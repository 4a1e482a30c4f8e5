"""What the verb table is written in: verbs, their arguments, and the members of their JSON documents."""

from __future__ import annotations

from typing import NamedTuple


class Param(NamedTuple):
    """One argument.

    ``kind``: positional, rest (all that follows), after (what follows two hyphens, and only that), flag, or
    value (an option with one).
    """

    names: tuple[str, ...]
    help: str
    kind: str = "value"
    metavar: str = ""
    many: str = ""  # "?", "*", "+" for positionals; "+" for values
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def dest(self) -> str:
        return self.names[-1].lstrip("-").replace("-", "_")


class Field(NamedTuple):
    """One member of a verb's JSON document."""

    name: str
    type: str
    meaning: str


class Verb(NamedTuple):
    """One verb: ``handler`` is ``module:function`` below ``app.cli``; ``schema`` is ``cloche.<word>/<n>``."""

    name: str
    group: str
    summary: str
    handler: str
    schema: str
    fields: tuple[Field, ...]
    params: tuple[Param, ...] = ()
    notes: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split())


JSON = Param(("--json",), "print one JSON document on standard output instead of text", "flag")
BOX = Param(("box",), "name of the box, or <repository key>/<name>", "positional", "BOX")
BOX_FIELD = Field("box", "string", "key of the box: <repository key>/<name>")
