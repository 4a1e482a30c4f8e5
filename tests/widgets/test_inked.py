"""Inks: every widget draws with those of the theme that the app has at that moment."""

from __future__ import annotations

import pytest
from rich.color import Color
from rich.style import Style

from tests.widgets.drawn import bench
from themes.palettes import DARK, LIGHT
from widgets.ink import Run
from widgets.inked import Inked, InkLine


def ink_drawn(widget: InkLine) -> Color | None:
    (segment, *_) = widget.render_lines(widget.size.region)[0]
    assert segment.style is not None
    return segment.style.color


async def test_another_theme_draws_what_stands_with_its_own_inks() -> None:
    widget = InkLine((Run("refused", "denial"),))
    async with bench(widget) as pilot:
        assert ink_drawn(widget) == Color.parse(DARK.variables["denial"])
        pilot.app.register_theme(LIGHT)
        pilot.app.theme = LIGHT.name
        await pilot.pause()
        await pilot.pause()
        assert DARK.variables["denial"] != LIGHT.variables["denial"]
        assert ink_drawn(widget) == Color.parse(LIGHT.variables["denial"])


async def test_inks_add_up_and_an_unknown_one_is_an_error() -> None:
    widget: Inked = InkLine()
    async with bench(widget):
        both = widget.ink("denial strong")
        assert both == Style(color=Color.parse(DARK.variables["denial"]), bold=True)
        with pytest.raises(KeyError, match="no-such-ink"):
            widget.ink("denial no-such-ink")
