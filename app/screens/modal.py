"""What every dialog is: a modal screen that is answered once."""

from __future__ import annotations

from typing import ClassVar

from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, ScreenResultType


class Modal(ModalScreen[ScreenResultType]):
    """A second answer, such as that of Enter held down, is not taken for one of the screen below.

    Tab is taken before any field has it: a key is given to what has the focus when it comes, and what was
    typed or pasted right after a tab would be written into the field that it left.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave with a result; nothing where the dialog was left already."""
        if self not in self.app.screen_stack:
            return AwaitComplete()
        return super().dismiss(result)
