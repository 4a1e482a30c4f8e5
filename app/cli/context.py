"""What every handler gets: the engine, and the two ways to say something."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from app.cli.table import Verb
from backends.engine import Engine
from backends.evidence.visible import visible

PATIENCE = 3.0  # seconds for keepers that are asked once, however busy the host
UNCONFINED = (
    "nothing confines this box (tier workspace): "
    "its processes run as you, and its journal is within their reach"
)


def plain(value: Any) -> Any:
    """A value of the engine as JSON values: named tuples become objects, bytes text (surrogateescape)."""
    if hasattr(value, "_asdict"):
        return {key: plain(one) for key, one in value._asdict().items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


class Context:
    """One invocation of one verb."""

    def __init__(self, verb: Verb, as_json: bool) -> None:
        self.verb = verb
        self.json = as_json
        self.engine = Engine(patience=PATIENCE)

    def document(self, **members: Any) -> None:
        """Print the verb's JSON document. Non-ASCII is escaped, raw bytes of names as ``\\udcXX``."""
        self.document_to(sys.stdout, members)

    def document_to(self, stream: TextIO, members: Mapping[str, Any]) -> None:
        """The same on ``stream``, where standard output is a command's."""
        value = {"schema": self.verb.schema, **{key: plain(one) for key, one in members.items()}}
        stream.write(json.dumps(value, ensure_ascii=True) + "\n")
        stream.flush()

    def say(self, text: str) -> None:
        """Print one line for people; the caller has escaped what came from outside."""
        sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """A remark beside the answer, on standard error."""
        sys.stdout.flush()
        sys.stderr.write(visible(text) + "\n")

    def warn_unconfined(self, ref: str) -> None:
        """Say of a box of tier ``workspace``, wherever its evidence is shown, what that evidence is worth."""
        from backends.boxes.manifest import load

        if not self.json and load(self.engine.find(ref)).tier == "workspace":
            self.note(UNCONFINED)

    def rows(self, headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
        """A table for people; every cell is escaped here. ``right``: columns aligned to the right."""
        from app.cli.render import table

        table(headers, rows, right)
