"""``cloche demo``: a sample repository and three boxes with scripted agents; public verbs only."""

from __future__ import annotations


def main(*, remove: bool = False, text: bool = False, as_json: bool = False) -> int:
    """Play the demonstration, or remove it; the exit code.

    On a terminal the workbench opens; with ``text``, or without a terminal, the same story is told as text.
    ``as_json`` makes the boxes, starts their agents, prints one document and opens nothing.
    """
    from app.demo import stage

    if remove:
        return stage.remove(as_json)
    return stage.run(text, as_json)
