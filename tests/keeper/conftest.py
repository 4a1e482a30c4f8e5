"""A live box for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper.client import KeeperClient
from tests.conftest import Home
from tests.keeper import boxes


@pytest.fixture
def box(home: Home) -> BoxPaths:
    """A box on disk at tier process, not live yet."""
    return boxes.make()


@pytest.fixture
def keeper(box: BoxPaths) -> Iterator[KeeperClient]:
    """A connection to the live keeper of ``box``."""
    with boxes.started(box) as client:
        yield client
