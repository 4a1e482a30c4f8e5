"""What tests of images ask the command line."""

from __future__ import annotations

from typing import Any

from tests.container.world import World


def made(world: World, *words: str) -> str:
    done = world.cloche(*words, "--json")
    assert done.code == 0, done.err
    value = done.json()
    assert isinstance(value, dict)
    return str(value["image"]["digest"])


def listed(world: World) -> dict[str, Any]:
    """Each image by its first name, or by its digest."""
    value = world.cloche("image", "ls", "--json").json()
    assert isinstance(value, dict)
    return {(row["names"] or [row["digest"]])[0]: row for row in value["images"]}
