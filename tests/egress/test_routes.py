"""Addresses without a route are not pinned, so that no program waits for what the host cannot reach."""

from __future__ import annotations

import os

import pytest

from backends.egress import routes
from backends.egress.matcher import Matcher
from backends.egress.rules import parse_all
from backends.kernel import namespaces


def alone(address: str) -> bool:
    """What a process in a network namespace without any interface that is up says of ``address``."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET)
            code = int(routes.routed(address))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1)
    return bool(code)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111"])
def test_without_a_network_no_address_is_routed(address: str) -> None:
    assert not alone(address)


def test_loopback_is_always_routed() -> None:
    assert routes.routed("127.0.0.1")


@pytest.mark.parametrize("text", ["", "name.example", "1.2.3", "::g"])
def test_what_is_no_address_is_not_routed(text: str) -> None:
    assert not routes.routed(text)


def test_an_answer_is_judged_by_the_rules_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "routed", lambda address: ":" not in address)
    judge = routes.answer(Matcher(parse_all(["a.example"])))
    assert judge("1.1.1.1").allowed
    assert judge("2606:4700::1111") == (False, routes.UNROUTED)
    refused = judge("fd00::1")
    assert not refused.allowed and refused.reason != routes.UNROUTED
