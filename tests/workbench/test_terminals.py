"""Kind U5: sizes, no colour, no mouse, terminals that cannot draw; and how the workbench ends by a fault."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from app.preferences import checked_keymap, refuse_terminal, theme_name
from app.screens.box import BoxScreen
from app.screens.fleet import FleetScreen
from app.screens.too_small import TooSmallScreen, too_small
from app.workbench import Workbench
from backends.errors import Refused, UsageError
from tests.workbench import frozen
from tests.workbench.stage import play
from themes.palettes import THEMES
from widgets import marks

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("size", "small"), [((39, 24), True), ((80, 9), True), ((40, 10), False)])
def test_what_is_too_small(size: tuple[int, int], small: bool) -> None:
    assert too_small(*size) is small


async def test_shrinking_shows_a_notice_and_growing_brings_everything_back() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, (200, 50)) as stage:
        await stage.shows("fix-auth")
        await stage.press("enter")
        await stage.shows("telemetry.example:443")
        await stage.size(20, 5)
        await stage.shows("too small", "20x5", "need 40x10")
        assert isinstance(stage.app.screen, TooSmallScreen)
        view = engine.view(frozen.FLEET[0].key)
        engine.views[frozen.FLEET[0].key] = view._replace(output=b"meanwhile\n")
        await stage.press("X", "x", "enter")
        assert engine.asked == []
        await stage.size(80, 24)
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))
        await stage.shows("telemetry.example:443", "meanwhile")
        await stage.size(10, 3)
        await stage.size(200, 50)
        await stage.press("escape")
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
        await stage.shows("fix-auth")


@pytest.mark.parametrize(
    ("columns", "rows"),
    [(40, 10), (40, 60), (80, 10), (99, 24), (100, 24), (119, 30), (169, 50), (170, 12), (300, 80)],
)
async def test_every_size_in_between_draws(columns: int, rows: int) -> None:
    async with play(frozen.FrozenEngine(), (columns, rows)) as stage:
        await stage.shows("fix-auth")
        assert all(len(line) <= columns for line in stage.text().split("\n"))


async def test_without_colour_no_colour_is_sent_and_every_state_is_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with play(frozen.FrozenEngine(), theme="cloche-light") as stage:
        assert stage.app.theme == "cloche-ansi"
        await stage.shows(
            "▶ running", "◆ proposed", "‖ idle", "† keeper lost", "UNCONFINED", "! waits for an answer"
        )
        await stage.press("v")
        await stage.shows("▶ running")
        console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=120)
        for strip in stage.app.screen._compositor.render_strips():
            for filter_ in stage.app._filters:
                if filter_.enabled:
                    strip = strip.apply_filter(filter_, stage.app.screen.background_colors[1])
            for _, style, _ in strip:
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default
            console.print(strip, end="")
        cursor = stage.app.screen.query_one("#table").render_line(1)
        assert any(style is not None and style.reverse for _, style, _ in cursor), (
            "the cursor row is told by reverse"
        )
        await stage.press("f9")
        assert stage.app.theme == "cloche-ansi"


async def test_themes_take_turns_and_each_draws_every_screen() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        seen = []
        for _ in THEMES:
            seen.append(stage.app.theme)
            await stage.press("f9")
            await stage.shows("denied 17")
        assert sorted(seen) == sorted(THEMES)


@pytest.mark.parametrize("name", list(THEMES))
async def test_red_is_spent_on_denials_only(name: str) -> None:
    """No ink but ``denial`` has the theme's red."""
    denial = THEMES[name].variables["denial"]
    users = [ink for ink, color in THEMES[name].variables.items() if color == denial]
    assert users == ["denial"]
    assert denial not in (THEMES[name].error, THEMES[name].warning, THEMES[name].accent)


def test_states_differ_by_mark() -> None:
    signs = [mark for mark, _ in marks.STATES.values()] + [mark for mark, _, _ in marks.LIVE.values()]
    assert len(set(signs)) == len(signs)
    assert len({mark for mark, _ in marks.VERDICTS.values()}) == 3


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_terminal_that_cannot_draw_is_refused_with_a_way_on(term: str) -> None:
    with pytest.raises(Refused) as caught:
        refuse_terminal(term, interactive=True)
    assert "TERM=" in caught.value.why
    assert "cloche ls" in caught.value.next_step


def test_terminals_that_can_draw_are_taken() -> None:
    for term in ("xterm", "xterm-256color", "screen-256color", "tmux-256color", "linux", "vt100"):
        refuse_terminal(term, interactive=True)
    with pytest.raises(Refused):
        refuse_terminal("xterm", interactive=False)


def test_without_a_terminal_the_command_says_so_and_gives_3() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import sys; from app.cli import main; sys.exit(main())"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "is not a terminal" in done.stderr
    assert "cloche ls" in done.stderr


def test_a_keymap_and_a_theme_that_do_not_exist_are_errors_that_name_what_does() -> None:
    assert checked_keymap([("stop", "s")]) == {"stop": "s"}
    with pytest.raises(UsageError, match="no action"):
        checked_keymap([("stopp", "s")])
    with pytest.raises(UsageError, match="no action"):
        checked_keymap([("fold", "s")])
    assert theme_name("") == "cloche-dark"
    assert theme_name("light") == "cloche-light"
    with pytest.raises(UsageError, match="sepia"):
        theme_name("sepia")


async def test_a_moved_key_works_and_the_footer_and_help_say_so() -> None:
    engine = frozen.FrozenEngine()
    app = Workbench(engine, keymap={"stop": "s"})
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        from tests.workbench.stage import Play

        stage = Play(app, pilot)
        await stage.until(lambda: app.focused is not None and app.read)
        assert " s stop" in stage.footer()
        await stage.press("s")
        await stage.shows("Stop fix-auth")
        await stage.press("escape", "question_mark")
        await stage.shows("  s                End every process of the box")


async def test_a_fault_of_the_workbench_prints_no_local_variable(capsys: pytest.CaptureFixture[str]) -> None:
    app = Workbench(frozen.FrozenEngine())
    with pytest.raises(RuntimeError):
        async with app.run_test(size=(80, 24)) as pilot:

            def broken() -> None:
                secret_token = "hunter2-" + "value"  # noqa: F841
                raise RuntimeError("bad \x1b]0;x\x07 end")

            app.call_later(broken)
            await pilot.pause()
            await pilot.pause()
    text = capsys.readouterr().err
    assert "RuntimeError: bad \\x1b]0;x\\x07 end" in text
    assert "in broken" in text
    assert "hunter2" not in text
    assert "secret_token" not in text


async def test_an_unforeseen_error_of_an_engine_call_is_a_dialog_and_not_the_end() -> None:
    engine = frozen.FrozenEngine()

    def fail(verb: str, ref: str) -> None:
        if verb == "stop":
            raise ZeroDivisionError("[b]x\x1b[0m")

    engine.wait = fail
    async with play(engine) as stage:
        await stage.until(lambda: stage.app.focused is not None)
        await stage.press("X", "right", "enter")
        await stage.shows("Not done", "ZeroDivisionError: [b]x\\x1b[0m")
        await stage.press("enter")
        assert isinstance(stage.app.screen, FleetScreen)
