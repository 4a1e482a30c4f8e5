"""An export in the review screen: all of it can be read, nothing decided, and the way back leads out."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.screens.bundle import READ_ONLY, BundleBench, Sent, view_of
from app.workbench import Workbench
from backends.errors import Refused
from backends.gate.export import export
from backends.snapshots import CheckRow, Finding
from backends.snapshots_bundle import ONLY_NOW, SAME, BundleView, Judged
from backends.verbs import bundles
from tests.conftest import Home
from tests.gate.test_exported_review import everything, told
from tests.gate.world import World
from tests.workbench import stage as stages
from tests.workbench.frozen import FrozenEngine

ESCAPE = "\x1b]0;owned\x07[bold]x"


def sent(*, rerun: bool = True) -> BundleView:
    engine = FrozenEngine()
    view = engine.review(engine.rows[0].key)
    findings = (
        Finding("patch.diff", "ok", "patch.diff is what the receipt names", "SHA-256 1", ""),
        Finding("signature", "fail", "the signer is not known", ESCAPE, ""),
    )
    judged = tuple(Judged(row, SAME) for row in view.checks)
    judged = (Judged(CheckRow("secret", "warn", "line 3", b"a"), ONLY_NOW), *judged) if rerun else ()
    view = view._replace(row=view.row._replace(purpose=ESCAPE))
    return BundleView("out", 1.0, findings, view, rerun, "" if rerun else "no base", judged, ())


def test_what_holds_of_the_export_stands_among_the_checks() -> None:
    rows = view_of(sent()).checks
    assert [(row.id, row.verdict) for row in rows[:3]] == [
        ("export", "pass"), ("export", "refuse"), ("secret", "warn"),
    ]  # fmt: skip
    assert rows[2].reason.endswith("(not in the receipt)")
    rows = view_of(sent(rerun=False)).checks
    assert rows[2] == CheckRow("export", "warn", "the checks are as recorded: no base", None)


def test_the_engine_of_an_export_refuses_every_act() -> None:
    engine = Sent(sent())
    assert engine.boxes() == () and engine.review("x").row.state == "exported"
    for name in ("apply", "decisions", "export", "blob", "run", "remove", "accept_rule"):
        with pytest.raises(Refused) as caught:
            getattr(engine, name)("x")
        assert caught.value.code == "export-only"


async def test_hostile_texts_of_an_export_are_drawn_as_texts(
    monkeypatch: pytest.MonkeyPatch, home: Home, tmp_path: Path
) -> None:
    world = World(home.root)
    export(world.paths, told(world, everything(world)), tmp_path / "out")
    found = bundles.review(tmp_path / "out", None, None)
    monkeypatch.setattr(stages, "Workbench", lambda *_, **__: BundleBench(found))
    async with stages.play(size=(160, 50)) as play:
        await play.shows("Evidence", "the journal was not checked")
        for key in ("J", "J", "tab", "tab", "right", "end", "home", "question_mark", "escape"):
            await play.press(key)
            assert not set(play.text()) & set("\x1b\x07\r\u202e")


async def test_an_export_is_read_by_keys_and_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def bench(*_: object, **__: object) -> Workbench:
        return BundleBench(sent())

    monkeypatch.setattr(stages, "Workbench", bench)
    async with stages.play(size=(140, 40)) as play:
        await play.shows("Evidence", "the signer is not known", "Files")
        assert "\x1b" not in play.text()
        for key in ("space", "x", "c", "E", "P", "R", "T", "m", "z"):
            await play.press(key)
        await play.shows(READ_ONLY[:30])
        assert [type(screen).__name__ for screen in play.app.screen_stack] == ["BundleScreen"]
        await play.press("J", "l", "d", "d", "K")
        await play.press("escape")
        await play.until(lambda: not play.app.is_running or play.app.return_code == 0)
