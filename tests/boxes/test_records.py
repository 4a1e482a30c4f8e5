"""The numbers of a box agree wherever they are shown, at once; what init does is no act of the box."""

from __future__ import annotations

import json
import os
import time
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


N3 = """
import os, socket, sys
def refused(call, *args):
    try:
        call(*args)
    except OSError:
        return
    sys.exit(f"{call} was allowed")
def connect(kind, address):
    with socket.socket(socket.AF_INET, kind) as one:
        one.connect(address) if kind == socket.SOCK_STREAM else one.sendto(b"?", address)
for _ in range(int(sys.argv[1])):
    refused(os.open, "/etc/shadow", os.O_RDONLY)
    refused(os.open, "/usr/no", os.O_WRONLY | os.O_CREAT)
    refused(os.execv, sys.argv[2], ["x"])
    refused(connect, socket.SOCK_STREAM, ("192.0.2.1", 443))
    refused(connect, socket.SOCK_DGRAM, ("192.0.2.1", 53))
    refused(socket.socket, socket.AF_VSOCK, socket.SOCK_STREAM)
    refused(os.chroot, "/")
"""


@pytest.mark.parametrize("times", [1, 10_000])
def test_one_of_each_kind_and_ten_thousand_repeats_are_the_same_rows(
    engine: Engine, cli: Cli, repo: Path, null: Streams, times: int
) -> None:
    """N3: nothing is lost, repeats cost no row, and every place says the same."""
    program = next(f"/etc/init.d/{one}" for one in sorted(os.listdir("/etc/init.d")))
    engine.create(NewBox(name="b"))
    began = time.monotonic()
    assert engine.run("b", ["python3", "-c", N3, str(times), program], streams=null).exit == 0
    took = time.monotonic() - began
    said = json.loads(cli("denials", "b", "--json").out)
    rows = {(row["kind"], row["object"]): row["count"] for row in said["rows"]}
    assert rows == {
        ("fs-read", "/etc/shadow"): times,
        ("fs-write", "/usr/no"): times,
        ("exec", program): times,
        ("net", "192.0.2.1:443"): times,
        ("net", "192.0.2.1:53 (name server)"): times,
        ("socket", "AF_VSOCK SOCK_STREAM"): times,
        ("syscall", "chroot"): times,
    }
    assert (said["total"], said["others"], said["lost"]) == (7 * times, 0, {})
    engine.run("b", ["sh", "-c", "echo x > x"], streams=null)
    engine.propose("b")
    engine.export("b", repo.parent / "out")
    receipt = json.loads((repo.parent / "out" / "receipt.json").read_text())
    assert {key: receipt["tally"][key] for key in ("rows", "total", "others", "not_observed")} == {
        key: said[key] for key in ("rows", "total", "others", "not_observed")
    }
    records = [record for record in engine.journal("b") if record.kind == "denial"]
    assert len(records) < 7 * (3 + took), "repeats are a record a second at most"


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
