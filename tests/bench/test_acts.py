"""Each act of the benchmark, once, on a small repository: it gives samples, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.engine import Engine, Streams
from bench import acts, many, repository, rows
from bench.acts import Stage
from bench.measure import cloche, timed
from bench.peers import Peers
from bench.results import Sampler
from tests.conftest import Home

pytestmark = pytest.mark.real


@pytest.fixture
def stage(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path / "none"))
        peers = Peers(tmp_path / "cache", tmp_path, install=False)
    subject = repository.generated(tmp_path / "subject", 30).path
    moving = repository.generated(tmp_path / "moving", 31).path
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    yield Stage(tmp_path, subject, moving, dict(os.environ), Sampler(rows.NAMES), peers, null)
    os.close(null)
    assert [*Engine(subject).boxes(everywhere=True)] == []


def measured(stage: Stage) -> set[str]:
    assert all(value >= 0 for values in stage.sampler.samples.values() for value in values)
    return {name for name, values in stage.sampler.samples.items() if values}


def test_a_round_of_command_lines(stage: Stage) -> None:
    acts.command_line(stage, 0)
    assert {"new", "run true", "ls", "rm", rows.WORKTREE, "disk of a new box"} <= measured(stage)
    assert not list(stage.work.glob("tree-*"))


def test_a_round_of_probes(stage: Stage) -> None:
    acts.host_truth(stage, 0)
    assert measured(stage) == {rows.PROBED, rows.PROBED_BEFORE}


def test_a_round_of_a_running_engine(stage: Stage) -> None:
    acts.running_engine(stage, 0)
    assert measured(stage) == {
        rows.LIVE,
        rows.LIVE_AHEAD,
        "true from a running engine",
        "true over an open connection",
        "exec true",
        "remove from a running engine",
    }


def test_a_base_one_commit_ahead_is_another_base_of_nearly_the_same_files(stage: Stage) -> None:
    before = repository.git(stage.moving, "ls-tree", "-r", "HEAD").splitlines()
    repository.ahead(stage.moving, 7)
    after = repository.git(stage.moving, "ls-tree", "-r", "HEAD").splitlines()
    assert 0 < len(set(after) - set(before)) <= repository.CHANGED
    assert repository.git(stage.moving, "status", "--porcelain") == b""


def test_boxes_of_two_sizes_and_the_first_of_each(stage: Stage) -> None:
    acts.first_of_size(stage, stage.subject, stage.moving, 1)
    acts.sizes(stage, stage.subject, stage.moving, 0)
    for repo in (stage.subject, stage.moving):
        Engine(repo).remove("kept-first", force=True)
    assert measured(stage) == {rows.FIRST_50, rows.WORKTREE_50, rows.LIVE_5, rows.LIVE_50}


def test_records_are_timed_beside_appends_of_as_many_bytes(stage: Stage) -> None:
    acts.evidence(stage, 0)
    assert {len(stage.sampler.samples[name]) for name in measured(stage)} == {acts.RECORDS}
    assert len(measured(stage)) == 4


def test_memory_is_weighed_or_missing_with_the_reason(stage: Stage) -> None:
    many.one(stage, 1)
    told = measured(stage) | set(stage.sampler.absent)
    assert told == {"memory of its keeper", "memory of its init", "memory of the zygote"}
    assert stage.sampler.samples["memory of its keeper"][0] > 1 << 20


def test_live_boxes_are_measured_together_and_removed(stage: Stage) -> None:
    many.many(stage, 2, 1)
    told = measured(stage) | set(stage.sampler.absent)
    assert set(many.ROWS) == told
    assert len(stage.sampler.samples["a keeper among many"]) == 2


def test_too_little_memory_for_many_boxes_is_said_in_each_row(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "available", lambda: many.RESERVE)
    many.many(stage, 50, 1)
    assert measured(stage) == set()
    assert set(stage.sampler.absent.values()) == {"50 live boxes need 4224 MiB of free memory"}
    assert set(stage.sampler.absent) == set(many.ROWS)


def test_a_failed_command_ends_the_run_with_its_words(stage: Stage) -> None:
    with pytest.raises(SystemExit, match=r"run no-such-box -- true ended with \d+: .*no-such-box"):
        timed(cloche("run", "no-such-box", "--", "true"), stage.subject, stage.env)
    with pytest.raises(SystemExit, match="ended with 1 in box"):
        acts.made(Engine(stage.subject), "fails", Streams(*(stage.null,) * 3), command="/usr/bin/false")
    Engine(stage.subject).remove("fails", force=True)
