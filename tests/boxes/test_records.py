"""The numbers of a box agree wherever they are shown, at once; what init does is no act of the box."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.engine import Engine, NewBox, Streams
from backends.evidence import journal
from tests.support import Done

pytestmark = pytest.mark.boundary
Cli = Callable[..., Done]
READS = 300
PROGRAM = (
    "import os\n"
    f"for n in range({READS}):\n"
    "    try: os.open('/etc/shadow', os.O_RDONLY)\n"
    "    except OSError: pass\n"
)


@pytest.fixture
def null() -> Iterator[Streams]:
    fd = os.open(os.devnull, os.O_RDWR)
    yield Streams(fd, fd, fd)
    os.close(fd)


@pytest.fixture
def engine(repo: Path) -> Engine:
    """Of a repository whose boxes ask about every open."""
    (repo / "cloche.toml").write_text('[profiles.default]\nobserve = "all"\n')
    return Engine(repo)


def test_refusals_are_counted_the_same_everywhere_right_after_the_command(
    engine: Engine, cli: Cli, repo: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    script = 'python3 -c "$0"; echo new > new.txt'
    assert engine.run("b", ["sh", "-c", script, PROGRAM], streams=null).exit == 0
    said = json.loads(cli("denials", "b", "--json").out)
    assert {row["object"]: row["count"] for row in said["rows"]}["/etc/shadow"] == READS
    assert said["lost"] == {}
    assert engine.view("b").row.denied == engine.view("b").tally.total == said["total"]
    engine.propose("b")
    out = repo.parent / "out"
    engine.export("b", out)
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["tally"]["total"] == said["total"]
    assert f"{said['total']} refusals" in (out / "report.md").read_text()
    assert {one.verdict for one in engine.verify(out)} == {"ok"}


def test_refusals_of_a_command_that_still_runs_are_counted_up_to_the_question(
    engine: Engine, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    script = (
        'setsid sh -c "python3 -c \\"\\$0\\"; touch done; sleep 60" "$0" & while ! test -e done; do :; done'
    )
    assert engine.run("b", ["sh", "-c", script, PROGRAM], streams=null).exit == 0
    rows = {row.object: row.count for row in engine.tally("b").rows}
    assert rows["/etc/shadow"] == READS


def test_a_diff_of_a_running_box_tells_nothing_as_lost(engine: Engine, null: Streams) -> None:
    engine.create(NewBox(name="b"))
    script = "sleep 60 >/dev/null 2>&1 </dev/null & echo new > new.txt; sleep 0.3"
    assert engine.run("b", ["sh", "-c", script], streams=null).exit == 0
    for _ in range(3):
        assert [change.path for change in engine.snapshot_diff("b").changes] == [b"new.txt"]
    assert engine.tally("b").lost == ()
    paths = engine.find("b")
    engine.stop("b")
    assert [record.data for record in journal.read(paths.journal) if record.kind == "lost"] == []
    assert "process_vm_readv" not in paths.keeper_log.read_text()


def test_what_could_not_be_looked_at_stands_beside_the_denials(engine: Engine, cli: Cli) -> None:
    engine.create(NewBox(name="b"))
    journal.Journal(engine.find("b").journal).append("lost", {"what": "opens", "count": 9})
    assert "lost: 9 opens happened and could not be looked at" in cli("denials", "b").out
    assert json.loads(cli("denials", "b", "--json").out)["lost"] == {"opens": 9}
