"""Deciding about what a real box proposed: kept at every act, told in the journal, carried to the next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.engine import Engine, NewBox, Streams
from backends.errors import Busy, Refused
from backends.gate.patch import ACCEPTED, MODE, REJECTED, compose_tree, everything, selected_patch
from backends.verbs.reviewing import Desk
from tests import support
from tests.support import Done

Cli = Callable[..., Done]
NULL = os.open(os.devnull, os.O_RDWR)
CHANGE = (
    "sed -i s/add/plus/ src/add.py; printf 'new\\nlines\\n' > fresh; chmod 755 fresh; rm README.md;"
    "printf 'a\\0b' > data; ln -s fresh link; printf 'x\\n' > \"$(printf 'n\\377\\033]0;t\\007')\""
)
ODD = b"n\xff\x1b]0;t\x07"


def run(engine: Engine, script: str) -> None:
    assert engine.run("b", ["sh", "-c", script], streams=Streams(NULL, NULL, NULL)).exit == 0


@pytest.fixture
def engine(repo: Path) -> Engine:
    """A box that is proposed."""
    made = Engine(repo)
    made.create(NewBox(name="b"))
    run(made, CHANGE)
    made.propose("b")
    return made


def sittings(engine: Engine) -> list[dict[str, object]]:
    return [dict(record.data) for record in engine.journal("b") if record.kind == "decision"]


def test_what_is_decided_is_there_after_the_desk_is_gone(engine: Engine) -> None:
    desk = engine.decisions("b", "ann")
    file = desk.file(b"src/add.py")
    desk.set([(file.path, file.hunk(0))], ACCEPTED)
    desk.set([(b"fresh", desk.file(b"fresh").part(MODE))], REJECTED)
    desk.mark(b"src/add.py")
    desk.comment(b"fresh", "new", 2, "which lines?", b"lines")
    # Not closed, as after a crash: everything but the journal's record is there.
    progress = engine.review("b").progress
    assert progress is not None and sittings(engine) == []
    rows = {one.path: one for one in progress.files}
    assert set(rows) == {b"src/add.py", b"fresh", b"README.md", b"data", b"link", ODD}
    assert (rows[b"src/add.py"].accepted, rows[b"src/add.py"].undecided) == (2, 0)
    assert rows[b"src/add.py"].reviewed and not rows[b"fresh"].reviewed
    assert rows[b"fresh"].parts == (("exists", "undecided"), ("mode", "rejected"))
    assert [(c.path, c.line, c.text, c.who, c.quote) for c in progress.comments] == [
        (b"fresh", 2, "which lines?", "ann", "lines")
    ]
    again = engine.decisions("b", "ann")
    again.undo()
    again.undo()
    assert again.review.history.now.files == {}
    again.redo()
    again.close()
    again.close()
    (told,) = sittings(engine)
    wanted = ("who", "scripted", "accepted", "rejected", "reviewed", "comments")
    assert {key: told[key] for key in wanted} == {
        "who": "ann", "scripted": False, "accepted": 2, "rejected": 0, "reviewed": 1, "comments": 1,
    }  # fmt: skip
    assert told["decisions"] == again.progress().digest
    with pytest.raises(Busy):
        desk.undo()
    assert desk.reload() == again.review


def test_the_selection_of_a_real_proposal_applies(engine: Engine, repo: Path) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set(everything(desk.patch), ACCEPTED)
        assert compose_tree(desk.git, desk.selection()) == desk.snapshot.id
        desk.set([(b"README.md", desk.file(b"README.md").all)], REJECTED)
        desk.set([(b"fresh", desk.file(b"fresh").new_lines(1, 1))], REJECTED)
        selection = desk.selection()
        text, tree = selected_patch(desk.git, selection), compose_tree(desk.git, selection)
        made = desk.git.run("ls-tree", "-r", "--full-tree", tree)
    support.git(repo, "apply", "--check", "-", stdin=text)
    support.git(repo, "apply", "--index", "-", stdin=text)
    assert support.git(repo, "write-tree") == tree
    assert (repo / "fresh").read_bytes() == b"lines\n" and (repo / "README.md").exists()
    assert b"120000" in made


def test_a_desk_that_changed_nothing_leaves_no_record(engine: Engine) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"data", desk.file(b"data").all)], ACCEPTED)
        desk.undo()
    assert sittings(engine) == []


def test_the_next_proposal_keeps_what_is_the_same_and_tells_what_is_not(engine: Engine) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set(everything(desk.patch), ACCEPTED)
        desk.mark(b"fresh")
        desk.mark(b"data")
    first = engine.review("b").snapshot.id
    engine.reopen("b")
    with pytest.raises(Refused) as caught:
        engine.decisions("b", "ann")
    assert caught.value.code == "no-proposal"
    run(engine, "echo more >> fresh; rm link; echo other > other")
    engine.propose("b")
    progress = engine.review("b").progress
    assert progress is not None and progress.since == first
    assert dict(progress.moved) == {b"fresh": "changed", b"link": "dropped", b"other": "added"}
    rows = {one.path: one for one in progress.files}
    assert [(rows[path].reviewed, rows[path].accepted) for path in (b"data", b"fresh", b"other")] == [
        (True, 1), (False, 0), (False, 0),
    ]  # fmt: skip


def test_a_proposal_with_rejected_parts_is_not_applied_whole(engine: Engine, repo: Path, cli: Cli) -> None:
    tip = support.git(repo, "rev-parse", "main")
    assert cli("accept", "b", "src/add.py:1", "--reject").code == 0
    done = cli("apply", "b", "--as", "t", "--json")
    assert done.code == 3 and json.loads(done.err)["code"] == "nothing-accepted"
    assert support.git(repo, "rev-parse", "main") == tip
    assert cli("accept", "b", "--all").code == 0
    assert cli("apply", "b", "--as", "t", "--acknowledge", "all").code == 0
    assert support.git(repo, "rev-parse", "main") != tip


def test_accept_by_words(engine: Engine, cli: Cli) -> None:
    done = cli("accept", "b", "src/add.py:@1", "fresh:2,mode", "--as", "bot", "--json")
    assert done.code == 0, done.err
    value = json.loads(done.out)
    assert (value["state"], value["accepted"], value["rejected"]) == ("accepted", 4, 0)
    assert [one["path"] for one in value["files"]] == ["fresh", "src/add.py"]
    assert value["files"][1]["hunks"][0]["accepted"] == 2
    odd = os.fsdecode(ODD)
    assert cli("accept", "b", odd, "--reject").code == 0
    shown = cli("review", "b")
    assert shown.code == 0 and "\x1b" not in shown.out and "n\\xff\\x1b]0;t\\x07" in shown.out
    value = json.loads(cli("review", "b", "--json").out)
    assert (value["accepted"], value["rejected"]) == (4, 2)
    assert cli("accept", "b", "--all", "--undecide").code == 0
    first, second, third = sittings(engine)
    assert (first["who"], first["scripted"], second["scripted"]) == ("bot", True, False)
    assert (second["rejected"], third["rejected"], third["accepted"]) == (2, 0, 0)
    assert not cli("review", "b").err.startswith("Traceback")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "name files"),
        (("fresh", "--all"), 2, "--all names"),
        (("fresh", "--reject", "--undecide"), 2, "exclude"),
        (("nowhere",), 3, "no file of the proposal"),
        (("fresh:@7",), 2, "names nothing"),
        (("fresh:content",), 2, "names nothing"),
        (("fresh", "--as", " "), 3, "empty"),
        (("fresh", "--expect", "0" * 40), 3, "snapshot"),
        (("fresh", "nowhere"), 3, "no file of the proposal"),
    ],
)
def test_words_that_cannot_be_meant_change_nothing(
    engine: Engine, cli: Cli, words: tuple[str, ...], code: int, said: str
) -> None:
    done = cli("accept", "b", *words)
    assert done.code == code and said in done.err
    assert not engine.find("b").review.exists() and sittings(engine) == []


def test_a_damaged_review_says_how_to_begin_anew(engine: Engine, cli: Cli) -> None:
    path = engine.find("b").review
    path.write_text("{}")
    done = cli("review", "b", "--json")
    error = json.loads(done.err)
    assert (done.code, error["code"]) == (3, "review-damaged") and str(path) in error["next"]
    path.unlink()
    assert cli("review", "b").code == 0


def test_a_box_that_is_not_proposed_cannot_be_decided_about(repo: Path) -> None:
    engine = Engine(repo)
    engine.create(NewBox(name="b"))
    with pytest.raises(Refused) as caught:
        engine.decisions("b", "ann")
    assert caught.value.code == "no-proposal" and isinstance(caught.value, Refused)


def test_nothing_of_a_desk_is_left_when_its_box_is_removed(engine: Engine) -> None:
    with engine.decisions("b", "ann") as desk:
        assert isinstance(desk, Desk)
        desk.set(everything(desk.patch), ACCEPTED)
    root = engine.find("b").root
    assert {"review.json", "review.lock"} <= set(os.listdir(root))
    engine.remove("b")
    assert not root.exists()
