"""Accepting a change of a profile: a person sees the diff and says yes, a script gives its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.quick import ran
from tests.cli.screen import Screen
from tests.support import Done

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]
HOSTILE = "/usr/\x1b]0;title\x07[bold]x"


@pytest.fixture
def box(repo: Path) -> Path:
    """A box that was refused two writes; returns the person's file."""
    (repo / "cloche.toml").write_text("[profiles.default.resources]\nprocs = 99 # few\n")
    ran(repo, f"echo x > /usr/no; echo x > /usr/no; printf x > '{HOSTILE}'; true")
    return repo / "cloche.toml"


def test_yes_writes_the_diff_that_was_shown(box: Path, repo: Path, cli: Cli) -> None:
    before = box.read_text()
    with Screen(repo, "allow", "b", "resources.procs=198", cols=160) as screen:
        text = screen.until(b"type yes to accept: ").decode()
        assert "resources.procs becomes 198" in text and "-procs = 99 # few" in text
        assert "+procs = 198 # few" in text and str(box) in text and "next start" in text
        assert box.read_text() == before, "nothing is written before somebody says yes"
        screen.type(b"yes\n")
        assert screen.wait() == 0
    assert box.read_text() == "[profiles.default.resources]\nprocs = 198 # few\n"
    records = json.loads(cli("log", "b", "--json").out)["records"]
    (told,) = [record["data"] for record in records if record["kind"] == "policy"]
    assert told["scripted"] is False and told["who"]


@pytest.mark.parametrize("answer", [b"no\n", b"\n", b"y\n", b"\x04"])
def test_anything_else_writes_nothing(box: Path, repo: Path, answer: bytes) -> None:
    before = box.read_text()
    with Screen(repo, "allow", "b", "resources.procs=198") as screen:
        screen.until(b"type yes to accept: ")
        screen.type(answer)
        assert screen.wait() == 3
    assert box.read_text() == before


def test_a_script_gives_its_name_and_cannot_do_without(box: Path, cli: Cli) -> None:
    before = box.read_text()
    for words, code in ((("--yes",), 2), (("--as", "bot"), 3), ((), 3)):
        assert cli("allow", "b", "resources.procs=198", *words).code == code
        assert box.read_text() == before
    assert cli("allow", "b", "resources.procs=198", "--yes", "--as", "bot").code == 0
    assert "198" in box.read_text()
    records = json.loads(cli("log", "b", "--json").out)["records"]
    (told,) = [record["data"] for record in records if record["kind"] == "policy"]
    assert (told["scripted"], told["who"]) == (True, "bot")
    assert cli("allow", "b", "resources.procs=198", "--yes", "--as", "bot").code == 3, "it has it already"


def test_a_refusal_is_named_by_its_number_or_its_object(box: Path, cli: Cli) -> None:
    shown = json.loads(cli("explain", "b", "1", "--json").out)["explanations"]
    assert [(one["object"], one["count"]) for one in shown] == [("/usr/no", 2)]
    assert cli("explain", "b", "/usr/no", "--json").out == cli("explain", "b", "1", "--json").out
    for words in (
        ("explain", "b", "9"),
        ("explain", "b", "/nowhere"),
        ("allow", "b", "77", "--yes", "--as", "t"),
    ):
        done = cli(*words)
        assert done.code == 2 and "cloche denials b" in done.err
    done = cli("allow", "b", "/usr/no", "--yes", "--as", "t")
    assert done.code == 3 and "does not exist" in done.err, "a grant of what is not there cannot be made"
    done = cli("allow", "b", "pypi.org", "--yes", "--as", "t")
    assert done.code == 3 and "never widened" in done.err


def test_what_a_box_asked_for_is_shown_without_its_control_characters(box: Path, cli: Cli) -> None:
    done = cli("explain", "b", HOSTILE)
    assert done.code == 0 and "\x1b" not in done.out and "\x07" not in done.out
    assert "cannot see" in done.out


def test_a_draft_goes_to_standard_output_alone(box: Path, cli: Cli, repo: Path) -> None:
    done = cli("learn", "b", "--name", "lean")
    assert done.code == 0
    box.write_text(box.read_text() + done.out)
    assert cli("policy", "check").code == 0
    assert "not observed" in done.err and "reads" in done.err
    assert cli("learn", "b", "--name", "a b").code == 2
