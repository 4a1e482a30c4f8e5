"""A short command collects no garbage while it loads; what may last does again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from app import cli
from app.cli.run import Passing


class Handle:
    id = 1

    def signal(self, number: int) -> None:
        raise AssertionError(f"nobody sent {number}")


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    yield
    gc.enable()


def test_a_verb_of_the_table_runs_with_the_collector(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[bool] = []

    def leave(code: int) -> NoReturn:
        seen.append(gc.isenabled())
        raise SystemExit(code)

    monkeypatch.setattr(cli, "_leave", leave)
    monkeypatch.setattr(sys, "argv", ["cloche", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "cloche" in capsys.readouterr().out
    assert seen == [True]


def test_a_command_in_a_box_is_waited_for_with_the_collector() -> None:
    gc.disable()
    passing = Passing()
    passing(Handle())
    passing.restore()
    assert gc.isenabled()
