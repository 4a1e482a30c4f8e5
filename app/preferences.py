"""What is checked before the workbench opens: the terminal, and what the person's configuration asks for."""

from __future__ import annotations

from collections.abc import Iterable

from app.actions import BY_ID
from backends.errors import Refused, UsageError
from themes.palettes import DEFAULT, THEMES


def refuse_terminal(term: str, interactive: bool) -> None:
    """Raises ``Refused`` where no screen can be drawn."""
    if not interactive:
        raise Refused(
            "the workbench cannot open",
            "standard input or output is not a terminal",
            "run cloche in a terminal, or use cloche ls and cloche watch BOX",
            code="no-terminal",
        )
    if term in ("", "dumb", "unknown"):
        raise Refused(
            "the workbench cannot open",
            f"TERM={term or 'unset'}: this terminal cannot place text on a screen",
            "use a terminal that can, or cloche ls and cloche watch BOX",
            code="dumb-terminal",
        )


def theme_name(asked: str) -> str:
    """The theme that a person's configuration names: ``dark``, ``light``, ``ansi``, or its full name."""
    for name in (asked, f"cloche-{asked}"):
        if name in THEMES:
            return name
    if asked:
        raise UsageError(
            "the workbench cannot open",
            f"config.toml names the theme {asked!r}, which there is not",
            f"write one of: {', '.join(name.removeprefix('cloche-') for name in THEMES)}",
            code="theme",
        )
    return DEFAULT


def checked_keymap(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The person's keys by action; ``UsageError`` for an action that the table does not have."""
    keymap = dict(pairs)
    for action in keymap:
        if action not in BY_ID or BY_ID[action].own:
            known = ", ".join(name for name, known in BY_ID.items() if not known.own)
            raise UsageError(
                "the workbench cannot open",
                f"config.toml gives a key to {action!r}, which is no action that can be moved",
                f"known actions: {known}",
                code="keymap",
            )
    return keymap
