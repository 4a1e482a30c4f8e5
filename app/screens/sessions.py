"""A session's terminal within the box screen: opened, attached, resized, left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from app.screens.base import WorkbenchScreen
from app.workers.terminal import TerminalChanged, TerminalPump
from widgets.ink import line
from widgets.inked import InkLine
from widgets.terminal import TerminalView

if TYPE_CHECKING:
    from backends.verbs.values import Terminal


class SessionPane(Vertical):
    """Holds at most one pump. Leaving the screen detaches; the session goes on in its box."""

    class Changed(Message):
        """A session was opened, ended or left."""

    def __init__(self, key: str, *, id: str) -> None:
        super().__init__(id=id)
        self.key = key
        self.pump: TerminalPump | None = None
        self._opening = False

    def compose(self) -> ComposeResult:
        yield InkLine(id="session-line")
        yield TerminalView()

    def on_mount(self) -> None:
        self._said("no terminal is open here: t opens a shell in the box, r attaches to the newest session")

    def on_unmount(self) -> None:
        if self.pump is not None:
            self.pump.close()

    @property
    def view(self) -> TerminalView:
        return self.query_one(TerminalView)

    @property
    def session(self) -> int | None:
        """The session that is shown, while it lives."""
        return self.pump.session if self.pump is not None and not self.pump.ended else None

    def open_shell(self) -> None:
        engine = self._screen_of().workbench.engine
        if self.session is not None:
            self.view.focus()
            return
        self._connect(lambda rows, cols: engine.open_shell(self.key, (), rows, cols), "opening a shell…")

    def attach(self) -> None:
        engine = self._screen_of().workbench.engine
        self._connect(lambda rows, cols: engine.attach(self.key, None, rows, cols), "attaching…")

    def _screen_of(self) -> WorkbenchScreen:
        assert isinstance(self.screen, WorkbenchScreen)
        return self.screen

    def _connect(self, connect: Callable[[int, int], Terminal], saying: str) -> None:
        if self._opening:
            return
        self._opening = True
        if self.pump is not None:
            self.pump.close()
            self.pump = None
        self._said(saying)
        width, height = self.view.size
        rows, columns = max(5, height), max(20, width)

        def opened(terminal: Terminal) -> None:
            self._opening = False
            self.pump = TerminalPump(self.key, terminal, columns, rows, self.post_message)
            self.pump.start()
            self.view.show(self.pump.take())
            if (self.view.size.width, self.view.size.height) != (columns, rows) and self.view.size.width:
                self.pump.resize(*self.view.size)
            self.view.focus()
            self._tell(f"session #{terminal.session}", "every key goes to it; ctrl+] leaves")

        def failed(error: Exception) -> None:
            self._opening = False
            self._said("the terminal could not be opened")
            self._screen_of().workbench.show_error(error)

        self._screen_of().ask(partial(connect, rows, columns), opened, failed=failed)

    def _said(self, text: str) -> None:
        self.view.say(text)
        self.query_one(InkLine).show(())
        self.post_message(self.Changed())

    def _tell(self, what: str, then: str, ink: str = "quiet") -> None:
        self.query_one(InkLine).show(line((what, "accent"), ("  " + then, ink)))
        self.post_message(self.Changed())

    def on_terminal_changed(self, event: TerminalChanged) -> None:
        event.stop()
        pump = self.pump
        if event.pump is not pump or pump is None:
            return
        self.view.show(pump.take(), alive=not pump.ended)
        if pump.ended:
            self._tell(f"session #{pump.session}", "ended or detached; t opens a shell, r attaches", "look")
        elif pump.resets:
            self._tell(
                f"session #{pump.session}", f"its output broke the screen {pump.resets}×; reset", "look"
            )

    def on_terminal_view_typed(self, event: TerminalView.Typed) -> None:
        if self.pump is not None and not self.pump.type(event.data):
            self._tell(f"session #{self.pump.session}", "does not read; keys are not kept", "look")

    def on_terminal_view_sized(self, event: TerminalView.Sized) -> None:
        if self.pump is not None and not self.pump.ended:
            self.pump.resize(event.columns, event.lines)

    def on_terminal_view_left(self, event: TerminalView.Left) -> None:
        self.screen.focus_next()
        self.post_message(self.Changed())
