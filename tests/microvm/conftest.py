"""Worlds that the tests of a module share; nothing of them is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.microvm import world as worlds
from tests.microvm.world import Guests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/microvm" in item.path.as_posix() and "world" in getattr(item, "fixturenames", ()):
            item.add_marker("boundary")
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session", autouse=True)
def common() -> Iterator[None]:
    yield
    worlds.forget()


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[Guests]:
    """A world; with Python in its image where the module says ``PYTHON = True``."""
    why = worlds.missing()
    if why:
        pytest.skip(why)
    with worlds.guests(python=getattr(request.module, "PYTHON", False)) as made:
        yield made
