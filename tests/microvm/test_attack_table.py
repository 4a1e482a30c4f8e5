"""What the table of differences says of ``microvm`` is what comes of every attack inside a guest."""

from __future__ import annotations

from tests.boundary import attacked
from tests.microvm.world import Guests

PYTHON = True


def test_every_attack_comes_to_what_the_table_says(world: Guests) -> None:
    world.profile("attacked", attacked.RESOURCES)
    attacked.compared(world, world.new("attacked", profile="attacked"), "microvm")
