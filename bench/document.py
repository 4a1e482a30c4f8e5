"""The figures in docs/performance.md: written from one saved run, between two marks, and by nothing else."""

from __future__ import annotations

from pathlib import Path

from bench import table
from bench.results import Results
from bench.rows import ROWS

BLOCKS = ("run", "method")


def marks(block: str) -> tuple[str, str]:
    return (
        f"<!-- bench {block}: begin, written by python -m bench --write-docs -->",
        f"<!-- bench {block}: end -->",
    )


def fill(text: str, results: Results) -> str:
    """``text`` with its marked blocks written anew; ``SystemExit`` when a mark is missing."""
    host = [f"{table.headline(results.facts)}. {results.facts['rounds']} rounds, {results.facts['when']}."]
    versions = ", ".join(results.facts["versions"].values())
    host += ["", f"Peers: {versions or 'none'}.", ""]
    contents = {"run": [*host, *table.markdown(ROWS, results)], "method": table.methods(ROWS)}
    for block in BLOCKS:
        begin, end = marks(block)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"the document has no block between {begin} and {end}")
        text = "\n".join([f"{before}{begin}", "", *contents[block], "", f"{end}{after}"])
    return text


def write(path: Path, results: Results) -> None:
    """Fill the document at ``path``."""
    path.write_text(fill(path.read_text(), results))
