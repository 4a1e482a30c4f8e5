"""Sending a proposal back in the gate, and reading only what changed since: by keys, with real boxes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.screens.box import BoxScreen
from app.screens.fleet import FleetScreen
from app.screens.request import RequestScreen
from app.screens.review import ReviewScreen
from backends.boxes.manifest import load
from backends.engine import Engine, NewBox, Streams
from tests import support
from tests.workbench.frozen import FLEET, FrozenEngine
from tests.workbench.stage import Play, play
from widgets.diff_view import DiffView
from widgets.file_list import FileList

pytestmark = pytest.mark.flow
NULL = os.open(os.devnull, os.O_RDWR)
FILE = ".cloche-review.md"


def run(engine: Engine, script: str) -> None:
    assert engine.run("b", ["sh", "-ec", script], streams=Streams(NULL, NULL, NULL)).exit == 0


def shown(stage: Play) -> list[bytes]:
    return [change.path for change in stage.app.screen.query_one(FileList).changes]


async def at_review(stage: Play) -> ReviewScreen:
    await stage.until(lambda: stage.app.focused is not None)
    await stage.press("E")
    await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
    screen = stage.app.screen
    assert isinstance(screen, ReviewScreen)
    await stage.until(lambda: screen.decided is not None)
    return screen


@pytest.mark.real
async def test_a_request_a_fix_and_just_the_fix(repo: Path) -> None:
    engine = Engine(repo)
    engine.create(NewBox(name="b", tier="process"))
    run(engine, "printf 'one\\ntwo\\n' > a.txt; printf 'b\\n' > b.txt; printf 'c\\n' > c.txt")
    first = engine.propose("b").id
    async with play(engine, cwd=repo) as stage:
        screen = await at_review(stage)
        await stage.press("i")
        await stage.shows("no proposal of this box was reviewed before this one")
        await stage.press("m")  # a.txt is read; the cursor is on the next file
        await stage.until(lambda: screen.files.reviewed == {b"a.txt"})
        await stage.until(lambda: screen.files.change is not None and screen.files.change.path == b"b.txt")
        await stage.press("minus")
        await stage.until(lambda: screen.total.rejected == 2)
        await stage.press("R")
        await stage.until(lambda: isinstance(stage.app.screen, RequestScreen))
        await stage.shows("Request changes of b", "0 comments", "1 file", "b is idle again")
        await stage.type("say bee")
        await stage.press("ctrl+s")
        await stage.shows("goes on; what you asked for is in ./" + FILE)
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
        await stage.until(lambda: load(engine.find("b")).state == "idle")
    text = (engine.find("b").written / FILE).read_text()
    assert "> say bee\n" in text and "  b.txt, the whole change\n" in text
    kinds = [record.kind for record in engine.journal("b")]
    assert kinds.index("decision") < kinds.index("request")
    run(engine, "echo bee > b.txt; echo fixed >> c.txt")
    second = engine.propose("b").id
    async with play(engine, cwd=repo) as stage:
        screen = await at_review(stage)
        await stage.shows("2 files are not as in your last review")
        assert shown(stage) == [b"a.txt", b"b.txt", b"c.txt"]
        await stage.until(lambda: screen.files.reviewed == {b"a.txt"})
        await stage.press("i")
        await stage.shows("Since the last review 2", "- b", "+ bee")
        assert shown(stage) == [b"b.txt", b"c.txt"]
        await stage.press("space")
        await stage.shows("shown is only what changed")
        await stage.press("J")
        await stage.shows("+ fixed")
        assert "+ c" not in stage.text()
        await stage.press("i")
        await stage.until(lambda: shown(stage) == [b"a.txt", b"b.txt", b"c.txt"])
        await stage.shows("+ c", "+ fixed")
        await stage.press("space")
        await stage.until(lambda: screen.total.accepted > 0)
    found = engine.interdiff("b")
    assert (found.base, found.tree) == (first, second)


@pytest.mark.real
async def test_the_agent_is_told_in_its_terminal(repo: Path) -> None:
    engine = Engine(repo)
    engine.create(NewBox(name="b", tier="process"))
    run(engine, "echo x > a.txt")
    engine.propose("b")
    async with play(engine, cwd=repo) as stage:
        await at_review(stage)
        await stage.press("R")
        await stage.until(lambda: isinstance(stage.app.screen, RequestScreen))
        await stage.type("more")
        await stage.press("tab", "tab", "tab", "enter")
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))
        await stage.shows("session #", "every key goes to it")
        await stage.type("printf wai%s ting; IFS= read -r line; printf %s. $line > told")
        await stage.press("enter")
        await stage.shows("waiting")
        written = engine.find("b").written
        support.wait_until(lambda: load(engine.find("b")).state == "running", "the box runs")
        screen = stage.app.screen
        assert isinstance(screen, BoxScreen)
        await stage.until(lambda: screen.situation().box is not None)
        await stage.until(lambda: screen.row.state == "running")
        screen.do_tell()
        await stage.shows("typed to session")
        await stage.until(lambda: (written / "told").exists() and (written / "told").stat().st_size > 0)
        assert b"Changes.are.requested" in (written / "told").read_bytes().replace(b" ", b".")
        engine.stop("b")


async def test_a_request_has_to_say_something_and_escape_keeps_the_text() -> None:
    engine = FrozenEngine(rows=(FLEET[2],))
    async with play(engine) as stage:
        await at_review(stage)
        await stage.press("R")
        await stage.until(lambda: isinstance(stage.app.screen, RequestScreen))
        await stage.press("ctrl+s")
        await stage.shows("nothing is asked for")
        await stage.type("fix it")
        await stage.press("escape")
        assert isinstance(stage.app.screen, RequestScreen)
        await stage.press("left", "enter")  # from Request to No
        await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
        assert not [verb for verb, _ in engine.asked if verb == "request"]


async def test_a_decision_on_its_way_is_painted_when_all_is_shown_again() -> None:
    engine = FrozenEngine(rows=(FLEET[2],))
    engine.moved = engine.diff._replace(changes=engine.diff.changes[:1], patch=b"")
    async with play(engine) as stage:
        screen = await at_review(stage)
        screen.do_accept()
        screen.do_since()
        await stage.until(lambda: screen.since)
        await stage.until(lambda: screen.total.accepted > 0)
        assert len(shown(stage)) == 1
        await stage.press("i")
        await stage.until(lambda: not screen.since)
        assert len(shown(stage)) == len(engine.diff.changes)
        assert screen.query_one(DiffView).index is screen.index
