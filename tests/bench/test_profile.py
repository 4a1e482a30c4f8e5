"""Traces to a profile: order, processes, rounds."""

from __future__ import annotations

import pytest

from bench import profile
from bench.profile import Point

MS = 1_000_000


def trace(*points: tuple[float, int, str]) -> list[Point]:
    return [Point(int(when * MS), pid, name) for when, pid, name in points]


def test_lines_are_read_in_the_order_of_time_and_names_keep_their_spaces() -> None:
    assert profile.read("20 7 second step\n10 1 first\n") == [
        Point(10, 1, "first"),
        Point(20, 7, "second step"),
    ]
    with pytest.raises(ValueError, match="unpack"):
        profile.read("10 1\n")


def test_points_are_told_by_process_with_both_distances() -> None:
    points = trace((0, 5, "begin"), (2, 5, "asked"), (5, 1, "proved"), (6, 9, "ready"), (10, 5, "end"))
    assert [step[:5] for step in profile.steps([points])] == [
        ("command", "begin", 0.0, 0.0, 0.0),
        ("command", "asked", 2.0, 2.0, 2.0),
        ("init", "proved", 5.0, 3.0, 3.0),
        ("keeper", "ready", 6.0, 1.0, 1.0),
        ("command", "end", 10.0, 4.0, 8.0),
    ]


def test_a_command_line_of_its_own_is_the_command_too() -> None:
    points = trace((0, 5, "begin"), (9, 6, "interpreter"), (12, 6, "asked"), (13, 5, "end"))
    assert [step.process for step in profile.steps([points])] == ["command"] * 4


def test_rounds_make_medians_and_rare_points_say_how_often() -> None:
    rounds = [trace((0, 5, "begin"), (n, 5, "end")) for n in (1, 2, 9)]
    rounds[0].insert(1, Point(MS // 2, 5, "seldom"))
    found = {step.name: step for step in profile.steps(rounds)}
    assert (found["end"].at, found["end"].seen, found["seldom"].seen) == (2.0, 3, 1)
    assert any("seldom  (in 1 rounds)" in line for line in profile.lines("title", list(found.values()), 3))


def test_a_repeated_point_is_told_apart_and_what_follows_the_end_is_left_out() -> None:
    points = trace((0, 5, "begin"), (1, 5, "turn"), (2, 5, "turn"), (3, 5, "end"), (4, 9, "later"))
    assert [step.name for step in profile.steps([points])] == ["begin", "turn", "turn (2)", "end"]


def test_mounts_of_one_kind_in_a_row_are_one_step() -> None:
    points = trace(
        (0, 5, "begin"),
        (1, 1, "root: the grant /etc/a"),
        (3, 1, "root: the grant /etc/b"),
        (4, 1, "root: the grant /x"),
    )
    assert [(step.name, step.after) for step in profile.steps([points])] == [
        ("begin", 0.0),
        ("root: grants below /etc", 3.0),
        ("root: grants", 1.0),
    ]
