"""Only addresses that the host has a way to are told to a box, which could not tell where one leads."""

from __future__ import annotations

from backends.egress import routes
from backends.egress.pins import Pin

V4, V6 = "203.0.114.1", "2a00:77::1"


def only_ipv4(address: str) -> bool:
    return ":" not in address


def test_an_address_without_a_route_is_left_out_with_the_reason() -> None:
    pin = Pin("a.test", (V4, V6), 1.0, (("10.0.0.1", "a private network"),))
    found = routes.within(pin, only_ipv4)
    assert found.addresses == (V4,)
    assert found.refused == (("10.0.0.1", "a private network"), (V6, routes.NO_ROUTE))


def test_a_host_without_any_route_keeps_what_was_found() -> None:
    assert routes.leading((V4, V6), lambda _address: False) == (V4, V6)
    pin = Pin("a.test", (V6,), 1.0)
    assert routes.within(pin, only_ipv4) is pin


def test_loopback_has_a_route_on_every_host() -> None:
    assert routes.routed("127.0.0.1")
