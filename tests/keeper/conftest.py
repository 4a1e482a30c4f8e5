"""A live box, or a zygote, for each test that asks for one."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.engine import Streams
from backends.keeper import start
from backends.keeper.client import KeeperClient
from tests.conftest import Home
from tests.keeper import boxes, zygotes


@pytest.fixture
def box(home: Home) -> BoxPaths:
    """A box on disk at tier process, not live yet."""
    return boxes.make()


@pytest.fixture
def keeper(box: BoxPaths) -> Iterator[KeeperClient]:
    """A connection to the live keeper of ``box``."""
    with boxes.started(box) as client:
        yield client


@pytest.fixture(scope="module")
def copied() -> Iterator[Path]:
    """A copy of the program, which nobody changes while these tests run."""
    with tempfile.TemporaryDirectory(prefix="cl-copy-", dir="/tmp") as root:
        zygotes.copy_to(Path(root) / "backends")
        time.sleep(1.2)  # what changed just now would be half in memory
        yield Path(root)


@pytest.fixture
def program(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepers and zygotes are started from that copy, and zygotes get their time, however busy the host."""
    monkeypatch.setattr(start, "ZYGOTE_PATIENCE", 60.0)
    monkeypatch.setattr(start, "SCRIPT", copied / "backends" / "keeper" / "__main__.py")


@pytest.fixture
def zygote(box: BoxPaths, program: None) -> int:
    """The pid of a zygote that has forked a keeper already."""
    with boxes.started(box):
        return zygotes.only()


@pytest.fixture
def streams() -> Iterator[Streams]:
    """Streams of a command that says nothing."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    yield Streams(null, null, null)
    os.close(null)
