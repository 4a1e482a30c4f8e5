"""What of a box's output reaches the user's own terminal (kind U2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.outputfilter import LONGEST_STRING, OutputFilter

KEPT = [
    b"plain text\r\n",
    b"\x1b[31mred\x1b[0m \x1b[1;38;5;200mx\x1b[m",
    b"\x1b[2J\x1b[H\x1b[?1049h\x1b[?25l\x1b[10;20Hx\x1b[K",
    b"\x1b7\x1b8\x1bM\x1b=\x1b>\x1b(0lqk\x1b(B\x1b#8",
    b"\x07\x08\t\x0b\x0c",
    "grüße \u201dquoted\u201d 🌱".encode(),
    b"\x1b[6n\x1b[c",  # questions whose answers go to the box
]
DROPPED = [
    (b"a\x1b]0;title\x07b", b"ab"),
    (b"a\x1b]0;title\x1b\\b", b"ab"),
    (b"a\x1b]52;c;aGk=\x07b", b"ab"),
    (b"a\x1b]8;;http://x\x07link\x1b]8;;\x07b", b"alinkb"),
    (b"a\x1bPq#0\x1b\\b", b"ab"),
    (b"a\x1b_Gf=100\x1b\\b", b"ab"),
    (b"a\x1b^pm\x1b\\b", b"ab"),
    (b"a\x1bXsos\x1b\\b", b"ab"),
    (b"a\x1bktitle\x1b\\b", b"ab"),
    (b"a\x1b[21tb", b"ab"),
    (b"a\x1b[22;0tb", b"ab"),
    (b"a\x1b[5ib", b"ab"),
    (b"a\x05b", b"ab"),
    ("a\u009d0;title\u009cb".encode(), b"ab"),
    ("a\u0090q\u009cb".encode(), b"ab"),
    ("a\u009b31mb".encode(), b"a\x1b[31mb"),
    (b"a\x9d0;t\x07b", "a\ufffd0;t\x07b".encode()),  # a bare 0x9D is no OSC to a UTF-8 terminal, nor text
    (b"a\x1b]0;t\x18b", b"ab"),
    (b"a\x1b]0;t\x1b[31mb", b"a\x1b[31mb"),  # another escape ends the string
    (b"a\x1b\x1b]0;t\x07b", b"ab"),
    (b"a\x1b[\x1b]0;t\x07b", b"ab"),
    (b"a\x1b[31\x05mb", b"a\x1b[31mb"),
]


@pytest.mark.parametrize("data", KEPT)
def test_text_colour_and_movement_pass_unchanged(data: bytes) -> None:
    assert OutputFilter().feed(data) == data


@pytest.mark.parametrize(("data", "shown"), DROPPED)
def test_strings_that_a_terminal_would_obey_are_dropped(data: bytes, shown: bytes) -> None:
    assert OutputFilter().feed(data) == shown


@pytest.mark.parametrize(("data", "shown"), DROPPED)
def test_a_sequence_cut_anywhere_is_dropped_as_well(data: bytes, shown: bytes) -> None:
    for cut in range(1, len(data)):
        screen = OutputFilter()
        assert screen.feed(data[:cut]) + screen.feed(data[cut:]) == shown
    screen = OutputFilter()
    assert b"".join(screen.feed(data[i : i + 1]) for i in range(len(data))) == shown


@given(
    st.lists(
        st.sampled_from([b"\x1b", b"]", b"[", b"P", b"k", b"\x07", b"\\", b"0;", b"x", b"\xc2", b"\x9d"])
    )
)
def test_no_order_of_pieces_lets_a_control_string_through(pieces: list[bytes]) -> None:
    screen = OutputFilter()
    out = b"".join(map(screen.feed, pieces))
    for start in (b"\x1b]", b"\x1bP", b"\x1bX", b"\x1b^", b"\x1b_", b"\x1bk", "\u009d".encode()):
        assert start not in out


def test_a_string_without_an_end_does_not_swallow_a_session_for_ever() -> None:
    screen = OutputFilter()
    screen.feed(b"\x1b]52;c;" + b"A" * (LONGEST_STRING + 10))
    assert screen.feed(b"alive") == b"alive"


def test_a_sequence_without_an_end_is_dropped_and_what_follows_is_shown() -> None:
    screen = OutputFilter()
    assert screen.feed(b"\x1b[" + b"9;" * 1000 + b"mshown") == b"shown"


def test_a_terminal_without_utf8_gets_no_byte_that_it_could_obey() -> None:
    shown = OutputFilter(utf8=False).feed("\u201dtext\u009d".encode())
    assert shown == b"?text"
