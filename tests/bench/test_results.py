"""A run on disk and in a document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import document, results
from bench.results import Results, Sampler
from bench.rows import BWRAP, ROWS

FACTS = {
    "subject": "a repository, 7 files",
    "when": "2026-01-02 03:04:05 UTC",
    "kernel": "6.12.0",
    "cores": 2,
    "processor": "a processor",
    "memory": "1000 kB",
    "filesystem": "ext4",
    "python": "3.11.2",
    "euid": 0,
    "load_before": 0.25,
    "load_after": 0.5,
    "cloche": "abc",
    "rounds": 3,
    "versions": {"bwrap": "bubblewrap 0.8.0"},
}
RUN = Results(FACTS, {row.name: [0.004] for row in ROWS[:3]}, {BWRAP: "bwrap is not installed"})
EMPTY = "\n".join(
    ["# Performance", "", *(mark for block in document.BLOCKS for mark in document.marks(block)), "end"]
)


def test_samples_of_a_row_that_nobody_declared_are_refused() -> None:
    sampler = Sampler(["known"])
    sampler.add("known", 1.0, 2.0)
    sampler.miss("known", "because\n of this")
    with pytest.raises(KeyError):
        sampler.add("unknown", 1.0)
    with pytest.raises(KeyError):
        sampler.miss("unknown", "no reason")
    assert sampler.results({"a": 1}) == ({"a": 1}, {"known": [1.0, 2.0]}, {"known": "because of this"})


def test_a_saved_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = results.save(tmp_path / "results", RUN)
    assert results.load(path) == RUN


@pytest.mark.parametrize("content", ["", "[]", '{"facts": {}, "seconds": {}}', '{"version": 1}'])
def test_a_file_that_is_no_run_is_refused_with_the_reason(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"run\.json"):
        results.load(path)


def test_facts_name_this_host(tmp_path: Path) -> None:
    found = results.facts("subject", tmp_path, {})
    assert json.loads(json.dumps(found)) == found
    assert {"kernel", "cores", "processor", "memory", "filesystem", "python", "cloche"} <= set(found)
    assert "unknown" not in (found["memory"], found["filesystem"])


def test_a_document_gets_the_table_and_the_method_between_its_marks() -> None:
    text = document.fill(EMPTY, RUN)
    assert text.startswith("# Performance\n")
    assert text.endswith("end")
    assert "a repository, 7 files; Linux 6.12.0" in text
    assert "bubblewrap 0.8.0" in text
    assert f"| {BWRAP} | not measured: bwrap is not installed |" in text
    assert f"- *{ROWS[0].name}*: {ROWS[0].what}." in text


def test_filling_again_replaces_what_was_there() -> None:
    once = document.fill(EMPTY, RUN)
    assert document.fill(once, RUN) == once
    other = document.fill(once, RUN._replace(facts={**FACTS, "subject": "another"}))
    assert "a repository, 7 files" not in other
    assert other.count("another; Linux") == 1


def test_a_document_without_its_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="no block"):
        document.fill("# Performance\n", RUN)


def test_our_document_has_its_marks() -> None:
    path = Path(document.__file__).parents[1] / "docs" / "performance.md"
    assert document.fill(path.read_text(), RUN).count("written by python -m bench") == len(document.BLOCKS)
