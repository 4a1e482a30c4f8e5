"""Boxes beside each other: what is the same is told by object ids, and nothing of a box can confuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.engine import Engine, NewBox
from backends.errors import NoSuchBox, Refused, UsageError
from backends.snapshots_compare import ComparedFile
from backends.verbs import comparing
from tests import support
from tests.boxes import provided
from tests.boxes.provided import ONCE, QUIET

FILES = {
    "a": b"a\n",
    "b": b"b\n",
    "moved": b"".join(b"row %d\n" % n for n in range(30)),
    "tool": b"#!/bin/sh\n",
}


repo = provided.repository(FILES)
engine = provided.engine_with()


def work(engine: Engine, name: str, script: str, *, propose: bool = True) -> int:
    engine.create(NewBox(name=name))
    code = engine.run(name, ["sh", "-c", script], streams=QUIET).exit
    if propose:
        engine.propose(name)
    return code


def by_path(files: tuple[ComparedFile, ...]) -> dict[bytes, list[tuple[int, str] | None]]:
    return {file.path: [(one.number, one.status) if one else None for one in file.versions] for file in files}


def test_equal_numbers_are_the_same_to_the_byte(engine: Engine) -> None:
    work(engine, "one", "echo x >> a; echo same > new; rm b; git mv moved away; chmod +x tool; echo l > link")
    work(engine, "two", "echo x >> a; echo same > new; echo other > b; chmod +x tool; ln -s a link")
    work(engine, "three", "echo y >> a; echo same > new; chmod +x new; printf 'a\\0' > data", propose=False)
    found = engine.compare(["one", "two", "three"])
    assert found.one_base and found.more == 0
    assert by_path(found.files) == {
        b"a": [(1, "M"), (1, "M"), (2, "M")],
        b"away": [(1, "R"), None, None],
        b"b": [(1, "D"), (2, "M"), None],
        b"data": [None, None, (1, "A")],
        b"link": [(1, "A"), (2, "A"), None],
        b"moved": [(1, "D"), None, None],
        b"new": [(1, "A"), (1, "A"), (2, "A")],
        b"tool": [(1, "M"), (1, "M"), None],
    }
    assert [file.numbers for file in found.files if file.path in (b"a", b"tool", b"data")] == [2, 1, 1]
    data = next(file for file in found.files if file.path == b"data").versions[2]
    assert data is not None and (data.added, data.deleted) == (None, None)
    one, two, three = found.boxes
    assert [box.frozen for box in found.boxes] == [True, True, False]
    assert one.tree == engine.review("one").snapshot.id and one.stat.files == 6
    assert three.size == 4 + 5 + 2 and two.row.name == "two"


def test_tests_refusals_and_tries_stand_in_their_box(engine: Engine) -> None:
    work(engine, "one", "printf 'test:\\n\\ttrue\\n' > Makefile; echo x > /usr/no", propose=False)
    assert engine.run("one", ["sh", "-c", "exit 0"], streams=QUIET).exit == 0
    code = engine.run("one", ["pytest", "-q"], streams=QUIET).exit
    engine.propose("one")
    engine.try_accepted("one", ["sh", "-c", "exit 4"], streams=QUIET)
    work(engine, "two", "echo x > x")
    one, two = engine.compare(["one", "two"]).boxes
    assert [(test.argv, test.exit) for test in one.tests] == [(("pytest", "-q"), code)]
    assert (one.sessions, one.denied, [trial.exit for trial in one.tried]) == (3, 1, [4])
    assert (two.sessions, two.denied, two.tests, two.tried) == (1, 0, (), ())
    assert one.seconds >= sum(test.seconds or 0 for test in one.tests) >= 0


@ONCE
def test_tests_that_a_box_ran_by_itself_stand_there_with_their_exit(engine: Engine) -> None:
    script = "printf '#!/bin/sh\\nexit $1\\n' > tox; chmod +x tox; sh do"
    do = "printf './tox 3; ./tox 3; ./tox 0; true' > do"
    work(engine, "one", f"{do}; {script}")
    work(engine, "two", f"{do}; {script}", propose=False)
    for box in engine.compare(["one", "two"]).boxes:
        told = [(one.argv[-1], one.exit, one.inside) for one in box.tests if one.argv[0] == "./tox"]
        assert told == [("3", 3, True), ("0", 0, True)]


def test_one_file_of_two_boxes_is_set_against_each_other(engine: Engine) -> None:
    work(engine, "one", "printf 'a\\nfirst\\n' > a; echo same > new; echo only > mine; rm b")
    work(engine, "two", "printf 'a\\nsecond\\n' > a; echo same > new; echo bb > b")
    found = engine.compare(["one", "two"])
    trees = (found.boxes[0].tree, found.boxes[1].tree)
    diff = engine.between("one", "two", b"a", trees)
    assert [(one.path, one.status, one.added, one.deleted) for one in diff.changes] == [(b"a", "M", 1, 1)]
    assert b"\n-first\n+second\n" in diff.patch and (diff.base, diff.tree) == trees
    back = engine.between("two", "one", b"a", (trees[1], trees[0]))
    assert b"\n-second\n+first\n" in back.patch
    assert engine.between("one", "two", b"new", trees).changes == ()
    assert [one.status for one in engine.between("one", "two", b"mine", trees).changes] == ["D"]
    assert [one.status for one in engine.between("one", "two", b"b", trees).changes] == ["A"]
    assert engine.between("one", "two", b"not there", trees).patch == b""


@pytest.mark.boundary
@ONCE
def test_names_of_a_box_are_names_and_nothing_else(engine: Engine, tmp_path: Path) -> None:
    names = (b"*", b":(top)a", b"--output=x", b"n\xff\n\x1b[2J", b"-p")
    odd = "\"$(printf 'n\\377\\n\\033[2J')\""
    script = f"for n in '*' ':(top)a' '--output=x' {odd} '-p'; do echo $0 > ./\"$n\"; done"
    for name in ("one", "two"):
        engine.create(NewBox(name=name))
        assert engine.run(name, ["sh", "-c", script, name], streams=QUIET).exit == 0
        engine.propose(name)
    found = engine.compare(["one", "two"])
    assert {file.path for file in found.files} == set(names)
    trees = (found.boxes[0].tree, found.boxes[1].tree)
    for path in names:
        diff = engine.between("one", "two", path, trees)
        assert [change.path for change in diff.changes] == [path], path
        assert b"-one\n+two\n" in diff.patch
    assert not Path("/x").exists() and not (tmp_path / "repo" / "x").exists()


@pytest.mark.parametrize("tree", ["HEAD", "--output=/tmp/x", "4b825dc", "refs/heads/main", "0" * 41, ""])
@ONCE
def test_a_tree_is_named_by_its_id_alone(engine: Engine, tree: str) -> None:
    work(engine, "one", "echo x > x")
    work(engine, "two", "echo y > x")
    with pytest.raises(Refused):
        engine.between("one", "two", b"x", (tree, engine.review("two").snapshot.id))


@ONCE
def test_what_is_too_large_is_not_set_against_each_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_PATCH", 10)
    work(engine, "one", "echo 1234567890 > x")
    work(engine, "two", "echo y > x")
    found = engine.compare(["one", "two"])
    with pytest.raises(Refused) as caught:
        engine.between("one", "two", b"x", (found.boxes[0].tree, found.boxes[1].tree))
    assert caught.value.code == "too-large"


@ONCE
def test_the_list_of_files_is_bounded_and_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_FILES", 3)
    work(engine, "one", "for n in 1 2 3 4 5; do echo $n > $n; done")
    work(engine, "two", "true", propose=False)
    found = engine.compare(["one", "two"])
    assert [file.path for file in found.files] == [b"1", b"2", b"3"] and found.more == 2
    assert found.boxes[0].stat.files == 5


@ONCE
def test_boxes_of_different_bases_are_told(engine: Engine) -> None:
    work(engine, "one", "echo x > x")
    support.git(engine.cwd, "commit", "-q", "--allow-empty", "-m", "on")
    work(engine, "two", "echo x > x")
    found = engine.compare(["one", "two"])
    assert not found.one_base and by_path(found.files) == {b"x": [(1, "A"), (1, "A")]}


def test_a_live_box_is_read_as_it_is_and_goes_on(engine: Engine) -> None:
    work(engine, "one", "echo x > x; sleep 600 >/dev/null 2>&1 </dev/null &", propose=False)
    work(engine, "two", "echo x > x")
    found = engine.compare(["one", "two"])
    assert by_path(found.files) == {b"x": [(1, "A"), (1, "A")]}
    assert [box.frozen for box in found.boxes] == [False, True]
    assert any("sleep" in row.command for row in engine.processes("one"))


@ONCE
def test_what_cannot_be_compared_is_said(engine: Engine) -> None:
    work(engine, "one", "true", propose=False)
    for names in ([], ["one"], ["one", "one"], ["one"] * 13):
        with pytest.raises(UsageError):
            engine.compare(names)
    with pytest.raises(NoSuchBox):
        engine.compare(["one", "nobody"])


def test_boxes_whose_repositories_hash_otherwise_are_not_set_against_each_other(
    home: object, tmp_path: Path
) -> None:
    made = tmp_path / "other"
    made.mkdir()
    support.git(made, "init", "-q", "-b", "main", "--object-format=sha256")
    (made / "a").write_text("a\n")
    support.git(made, "add", "-A")
    support.git(made, "commit", "-q", "-m", "first")
    first, second = Engine(support.make_repo(tmp_path / "repo", FILES)), Engine(made)
    work(first, "one", "echo x > a")
    work(second, "two", "echo y > a")
    found = first.compare(["one", second.find("two").key])
    assert not found.one_base
    with pytest.raises(Refused) as caught:
        first.between("one", second.find("two").key, b"a", (found.boxes[0].tree, found.boxes[1].tree))
    assert caught.value.code == "other-hash"
