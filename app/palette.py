"""The command palette: the actions of the screen, from the table, and every box by name.

Box names are outside text. What the palette shows is always a ``Text``, which is never read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider

from app.actions import of_context, shown_key
from app.screens.base import WorkbenchScreen
from widgets.visible import visible

if TYPE_CHECKING:
    from app.workbench import Workbench


class Entry(NamedTuple):
    text: str  # what is matched
    shown: Text
    run: Callable[[], object]


class TablePalette(Provider):
    """Offers what can be done now; what cannot is shown with its reason and says it again when chosen."""

    def _entries(self) -> Iterator[Entry]:
        screen = self.screen
        if not isinstance(screen, WorkbenchScreen):
            return
        workbench: Workbench = screen.workbench
        situation = screen.situation()
        for action in of_context(*screen.CONTEXTS, "anywhere"):
            if action.own or action.id == "palette":
                continue
            shown = Text(action.tooltip)
            shown.append(f"  {shown_key(workbench.keymap.get(action.id, action.key))}", "bold")
            reason = action.reason(situation)
            if reason:
                shown.append(f"  not now: {visible(reason)}", "dim")
            yield Entry(f"{action.text} {action.tooltip}", shown, partial(screen.action_act, action.id))
        for row in workbench.rows:
            shown = Text(f"open {visible(row.name)}")
            shown.append(f"  {row.tier}  {row.state}", "dim")
            yield Entry(shown.plain, shown, partial(workbench.open_box, row))

    async def discover(self) -> Hits:
        for entry in self._entries():
            yield DiscoveryHit(entry.shown, entry.run, text=entry.text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for entry in self._entries():
            score = matcher.match(entry.text)
            if score > 0:
                yield Hit(score, entry.shown, entry.run, text=entry.text)
