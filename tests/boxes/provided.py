"""What tests of a whole box share: a repository whose boxes get their tree in either way, an engine on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from backends.boxes.manifest import load
from backends.engine import Engine, NewBox, Streams
from tests import support

PROVIDERS = ("checkout", "overlay")
NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)

# For what is about the host's side alone: how a box gets its tree cannot matter there.
ONCE = pytest.mark.parametrize("repo", ["checkout"], indirect=True)


def repository(files: Mapping[str, bytes]) -> Any:
    """The fixture ``repo``: a repository of ``files`` for each provider of a box's tree."""

    @pytest.fixture(name="repo", params=PROVIDERS)
    def made(request: pytest.FixtureRequest, home: object, tmp_path: Path) -> Path:
        repo = support.make_repo(tmp_path / "repo", files)
        (repo / "cloche.toml").write_text(f'[profiles.default]\ntree = "{request.param}"\n')
        return repo

    return made


def engine_with(*boxes: str, change: str = "") -> Any:
    """The fixture ``engine``: one on ``repo`` that has these boxes, each proposed after ``change`` if any."""

    @pytest.fixture(name="engine")
    def made(repo: Path) -> Iterator[Engine]:
        engine = Engine(repo)
        wanted = (repo / "cloche.toml").read_text().split('"')[1]
        for name in boxes:
            engine.create(NewBox(name=name))
            assert load(engine.find(name)).tree_provider == wanted
            if change:
                run(engine, change, name)
                engine.propose(name)
        yield engine
        for row in engine.boxes():
            engine.stop(row.name)

    return made


def run(engine: Engine, script: str, name: str = "b") -> str:
    """What ``script`` prints inside; it has to end well, each command of it."""
    reader, writer = os.pipe()
    try:
        done = engine.run(name, ["sh", "-ec", script], streams=Streams(NULL, writer, NULL))
    finally:
        os.close(writer)
    with open(reader, encoding="utf-8", errors="surrogateescape") as out:
        said = out.read()
    assert done.exit == 0, said
    return said
