"""Kinds U1 and U2 through the whole workbench: list, tree, diff, dialog, notification, palette, header."""

from __future__ import annotations

from typing import Any

import pytest

from backends.errors import Refused
from backends.snapshots import ApplyOutcome, ExportOutcome
from tests.workbench import frozen
from tests.workbench.stage import Play, play

HOSTILE = (
    "[@click=app.quit]README.md[/]",
    "x[/",
    "src/[id]/p.tsx",
    "$denial {x} \\[b]",
    "a\x1b]0;owned\x07\x1b]52;c;aGk=\x1b\\\x9b31m\rb\u202e",
)


def inert(stage: Play) -> None:
    """No cell on the screen is a link, an action or a control; the title and clipboard were not touched."""
    for strip in stage.app.screen._compositor.render_strips():
        for segment in strip:
            assert segment.control is None
            assert segment.text.isprintable(), ascii(segment.text)
            style = segment.style
            assert style is None or (style.link is None and "@click" not in style.meta)
    assert stage.app.title == "cloche"
    assert stage.app.clipboard == ""


class HostileEngine(frozen.FrozenEngine):
    """Every text that may come from outside is ``text``; each verb fails with it or returns it."""

    def __init__(self, text: str) -> None:
        self.text = text
        row = frozen.box(text, needs=text, last_line=text, base_ref=text, purpose=text, denied=2)
        row = row._replace(repository=text)
        frozen_row = row._replace(key="k/2", state="proposed", live="", processes=0)
        super().__init__((row, frozen_row))
        view = frozen.FrozenEngine((row,)).view(row.key)
        raw = text.encode("utf-8", "surrogateescape")
        self.views[row.key] = view._replace(
            row=row,
            processes=(frozen.process(1, 0, text), frozen.process(2, 1, text)),
            tally=frozen.tally(frozen.denial("net", text, 2, text)),
            output=raw + b"\n",
        )
        one = raw.replace(b"\n", b"")
        change = frozen.CHANGES[0]._replace(path=one)
        patch = b"diff --git a/x b/x\n@@ -1 +1 @@ " + one + b"\n-" + one + b"\n+" + one + b"!\n"
        self.diff = frozen.DIFF._replace(changes=(change,), patch=patch)
        self.checks = (frozen.CHECKS[0]._replace(reason=text, path=one),)
        self.repository_key = f"{text}-0123"
        message = f"{text}\n\n{text}"
        self.plan = self.plan._replace(branch=text, author=text, message=message, trailers=(text,))

    def kill(self, ref: str, process: Any, signal: int) -> None:
        raise Refused(self.text, self.text, self.text)

    def stop(self, ref: str) -> bool:
        return True

    def export(self, ref: str, out: Any, force: bool = False) -> ExportOutcome:
        return ExportOutcome(self.text, (self.text,), frozen.SNAPSHOT)

    def apply(self, ref: str, **rest: Any) -> ApplyOutcome:
        return ApplyOutcome(self.text, self.text, self.text, self.text, self.text)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
async def test_outside_text_is_literal_and_inert_on_every_screen(text: str) -> None:
    engine = HostileEngine(text)
    plain = text.isprintable()

    async def shown(stage: Play) -> None:
        await stage.until(lambda: (text if plain else "\\x1b]0;owned\\x07") in stage.text())
        inert(stage)

    async with play(engine, (160, 50)) as stage:
        await shown(stage)
        for _ in range(3):
            await stage.press("c")
            await stage.shows("+182 -40")
            inert(stage)
        await stage.press("v")
        await shown(stage)
        await stage.press("ctrl+p")
        await stage.until(lambda: "open " in stage.text())
        inert(stage)
        await stage.press("escape", "X")
        await shown(stage)  # a dialog
        await stage.press("right", "enter")
        await stage.shows("stopped,")  # a notification
        await shown(stage)
        await stage.press("enter")
        for tab in "12345":
            await stage.press(tab)
            await shown(stage)
        await stage.press("escape", "enter", "K")
        await shown(stage)
        await stage.press("right", "enter")
        await stage.shows("Refused")  # the error dialog
        await shown(stage)
        await stage.press("enter", "escape", "down", "E")
        await stage.shows("Evidence")
        await shown(stage)
        await stage.press("P")
        await shown(stage)
        await stage.press("escape", "E")
        await shown(stage)
        await stage.press("enter", "enter")
        await stage.shows("exported")  # a notification with a path
        inert(stage)
