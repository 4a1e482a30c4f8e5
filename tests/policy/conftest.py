"""A repository and a user's configuration to write profiles into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Home

Write = Callable[[str], Path]


@pytest.fixture
def repository(home: Home) -> Path:
    """An empty folder with a git directory, outside the home directory."""
    path = home.root / "project"
    (path / ".git").mkdir(parents=True)
    return path


@pytest.fixture
def project(repository: Path) -> Write:
    """Writes the repository's ``cloche.toml``."""

    def write(text: str) -> Path:
        path = repository / "cloche.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def user(home: Home) -> Write:
    """Writes the user's ``config.toml``."""

    def write(text: str) -> Path:
        path = home.config / "cloche" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
