"""The table of docs/egress.md about the proxy says what the code does, row by row."""

from __future__ import annotations

import pytest

from backends.egress import proxied
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.egress.proxyhead import ProxyHead, Target, Wrong
from backends.egress.rules import parse_all
from tests.egress.test_documented import bare, rows

LISTED = ("a.example", "a.example:80", "*.w.example", "raw:db.example:5432", "10.0.0.0/8:22")
PINNED = ("a.example", "b.example", "db.example")


@pytest.mark.parametrize(("asked", "answer"), rows("By a proxy"))
def test_a_request_gets_the_documented_answer(asked: str, answer: str) -> None:
    words = bare(asked)
    host = words.partition("://")[2].partition("/")[0]
    head = f"{words} HTTP/1.1\r\n" + (f"Host: {host}\r\n" if host else "") + "\r\n"
    target = ProxyHead().feed(head.encode())
    if isinstance(target, Wrong):
        assert answer == f"{target.status}: {target.reason}"
        return
    assert isinstance(target, Target)
    pins = Pins(Pin(name, ("8.8.8.8",), 1.0) for name in PINNED)
    way = proxied.way(Matcher(parse_all(LISTED)), pins, target)
    if way.unknown:
        assert answer == "the host looks the name up"
    elif not way.addresses:
        assert answer == f"403: {way.reason}"
    elif target.tunnel:
        assert answer == "a tunnel that says " + ("anything" if way.raw else f"`{target.host}`")
    else:
        first = target.head.decode().partition(" HTTP/1.1\r\n")[0]
        assert answer == f"`{first}` for `{target.host}`"
        assert f"\r\nHost: {target.host}\r\n" in target.head.decode()


def test_there_are_rows() -> None:
    assert len(rows("By a proxy")) > 15
