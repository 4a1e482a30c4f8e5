"""Boxes that many attacks share: an attack leaves nothing that the next one could mind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.boundary import harness
from tests.boundary.harness import Box


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/boundary" in item.path.as_posix():
            item.add_marker("boundary")


@pytest.fixture(scope="module")
def confined() -> Iterator[Box]:
    """One box without network, with the default grants."""
    with harness.box() as one:
        yield one
