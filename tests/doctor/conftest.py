"""One box to break, and what doctor says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.doctor import examine
from backends.doctor.proof import Proofs
from backends.engine import Engine, NewBox
from backends.host import reporting
from backends.snapshots import Finding
from backends.snapshots_host import HostReport

Look = Callable[..., dict[str, Finding]]
NOTHING = HostReport((), (), (), 0.0, 0.0, True, 0.0, (), ())


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is not tried for every broken box: what it says is tried where commands run."""
    monkeypatch.setattr(reporting, "report", lambda **_: NOTHING)


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    made = Engine(repo)
    yield made
    made.remove_many([row.key for row in Engine(repo.parent).boxes(everywhere=True)], force=True)


@pytest.fixture
def box(engine: Engine) -> BoxPaths:
    return engine.make(NewBox(name="b"))


@pytest.fixture
def look(engine: Engine) -> Look:
    """Every finding of a box that is not in order, by its check; the host is not asked.

    What limits a host can hold in part differs by host and user: only ``limits`` tells of them.
    """

    def call(
        paths: BoxPaths, *, proofs: bool = False, everything: bool = False, limits: bool = False
    ) -> dict[str, Finding]:
        rows = examine.examine(paths, Engine(engine.cwd).place, Proofs() if proofs else None)
        assert all(row.subject == paths.key and row.id.startswith(f"{paths.key}: ") for row in rows)
        for row in rows:
            assert row.verdict == "ok" or (row.why and row.text), row
            assert row.verdict not in ("fail", "warn") or row.remedy, row
        return {
            row.id.rpartition(": ")[2]: row
            for row in rows
            if (everything or row.verdict != "ok") and (limits or ": limit " not in row.id)
        }

    return call
