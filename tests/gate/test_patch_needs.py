"""What of a change cannot be had without what: folders that take the names of files and links, and back."""

from __future__ import annotations

import pytest

from backends.gate.bundles import heads
from backends.gate.patch import (
    ACCEPTED,
    EXISTS,
    NAME,
    Decisions,
    Marks,
    Need,
    Patch,
    compose_tree,
    select,
    selected_patch,
)
from backends.trees import diff
from tests.gate.selections import Files, applied, patch_of, trees
from tests.gate.test_patch import ONE, TWO, F, G, L, X, lines, taken
from tests.gate.world import World


def blocked(
    world: World, old: Files, new: Files, *paths: bytes
) -> tuple[Patch, dict[bytes, tuple[Need, ...]]]:
    base, tree = trees(world, old, new)
    patch = patch_of(world, base, tree)
    files = patch.by_path()
    selection = select(patch, Decisions().set([(path, files[path].all) for path in paths], ACCEPTED))
    made = compose_tree(world.quarantine, selection)
    assert applied(world, base, selected_patch(world.quarantine, selection)) == made
    return patch, {one.path: one.needs for one in selection.blocked}


def test_a_folder_needs_the_file_of_its_name_gone(world: World) -> None:
    old: Files = {b"a": (F, lines("a"))}
    new: Files = {b"a/x": (F, lines("x")), b"a/y/z": (F, lines("z"))}
    need = (Need(b"a", EXISTS),)
    assert blocked(world, old, new, b"a/x", b"a/y/z")[1] == {b"a/x": need, b"a/y/z": need}
    assert blocked(world, old, new, b"a", b"a/x")[1] == {}
    assert taken(world, old, new, (b"a", "all"), (b"a/x", "all")) == {b"a/x": (F, lines("x"))}


def test_a_file_needs_everything_in_the_folder_of_its_name_gone(world: World) -> None:
    old: Files = {b"a/x": (F, lines("x")), b"a/y": (F, lines("y"))}
    new: Files = {b"a": (L, b"elsewhere")}
    assert blocked(world, old, new, b"a", b"a/x")[1] == {b"a": (Need(b"a/y", EXISTS),)}
    assert taken(world, old, new, (b"a", "all"), (b"a/x", "all")) == {b"a/y": (F, lines("y"))}
    assert blocked(world, old, new, b"a", b"a/x", b"a/y")[1] == {}


def test_files_that_change_places_need_each_other(world: World) -> None:
    one, two = (lines(*(f"{word} {n}" for n in range(30))) for word in ("one", "two"))
    old: Files = {b"a": (F, one), b"b/x": (F, two)}
    new: Files = {b"a/x": (F, two), b"b": (F, one)}
    patch, stuck = blocked(world, old, new, b"b")
    assert [file.change.status for file in patch.files] == ["R", "R"]
    assert stuck == {b"b": (Need(b"a/x", NAME),)}
    assert blocked(world, old, new, b"a/x", b"b")[1] == {}
    assert taken(world, old, new, (b"a/x", "all"), (b"b", "all")) == new


def test_a_file_moves_into_a_folder_of_its_own_name(world: World) -> None:
    body = lines(*map(str, range(20)))
    old: Files = {b"a": (F, body)}
    new: Files = {b"a/a": (F, body)}
    assert taken(world, old, new, (b"a/a", "all")) == new


def test_lines_of_a_file_whose_move_is_blocked_are_changed_where_it_is(world: World) -> None:
    body = [f"line {n}" for n in range(20)]
    old: Files = {b"a": (F, lines("other")), b"f": (F, lines(*body))}
    new: Files = {b"a/f": (F, lines("LINE", *body[1:]))}
    assert taken(world, old, new, (b"a/f", "all")) == {
        b"a": (F, lines("other")),
        b"f": (F, lines("LINE", *body[1:])),
    }


ROOM = (b"d/e", b"d/e/f")


@pytest.mark.parametrize("path", ROOM)
def test_a_link_moves_into_a_folder_of_its_own_name(world: World, path: bytes) -> None:
    """To git apply it lies beyond itself unless the patch says that a link moves."""
    old: Files = {b"d": (L, b"target")}
    new: Files = {path: (L, b"target")}
    base, tree = trees(world, old, new)
    (file,) = patch_of(world, base, tree).files
    assert (file.change.status, file.all) == ("R", Marks(frozenset({NAME})))
    assert taken(world, old, new, (path, "name")) == new
    assert taken(world, old, new) == old


@pytest.mark.parametrize("path", ROOM)
def test_a_folder_needs_the_link_of_its_name_moved_away(world: World, path: bytes) -> None:
    old: Files = {b"d": (L, b"target")}
    new: Files = {path: (X, lines("x", "y")), b"z": (L, b"target")}
    assert blocked(world, old, new, path)[1] == {path: (Need(b"z", NAME),)}
    assert taken(world, old, new, (path, "1"), (path, "mode")) == old
    assert taken(world, old, new, (b"z", "all")) == {b"z": (L, b"target")}
    assert taken(world, old, new, (path, "1"), (b"z", "name")) == {
        path: (F, lines("x")), b"z": (L, b"target"),
    }  # fmt: skip
    assert taken(world, old, new, (path, "all"), (b"z", "all")) == new


@pytest.mark.parametrize("path", ROOM)
@pytest.mark.parametrize("stood", [(L, b"target"), (F, lines("d")), (F, b"a\0b"), (G, ONE)])
@pytest.mark.parametrize("came", [(L, b"other"), (F, lines("e")), (X, b"a\0c")])
def test_a_folder_needs_what_has_its_name_gone_whatever_both_are(
    world: World, path: bytes, stood: tuple[int, bytes], came: tuple[int, bytes]
) -> None:
    old: Files = {b"d": stood}
    new: Files = {path: came}
    assert blocked(world, old, new, path)[1] == {path: (Need(b"d", EXISTS),)}
    assert blocked(world, old, new, b"d", path)[1] == {}
    assert taken(world, old, new, (path, "all")) == old
    assert taken(world, old, new, (b"d", "all")) == {}
    assert taken(world, old, new, (b"d", "all"), (path, "all")) == new


@pytest.mark.parametrize("path", ROOM)
@pytest.mark.parametrize("came", [(L, b"other"), (F, lines("e")), (G, TWO)])
def test_what_takes_the_name_of_a_folder_needs_it_empty_however_deep(
    world: World, path: bytes, came: tuple[int, bytes]
) -> None:
    old: Files = {path: (X, lines("x", "y")), b"d/y": (L, b"target")}
    new: Files = {b"d": came}
    needs = (Need(path, EXISTS), Need(b"d/y", EXISTS))
    assert blocked(world, old, new, b"d")[1] == {b"d": needs}
    assert blocked(world, old, new, b"d", b"d/y")[1] == {b"d": needs[:1]}
    assert taken(world, old, new, (b"d", "all"), (b"d/y", "all"), (path, "-1")) == {path: (X, lines("y"))}
    assert taken(world, old, new, (b"d", "all"), (b"d/y", "all"), (path, "all")) == new


def test_what_moves_into_a_folder_needs_the_link_of_its_name_gone(world: World) -> None:
    body = [f"line {n}" for n in range(20)]
    old: Files = {b"d": (L, b"target"), b"f": (F, lines(*body)), b"l": (L, b"elsewhere")}
    new: Files = {b"d/f": (X, lines("LINE", *body[1:])), b"d/l": (L, b"elsewhere")}
    need = (Need(b"d", EXISTS),)
    assert blocked(world, old, new, b"d/f", b"d/l")[1] == {b"d/f": need, b"d/l": need}
    assert taken(world, old, new, (b"d/f", "name,mode"), (b"d/l", "name")) == old | {b"f": (X, lines(*body))}
    assert taken(world, old, new, (b"d", "all"), (b"d/f", "name"), (b"d/l", "name")) == {
        b"d/f": (F, lines(*body)), b"d/l": (L, b"elsewhere"),
    }  # fmt: skip
    assert taken(world, old, new, (b"d", "all"), (b"d/f", "all"), (b"d/l", "all")) == new


def test_a_link_that_moves_is_read_from_an_export_with_its_mode_and_content(world: World) -> None:
    base, tree = trees(world, {b"d": (L, b"to")}, {b"d/e": (L, b"to"), b"d/new": (F, b"x\n")})
    found = heads.changes(diff.patch(world.quarantine, base, tree))
    assert found == diff.changes(world.quarantine, base, tree)
    assert [one.status for one in found] == ["R", "A"]
