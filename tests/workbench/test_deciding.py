"""Deciding in the gate by keys: what is painted is on disk, whoever else decides, and however it ends."""

from __future__ import annotations

import json

import pytest
from textual import events

from app.screens.dialogs import ErrorScreen
from app.screens.writing import WriteScreen
from backends.errors import Refused
from backends.gate.decisions import Review
from backends.gate.patch import ACCEPTED, REJECTED, Counts, Marks
from backends.snapshots import FileChange
from tests.workbench import frozen
from tests.workbench.deciding import FIRST, LOCK, MOVED, MOVED_PATCH, TAIL, TS, YML, gate, write
from tests.workbench.frozen_desk import FrozenDesk
from tests.workbench.stage import play
from tests.workbench.test_screens import SIZES, to_gate

# ------------------------------------------------------------ lines, hunks, files


@pytest.mark.parametrize("size", SIZES)
async def test_a_hunk_is_accepted_opened_again_and_counted_everywhere(size: tuple[int, int]) -> None:
    async with gate(size) as found:
        await found.act("l", "h", "space")
        assert found.marks() == (FIRST, Marks())
        assert found.screen.total == Counts(8, 0, 8)
        await found.act("l", "x")
        assert found.marks() == (FIRST, Marks(frozenset(), 0, TAIL))
        text = found.stage.text()
        assert "rejected 1  export function" in text  # the hunk's own row
        assert "✓8 ✗1 ○7" in found.stage.header() or "accepted 8  rejected 1  open 7" in found.stage.header()
        assert "✓8 ✗1" in text  # the row of the file
        await found.act("x")
        assert found.marks() == (FIRST, Marks())
        await found.act("h", "space")
        assert found.marks() == (Marks(), Marks())
        assert found.screen.total == Counts(0, 0, 16)


@pytest.mark.parametrize("sides", [False, True])
async def test_lines_ranges_and_blocks_are_decided_by_side(sides: bool) -> None:
    async with gate((160, 50)) as found:
        await found.press("l", "h")
        found.diff.set_split(sides)
        await found.act("s", "space")  # the hunk's header is split: its first block
        block = Marks(frozenset(), 0b11 << 116, 0b1111 << 116)
        assert found.marks() == (block, Marks())
        await found.act("s", "minus")
        line = Marks(frozenset(), 1 << 116, 1 << 116 if sides else 0)
        assert found.marks() == (block.minus(line), line)
        await found.act("down", "v", "down", "down", "minus")
        rejected = Marks(frozenset(), 0b11 << 116, 0b1111 << 116 if sides else 0b11 << 116)
        assert found.marks() == (block.minus(rejected), rejected)
        await found.act("escape", "a", "space")
        assert found.marks() == (FIRST, Marks())


async def test_in_the_list_a_key_means_the_file_or_all_of_the_folder() -> None:
    changes = tuple(sorted(frozen.CHANGES, key=lambda change: change.path))
    parts = frozen.PATCH.split(b"diff --git ")
    patch = b"".join(b"diff --git " + parts[place] for place in (2, 3, 1))
    diff = frozen.DIFF._replace(changes=changes, patch=patch)
    async with gate(diff=diff) as found:
        assert found.files.has_focus
        decided = await found.act("space")
        assert list(decided.history.now.files) == [YML]
        assert found.marks(YML)[0].parts == {"exists"}
        await found.act("minus")
        assert found.marks(YML)[1].parts == {"exists"}
        await found.act("J", "minus", "J", "space", "space", "minus")
        assert found.marks(LOCK)[1].lines == 2
        assert found.marks(TS)[1].lines == 9
        assert next(row for row in found.stage.text().split("\n") if "lock.json" in row).count("✗") >= 1


async def test_where_nothing_is_changed_nothing_is_decided_and_that_is_said() -> None:
    async with gate() as found:
        await found.press("l", "h", "down", "space")
        await found.stage.shows("nothing is changed here")
        while found.files.has_focus or found.diff.has_focus:
            await found.press("tab")
        await found.press("x")
        await found.stage.shows("go to the diff or to the files first")
        assert found.kept.empty


@pytest.mark.parametrize(
    ("keys", "path", "marks"),
    [
        ("l", TS, Marks(frozenset(), 0, TAIL)),
        ("enter", TS, FIRST),
        ("enter l l", YML, Marks(frozenset(), 0, 0b11110)),
        ("enter J J", LOCK, Marks(frozenset(), 1 << 2, 1 << 2)),
        ("J", YML, Marks(frozenset({"exists"}), 0, 0b11110)),
    ],
)
async def test_keys_that_are_typed_at_once_are_about_what_the_first_lead_to(
    keys: str, path: bytes, marks: Marks
) -> None:
    async with gate() as found:
        for key in (*keys.split(), "space"):
            found.stage.app.post_message(events.Key(key, " " if key == "space" else None))
        await found.stage.until(lambda: found.screen.total.accepted)
        await found.settled()
        assert found.screen.decided is not None
        assert set(found.screen.decided.history.now.files) == {path}
        assert found.marks(path)[0] == marks


async def test_modes_images_and_paths_that_take_anothers_name() -> None:
    async with gate(diff=MOVED) as found:
        await found.act("J", "J", "J", "enter", "g", "space")  # run.sh: the row of its mode
        assert found.diff.selection.parts == ("mode",)
        assert found.marks(b"run.sh") == (Marks(frozenset({"mode"})), Marks())
        assert found.screen.total.accepted == 1
        await found.act("K", "minus")
        assert found.marks(b"logo.png") == (Marks(), Marks(frozenset({"content"})))
        await found.act("K", "G", "space")  # a line of a/b, which needs that the file a goes
        assert found.marks(b"a/b")[0] == Marks(frozenset(), 0, 1 << 1)
        await found.stage.shows(
            "⊘ the new file: accepted, but cannot be applied", "accept that a goes", "⊘ 1 blocked"
        )
        await found.act("K", "a", "a", "space")
        await found.stage.until(lambda: not found.screen.blocked)
        assert "⊘" not in found.stage.text()


async def test_of_a_new_program_the_executable_bit_alone_can_be_rejected() -> None:
    old = b"index 3333333..4444444 100644\n"
    patch = MOVED_PATCH.replace(old, b"new file mode 100755\nindex 0000000..4444444\n")
    image = FileChange(b"logo.png", None, "A", 0, 0o100755, "0" * 40, "4" * 40, None, None)
    diff = MOVED._replace(patch=patch, changes=(*MOVED.changes[:2], image, MOVED.changes[3]))
    async with gate(diff=diff) as found:
        await found.act("J", "space", "J", "space", "K", "enter", "g", "minus")
        made = Marks(frozenset({"exists"}), 0, 1 << 1)
        assert found.marks(b"a/b") == (made, Marks(frozenset({"mode"})))
        await found.act("J", "g", "minus")
        accepted, rejected = found.marks(b"logo.png")
        assert rejected == Marks(frozenset({"mode"}))
        assert "exists" in accepted.parts and "mode" not in accepted.parts


# ------------------------------------------------------------ undo, marks


async def test_undo_and_redo_go_where_it_was_and_say_when_there_is_nothing() -> None:
    async with gate() as found:
        await found.press("z")
        await found.stage.shows("no decision of this proposal can be taken back")
        await found.act("space", "J", "minus", "K")
        await found.act("z")
        assert found.files.change is frozen.CHANGES[1]
        assert found.marks(YML) == (Marks(), Marks())
        await found.act("z")
        assert found.screen.decided is not None
        assert found.screen.decided.history.now.files == {}
        assert found.files.change is frozen.CHANGES[0]
        await found.act("Z", "Z")
        assert found.marks(YML)[1].lines == 4
        assert found.marks(TS)[0].lines == 9
        await found.press("Z")
        await found.stage.shows("no decision was taken back")


async def test_a_reviewed_mark_is_kept_and_falls_off_when_the_file_changes() -> None:
    engine = frozen.FrozenEngine()
    async with gate(engine=engine) as found:
        await found.act("m", "m")
        await found.stage.until(lambda: found.files.reviewed == {TS, YML})
        assert found.files.change is frozen.CHANGES[2]
        await found.act("K", "m")
        assert found.files.reviewed == {TS}
    changed = frozen.CHANGES[0]._replace(new_oid="7" * 40)
    engine.diff = frozen.DIFF._replace(tree="8" * 40, changes=(changed, *frozen.CHANGES[1:]))
    async with gate(engine=engine) as found:
        assert found.files.reviewed == set()


# ------------------------------------------------------------ others, errors, the end


async def test_when_another_desk_decided_theirs_is_shown_and_ours_is_said_to_be_lost() -> None:
    async with gate() as found:
        await found.act("space")
        other = FrozenDesk(found.engine, "bert")
        other.set([(LOCK, other.file(LOCK).all)], REJECTED)
        await found.press("J", "space")
        await found.stage.shows("somebody else decided meanwhile")
        await found.settled()
        assert found.screen.decided == found.kept
        assert found.marks(YML) == (Marks(), Marks())
        assert found.marks(LOCK)[1].lines == 2
        assert found.screen.total == Counts(9, 2, 5)
        await found.act("space")
        assert found.marks(YML)[0].lines == 4


async def test_what_a_dialog_over_the_review_kept_is_painted_when_it_goes() -> None:
    async with gate() as found:
        await found.press("question_mark")
        other = FrozenDesk(found.engine, "the dialog")
        other.set([(LOCK, other.file(LOCK).all)], REJECTED)
        await found.press("escape")
        await found.stage.until(lambda: found.screen.total == Counts(0, 2, 14))
        await found.act("space")
        assert found.screen.total == Counts(9, 2, 5)
        assert "somebody else" not in found.stage.text()


async def test_what_was_written_meanwhile_is_there_at_the_next_try() -> None:
    async with gate() as found:
        await found.press("l", "c")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, WriteScreen))
        other = FrozenDesk(found.engine, "bert")
        other.set([(LOCK, other.file(LOCK).all)], REJECTED)
        await write(found, "long thoughts", "ctrl+s")
        await found.stage.until(lambda: found.kept.comments or found.screen._drafts)
        await found.settled()
        if not found.kept.comments:
            await found.press("c")
            await found.stage.until(lambda: isinstance(found.stage.app.screen, WriteScreen))
            await found.press("ctrl+s")
            await found.settled()
        assert [one.text for one in found.kept.comments] == ["long thoughts"]


async def test_a_refusal_of_the_desk_is_shown_and_nothing_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gate() as found:

        def refuse(*given: object, **named: object) -> Review:
            raise Refused("the decision was not kept", "the disk is full", "make room")

        monkeypatch.setattr(FrozenDesk, "set", refuse)
        await found.press("space")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, ErrorScreen))
        await found.stage.shows("the decision was not kept", "the disk is full")
        assert found.screen.total == Counts(0, 0, 16)
        assert found.kept.empty


async def test_leaving_right_after_keys_keeps_all_of_them_and_tells_the_journal_once() -> None:
    async with gate() as found:
        await found.press("space", "J", "minus", "J", "space", "escape")
    engine = found.engine
    assert [found.kept.history.now.of(path).accepted.lines for path in (TS, YML, LOCK)] == [9, 0, 2]
    records = [json.loads(row) for row in engine.kept.journal.read_bytes().splitlines()]
    assert [record["kind"] for record in records] == ["decision"]
    assert (records[0]["data"]["accepted"], records[0]["data"]["rejected"]) == (11, 5)


async def test_what_was_applied_is_read_and_not_decided_about() -> None:
    engine = frozen.FrozenEngine()
    engine.rows = tuple(
        row._replace(state="applied") if row.name == "docs-tour" else row for row in engine.rows
    )
    async with play(engine) as stage:
        screen = await to_gate(stage)
        await stage.press("space")
        await stage.shows("this result was applied already")
        assert screen.decided is None


async def test_decisions_are_there_again_when_the_review_is_opened_again() -> None:
    engine = frozen.FrozenEngine()
    desk = FrozenDesk(engine, "bert")
    desk.set([(TS, FIRST)], ACCEPTED)
    async with gate(engine=engine) as found:
        assert found.screen.total == Counts(8, 0, 8)
        await found.stage.shows("✓8 ○1")
