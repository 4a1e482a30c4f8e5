"""What every dialog is: a modal screen that is answered once."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Modal(ModalScreen[ScreenResultType]):
    """A second answer, such as that of Enter held down, is not taken for one of the screen below."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave with a result; nothing where the dialog was left already."""
        if self not in self.app.screen_stack:
            return AwaitComplete()
        return super().dismiss(result)
