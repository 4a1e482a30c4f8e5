"""What the table of differences says of ``process`` and ``supervised`` is what comes of every attack."""

from __future__ import annotations

import json
import sys

import pytest

from backends.tiers import differences
from tests import support
from tests.boundary import attacked


@pytest.mark.parametrize("tier", ["process", "supervised"])
def test_every_attack_comes_to_what_the_table_says_and_is_counted_where_it_says_so(tier: str) -> None:
    done = support.run([sys.executable, "-m", "tests.boundary.attacked", tier], cwd=support.ROOT, timeout=200)
    assert done.code == 0, done.err
    seen = json.loads(done.out)
    attacked.compare(tier, seen["found"])
    attacked.counted(tier, seen["refused"], seen["noticed"])
    assert seen["daemons"] == [1, 0]  # it was there until the box ended
    assert seen["still"]


def test_the_table_has_each_attack_once_with_an_answer_at_every_tier() -> None:
    idents = [row.ident for row in differences.TABLE]
    assert len(set(idents)) == len(idents)
    for row in differences.TABLE:
        for cell in row.cells:
            assert cell.words
            assert (cell.outcome == differences.INSIDE) is ("ok" in cell.words), row.ident
            assert cell.note or cell.outcome != differences.INSIDE, row.ident
        assert not any(row.at(tier).told for tier in ("container", "gvisor", "microvm")), row.ident
    with pytest.raises(ValueError):
        differences.TABLE[0].at("workspace")


def test_no_answer_of_an_attack_is_shown_as_refused_where_it_goes_through() -> None:
    text = differences.render()
    assert text.count("\n| ") == len(differences.TABLE) + 1
    assert "goes through; the bit is on the host's disk too" in text
