"""``cloche demo``: a sample repository and three boxes with scripted agents; public verbs only."""

from __future__ import annotations


def main(*, remove: bool = False, text: bool = False, tiers: bool = False, as_json: bool = False) -> int:
    """Play the demonstration, or remove it; the exit code.

    On a terminal the workbench opens; with ``text``, or without a terminal, the same story is told as text.
    ``as_json`` makes the boxes, starts their agents, prints one document and opens nothing.
    ``tiers``: one box for each tier instead, as text.
    """
    from app.demo import stage

    if remove:
        return stage.remove(as_json)
    if tiers:
        from app.demo import tiers as every

        return every.run()
    return stage.run(text, as_json)
