"""Trace points: nothing without the variable, one line each with it, and what is held is told once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import trace


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "trace"
    trace.begin(os.fspath(path))
    yield path
    trace.begin("")


def test_a_point_without_a_file_notes_nothing(tmp_path: Path) -> None:
    trace.begin("")
    trace.point("here")
    trace.hold()
    trace.point("there")
    trace.carry(["1 2 elsewhere"])
    assert (trace.on(), trace.held(), list(tmp_path.iterdir())) == (False, [], [])


def test_points_are_lines_of_time_process_and_name(file: Path) -> None:
    trace.point("one step")
    trace.point("another")
    first, second = (line.split(" ", 2) for line in file.read_text().splitlines())
    assert [first[2], second[2]] == ["one step", "another"]
    assert int(first[0]) < int(second[0])
    assert int(first[1]) == os.getpid()
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_held_is_told_once_and_written_by_the_caller(file: Path) -> None:
    trace.hold()
    trace.point("outer")
    trace.hold()
    trace.point("inside")
    lines = trace.held()
    assert [line.split(" ", 2)[2] for line in lines] == ["outer", "inside"]
    assert (trace.held(), file.exists()) == ([], False)
    trace.carry(lines)
    assert file.read_text().splitlines() == lines


def test_only_lines_of_a_trace_are_carried(file: Path) -> None:
    trace.carry(["1 2 good", "x 2 bad time", "1 2", "1 2 two\n3 4 lines", "1 2 \x1b[31m", 7, None])
    assert file.read_text() == "1 2 good\n"


def test_a_point_leaves_no_descriptor_open(file: Path) -> None:
    before = os.listdir("/proc/self/fd")
    trace.point("here")
    assert os.listdir("/proc/self/fd") == before


def test_the_variable_switches_points_on_in_a_new_process(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    code = "from backends import trace; trace.point('child')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "CLOCHE_TRACE": str(path)}, check=True)
    assert path.read_text().endswith(" child\n")
