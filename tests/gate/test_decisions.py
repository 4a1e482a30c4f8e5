"""A review on disk: whole or not at all, bound to its snapshot, carried over where nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.boxes.layout import BoxPaths
from backends.errors import Busy, Refused
from backends.gate import decisions
from backends.gate.decisions import COMMENT_LIMIT, Compared, Review, load, save, stale
from backends.gate.decisions_file import Encoder, digest, encode, parse
from backends.gate.patch import ACCEPTED, EXISTS, REJECTED, UNDECIDED, Marks, Patch, everything
from backends.gate.patch.model import File
from backends.snapshots import DiffStat, SnapshotInfo
from tests.gate.selections import Files, patch_of, trees
from tests.gate.world import World
from tests.support import ROOT

F = 0o100644
BASE = "b" * 40
OLD: Files = {b"f": (F, b"a\nb\nc\n"), b"g": (F, b"g\n"), b"\xff\n": (F, b"odd\n")}
NEW: Files = {b"f": (F, b"A\nb\nC\n"), b"g": (F, b"G\n"), b"\xff\n": (F, b"ODD\n"), b"new": (F, b"1\n2\n")}
LATER: Files = {**NEW, b"g": (F, b"another\n"), b"more": (F, b"x\n")}


def opened(world: World, old: Files, new: Files) -> tuple[Patch, SnapshotInfo]:
    base, tree = trees(world, old, new)
    return patch_of(world, base, tree), SnapshotInfo(tree, BASE, base, 1.0, DiffStat(0, 0, 0))


def said(patch: Patch, review: Review) -> Review:
    """A review in which everything was done once."""
    files = patch.by_path()
    review = review.decide(
        [(b"f", files[b"f"].old_lines(1, 1)), (b"f", files[b"f"].new_lines(1, 1))], ACCEPTED
    )
    review = review.decide([(b"new", Marks(frozenset({EXISTS}), 0, 0b10))], REJECTED)
    review = review.decide(list(everything(patch)), ACCEPTED).undo()
    review = review.mark(files[b"g"]).mark(files[b"\xff\n"])
    review = review.comment(files[b"g"], "new", 1, "why \udcff \x1b?", "ann", 2.5, b"G\xff")
    review = review.comment(files[b"f"], "old", 0, "all of it", "ann", 3.0)
    return review.summarise("nearly")


def test_a_review_is_read_as_it_was_written(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    review, stamp = load(world.paths, patch, snapshot)
    assert review == Review(Compared.of(snapshot)) and review.empty and stamp is None
    full = said(patch, review)
    stamp = save(world.paths, full, patch, stamp)
    again, seen = load(world.paths, patch, snapshot)
    assert again == full and seen == stamp
    assert len(again.history.past) == 2 and len(again.history.future) == 1
    assert again.redo().history.now.of(b"g").accepted == patch.by_path()[b"g"].all
    assert again.undo().undo().history.now.files == {}
    assert oct(world.paths.review.stat().st_mode & 0o777) == "0o600"


def test_another_snapshot_takes_over_what_is_still_the_same(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    full = said(patch, Review(Compared.of(snapshot))).decide([(b"g", patch.by_path()[b"g"].all)], ACCEPTED)
    save(world.paths, full, patch, None)
    later, other = opened(world, OLD, LATER)
    review, _ = load(world.paths, later, other)
    assert review.snapshot == Compared.of(other) and review.since == Compared.of(snapshot)
    kept = {path: one for path, one in full.history.now.files.items() if path != b"g"}
    assert review.history.now.files == kept and not review.history.past and not review.history.future
    files = later.by_path()
    assert [review.is_reviewed(files[path]) for path in (b"g", b"\xff\n", b"more")] == [False, True, False]
    assert [(one.path, stale(one, files)) for one in review.comments] == [(b"g", True), (b"f", False)]
    assert review.summary == "nearly"
    save(world.paths, review, later, decisions.stamp_of_kept(world.paths))
    assert load(world.paths, later, other)[0] == review
    # Back at what was first proposed: the one in between was reviewed last.
    assert load(world.paths, patch, snapshot)[0].since == Compared.of(other)


def test_a_snapshot_about_which_nothing_was_said_was_not_reviewed(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    save(world.paths, Review(Compared.of(snapshot)), patch, None)
    later, other = opened(world, OLD, LATER)
    assert load(world.paths, later, other)[0].since is None


def test_the_mark_of_a_file_falls_off_when_its_base_changes_too(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    save(world.paths, said(patch, Review(Compared.of(snapshot))), patch, None)
    later, other = opened(world, {**OLD, b"g": (F, b"moved on\n")}, NEW)
    review, _ = load(world.paths, later, other)
    assert set(review.reviewed) == {b"\xff\n"} and b"f" in review.history.now.files


def test_two_desks_do_not_overwrite_each_other(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    mine, stamp = load(world.paths, patch, snapshot)
    other = save(world.paths, said(patch, mine), patch, stamp)
    with pytest.raises(Busy) as caught:
        save(world.paths, mine.summarise("mine"), patch, stamp)
    assert caught.value.code == "review-changed"
    assert load(world.paths, patch, snapshot) == (said(patch, mine), other)
    world.paths.review.unlink()
    with pytest.raises(Busy):
        save(world.paths, mine, patch, other)


KILLED = """
import os, sys
from backends.boxes import manifest
from backends.boxes.layout import BoxPaths
from pathlib import Path
calls = {"fsync": 0, "write": 0}
def die(name, real, after):
    def call(*args):
        calls[name] += 1
        if calls[name] == after:
            os._exit(9)
        return real(*args)
    return call
which = sys.argv[2]
if which == "rename":
    Path.rename = lambda *args: os._exit(9)
else:
    setattr(os, which, die(which, getattr(os, which), 1))
manifest.write_atomically(BoxPaths(Path(sys.argv[1])).review, b"half of it")
"""


@pytest.mark.parametrize("moment", ["write", "fsync", "rename"])
def test_a_crash_while_writing_leaves_what_was_kept_before(world: World, moment: str) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    full = said(patch, Review(Compared.of(snapshot)))
    stamp = save(world.paths, full, patch, None)
    argv = [sys.executable, "-c", KILLED, str(world.paths.root), moment]
    assert subprocess.run(argv, cwd=ROOT, check=False).returncode == 9
    assert load(world.paths, patch, snapshot) == (full, stamp)
    assert save(world.paths, full.summarise("on"), patch, stamp) != stamp
    assert load(world.paths, patch, snapshot)[0].summary == "on"


# ------------------------------------------------------------------------------------------------ bounds


def test_comments_and_summary_are_bounded(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    review = Review(Compared.of(snapshot))
    file = patch.files[0]
    for text in ("", " \n", "x" * (COMMENT_LIMIT + 1), "\u20ac" * (COMMENT_LIMIT // 2)):
        with pytest.raises(Refused):
            review.comment(file, "new", 1, text, "ann", 1.0)
    with pytest.raises(Refused):
        review.summarise("x" * 70_000)
    assert review.comment(file, "new", 1, "x", "ann", 1.0, b"y" * 999).comments[0].quote == "y" * 400
    for _ in range(3):
        review = review.comment(file, "new", 1, "x", "ann", 1.0)
    assert [one.id for one in review.uncomment(2).comment(file, "old", 2, "y", "ann", 1.0).comments] == [
        1,
        3,
        4,
    ]
    assert review.reword(2, "z").comments[1].text == "z"
    with pytest.raises(KeyError):
        review.uncomment(9)
    with pytest.raises(KeyError):
        review.reword(9, "z")


def test_two_thousand_comments_are_kept_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOST_COMMENTS", 3)
    patch, snapshot = opened(world, OLD, NEW)
    review = Review(Compared.of(snapshot))
    for _ in range(3):
        review = review.comment(patch.files[0], "new", 1, "x", "ann", 1.0)
    with pytest.raises(Refused, match="3 comments"):
        review.comment(patch.files[0], "new", 1, "x", "ann", 1.0)


def test_who_writes_often_writes_what_one_writes_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    monkeypatch.setattr("backends.gate.decisions_file.HISTORY_LIMIT", 900)
    encoder = Encoder(patch)
    review = Review(Compared.of(snapshot))
    acts: list[Callable[[Review], Review]] = [
        lambda review: review.decide(list(everything(patch)), ACCEPTED),
        lambda review: review.undo(),
        lambda review: review.redo(),
        lambda review: review.comment(patch.files[0], "new", 1, "why?", "ann", 1.0),
        lambda review: review.mark_all(patch.files),
        *(lambda review, file=file: review.decide([(file.path, file.all)], REJECTED) for file in patch.files),
        lambda review: review.decide(list(everything(patch)), UNDECIDED),
    ]
    for act in acts:
        review = act(review)
        written = encoder.encode(review, "0" * 16)
        assert written == encode(review, patch)
        again = parse(written, patch, review.snapshot)
        assert again.history.past == review.history.past[len(review.history.past) - len(again.history.past) :]
        assert again._replace(history=review.history) == review
        assert again.history.now == review.history.now


def test_a_long_history_is_cut_at_its_beginning(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    review = Review(Compared.of(snapshot))
    file = patch.files[0]
    for number in range(500):
        review = review.decide([(file.path, file.all)], (ACCEPTED, REJECTED, UNDECIDED)[number % 3])
    assert len(review.history.past) == 200
    assert parse(encode(review, patch), patch, review.snapshot) == review


def test_a_file_that_is_too_large_no_file_or_a_link_is_refused(world: World, tmp_path: Path) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    path = world.paths.review

    def refused() -> None:
        with pytest.raises(Refused) as caught:
            load(world.paths, patch, snapshot)
        assert caught.value.code == "review-damaged" and str(path) in caught.value.next_step

    path.write_bytes(b"")
    os.truncate(path, decisions.FILE_LIMIT + 1)
    refused()
    path.unlink()
    os.mkfifo(path)
    refused()
    path.unlink()
    path.symlink_to(tmp_path / "x")
    refused()
    with pytest.raises(Refused, match="cannot be read"):
        save(world.paths, Review(Compared.of(snapshot)), patch, None)
    assert not (tmp_path / "x").exists()


# ------------------------------------------------------------------------------------------------ strict


def document(world: World) -> tuple[dict[str, Any], Patch, Compared]:
    patch, snapshot = opened(world, OLD, NEW)
    review = said(patch, Review(Compared.of(snapshot)))
    return json.loads(encode(review, patch)), patch, review.snapshot


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("version",), 2),
        (("more",), 1),
        (("snapshot",), ["x", "y", "z"]),
        (("snapshot", 0), "A" * 40),
        (("files", "f", 1, 1), "2"),  # a line that is not changed
        (("files", "f", 1, 1), "1-999999999"),
        (("files", "f", 1, 1), "3,1"),
        (("files", "f", 1, 0), "exists"),  # a part that the file does not have
        (("files", "f", 1, 0), "colour"),
        (("files", "f", 2), ["", "1", ""]),  # accepted and rejected
        (("files", "f", 0), 7),
        (("files", ""), ["0" * 32, ["", "", ""], ["", "", ""]]),
        (("reviewed", "g"), "x"),
        (("reviewed",), []),
        (("comments", 0, 0), True),
        (("comments", 0, 0), 2),  # of which there is one already
        (("comments", 0, 3), "left"),
        (("comments", 0, 4), -1),
        (("comments", 0, 6), None),
        (("comments", 0, 8), 1e300),
        (("comments", 0, 8), "now"),
        (("comments",), [[]]),
        (("summary",), 1),
        (("past",), [[["nowhere", [["", "", ""]] * 2, [["", "", ""]] * 2]]]),
        (("past",), [[] for _ in range(201)]),
        (("future",), {}),
    ],
    ids=str,
)
def test_what_was_not_written_here_is_no_review(world: World, where: tuple[Any, ...], value: Any) -> None:
    whole, patch, snapshot = document(world)
    place: Any = whole
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    with pytest.raises(ValueError):
        parse(json.dumps(whole).encode(), patch, snapshot)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"nul", b"\xff", b"[" * 100_000, b'{"version":1,"version":1}', b'{"version":NaN}']
)
def test_other_text_is_damage_that_says_what_to_do(world: World, text: bytes) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    world.paths.review.write_bytes(text)
    with pytest.raises(Refused, match="cannot be read"):
        load(world.paths, patch, snapshot)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["1", "1-3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_changed_document_is_a_review_or_a_value_error(world: World, data: Any) -> None:
    whole, patch, snapshot = cached(world)
    whole = json.loads(json.dumps(whole))
    place: Any = whole
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(VALUES)
        break
    try:
        review = parse(json.dumps(whole).encode(), patch, snapshot)
    except ValueError:
        return
    assert parse(encode(review, patch), patch, snapshot) == review


_DOCUMENTS: dict[BoxPaths, tuple[dict[str, Any], Patch, Compared]] = {}


def cached(world: World) -> tuple[dict[str, Any], Patch, Compared]:
    if world.paths not in _DOCUMENTS:
        _DOCUMENTS.clear()
        _DOCUMENTS[world.paths] = document(world)
    return _DOCUMENTS[world.paths]


def test_the_digest_names_the_decisions_whatever_their_order(world: World) -> None:
    patch, snapshot = opened(world, OLD, NEW)
    review = Review(Compared.of(snapshot))
    choices = list(everything(patch))
    one = review.decide(choices, ACCEPTED).history.now
    two = review.decide(choices[::-1], ACCEPTED).mark(_first(patch)).history.now
    assert digest(one, patch) == digest(two, patch) != digest(review.history.now, patch)


def _first(patch: Patch) -> File:
    return patch.files[0]
