"""One real probe of this host, shared by all tests that only look at its answer."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.host import reporting
from backends.snapshots_host import HostReport


@pytest.fixture(scope="session")
def answer() -> Iterator[tuple[HostReport, Path]]:
    """The report, and the file that it was kept in."""
    root = Path(tempfile.mkdtemp(prefix="cl-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("STATE", "CACHE", "CONFIG", "RUNTIME"):
            folder = root / name.lower()
            folder.mkdir(mode=0o700)
            patch.setenv("XDG_RUNTIME_DIR" if name == "RUNTIME" else f"XDG_{name}_HOME", str(folder))
        patch.delenv("CLOCHE_INJECT", raising=False)
        report = reporting.report(fresh=True)
        left = [one for one in os.listdir(root / "runtime" / "cloche") if not one.startswith("podman-")]
    yield report, root / "state" / "cloche" / "host.json"
    shutil.rmtree(root)
    assert left == [], "a probe leaves nothing in the folder of sockets"


@pytest.fixture
def report(answer: tuple[HostReport, Path]) -> HostReport:
    return answer[0]


@pytest.fixture
def kept(answer: tuple[HostReport, Path]) -> Path:
    """The kept answer, where this test's Cloche finds it."""
    own = Path(os.environ["XDG_STATE_HOME"]) / "cloche" / "host.json"
    own.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(answer[1], own)
    return own
