"""Words and names that a person, or a script in their name, hands to apply: messages, new branches."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from backends.errors import Busy, Refused, UsageError
from backends.gate import branches
from backends.gate.apply import Request, apply, plan
from backends.gate.wording import Facts, messages
from tests import support
from tests.gate.applying import BRANCH, run
from tests.gate.world import World, disk

FACTS = Facts("b", "repo-0123456789/b", "a" * 40, "add it", "d" * 64)


@pytest.mark.parametrize(
    "text",
    [
        "fine\n\nCloche-Snapshot: " + "b" * 40,
        "cloche-box: other/box",
        "fine\n\nSigned-off-by: A <a@b.invalid>\nCLOCHE-POLICY : none",
        "fine\n\nCloche-Partial:",
    ],
)
def test_a_message_cannot_bear_the_trailers_of_the_gate(text: str) -> None:
    with pytest.raises(Refused) as caught:
        messages(FACTS, text)
    assert caught.value.code == "bad-message"


@pytest.mark.parametrize(
    "char", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200b", "\x7f", "\x0b", "\udcff"]
)
def test_a_message_holds_nothing_that_a_terminal_obeys_or_an_eye_cannot_see(char: str) -> None:
    with pytest.raises(Refused) as caught:
        messages(FACTS, f"fine{char}text")
    assert caught.value.code == "bad-message"


def test_a_message_in_any_script_with_tabs_and_other_line_ends_is_taken() -> None:
    text = "Füge — hinzu 汉字 می\u200cخواهم 👩\u200d💻 ❤\ufe0f\r\n\r\n\tcode\\x1b"
    found = messages(FACTS, text).work
    assert found.startswith(
        "Füge — hinzu 汉字 می\u200cخواهم 👩\u200d💻 ❤\ufe0f\n\n\tcode\\x1b\n\nCloche-Box: "
    )


@pytest.mark.parametrize(
    "name",
    ["HEAD", "-x", "@", "@{-1}", "a b", "a..b", "a\u202eb", "a\u200bb", "f" * 40, "0" * 64, "x.lock", ""],
)
def test_a_new_branch_has_a_name_that_reads_as_one(world: World, name: str) -> None:
    with pytest.raises(UsageError):
        branches.fresh(world.source, name)


def test_the_author_that_was_shown_is_the_author_or_nothing_happens(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(BRANCH, "me", purpose="p", policy_digest="d" * 64)
    snapshot = world.snapshot(world.changed({b"x": b"x"}))
    seen = plan(world.paths, world.source, snapshot, request).plan
    world.git("config", "user.name", "Somebody Else")
    with pytest.raises(Busy) as caught:
        apply(world.paths, world.source, snapshot, request, seen=seen)
    assert caught.value.code == "plan-moved" and "author" in caught.value.why
    assert world.git("rev-parse", "main") == world.base


@pytest.mark.parametrize("there", ["another repository", "an empty folder"])
def test_what_took_a_lost_worktrees_place_is_left_alone(world: World, tmp_path: Path, there: str) -> None:
    place = tmp_path / "linked"
    world.git("checkout", "-q", "--detach")
    world.git("worktree", "add", "-q", str(place), "main")
    shutil.rmtree(place)
    if there == "another repository":
        support.make_repo(place, {"own": b"own\n"})
    else:
        place.mkdir()
    before = disk(place)
    done = run(world, world.changed({b"x": b"x"}))
    assert world.git("rev-parse", "main") == done.new
    assert disk(place) == before


def test_a_worktree_that_was_told_of_relatively_is_brought_along(world: World, tmp_path: Path) -> None:
    place = tmp_path / "linked"
    world.git("checkout", "-q", "--detach")
    world.git("worktree", "add", "-q", str(place), "main")
    folder = world.repo / ".git" / "worktrees" / "linked"
    (folder / "gitdir").write_text(os.path.relpath(place / ".git", folder) + "\n")
    (place / ".git").write_text("gitdir: " + os.path.relpath(folder, place) + "\n")
    run(world, world.changed({b"x": b"x"}))
    assert (place / "x").read_bytes() == b"x"
