"""G12: a source repository that was moved is named as such, and its boxes follow it; nothing is pruned."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes import manifest
from backends.boxes.layout import BoxPaths, repository_key, state_dir
from backends.engine import Engine, NewBox, Streams
from backends.evidence import journal
from tests import support
from tests.doctor.conftest import Look

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)
Cli = Callable[..., support.Done]


def moved(repo: Path) -> Path:
    place = repo.with_name("elsewhere")
    repo.rename(place)
    return place


def below(place: Path, name: str) -> BoxPaths:
    return BoxPaths(state_dir() / repository_key(place / ".git") / name)


@pytest.mark.usefixtures("kept")
def test_three_boxes_of_a_moved_repository_are_relocated_and_follow_it(
    engine: Engine, repo: Path, cli: Cli
) -> None:
    for name in ("one", "two", "three"):
        engine.make(NewBox(name=name))
    engine.run("one", ["sh", "-c", "echo mine > new.txt"], streams=QUIET)
    engine.stop("one")
    place = moved(repo)
    refs = support.git(place, "for-each-ref", "refs/cloche")

    done = cli("doctor", "--json", cwd=place)
    failed = [row for row in json.loads(done.out)["findings"] if row["verdict"] == "fail"]
    assert done.code == 1 and [row["text"] for row in failed] == ["the source repository was relocated"] * 3
    assert all(row["fix"] == "relocate" and str(place / ".git") in row["evidence"] for row in failed)
    assert support.git(place, "for-each-ref", "refs/cloche") == refs, "nothing is pruned"

    done = cli("doctor", "--fix", cwd=place)
    assert done.code == 0, done.out
    assert support.git(place, "for-each-ref", "refs/cloche") == refs
    assert not (state_dir() / repository_key(repo / ".git")).exists()
    for name in ("one", "two", "three"):
        known = manifest.load(below(place, name))
        assert (known.repository, known.git_dir) == (str(place), str(place / ".git"))
        assert known.repository_key == repository_key(place / ".git")
        told = [r.data for r in journal.read(below(place, name).journal) if r.kind in ("relocated", "repair")]
        assert (told[0]["from"], told[0]["to"]) == (str(repo), str(place)) and told[1]["fix"] == "relocate"

    # The work goes on there, to its end.
    after = Engine(place)
    assert {row.name for row in after.boxes()} == {"one", "two", "three"}
    assert after.run("one", ["cat", "new.txt"], streams=QUIET).exit == 0
    after.stop("one")
    after.propose("one")
    after.apply("one")
    assert support.git(place, "show", "main:new.txt") == "mine"


@pytest.mark.usefixtures("kept")
def test_the_remedy_can_be_pasted_and_a_box_is_named_by_its_key(
    engine: Engine, repo: Path, box: BoxPaths, look: Look
) -> None:
    place = repo.with_name("a place; with 'quotes")
    repo.rename(place)
    found = look(box)
    assert set(found) == {"base"} and found["base"].fix == "relocate", "found near the old place"
    assert found["base"].remedy == f"cd {shlex.quote(str(place))} && cloche doctor {box.key} --fix"
    words = " ".join(map(shlex.quote, support.cloche_argv()))
    subprocess.run(
        found["base"].remedy.replace("cloche doctor", f"{words} doctor"),
        shell=True,
        check=True,
        capture_output=True,
    )
    assert look(below(place, "b")) == {}


def test_a_linked_worktree_of_the_workspace_tier_follows_too(engine: Engine, repo: Path, look: Look) -> None:
    engine.make(NewBox(name="w", tier="workspace"))
    place = moved(repo)
    there = Engine(place)
    done = there.repair(there.doctor(), "ada")
    assert [(one.fix, one.done) for one in done] == [("relocate", True)]
    paths = below(place, "w")
    assert set(look(paths)) == {"journal"}, "whose evidence is the agent's own claim, as ever"
    assert support.git(paths.tree, "rev-parse", "HEAD") == support.git(place, "rev-parse", "main")
    assert str(paths.tree) in support.git(place, "worktree", "list")
    there.remove("w", force=True)


def test_a_repository_that_is_nowhere_is_not_guessed(
    engine: Engine, repo: Path, box: BoxPaths, look: Look
) -> None:
    away = repo.parent / "far" / "deep" / "down"
    away.parent.mkdir(parents=True)
    support.git(repo.parent, "clone", "-q", str(repo), "clone")  # has the commit and not the reference
    repo.rename(away)
    found = look(box)["base"]
    assert not found.fix and found.remedy == f"cd DIR && cloche doctor {box.key} --fix"
    assert "DIR is where" in found.why
    there = Engine(away)
    (done,) = there.repair(there.doctor(box.key), "ada")
    assert done.done and look(below(away, "b")) == {}


def test_two_copies_are_a_persons_choice(engine: Engine, repo: Path, box: BoxPaths, look: Look) -> None:
    for name in ("left", "right"):
        subprocess.run(["cp", "-a", repo, repo.with_name(name)], check=True)
    repo.rename(repo.parent / "far")
    subprocess.run(["rm", "-rf", repo.parent / "far"], check=True)
    found = look(box)["base"]
    assert not found.fix and "several" in found.text
    assert str(repo.with_name("left")) in found.evidence and str(repo.with_name("right")) in found.evidence
    (done,) = Engine(repo.with_name("right")).repair((found._replace(fix="relocate"),), "ada")
    assert done.done, "the one that one stands in is meant"
    assert manifest.load(below(repo.with_name("right"), "b")).repository == str(repo.with_name("right"))


def test_a_repository_that_a_box_could_have_made_is_never_chosen(
    engine: Engine, repo: Path, look: Look
) -> None:
    shared = repo.with_name("shared")
    shared.mkdir()
    (repo / "cloche.toml").write_text(f'[profiles.default.fs]\nwrite = ["{shared}"]\n')
    box = engine.make(NewBox(name="b"))
    subprocess.run(["cp", "-a", f"{repo}/.", shared], check=True)  # its reference and its objects too
    repo.rename(repo.parent / "gone.away")
    support.git(repo.parent / "gone.away", "update-ref", "-d", "refs/cloche/b/base")
    found = look(box)["base"]
    assert not found.fix and "DIR" in found.remedy and str(shared) not in found.evidence


def test_another_repository_at_the_old_place_is_not_taken_for_it(
    engine: Engine, repo: Path, box: BoxPaths, look: Look
) -> None:
    place = moved(repo)
    support.make_repo(repo, {"other.txt": b"other\n"})
    found = look(box)["base"]
    assert found.fix == "relocate" and "is another repository now" in found.evidence
    (done,) = engine.repair((found,), "ada")
    assert done.done and manifest.load(below(place, "b")).git_dir == str(place / ".git")


def test_a_name_that_is_taken_there_is_refused_and_nothing_moves(
    engine: Engine, repo: Path, box: BoxPaths, look: Look
) -> None:
    place = moved(repo)
    support.git(place, "update-ref", "refs/cloche/kept", "refs/cloche/b/base")
    support.git(place, "update-ref", "-d", "refs/cloche/b/base")
    Engine(place).make(NewBox(name="b"))
    (done,) = Engine(place).repair(tuple(look(box).values()), "ada")
    assert not done.done and "another box of that name" in done.text
    assert manifest.load(box).git_dir == str(repo / ".git")


def test_what_a_kill_left_half_way_is_finished(engine: Engine, repo: Path, box: BoxPaths, look: Look) -> None:
    place = moved(repo)
    known = manifest.load(box)
    manifest.save(box, known._replace(repository=str(place), git_dir=str(place / ".git")))
    found = look(box)
    assert set(found) == {"base"} and "half way" in found["base"].text
    (done,) = Engine(place).repair(tuple(found.values()), "ada")
    assert done.done and look(below(place, "b")) == {}


@pytest.mark.parametrize("live", [True])
def test_a_live_box_is_stopped_first(
    engine: Engine, repo: Path, box: BoxPaths, look: Look, live: bool
) -> None:
    engine.run("b", ["true"], streams=QUIET)
    moved(repo)
    found = look(box)["base"]
    assert not found.fix and found.remedy.startswith(f"cloche stop {box.key} && cd ")
    Engine(repo.parent).stop(box.key)
    assert look(box)["base"].fix == "relocate"
