"""The workbench: one Textual application over the engine. Screens are in :mod:`app.screens`.

Nothing here blocks: engine calls run beside the loop (:mod:`app.workers`), frozen values come back as
messages, and the handlers below are the only place that hands them on.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App
from textual.binding import BindingType
from textual.command import Provider
from textual.theme import Theme

from app.actions import quit_binding
from app.engine import EngineLike
from app.looked import FILE, Looked
from app.palette import TablePalette
from app.preferences import checked_keymap, refuse_terminal, theme_name
from app.screens.base import WorkbenchScreen
from app.screens.box import BoxScreen
from app.screens.dialogs import ErrorScreen
from app.screens.fleet import FleetScreen
from app.screens.new_box import NewBoxScreen
from app.screens.review import ReviewScreen
from app.screens.tier_text import host_truth
from app.screens.too_small import TooSmallScreen, too_small
from app.workers import departure
from app.workers.beside import beside
from app.workers.calls import call
from app.workers.publisher import BoxesFailed, BoxesRead, BoxFailed, BoxRead, DiffRead, Publisher
from backends.boxes.layout import state_dir
from backends.engine import Engine
from backends.errors import ClocheError
from backends.snapshots import BoxRow, BoxView, Claim
from themes.palettes import DEFAULT, THEMES, WITHOUT_COLOR
from widgets.ink import Line
from widgets.patch import PatchIndex, index_patch
from widgets.terminal import TerminalView
from widgets.visible import visible

SWITCH = 0.001
"""Seconds after which a thread that looks at boxes lets the loop go on: a dozen of them look at the same
time, and a key waits for its turn behind each."""

COLLECTING = (20_000, 20, 20)
"""New objects, and collections of those, between two collections of what is older (``gc.set_threshold``)."""

STYLES = Path(__file__).resolve().parent.parent / "themes"


class Workbench(App[int], inherit_bindings=False):
    """Owns the publisher and what was last published; every change goes through its handlers."""

    TITLE = "cloche"
    CSS_PATH: ClassVar[list[str | PurePath]] = [STYLES / "inks.tcss", STYLES / "screens.tcss"]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {TablePalette}
    BINDINGS: ClassVar[list[BindingType]] = [quit_binding()]
    ENABLE_COMMAND_PALETTE = True
    NOTIFICATION_TIMEOUT = 4
    ALLOW_SELECT = False

    def __init__(
        self,
        engine: EngineLike | None = None,
        *,
        cwd: Path | None = None,
        theme: str = "",
        keymap: dict[str, str] | None = None,
    ) -> None:
        without_color = "NO_COLOR" in os.environ
        chosen = WITHOUT_COLOR if without_color else theme or DEFAULT
        # Before super().__init__: the filters for NO_COLOR are chosen there, by this theme.
        self.set_reactive(App.theme, chosen if chosen in THEMES else DEFAULT)
        super().__init__()
        for known in THEMES.values():
            self.register_theme(known)
        self.cwd = cwd or Path.cwd()
        self.engine: EngineLike = engine if engine is not None else Engine(self.cwd)
        self.keymap: dict[str, str] = dict(keymap or {})
        self.everywhere = False
        self.rows: tuple[BoxRow, ...] = ()
        self.read = False  # whether the list of boxes was read yet
        self.views: dict[str, BoxView] = {}  # the newest of each box that was asked for
        self.busy: dict[str, str] = {}
        self.looked = Looked(state_dir() / FILE)
        self.claims: tuple[Claim, ...] | None = None
        self.host_truth: Line = ()
        self.place = ""
        self.repository: str | None = None  # its key, None outside any
        self.publisher = Publisher(self.engine, self.post_message)
        self._wanted: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = ((), (), ())
        self._without_color = without_color

    def get_theme(self, theme_name: str) -> Theme | None:
        return THEMES.get(theme_name) or super().get_theme(theme_name)

    def get_default_screen(self) -> WorkbenchScreen:
        return FleetScreen()

    # ------------------------------------------------------------ life

    async def on_mount(self) -> None:
        if self.keymap:
            self.set_keymap(self.keymap)
        if not self.is_headless:
            departure.on_signals(self.leave)
        # What is here by now stays until the end: keys would wait 50 ms whenever all of it is looked through.
        self.call_after_refresh(gc.freeze)
        beside(self, self._locate)
        beside(self, self._probe)
        self.publisher.start()

    def on_unmount(self) -> None:
        self.publisher.stop()

    def leave(self, code: int) -> None:
        """Ends the workbench from outside the loop; the terminal is restored on the way."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(partial(self.exit, None, code))

    async def _locate(self) -> None:
        key = await call(lambda: self.engine.repository_key, "locate")
        self.repository = key
        self.everywhere = self.everywhere or key is None
        self.place = (key or "").rpartition("-")[0] or str(self.cwd)
        self.want(*self._wanted)
        self._show_headers()

    async def _probe(self) -> None:
        try:
            self.claims = await call(self.engine.probe, "the host is being probed", whole=True)
        except ClocheError as error:
            self.claims = ()  # whoever needs to know more asks, and is told the same
            self.show_error(error)
        self.host_truth = host_truth(self.claims)
        self._show_headers()
        for screen in self.screen_stack:
            if isinstance(screen, NewBoxScreen):
                screen.claims_changed(self.claims)

    def _show_headers(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, FleetScreen) and screen.is_mounted:
                screen.show_header()

    def _fatal_error(self) -> None:
        """The end of the workbench by a fault of its own. Textual would print every local variable: policies,
        environments, and what boxes printed. Only places and the error itself are printed."""
        self.bell()
        error = sys.exc_info()[1] or self._exception
        text = Text("The workbench met a fault and ended. Boxes go on running.\n\n", "bold")
        if error is not None:
            for entry in traceback.extract_tb(error.__traceback__):
                text.append(f"  {entry.filename}:{entry.lineno} in {entry.name}\n", "dim")
            text.append(f"\n{type(error).__name__}: {visible(str(error))}\n")
        self._exit_renderables.append(text)
        self._close_messages_no_wait()

    def panic(self, *renderables: object) -> None:
        """Textual's other way to end by a fault, for errors that draw themselves: ours draws them."""
        self._fatal_error()

    # ------------------------------------------------------------ values in

    def on_boxes_read(self, event: BoxesRead) -> None:
        self.rows = event.rows
        self.read = True
        keys = {row.key for row in event.rows}
        self.views = {key: view for key, view in self.views.items() if key in keys}
        for screen in self._screens():
            screen.boxes_changed(event.rows)

    def on_boxes_failed(self, event: BoxesFailed) -> None:
        self.show_error(event.error)

    def on_box_read(self, event: BoxRead) -> None:
        self.views[event.view.row.key] = event.view
        for screen in self._screens():
            screen.view_changed(event.view)

    def on_box_failed(self, event: BoxFailed) -> None:
        for screen in self._screens():
            screen.box_failed(event.key, event.why)

    def on_diff_read(self, event: DiffRead) -> None:
        beside(self, partial(self._index, event), group=f"index {event.key}", exclusive=True)

    async def _index(self, event: DiffRead) -> None:
        paths = tuple(change.path for change in event.diff.changes)
        patch: PatchIndex = await call(partial(index_patch, event.diff.patch, paths), "index")
        for screen in self._screens():
            screen.patch_changed(event.key, patch)

    def _screens(self) -> list[WorkbenchScreen]:
        if not self.is_running:  # on the way out screens lose their parts before they leave the stack
            return []
        return [
            screen for screen in self.screen_stack if isinstance(screen, WorkbenchScreen) and screen.ready
        ]

    # ------------------------------------------------------------ what screens ask for

    def want(self, views: tuple[str, ...], diffs: tuple[str, ...], stats: tuple[str, ...] = ()) -> None:
        """What the screen in front shows: views, diffs, and figures of diffs of these boxes."""
        self._wanted = (views, diffs, stats)
        self.publisher.want(views, diffs, self.everywhere, stats)

    def look(self, row: BoxRow) -> None:
        """The person has this box in front of them: what was refused so far is no longer new."""
        if self.looked.look(row) and row.denied:
            beside(self, self._keep_looks, group="looked", exclusive=True)

    async def _keep_looks(self) -> None:
        text = self.looked.text()
        try:
            await call(partial(self.looked.save, text), "what was looked at is kept")
        except OSError as error:
            self.notify(f"what you looked at is not kept: {error.strerror}", severity="warning", markup=False)
            self.looked.path = None

    def toggle_everywhere(self) -> None:
        if self.repository is None:
            self.notify("not inside a repository: all boxes are shown", markup=False)
            return
        self.everywhere = not self.everywhere
        self.want(*self._wanted)

    def open_box(self, row: BoxRow, tab: str = "denials", with_shell: bool = False) -> None:
        self.push_screen(BoxScreen(row, tab, with_shell))

    def open_review(self, row: BoxRow) -> None:
        self.push_screen(ReviewScreen(row))

    def new_box(self) -> None:
        def made(row: BoxRow | None) -> None:
            if row is not None:
                self.publisher.refresh()
                self.open_box(row)

        self.push_screen(NewBoxScreen(), made)

    def show_error(self, error: Exception) -> None:
        if isinstance(self.screen, ErrorScreen) and str(self.screen.error) == str(error):
            return
        self.push_screen(ErrorScreen(error))

    def next_theme(self) -> None:
        if self._without_color:
            self.notify("NO_COLOR is set: the terminal's own colours are kept", markup=False)
            return
        names = list(THEMES)
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else DEFAULT

    # ------------------------------------------------------------ terminal

    def on_resize(self, event: events.Resize) -> None:
        small = too_small(*event.size)
        there = any(isinstance(screen, TooSmallScreen) for screen in self.screen_stack)
        if small and not there:
            self.push_screen(TooSmallScreen())
        elif not small and isinstance(self.screen, TooSmallScreen):
            self.pop_screen()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A terminal that takes the keys takes all of them, the palette's and the one that leaves too."""
        if action in ("command_palette", "quit"):
            focused = self.focused
            if isinstance(focused, TerminalView) and focused.takes_keys:
                return False
        return super().check_action(action, parameters)


def main() -> int:
    """Opens the workbench on the boxes of the current folder's repository, of all outside any."""
    refuse_terminal(os.environ.get("TERM", ""), sys.stdin.isatty() and sys.stderr.isatty())
    from backends.policy.settings import settings

    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)  # exported, they would outweigh what the terminal says after a resize
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*COLLECTING)
    chosen = settings()
    application = Workbench(theme=theme_name(chosen.theme), keymap=checked_keymap(chosen.keymap))
    application.run()
    departure.wait()
    return application.return_code or 0
