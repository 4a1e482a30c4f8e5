"""Whether a host can keep a box's own policy is tried by the launch itself; H1 and H2 as doctor tells."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths, state_dir
from backends.engine import Engine, NewBox, Streams
from backends.errors import ClocheError
from backends.host import causes, conditions
from backends.snapshots import Finding
from tests import support
from tests.doctor.conftest import Look

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)
Cli = Callable[..., support.Done]


def configured(repo: Path, text: str) -> None:
    (repo / "cloche.toml").write_text(text)


def test_a_host_that_cannot_start_the_box_today_says_what_a_start_says(
    engine: Engine, repo: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = engine.make(NewBox(name="b", tier="process"))
    for failure, cause in (
        ("userns=EPERM", "userns"),
        ("seccomp=EBUSY", "seccomp-busy"),
        ("proc", "proc"),
        ("landlock=off", ""),
    ):
        monkeypatch.setenv("CLOCHE_INJECT", failure)
        found = look(box, proofs=True)
        assert found["proof"].verdict == "fail", found
        with pytest.raises(ClocheError) as refused:
            engine.run("b", ["true"], streams=QUIET)
        assert found["proof"].remedy == refused.value.next_step, "one sentence in every place"
        if cause:
            assert found["proof"].remedy == causes.BY_ID[cause].remedy
    monkeypatch.delenv("CLOCHE_INJECT")
    assert look(box, proofs=True) == {}


def test_h2_a_memory_limit_without_delegation_is_told_as_not_enforced(
    engine: Engine, repo: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(repo, '[profiles.default.resources]\nmem = "64MiB"\n')
    box = engine.make(NewBox(name="b", tier="process"))
    monkeypatch.setenv("CLOCHE_INJECT", "delegation")
    found = look(box, proofs=True, limits=True)["limit resources.mem"]
    assert found.verdict == "note" and found.text.startswith("resources.mem = 64 MiB is enforced in part")
    assert "the sum over the box is not enforced" in found.evidence and "delegation" in found.evidence
    assert found.remedy == causes.BY_ID["delegation"].remedy


def test_what_the_boxs_own_grants_became_fails_it_and_no_other_box(
    engine: Engine, repo: Path, tmp_path: Path, look: Look
) -> None:
    other = engine.make(NewBox(name="c"))
    shared = tmp_path / "shared"
    shared.mkdir()
    configured(repo, f'[profiles.default.fs]\nwrite = ["{shared}"]\n')
    box = engine.make(NewBox(name="b"))
    assert look(box, proofs=True) == {}
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(shared / "daemon.sock"))
        daemon.listen()
        found = look(box, proofs=True)
        with pytest.raises(ClocheError) as refused:
            engine.run("b", ["true"], streams=QUIET)
        assert set(found) == {"proof"} and found["proof"].verdict == "fail"
        assert (found["proof"].text, found["proof"].remedy) == (refused.value.what, refused.value.next_step)
        assert look(other, proofs=True) == {}


def test_a_failure_says_when_the_policy_was_last_kept_and_what_changed_since(
    engine: Engine, box: BoxPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def proof() -> Finding:
        return next(row for row in engine.doctor("b") if row.id == f"{box.key}: proof")

    real = conditions.now()
    before = tuple((name, "6.1.0-9" if name == "kernel" else found) for name, found in real)
    monkeypatch.setattr(conditions, "now", lambda: before)
    assert proof().verdict == "ok"
    monkeypatch.setattr(conditions, "now", lambda: real)
    monkeypatch.setenv("CLOCHE_INJECT", "userns")
    for _ in range(2):  # what failed on request is not remembered
        assert "it last held" in proof().evidence and "kernel: 6.1.0-9 -> " in proof().evidence
    (state_dir() / "doctor.json").write_bytes(b'{"schema": "cloche.held/1", "held": 7}')
    assert "it last held" not in proof().evidence


def test_the_box_of_a_proof_leaves_nothing(box: BoxPaths, look: Look) -> None:
    before = support.children()
    fds = support.descriptors()
    for _ in range(2):
        assert look(box, proofs=True) == {}
    assert support.children() == before and support.descriptors() == fds


def test_a_workspace_box_is_told_to_be_confined_by_nothing(engine: Engine, look: Look) -> None:
    box = engine.make(NewBox(name="w", tier="workspace"))
    found = look(box, proofs=True)
    assert set(found) == {"journal", "limits"} and found["limits"].verdict == "note"
    assert found["limits"].text == "nothing of its policy confines it"


def test_names_that_moved_since_the_launch_and_names_without_an_answer(
    engine: Engine, repo: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backends.doctor import egress
    from backends.egress.pins import Pin, Pins
    from backends.evidence.journal import Journal

    configured(
        repo,
        '[profiles.default]\ntier = "supervised"\n'
        '[profiles.default.net]\nmode = "allow"\negress = ["registry.example:443"]\n',
    )
    box = engine.make(NewBox(name="b"))
    told = Pins([Pin("registry.example", ("93.184.216.34",), 1.0)])
    Journal(box.journal).append("pins", {"pins": told.as_json(), "own": []})
    answers: dict[str, tuple[str, ...]] = {}

    def resolved(names: tuple[str, ...], **_: object) -> Pins:
        return Pins([Pin(name, answers.get(name, ()), 2.0, (), "no answer") for name in names])

    monkeypatch.setattr(egress, "resolve", resolved)
    found = look(box)
    assert set(found) == {"egress"} and found["egress"].verdict == "warn"
    assert found["egress"].evidence == "registry.example: no answer"
    answers["registry.example"] = ("93.184.216.35",)
    found = look(box)
    assert found["egress"].verdict == "note"
    assert found["egress"].evidence == "registry.example: pinned 93.184.216.34; now 93.184.216.35"
    answers["registry.example"] = ("93.184.216.35", "93.184.216.34")
    assert look(box) == {}


def test_a_passed_secret_that_is_not_set_is_named_and_its_value_never_shown(
    engine: Engine, repo: Path, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(repo, '[profiles.default.env]\npass = ["API_TOKEN", "OTHER_TOKEN", "EDITOR"]\n')
    box = engine.make(NewBox(name="b"))
    monkeypatch.setenv("API_TOKEN", "correct-horse")
    monkeypatch.delenv("OTHER_TOKEN", raising=False)
    found = look(box, everything=True)
    assert found["secrets"].verdict == "note" and found["secrets"].evidence == "OTHER_TOKEN"
    assert not any("correct-horse" in text for row in found.values() for text in row)


def test_the_host_is_asked_under_injection_and_says_so(
    box: BoxPaths, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_INJECT", "userns")
    done = cli("doctor", "b", "--json")
    rows = {row["id"]: row for row in json.loads(done.out)["findings"]}
    assert done.code == 1 and rows["injected"]["verdict"] == "warn"
    assert rows["process"]["verdict"] == "fail" and rows["process"]["remedy"] == causes.BY_ID["userns"].remedy
    assert rows[f"{box.key}: proof"]["remedy"] == rows["process"]["remedy"]
    first = next(iter(rows.values()))
    assert (first["subject"], first["verdict"]) == ("host", "fail"), "worst first"
