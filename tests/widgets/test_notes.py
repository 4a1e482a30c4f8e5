"""Notes between places: a line of the view is one of either, and no text gets out of its bounds."""

from __future__ import annotations

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.patches import EDITS, Edit, file
from widgets.ink import line, plain, width_of
from widgets.notes import MOST_LINES, NO_NOTES, TOP, Note, Notes, lay_out, note_lines
from widgets.patch import index_patch
from widgets.shown import one_column, two_columns


@given(st.dictionaries(st.integers(-1, 30), st.integers(1, 5)), st.integers(1, 31))
def test_every_line_is_a_place_or_a_line_of_a_note_and_places_keep_their_order(
    heights: dict[int, int], places: int
) -> None:
    heights = {place: height for place, height in heights.items() if place < places}
    notes = Notes({place: [line(f"{place}.{n}") for n in range(heights[place])] for place in heights})
    expected: list[tuple[int, str]] = []
    for place in range(-1, places):
        if place >= 0:
            assert notes.line_of(place) == len(expected)
            expected.append((place, ""))
        expected += [(place, f"{place}.{n}") for n in range(heights.get(place, 0))]
    found = [notes.find(number) for number in range(len(expected))]
    assert [(place, plain(said) if said is not None else "") for place, said in found] == expected
    assert notes.total == sum(heights.values())
    assert notes.find(len(expected)) == (places, None)


def test_without_notes_a_place_is_its_line() -> None:
    assert (NO_NOTES.total, NO_NOTES.line_of(7), NO_NOTES.height(7), NO_NOTES.find(7)) == (0, 7, 1, (7, None))


@given(EDITS, st.sampled_from(["old", "new"]), st.integers(1, 12))
def test_a_note_stands_under_its_line_in_both_layouts_or_under_one_above(
    lines: list[Edit], side: str, number: int
) -> None:
    index = index_patch(file(lines))
    rows = (1, len(index))
    numbers = index.old if side == "old" else index.new
    has = [row for row in range(*rows) if numbers[row] == number]
    for shown in (one_column(index, *rows), two_columns(index, *rows)):
        notes = lay_out([Note(side, number, line("who"), "text")], index, shown, rows, 80)
        (place,) = [place for place in range(TOP, len(shown)) if notes.height(place) > 1]
        if has:
            assert has[0] in shown.rows_at(place)
        elif place != TOP:
            assert all(numbers[row] < number for row in shown.rows_at(place))


@given(st.text(max_size=400), st.integers(20, 120))
def test_whatever_a_comment_says_stays_in_its_width_and_says_no_control(text: str, width: int) -> None:
    for made in note_lines(Note("new", 1, line("who"), text), width):
        assert width_of(made) <= width
        assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & {category(char) for char in plain(made)}


def test_a_long_comment_is_cut_and_says_so() -> None:
    made = note_lines(Note("new", 1, line("who"), "x\n" * 5000), 80)
    assert len(made) == MOST_LINES
    assert "… more" in plain(made[-1])


def test_in_two_columns_a_note_stands_beside_its_own_side() -> None:
    index = index_patch(file([("-", b"a"), ("+", b"b")]))
    rows = (1, len(index))
    shown = two_columns(index, *rows)
    said = [
        Note("old", 1, line("left"), "l"),
        Note("new", 1, line("right"), "r"),
        Note("new", 0, line("all"), "f"),
    ]
    notes = lay_out(said, index, shown, rows, 80, 40)
    found = [plain(said) for _, said in (notes.find(number) for number in range(8)) if said is not None]
    assert [text.find("┃") for text in found] == [2, 2, 2, 2, 42, 42]
    assert found[0].endswith("all")
