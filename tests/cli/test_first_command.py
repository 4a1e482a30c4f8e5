"""``cloche new NAME -- CMD``: a box and its first command in one go."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests import support

Cli = Callable[..., support.Done]


def test_a_first_commands_streams_and_exit_code_pass_through(cli: Cli) -> None:
    done = cli("new", "first", "--", "sh", "-c", "cat; pwd; echo aside >&2; exit 7", stdin=b"typed\n")
    assert (done.code, done.out) == (7, "typed\n/work\n")
    assert "aside" in done.err
    assert "box first: tier process" in done.err
    (row,) = json.loads(cli("ls", "--json").out)["boxes"]
    assert (row["name"], row["state"], row["needs"]) == ("first", "idle", "its last command failed (7)")


def test_the_name_is_told_beside_the_commands_output_where_none_was_given(cli: Cli) -> None:
    done = cli("new", "--", "true")
    assert (done.code, done.out) == (0, "")
    (row,) = json.loads(cli("ls", "--json").out)["boxes"]
    assert f"box {row['name']}: " in done.err


def test_both_documents_go_to_standard_error_with_a_command(cli: Cli) -> None:
    done = cli("new", "told", "--json", "--", "echo", "out")
    assert (done.code, done.out) == (0, "out\n")
    made, ran = map(json.loads, done.err.splitlines())
    assert (made["schema"], made["box"]["name"]) == ("cloche.new/1", "told")
    assert (ran["schema"], ran["exit"], ran["box"]) == ("cloche.run/1", 0, made["box"]["key"])


def test_a_box_that_cannot_be_made_runs_nothing(cli: Cli) -> None:
    assert cli("new", "twice").code == 0
    done = cli("new", "twice", "--", "echo", "ran")
    assert (done.code, done.out) == (5, "")
    assert "there is a box twice already" in done.err


def test_a_command_without_the_two_hyphens_is_a_mistake_and_makes_no_box(cli: Cli) -> None:
    done = cli("new", "name", "true")
    assert done.code == 2
    assert "cloche new NAME -- CMD" in done.err
    assert json.loads(cli("ls", "--json").out)["boxes"] == []


@pytest.mark.parametrize(("words", "code"), [(("ls",), 0), (("run", "none", "--", "true"), 4)])
def test_what_was_written_arrives_although_the_interpreter_is_not_taken_apart(
    cli: Cli, words: tuple[str, ...], code: int
) -> None:
    done = cli(*words)
    assert done.code == code
    assert done.err.endswith("\n")
