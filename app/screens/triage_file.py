"""The dialog that asks for a bundle's file, and the writing of one: never over a file that is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from app.screens.dialogs import Choice
from app.screens.modal import Modal
from backends.errors import Refused
from widgets.ink import line
from widgets.lines import Document


class BundleScreen(Modal[Path | None]):
    """Asks for a file; relative to the folder that the workbench was opened in."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", "No", show=False)]

    def __init__(self, title: str, sentence: str, yes: str, folder: Path, name: str = "") -> None:
        super().__init__()
        self._words = (title, sentence, yes)
        self._folder = folder
        self._name = name

    def compose(self) -> ComposeResult:
        title, _, yes = self._words
        frame = Vertical(classes="dialog")
        frame.border_title = title
        with frame:
            yield Document(id="what")
            yield Input(value=self._name, placeholder="path of the bundle", id="file")
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice(yes, id="yes")

    def on_mount(self) -> None:
        document = self.query_one(Document)
        document.can_focus = False
        document.set_paragraphs([line(self._words[1])])
        self.query_one(Input).focus()

    def action_no(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one("#yes", Choice).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        name = self.query_one(Input).value.strip()
        if event.choice.id == "no":
            self.dismiss(None)
        elif name:
            self.dismiss(self._folder / Path(name).expanduser())
        else:
            self.query_one(Input).focus()


def write_new(path: Path, data: bytes) -> Path:
    """Writes ``data`` for the person's eyes only (mode 0600); ``Refused`` where something has that name."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(
            "no bundle was written",
            f"{path}: {error.strerror}",
            "choose another name",
            code="bundle-file",
        ) from error
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    return path
