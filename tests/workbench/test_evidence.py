"""The evidence pane in the review: it leads to the line of the diff that an item is about."""

from __future__ import annotations

from app.screens.review import ReviewScreen
from backends.snapshots import ReviewView
from backends.snapshots_evidence import Bulk, ProposalEvidence, Secret
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from widgets.checks import Evidence
from widgets.diff_view import DiffView
from widgets.file_list import FileList

PATH = b".github/workflows/x.yml"
FOUND = ProposalEvidence(
    (), (), None, 0, (), 0, 0, (), (Secret(PATH, 2, "Secret Keyword", "… (8 characters)", True),), (),
    (Bulk(b"src/auth/refresh.ts", "generated", "it says so itself"),),
)  # fmt: skip


class Engine(frozen.FrozenEngine):
    def review(self, ref: str) -> ReviewView:
        return super().review(ref)._replace(evidence=FOUND)


async def to_review(stage: Play) -> ReviewScreen:
    await stage.press("w", "w", "E")
    await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
    screen = stage.app.screen
    assert isinstance(screen, ReviewScreen)
    await stage.until(lambda: screen.review is not None)
    return screen


async def test_enter_on_an_item_shows_its_line_in_the_diff() -> None:
    async with play(Engine()) as stage:
        screen = await to_review(stage)
        pane, diff = screen.query_one(Evidence), screen.query_one(DiffView)
        files = screen.query_one(FileList)
        pane.focus()
        await stage.until(lambda: pane.has_focus and bool(pane.parts))
        place = next(at for at, row in enumerate(pane._rows) if row[0].id == "secrets" and row[1] is not None)
        await stage.press(*["down"] * place, "enter")
        await stage.until(lambda: diff.has_focus and files.change is not None and files.change.path == PATH)
        await stage.until(lambda: diff.index.new[diff.row] == 2)
        assert "Secret Keyword" in " ".join(pane.plain().split())


async def test_an_item_about_no_file_of_the_diff_leads_nowhere() -> None:
    async with play(Engine()) as stage:
        screen = await to_review(stage)
        pane, diff = screen.query_one(Evidence), screen.query_one(DiffView)
        pane.focus()
        pane.post_message(Evidence.Jump(pane, b"nowhere", 3))
        await stage.shows("this diff has no such file")
        assert not diff.has_focus
