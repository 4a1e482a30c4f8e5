"""What the tests of the workbench leave to the end of the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workbench.frozen_desk import remove_all


@pytest.fixture(scope="session", autouse=True)
def no_desk_stays() -> Iterator[None]:
    """Workers of pytest-xdist end without running what is left to the interpreter's end."""
    yield
    remove_all()
