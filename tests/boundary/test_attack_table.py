"""What the table of differences says of ``process`` and ``supervised`` is what comes of every attack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.tiers import differences
from tests.boundary import attacked
from tests.container.world import World

NETWORKS = {
    "process": 'net.mode = "deny"',
    "supervised": 'net.mode = "allow"\nnet.egress = ["203.0.114.5:443"]',
}


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Path(tempfile.mkdtemp(prefix="cloche-attacked-", dir="/tmp")))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("tier", ["process", "supervised"])
def test_every_attack_comes_to_what_the_table_says_and_is_counted_where_it_says_so(
    world: World, tier: str
) -> None:
    with (world.root / "c" / "cloche" / "config.toml").open("a") as file:
        file.write('[profiles.attacked]\nextends = "default"\ntree = "checkout"\n')
        file.write(f"{attacked.RESOURCES}\n{NETWORKS[tier]}\n")
    done = world.cloche("new", tier, "--tier", tier, "--profile", "attacked")
    assert done.code == 0, done.err
    [box] = (world.root / "s" / "cloche").glob(f"*/{tier}")
    attacked.compared(world, box, tier)


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
