"""Typing into a session's terminal beside those who look at it."""

from __future__ import annotations

import base64

import pytest

from backends.errors import Busy, NoSuchBox, UsageError
from backends.keeper.client import KeeperClient
from backends.keeper.requests import MOST_TYPED
from tests.keeper.boxes import shell

NULLS = "exec sleep 300"


def typed(keeper: KeeperClient, session: int, data: bytes) -> None:
    keeper.call("type", session=session, data=base64.b64encode(data).decode())


def test_what_is_typed_is_read_by_the_session_and_its_window_stays(keeper: KeeperClient) -> None:
    script = "stty size; echo rea''dy; IFS= read -r line; printf '<%s>' \"$line\"; stty size; sleep 300"
    session, screen = shell(keeper, "/bin/sh", "-c", script, rows=33, cols=111)
    screen.until(b"ready\r\n")
    typed(keeper, session, b"a line\r")
    assert b"33 111\r\n" in screen.until(b"<a line>33 111\r\n")


def test_a_command_without_a_terminal_and_no_session_are_named(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, "/bin/sh", "-c", "exit 0")
    keeper.wait_event("exit", 60, session=session)
    assert screen.ended()
    with pytest.raises(UsageError) as ended:
        typed(keeper, session, b"x")
    assert ended.value.code == "no-terminal"
    for number in (session + 1000, None, "1"):
        with pytest.raises(NoSuchBox):
            keeper.call("type", session=number, data="eA==")


@pytest.mark.parametrize("data", [b"", b"x" * (MOST_TYPED + 1)])
def test_too_little_and_too_much_is_not_typed(keeper: KeeperClient, data: bytes) -> None:
    session, _ = shell(keeper, "/bin/sh", "-c", NULLS)
    with pytest.raises(UsageError) as caught:
        typed(keeper, session, data)
    assert caught.value.code == "bad-request"
    for text in ("\u00e9!!", "eA=", "e A=="):
        with pytest.raises(UsageError):
            keeper.call("type", session=session, data=text)


def test_a_session_that_reads_nothing_takes_only_so_much(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, "/bin/sh", "-c", f"stty raw -echo; echo rea''dy; {NULLS}")
    screen.until(b"ready")
    with pytest.raises(Busy) as caught:
        for _ in range(64):
            typed(keeper, session, b"x" * MOST_TYPED)
    assert caught.value.code == "not-reading"
