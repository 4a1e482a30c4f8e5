"""What the table of differences says of ``container`` and of gVisor is what comes of every attack."""

from __future__ import annotations

import pytest

from backends.container import gvisor_call, runtimes
from tests.boundary import attacked
from tests.container.world import ROOTFUL, World

PYTHON = True


@pytest.mark.parametrize("tier", ["container", "gvisor"])
def test_every_attack_comes_to_what_the_table_says(world: World, tier: str) -> None:
    if tier == "gvisor" and ROOTFUL:
        pytest.skip("needs an unprivileged user: gVisor is driven rootless only")
    if tier == "gvisor" and runtimes.program(gvisor_call.NAME) is None:
        pytest.skip("no runsc is installed")
    runtime = '\nruntime = "gvisor"' if tier == "gvisor" else ""
    world.profile(tier, attacked.RESOURCES + runtime)
    attacked.compared(world, world.new(tier, profile=tier), tier)
