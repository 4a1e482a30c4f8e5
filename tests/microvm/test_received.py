"""What is told of a guest's list names what stays closed, as every other tier does."""

from __future__ import annotations

from typing import cast

from backends.egress.pins import Pin, Pins
from backends.microvm import received
from backends.microvm.vmm import GuestSpec
from backends.policy.model import NetPolicy
from backends.tiers.protocol import LaunchSpec
from tests.policy.test_canonical import EXAMPLE


class Guest:
    proxy = ("unix", 1)


class Launch:
    policy = EXAMPLE._replace(net=NetPolicy("allow", ("gone.example", "there.example"), True, True))


def test_a_name_that_could_not_be_looked_up_is_named_in_the_row_of_the_list() -> None:
    pins = Pins([Pin("gone.example", (), 1.0, (), "no such name"), Pin("there.example", ("192.0.2.7",), 1.0)])
    rows = received._network(cast(LaunchSpec, Launch()), cast(GuestSpec, Guest()), pins)
    (row,) = (one for one in rows if one.key == "net.egress")
    assert row.requested == "2 rules"
    assert row.missing.endswith("; gone.example: no such name") and "there.example" not in row.missing
