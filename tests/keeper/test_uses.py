"""What a box uses of its grants is told once for each place, and bounded by the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backends.keeper.reach import EXEC, READ, WRITE, Reach
from backends.keeper.uses import MOST_PLACES, WHOLE, Uses
from tests.keeper.boxes import POLICY


def collect() -> tuple[Uses, list[tuple[str, Any]]]:
    told: list[tuple[str, Any]] = []

    def record(kind: str, data: Mapping[str, object]) -> None:
        told.append((kind, data["rows"]))

    return Uses(record), told


def test_each_place_right_below_a_grant_is_told_once() -> None:
    uses, told = collect()
    for path in (b"/usr/lib/a", b"/usr/lib/b/c", b"/usr/bin/cc", b"/usr"):
        uses.seen("fs.read", b"/usr", path)
    uses.tick()
    uses.seen("fs.read", b"/usr", b"/usr/lib/z")
    uses.seen("fs.read", b"/", b"/opt/\xff/x")
    uses.tick()
    uses.tick()
    assert told == [
        ("used", [("fs.read", "/usr", "lib"), ("fs.read", "/usr", "bin"), ("fs.read", "/usr", "")]),
        ("used", [("fs.read", "/", "opt")]),
    ]


@given(st.lists(st.binary(max_size=6), max_size=200))
def test_a_grant_of_many_places_is_told_as_a_whole_and_no_further(names: list[bytes]) -> None:
    uses, told = collect()
    for name in names:
        uses.seen("fs.read", b"/srv", b"/srv/" + name)
    uses.tick()
    rows = told[0][1] if told else []
    assert len(rows) <= MOST_PLACES + 1
    assert (WHOLE in [place for _, _, place in rows[MOST_PLACES:]]) == (len(rows) > MOST_PLACES)


def test_a_verdict_names_the_entry_that_allowed_and_none_of_the_boxs_own_places() -> None:
    fs = POLICY.fs._replace(read=("/usr", "/usr/share/x"), write=("/srv/cache",), deny=("/usr/share/x/no",))
    reach = Reach(POLICY._replace(fs=fs), "/work", "/home/box", "/root")
    assert reach.judge(b"/usr/bin/cc", EXEC).grant == b"/usr"
    assert reach.judge(b"/usr/share/x/y", READ).grant == b"/usr/share/x"
    assert reach.judge(b"/srv/cache/y", WRITE).grant == b"/srv/cache"
    for path, want in (
        (b"/usr/bin/cc", WRITE),
        (b"/work/x", WRITE),
        (b"/usr/share/x/no/y", READ),
        (b"/q", READ),
    ):
        assert reach.judge(path, want).grant == b""
