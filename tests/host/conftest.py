"""One real probe of this host, shared by all tests that only look at its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.snapshots_host import HostReport


@pytest.fixture
def report(answer: tuple[HostReport, Path]) -> HostReport:
    return answer[0]
