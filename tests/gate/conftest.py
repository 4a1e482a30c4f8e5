from __future__ import annotations

import pytest

from tests.conftest import Home
from tests.gate.world import World


@pytest.fixture
def world(home: Home) -> World:
    """A small repository on ``main`` and a box's quarantine beside it."""
    return World(home.root)
