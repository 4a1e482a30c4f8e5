"""Boxes that many attacks share: an attack leaves nothing that the next one could mind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.boundary import harness, networked
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


@pytest.fixture(scope="module")
def supervised_box() -> Iterator[Box]:
    """One box with a list of destinations that nobody answers at."""
    with networked.listed(*networked.LISTED) as one:
        yield one


@pytest.fixture
def seen(supervised_box: Box) -> networked.Seen:
    return networked.Seen(supervised_box)
