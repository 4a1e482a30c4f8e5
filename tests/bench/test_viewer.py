"""The rows about reviewing a large diff: samples on a small one, and a pager that is not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import rows, table, viewer
from bench.peer import Absent, Command
from bench.peer_delta import delta
from bench.results import Sampler


def test_every_row_of_the_review_has_samples_or_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    sampler, versions = Sampler(rows.NAMES), dict[str, str]()
    viewer.add(sampler, versions, 2, lines=400)
    results = sampler.results({})
    for row in rows.ROWS:
        if row.group != rows.REVIEW:
            assert not results.samples[row.name]
        elif row.name == rows.DELTA:
            assert (
                bool(results.samples[row.name]) == ("delta" in versions) == (row.name not in results.absent)
            )
        else:
            assert table.figures(row, results) is not None, row.name
    assert len(results.samples[rows.OPENED]) == len(results.samples[rows.HELD]) == 2
    assert len(results.samples[rows.PAGED]) == 2 * viewer.PAGES


def test_a_pager_that_is_not_here_or_is_another_program_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert delta() == Absent("delta is not installed (Debian: apt-get install git-delta)")
    program = tmp_path / "delta"
    for said, found in (("delta 0.18.2", Command), ("a minimiser", Absent)):
        program.write_text(f"#!/bin/sh\necho {said}\n")
        program.chmod(0o755)
        assert isinstance(delta(), found)
