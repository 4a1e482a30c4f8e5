"""What every full screen shares: header, footer from the action table, and engine calls with their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from textual.screen import Screen

from app.action import Situation
from app.actions import BY_ID, disabled_reason, of_context, shown_key
from app.workers.beside import beside
from app.workers.calls import call
from backends.errors import ClocheError
from backends.snapshots import BoxRow, BoxView
from widgets.header import Footer, FooterItem, Header
from widgets.visible import visible

if TYPE_CHECKING:
    from app.workbench import Workbench
    from widgets.patch import PatchIndex

Value = TypeVar("Value")
TAIL = ("palette", "help")
"""Actions that stand at the right end of every footer."""


class WorkbenchScreen(Screen[None]):
    """A full screen. Subclasses say their contexts, their situation, and have a ``do_ID`` method for each
    action that they carry out."""

    AUTO_FOCUS = ""
    CONTEXTS: tuple[str, ...] = ()

    ready = False
    """The screen's parts are there, so it can be told values."""

    def on_mount(self) -> None:
        self.ready = True

    @property
    def workbench(self) -> Workbench:
        return self.app  # type: ignore[return-value]

    def situation(self) -> Situation:
        return Situation()

    # ------------------------------------------------------------ what the publisher tells

    def boxes_changed(self, rows: tuple[BoxRow, ...]) -> None:
        """The list of boxes is another one."""

    def view_changed(self, view: BoxView) -> None:
        """A box that this screen wants is another one."""

    def box_failed(self, key: str, why: str) -> None:
        """A box that this screen wants could not be asked."""

    def patch_changed(self, key: str, patch: PatchIndex) -> None:
        """A box's diff is another one."""

    # ------------------------------------------------------------ actions

    async def action_act(self, action: str) -> None:
        """Carries out an action of the table, or says why it cannot be done."""
        reason = disabled_reason(action, self.situation())
        if reason:
            self.notify(
                visible(reason), title=BY_ID[action].text, severity="warning", markup=False, timeout=5
            )
            return
        getattr(self, "do_" + action.replace("-", "_"))()

    def do_help(self) -> None:
        from app.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self.CONTEXTS, self.workbench.keymap))

    def do_palette(self) -> None:
        self.app.action_command_palette()

    def do_quit(self) -> None:
        self.app.exit()

    def do_theme(self) -> None:
        self.workbench.next_theme()

    def do_back(self) -> None:
        self.app.pop_screen()

    async def on_footer_clicked(self, event: Footer.Clicked) -> None:
        await self.action_act(event.action)

    # ------------------------------------------------------------ frame

    def show_footer(self) -> None:
        """Says what can be done now; to be called whenever the situation may have changed."""
        situation = self.situation()
        items = [
            FooterItem(
                action.id,
                shown_key(self.workbench.keymap.get(action.id, action.key)),
                action.text,
                action.danger,
                action.reason(situation),
            )
            for action in of_context("anywhere", *self.footer_contexts())
            if action.footer
        ]
        tail = tuple(item for item in items if item.id in TAIL)
        self.query_one(Footer).show(tuple(item for item in items if item.id not in TAIL), tail)

    def footer_contexts(self) -> tuple[str, ...]:
        return self.CONTEXTS

    def compose_frame(self) -> tuple[Header, Footer]:
        return Header(), Footer()

    # ------------------------------------------------------------ engine

    def ask(
        self,
        work: Callable[[], Value],
        then: Callable[[Value], None] | None = None,
        *,
        doing: str = "",
        key: str = "",
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Runs an engine call off the loop. Its error becomes a dialog (or goes to ``failed``); ``doing``
        marks box ``key`` as busy meanwhile, so nothing else is started on it."""

        async def run() -> None:
            if doing:
                self.workbench.busy[key] = doing
                self.show_footer()
            try:
                value = await call(work, doing or "engine call", whole=bool(doing))
            except Exception as error:  # noqa: BLE001 (shown to the person, in one form)
                self._end_of(key, doing)
                if failed is not None:
                    failed(error)
                else:
                    self.workbench.show_error(error)
                return
            self._end_of(key, doing)
            if then is not None and self.is_attached:
                then(value)

        beside(self, run, group="engine")

    def _end_of(self, key: str, doing: str) -> None:
        if doing:
            self.workbench.busy.pop(key, None)
            self.workbench.publisher.refresh(key)
            if self.is_attached:
                self.show_footer()


def sentence_of(error: Exception) -> str:
    """An error in one line, for a place that has no room for a dialog."""
    if isinstance(error, ClocheError):
        return f"{error.what}: {error.why}"
    return f"{type(error).__name__}: {error}"
