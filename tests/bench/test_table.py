"""Figures of a table: what a row says of its samples, its aims, and of not having any."""

from __future__ import annotations

import pytest

from bench import table
from bench.results import Results
from bench.rows import COMMANDS, GROUPS, MAKE, PEERS, RELAY, ROWS, Row

PLAIN = Row("plain", PEERS, "a thing that others do")
OURS = Row("ours", COMMANDS, "our thing", "plain", aim=60, aim_ratio=1.5)
RATE = Row("rate", RELAY, "bytes a second", unit="MB/s")
SLOWED = Row("slowed", RELAY, "the same through something", "rate", "MB/s", least_ratio=0.6)


def results(absent: dict[str, str] | None = None, **samples: list[float]) -> Results:
    return Results({}, samples, absent or {})


def test_a_row_is_told_in_its_own_unit_with_median_p90_least_and_count() -> None:
    found = table.figures(PLAIN, results(plain=[0.004, 0.001, 0.002, 0.010, 0.003]))
    assert found is not None
    assert found[:3] == pytest.approx((3.0, 10.0, 1.0))
    assert (found.samples, found.ratio) == (5, None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0], 1.0), ([1.0, 2.0], 2.0), ([float(n) for n in range(1, 12)], 10.0), ([3.0, 1.0, 2.0], 3.0)],
)
def test_p90_is_a_sample_that_nine_of_ten_do_not_exceed(values: list[float], expected: float) -> None:
    assert table.worst(values, 0.9) == expected


def test_p90_of_a_rate_is_among_the_slow_ones() -> None:
    assert table.worst([float(n) for n in range(1, 12)], 0.9, more_is_better=True) == 2.0
    found = table.figures(RATE, results(rate=[1e6, 2e6, 3e6]))
    assert found is not None
    assert (found.median, found.p90, found.least) == (2.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        ("ms", 0.25, 250.0),
        ("MiB", 3 << 20, 3.0),
        ("KiB", 2048, 2.0),
        ("%", 0.15, 15.0),
        ("MB/s", 4e9, 4000.0),
    ],
)
def test_every_unit_has_its_scale(unit: str, value: float, shown: float) -> None:
    found = table.figures(PLAIN._replace(unit=unit), results(plain=[value]))
    assert found is not None
    assert found.median == pytest.approx(shown)


def test_a_ratio_is_of_medians_and_needs_both() -> None:
    found = table.figures(OURS, results(ours=[0.01, 0.02, 0.9], plain=[0.01, 0.01, 0.5]))
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    alone = table.figures(OURS, results(ours=[0.01], plain=[]))
    assert alone is not None
    assert alone.ratio is None


@pytest.mark.parametrize(
    ("ours", "plain", "said"),
    [
        ([0.050], [0.040], "< 60: met, < 1.5 x: met"),
        ([0.060], [0.030], "< 60: MISSED, < 1.5 x: MISSED"),
        ([0.010], [], "< 60: met"),
    ],
)
def test_an_aim_is_met_or_missed_and_never_guessed(ours: list[float], plain: list[float], said: str) -> None:
    found = table.figures(OURS, results(ours=ours, plain=plain))
    assert found is not None
    assert table.verdict(OURS, found) == said


def test_an_aim_of_p99_looks_at_the_slowest() -> None:
    row = OURS._replace(aim=None, aim_ratio=None, aim_p99=50)
    for slow, said in ((0.049, "p99 49.0 < 50: met"), (0.051, "p99 51.0 < 50: MISSED")):
        found = table.figures(row, results(ours=[0.001] * 30 + [slow]))
        assert found is not None
        assert table.verdict(row, found) == said


def test_an_aim_where_more_is_better_is_a_lower_bound() -> None:
    for value, said in ((7e6, "> 0.6 x: met"), (5e6, "> 0.6 x: MISSED")):
        found = table.figures(SLOWED, results(slowed=[value], rate=[1e7]))
        assert found is not None
        assert table.verdict(SLOWED, found) == said


def test_a_row_without_samples_says_why_in_both_forms() -> None:
    missing = results({"plain": "bwrap is not installed"}, plain=[], ours=[0.05])
    text = table.lines([OURS, PLAIN], missing)
    assert any(" ".join(line.split()) == "plain not measured: bwrap is not installed" for line in text)
    marked = table.markdown([OURS, PLAIN], missing)
    assert "| plain | not measured: bwrap is not installed | | | | | | |" in marked


def test_rows_that_an_option_left_out_are_counted() -> None:
    text = table.lines([OURS, PLAIN], results({"plain": table.LEFT_OUT}, plain=[], ours=[0.05]))
    assert text[-1] == f"1 rows: {table.LEFT_OUT}"
    assert not any(line.strip().startswith("plain") for line in text)
    assert any("plain" in line for line in table.markdown([OURS, PLAIN], results({"plain": table.LEFT_OUT})))


def test_markdown_rows_have_as_many_cells_as_their_head() -> None:
    samples = {row.name: [0.001, 0.002] for row in ROWS[::2]}
    for line in table.markdown(ROWS, Results({}, samples, {})):
        assert not line.startswith("|") or line.count("|") == 9, line


def test_groups_come_in_their_order_and_empty_ones_not_at_all() -> None:
    first = Row("first", MAKE, "made")
    assert table.grouped([PLAIN, OURS, first]) == [(MAKE, [first]), (COMMANDS, [OURS]), (PEERS, [PLAIN])]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.000"), (0.0194, "0.019"), (0.123, "0.12"), (4.14, "4.14"), (45.28, "45.3"), (1439.2, "1439")],
)
def test_numbers_have_the_digits_that_mean_something(value: float, shown: str) -> None:
    assert table.number(value) == shown


def test_declared_rows_are_sound() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert {row.group for row in ROWS} <= set(GROUPS)
    assert [row.name for row in ROWS if row.beside and row.beside not in names] == []
    assert [row.name for row in ROWS if row.unit not in table.SCALES] == []
    assert [row.name for row in ROWS if (row.aim_ratio or row.least_ratio) and not row.beside] == []
    units = {row.name: row.unit for row in ROWS}
    assert [row.name for row in ROWS if row.beside and units[row.beside] != row.unit] == []
    assert [row.name for row in ROWS if row.what.endswith(".") or "|" in row.what] == []
