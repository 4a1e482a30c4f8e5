"""What parts of a change become, case by case."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backends.errors import ClocheError, UsageError
from backends.gate.patch import (
    ACCEPTED,
    CONTENT,
    EXISTS,
    MODE,
    REJECTED,
    Counts,
    Decisions,
    Marks,
    compose,
    compose_tree,
    counts,
    everything,
    hunk_counts,
    interdiff,
    marks_of,
    read,
    select,
    selected_patch,
)
from backends.gate.patch.reading import _files
from backends.snapshots import Diff
from backends.trees import diff as diffs
from tests import support
from tests.gate.selections import Files, applied, patch_of, show, trees
from tests.gate.world import World, blob, disk

F, X, L, G = 0o100644, 0o100755, 0o120000, 0o160000
ONE, TWO = b"1" * 40, b"2" * 40


def taken(world: World, old: Files, new: Files, *accepted: tuple[bytes, str], rejected: str = "") -> Files:
    """The files that a selection gives; checked against an independent ``git apply``."""
    base, tree = trees(world, old, new)
    patch = patch_of(world, base, tree)
    decisions = Decisions()
    for path, words in accepted:
        file = patch.file(path)
        assert file is not None
        decisions = decisions.set([(path, file.all if words == "all" else marks_of(file, words))], ACCEPTED)
        if rejected:
            decisions = decisions.set([(path, marks_of(file, rejected))], REJECTED)
    selection = select(patch, decisions)
    made = compose_tree(world.quarantine, selection)
    assert applied(world, base, selected_patch(world.quarantine, selection)) == made
    return show(world, made)


def lines(*words: str) -> bytes:
    return b"".join(word.encode() + b"\n" for word in words)


# ------------------------------------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("base", "snapshot", "words", "expected"),
    [
        # one pair of replaced lines of three: in its place, as shown side by side
        (lines("a", "b", "c"), lines("A", "B", "C"), "-1,1", lines("A", "b", "c")),
        (lines("a", "b", "c"), lines("A", "B", "C"), "-2,2", lines("a", "B", "c")),
        (lines("a", "b", "c"), lines("A", "B", "C"), "-3,3", lines("a", "b", "C")),
        (lines("a", "b", "c"), lines("A", "B", "C"), "-1,-3,1,3", lines("A", "b", "C")),
        # new lines alone come after the lines that stay, removed ones just go
        (lines("a", "b"), lines("A", "B"), "1-2", lines("a", "b", "A", "B")),
        (lines("a", "b"), lines("A", "B"), "-1-2", b""),
        (lines("a", "b"), lines("A", "B"), "-1,2", lines("b", "B")),
        # no line end on either side, on one side
        (b"a", b"b", "1", b"a\nb"),
        (b"a", b"b", "-1", b""),
        (b"a", b"a\nb", "2", b"a\nb"),
        (b"a", b"a\nb", "-1,2", b"b"),
        (b"a", b"a\n", "-1,1", b"a\n"),
        (b"a\nb", b"a\n", "-2", b"a\n"),
        (lines("a", "b"), b"x", "-1,1", lines("x", "b")),
        (lines("a", "b", "c"), b"x\ny", "-1,-2,1-2", b"x\ny\nc\n"),
        # line ends of other systems are bytes of the line
        (b"a\r\nb\r\n", b"a\nb\n", "-1,1", b"a\nb\r\n"),
        (b"a\rb\n", b"a\rc\n", "-1,1", b"a\rc\n"),
        (b"\xff\n", b"\xfe\n", "1", b"\xff\n\xfe\n"),
        # what looks like a patch is only text
        (b"--- a\n", b"+++ b\n@@ -1 +1 @@\n", "2", b"--- a\n@@ -1 +1 @@\n"),
        (b"\\ No newline\n", b"\\ No\n", "1", b"\\ No newline\n\\ No\n"),
        # hunks
        (lines(*"abcdefghijklmnop"), lines(*"XbcdefghijklmnoY"), "@2", lines(*"abcdefghijklmnoY")),
        (lines(*"abcdefghijklmnop"), lines(*"XbcdefghijklmnoY"), "@1,-16", lines(*"Xbcdefghijklmno")),
    ],
)  # fmt: skip
def test_a_file_gets_exactly_the_accepted_lines(
    world: World, base: bytes, snapshot: bytes, words: str, expected: bytes
) -> None:
    assert taken(world, {b"f": (F, base)}, {b"f": (F, snapshot)}, (b"f", words)) == {b"f": (F, expected)}


def test_a_line_of_megabytes_is_one_line(world: World) -> None:
    old, new = b"x" * 5_000_000, b"y" * 5_000_000
    base, tree = trees(world, {b"f": (F, old + b"\na\n")}, {b"f": (F, new + b"\nb\n")})
    patch = patch_of(world, base, tree)
    (file,) = patch.files
    assert file.all == Marks(frozenset(), 0b110, 0b110)
    selection = select(patch, Decisions().set([(b"f", marks_of(file, "-1,1"))], ACCEPTED))
    assert compose(old + b"\na\n", new + b"\nb\n", selection.chosen[0]) == new + b"\na\n"


def test_half_of_a_hundred_thousand_changed_lines_is_taken_exactly(world: World) -> None:
    old = [b"line %d\n" % n for n in range(100_000)]
    new = [b"LINE %d\n" % n if n % 2 else line for n, line in enumerate(old)]
    base, tree = trees(world, {b"f": (F, b"".join(old))}, {b"f": (F, b"".join(new))})
    patch = patch_of(world, base, tree)
    (file,) = patch.files
    assert counts(file, Decisions().of(b"f")) == Counts(0, 0, 100_000)
    decisions = Decisions().set(
        [(b"f", file.old_lines(1, 50_000)), (b"f", file.new_lines(1, 50_000))], ACCEPTED
    )
    assert counts(file, decisions.of(b"f")) == Counts(50_000, 0, 50_000)
    (chosen,) = select(patch, decisions).chosen
    assert compose(b"".join(old), b"".join(new), chosen) == b"".join(new[:50_000] + old[50_000:])


# ------------------------------------------------------------------------------------------------- files


def test_a_new_file_is_made_by_its_lines_and_plain_unless_its_mode_is_accepted(world: World) -> None:
    new: Files = {b"run": (X, lines("a", "b"))}
    assert taken(world, {}, new, (b"run", "all")) == {b"run": (X, lines("a", "b"))}
    assert taken(world, {}, new, (b"run", "2")) == {b"run": (F, lines("b"))}
    assert taken(world, {}, new, (b"run", "2,mode")) == {b"run": (X, lines("b"))}
    assert taken(world, {}, new, (b"run", "exists")) == {b"run": (F, b"")}
    assert taken(world, {}, new, (b"run", "all"), rejected="exists") == {}
    assert taken(world, {}, new, (b"run", "all"), rejected="mode") == {b"run": (F, lines("a", "b"))}


def test_a_deleted_file_goes_with_its_last_line(world: World) -> None:
    old: Files = {b"f": (F, lines("a", "b")), b"keep": (F, b"")}
    kept: Files = {b"keep": (F, b"")}
    assert taken(world, old, kept, (b"f", "all")) == kept
    assert taken(world, old, kept, (b"f", "@1")) == kept
    assert taken(world, old, kept, (b"f", "-1")) == {b"f": (F, lines("b")), **kept}
    assert taken(world, old, kept, (b"f", "all"), rejected="exists") == {b"f": (F, b""), **kept}
    assert taken(world, old, kept, (b"f", "all"), rejected="-2") == {b"f": (F, lines("b")), **kept}
    assert taken(world, old, kept, (b"f", "exists")) == old


def test_mode_name_and_lines_of_a_file_do_not_need_each_other(world: World) -> None:
    body = [f"line {n}" for n in range(20)]
    changed = ["LINE 0", *body[1:]]
    old: Files = {b"old name": (F, lines(*body))}
    new: Files = {b"dir/new": (X, lines(*changed))}
    assert taken(world, old, new, (b"dir/new", "all")) == new
    assert taken(world, old, new, (b"dir/new", "name")) == {b"dir/new": (F, lines(*body))}
    assert taken(world, old, new, (b"dir/new", "mode")) == {b"old name": (X, lines(*body))}
    assert taken(world, old, new, (b"dir/new", "@1")) == {b"old name": (F, lines(*changed))}
    assert taken(world, old, new, (b"dir/new", "name,@1")) == {b"dir/new": (F, lines(*changed))}
    assert taken(world, old, new, (b"dir/new", "1,mode")) == {
        b"old name": (X, lines("line 0", "LINE 0", *body[1:]))
    }


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ((F, b"a\0b"), (F, b"a\0c"), {CONTENT}),
        ((F, b"a\0b"), (X, b"a\0c"), {CONTENT, MODE}),
        ((L, b"a"), (L, b"b"), {CONTENT}),
        ((G, ONE), (G, TWO), {CONTENT}),
        ((F, b"a\n"), (L, b"a\n"), {CONTENT}),
        ((L, b"a"), (X, b"a\n"), {CONTENT}),
        ((F, b"a\n"), (G, TWO), {CONTENT}),
        (None, (F, b"\0"), {EXISTS}),
        (None, (X, b"\0"), {EXISTS, MODE}),
        (None, (L, b"to"), {EXISTS}),
        (None, (G, ONE), {EXISTS}),
        (None, (F, b""), {EXISTS}),
        ((F, b""), None, {EXISTS}),
        ((F, b"\0"), None, {EXISTS}),
        ((L, b"to"), None, {EXISTS}),
        ((G, ONE), None, {EXISTS}),
        ((F, b"a\n"), (X, b"a\n"), {MODE}),
    ],
)
def test_what_has_no_lines_is_taken_whole_or_left(
    world: World, old: tuple[int, bytes] | None, new: tuple[int, bytes] | None, parts: set[str]
) -> None:
    before: Files = {b"f": old} if old else {}
    after: Files = {b"f": new} if new else {}
    base, tree = trees(world, before, after)
    (file,) = patch_of(world, base, tree).files
    assert file.all == Marks(frozenset(parts)) and not file.by_line
    assert taken(world, before, after, (b"f", "all")) == after
    assert taken(world, before, after) == before
    if parts == {CONTENT, MODE}:
        assert taken(world, before, after, (b"f", "content")) == {b"f": (F, b"a\0c")}
        assert taken(world, before, after, (b"f", "mode")) == {b"f": (X, b"a\0b")}


def test_a_binary_file_can_move_without_its_new_content(world: World) -> None:
    body = bytes(range(256)) * 40
    old: Files = {b"a": (F, body)}
    new: Files = {b"b": (F, body + b"end")}
    assert taken(world, old, new, (b"b", "name")) == {b"b": (F, body)}
    assert taken(world, old, new, (b"b", "content")) == {b"a": (F, body + b"end")}
    assert taken(world, old, new, (b"b", "all")) == new


# ------------------------------------------------------------------------------------------------- others

ODD = (
    b"-rf",
    b"a b",
    b"new\nline",
    b"tab\there",
    b'quo"te',
    b"back\\slash",
    b"\xff\xfe",
    b" lead",
    b"trail ",
    b"{x}",
)


def test_plain_git_apply_in_a_work_tree_gives_the_composed_files(world: World, tmp_path: Path) -> None:
    old: Files = {name: (F, lines("one", "two", "three")) for name in ODD}
    old |= {b"crlf": (F, b"a\r\nb\r\n"), b"nul": (F, b"a\0b\n"), b"open": (F, b"a"), b"empty": (F, b"")}
    new: Files = {name: (X if n % 2 else F, lines("ONE", "two", "THREE")) for n, name in enumerate(ODD)}
    new |= {
        b"crlf": (F, b"a\r\nB\r\nc\r\n"),
        b"nul": (F, b"a\0c\n"),
        b"open": (F, b"a\nb"),
        b"d/new": (F, b"n"),
    }
    base, tree = trees(world, old, new)
    patch = patch_of(world, base, tree)
    decisions = Decisions().set(everything(patch), ACCEPTED)
    for file in patch.files:
        decisions = decisions.set(
            [(file.path, file.old_lines(3, 3)), (file.path, file.new_lines(3, 3))], REJECTED
        )
    selection = select(patch, decisions)
    work = tmp_path / "work"
    work.mkdir()
    for path, (_, content) in old.items():
        Path(os.fsdecode(os.fsencode(work) + b"/" + path)).write_bytes(content)
    support.git(work, "init", "-q")
    text = selected_patch(world.quarantine, selection)
    for extra in (("--check",), ()):
        command = ["git", "apply", "--whitespace=nowarn", *extra, "-"]
        subprocess.run(command, cwd=work, input=text, env={**os.environ, **support.GIT_ENV}, check=True)
    made = show(world, compose_tree(world.quarantine, selection))
    assert disk(work) == {path: (mode & 0o100, content) for path, (mode, content) in made.items()}
    assert made[b"-rf"] == (F, lines("ONE", "two", "three")) and b"empty" not in made


def test_a_tree_of_which_everything_is_deleted_is_empty(world: World) -> None:
    old: Files = {b"a": (F, b"x\n"), b"d/b": (F, b"y\n")}
    assert taken(world, old, {}, (b"a", "all"), (b"d/b", "all")) == {}


def test_counts_of_hunks_add_up(world: World) -> None:
    base, tree = trees(
        world, {b"f": (F, lines(*"abcdefghijklmnop"))}, {b"f": (F, lines(*"XbcdefghijklmnoYZ"))}
    )
    (file,) = patch_of(world, base, tree).files
    decision = Decisions().set([(b"f", file.hunk(0))], ACCEPTED).set([(b"f", marks_of(file, "17"))], REJECTED)
    assert hunk_counts(file, decision.of(b"f")) == [Counts(2, 0, 0), Counts(0, 1, 2)]
    assert decision.of(b"f").of(file.hunk(0)) == ACCEPTED
    assert decision.of(b"f").of(file.hunk(1)) == ""


@pytest.mark.parametrize("words", ["@3", "@0", "2", "-2", "x", "", "1,", "mode", "1-0", "--1", "9999999999"])
def test_words_that_name_nothing_are_refused(world: World, words: str) -> None:
    base, tree = trees(world, {b"f": (F, lines("a", "b"))}, {b"f": (F, lines("A", "b"))})
    (file,) = patch_of(world, base, tree).files
    with pytest.raises(UsageError):
        marks_of(file, words)


def test_the_change_of_a_type_is_one_file_and_the_next_is_read_right(world: World) -> None:
    base, tree = trees(world, {b"a": (F, b"x\n"), b"b": (F, b"y\n")}, {b"a": (L, b"b"), b"b": (F, b"z\n")})
    patch = patch_of(world, base, tree)
    assert [(file.path, file.change.status, file.all.total) for file in patch.files] == [
        (b"a", "T", 1), (b"b", "M", 2),
    ]  # fmt: skip


def test_a_patch_that_is_not_of_these_files_is_refused(world: World) -> None:
    base, tree = trees(world, {b"a": (F, b"x\n"), b"b": (F, b"x\n")}, {b"a": (F, b"y\n"), b"b": (F, b"y\n")})
    git = world.quarantine
    changes, text = diffs.changes(git, base, tree), diffs.patch(git, base, tree)
    for some, part in ((changes, text[:-4]), (changes, text + b"+z\n"), (changes[:1], text), (changes, b"")):
        with pytest.raises(ClocheError) as caught:
            read(Diff("", tree, some, part, ()), base)
        assert caught.value.code == "patch-unread"
    assert len(_files(changes, text)) == 2


def test_the_key_of_a_file_changes_with_either_side_and_with_nothing_else(world: World) -> None:
    one, two, three, other = trees(
        world,
        {b"f": (F, b"a\n")},
        {b"f": (F, b"b\n")},
        {b"f": (F, b"c\n")},
        {b"f": (F, b"b\n"), b"g": (F, b"")},
    )
    key = patch_of(world, one, two).files[0].key
    assert patch_of(world, one, other).files[0].key == key
    assert len({key, patch_of(world, one, three).files[0].key, patch_of(world, three, two).files[0].key}) == 3


def test_interdiff_tells_what_is_proposed_otherwise(world: World) -> None:
    first, second, before, after = trees(
        world,
        {b"same": (F, b"1\n"), b"m": (F, b"1\n"), b"r": (F, b"1\n"), b"gone": (F, b"1\n")},
        {b"same": (F, b"1\n"), b"m": (F, b"1\n"), b"r": (F, b"0\n"), b"gone": (F, b"1\n")},
        {b"same": (F, b"2\n"), b"m": (F, b"2\n"), b"r": (F, b"2\n"), b"gone": (F, b"2\n")},
        {
            b"same": (F, b"2\n"),
            b"m": (F, b"3\n"),
            b"r": (F, b"2\n"),
            b"gone": (F, b"1\n"),
            b"new": (F, b"1\n"),
        },
    )
    git = world.quarantine
    found = interdiff(diffs.changes(git, first, before), diffs.changes(git, second, after))
    assert [(one.path, one.kind) for one in found] == [
        (b"gone", "dropped"), (b"m", "changed"), (b"new", "added"), (b"r", "rebased"),
    ]  # fmt: skip
    assert interdiff(diffs.changes(git, first, before), diffs.changes(git, first, before)) == ()


@pytest.mark.parametrize("name", [b".git", b"..", ".g\u200cit".encode(), b"GIT~1", b"a/b"])
def test_a_hostile_name_can_be_rejected_and_the_rest_taken(world: World, name: bytes) -> None:
    tree = world.changed({b"ok": b"ok\n", name: {b"HEAD": b"x\n"}})
    patch = patch_of(world, world.base_tree, tree)
    decisions = Decisions().set(everything(patch), ACCEPTED)
    for file in patch.files:
        if file.path != b"ok":
            decisions = decisions.set([(file.path, file.all)], REJECTED)
    assert compose_tree(world.quarantine, select(patch, decisions)) == world.changed({b"ok": b"ok\n"})


def test_a_path_that_is_there_twice_is_counted_and_composed_without_failing(world: World) -> None:
    one, two = (blob(world.quarantine, text) for text in (b"1\n", b"1\n2\n"))
    row = b"100644 dup\0"
    raw = b"".join(row + bytes.fromhex(oid) for oid in (one, two))
    args = ("hash-object", "-w", "-t", "tree", "--literally", "--stdin")
    tree = world.quarantine.run(*args, input=raw).decode().strip()
    patch = patch_of(world, world.base_tree, tree)
    decisions = Decisions().set(everything(patch), ACCEPTED)
    assert min(min(counts(file, decisions.of(file.path))) for file in patch.files) >= 0
    assert list(show(world, compose_tree(world.quarantine, select(patch, decisions)))) == [b"dup"]


def test_composing_leaves_no_reference(world: World) -> None:
    taken(world, {b"f": (F, lines("a", "b"))}, {b"f": (F, lines("A", "B"))}, (b"f", "-1,1"))
    refs = world.quarantine.run("for-each-ref", "--format=%(refname)").decode().split()
    assert [ref for ref in refs if not ref.startswith("refs/test/")] == []


def test_a_repository_of_sha256_objects(world: World, tmp_path: Path) -> None:
    from backends.boxes.layout import BoxPaths
    from backends.trees import quarantine

    paths = BoxPaths(tmp_path / "box")
    paths.root.mkdir()
    world.quarantine, world.paths = quarantine.init(paths, None, "sha256"), paths
    old: Files = {b"f": (F, lines("a", "b")), b"g": (F, b"a\0")}
    new: Files = {b"f": (F, lines("A", "B")), b"g": (F, b"b\0"), b"h": (X, lines("1", "2"))}
    made = taken(world, old, new, (b"f", "-1,1"), (b"g", "all"), (b"h", "2"))
    assert made == {b"f": (F, lines("A", "b")), b"g": (F, b"b\0"), b"h": (F, lines("2"))}
    assert len(world.quarantine.line("rev-parse", "refs/test/t0")) == 64
