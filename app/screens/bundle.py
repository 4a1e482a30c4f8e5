"""The review screen over an export, where its box is not: everything can be read, nothing decided."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import NoReturn, cast

from app.action import Situation
from app.engine import EngineLike
from app.preferences import checked_keymap, refuse_terminal, theme_name
from app.screens.review import ReviewScreen
from app.workbench import COLLECTING, SWITCH, Workbench
from app.workers import departure
from backends.errors import Refused
from backends.snapshots import BoxRow, CheckRow, Claim, ReviewView
from backends.snapshots_bundle import ONLY_NOW, ONLY_THEN, BundleView

READ_ONLY = "this is an export, and its box is not here: it can only be read"
_AS_CHECK = {"ok": "pass", "warn": "warn", "fail": "refuse"}


class Sent:
    """An engine that has one review to show, and no box."""

    repository_key: str | None = None

    def __init__(self, found: BundleView) -> None:
        self._view = view_of(found)

    def boxes(self, everywhere: bool = False) -> tuple[BoxRow, ...]:
        return ()

    def probe(self) -> tuple[Claim, ...]:
        return ()

    def review(self, ref: str) -> ReviewView:
        return self._view

    def _none(self, *_: object, **__: object) -> NoReturn:
        raise Refused(
            "that cannot be done with an export",
            READ_ONLY,
            "go to the host that has the box",
            code="export-only",
        )

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._none


def view_of(found: BundleView) -> ReviewView:
    """The review with what of the export holds among its checks, which is where a reviewer looks for it."""
    rows = [
        CheckRow(
            "export",
            _AS_CHECK[one.verdict],
            f"{one.text} ({one.evidence})" if one.evidence else one.text,
            None,
        )
        for one in found.findings
    ]
    if not found.rerun:
        rows.append(CheckRow("export", "warn", f"the checks are as recorded: {found.why_not}", None))
    said = {ONLY_NOW: " (not in the receipt)", ONLY_THEN: " (in the receipt alone)"}
    checks = (
        tuple(one.row._replace(reason=one.row.reason + said.get(one.when, "")) for one in found.judged)
        if found.rerun
        else found.view.checks
    )
    return found.view._replace(row=found.view.row._replace(state="exported"), checks=(*rows, *checks))


class BundleScreen(ReviewScreen):
    """A review without a desk; the way back leads out."""

    def sit_down(self, review: ReviewView) -> None:
        self.undecidable = READ_ONLY

    def situation(self) -> Situation:
        return super().situation()._replace(deciding=READ_ONLY, busy=READ_ONLY)

    def do_back(self) -> None:
        if not self.close_search() and not self.diff.end_range():
            self.app.exit(0)

    def _failed(self, error: Exception) -> None:
        self.workbench.show_error(error)


class BundleBench(Workbench):
    """The workbench with nothing but an export in it."""

    def __init__(self, found: BundleView, *, theme: str = "", keymap: dict[str, str] | None = None) -> None:
        super().__init__(cast(EngineLike, Sent(found)), cwd=Path.cwd(), theme=theme, keymap=keymap)
        self._row = found.view.row

    def get_default_screen(self) -> BundleScreen:
        return BundleScreen(self._row)


def require_terminal() -> None:
    """``Refused`` where no screen can be drawn."""
    refuse_terminal(os.environ.get("TERM", ""), sys.stdin.isatty() and sys.stderr.isatty())


def show(found: BundleView) -> int:
    """Opens the screen and returns when the person leaves it."""
    from backends.policy.settings import settings

    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # exported, they would outweigh what the terminal says after a resize
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*COLLECTING)
    chosen = settings()
    bench = BundleBench(found, theme=theme_name(chosen.theme), keymap=checked_keymap(chosen.keymap))
    bench.run()
    departure.wait()
    return bench.return_code or 0
