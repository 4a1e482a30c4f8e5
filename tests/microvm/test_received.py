"""What is told of a guest's list names what stays closed, as every other tier does."""

from __future__ import annotations

from typing import cast

import pytest

from backends.egress.pins import Pin, Pins
from backends.microvm import received
from backends.microvm.vmm import GuestSpec
from backends.policy.model import NetPolicy
from backends.tiers.protocol import LaunchSpec
from tests.policy.test_canonical import EXAMPLE


class Guest:
    proxy = ("unix", 1)
    memory = 160 << 20


class Launch:
    policy = EXAMPLE._replace(net=NetPolicy("allow", ("gone.example", "there.example"), True, True))


def test_a_name_that_could_not_be_looked_up_is_named_in_the_row_of_the_list() -> None:
    pins = Pins([Pin("gone.example", (), 1.0, (), "no such name"), Pin("there.example", ("192.0.2.7",), 1.0)])
    rows = received._network(cast(LaunchSpec, Launch()), cast(GuestSpec, Guest()), pins)
    (row,) = (one for one in rows if one.key == "net.egress")
    assert row.requested == "2 rules"
    assert row.missing.endswith("; gone.example: no such name") and "there.example" not in row.missing


@pytest.mark.parametrize(
    ("asked", "requested", "missing"),
    [(64 << 20, "64 MiB", "with less no guest boots"), (160 << 20, "160 MiB", ""), (None, "none", "")],
)
def test_a_guest_that_has_more_memory_than_was_asked_for_says_so(
    asked: int | None, requested: str, missing: str
) -> None:
    launch = Launch()
    launch.policy = EXAMPLE._replace(resources=EXAMPLE.resources._replace(mem=asked))
    rows = received._limits(cast(LaunchSpec, launch), cast(GuestSpec, Guest()))
    (row,) = (one for one in rows if one.key == "resources.mem")
    assert (row.requested, row.missing) == (requested, missing)
    assert row.enforced.startswith("160 MiB of the whole guest")
