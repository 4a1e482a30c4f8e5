"""Facts, claims and proofs of this very host, and when an answer is one of before (issue: host truth)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends import tiers
from backends.engine import Engine
from backends.host import asking, cache, claims, conditions, facts, reporting
from backends.host.asking import Answer
from backends.kernel import cgroups, landlock
from backends.kernel.cgroups import Hierarchy
from backends.policy.fit import IMAGE_TIERS
from backends.snapshots_host import HostReport
from tests import support

Cli = Callable[..., support.Done]


def test_every_claim_of_every_tier_has_a_proof_that_ran_here(report: HostReport) -> None:
    proofs = {one.id: one for one in report.proofs}
    for tier in tiers.MODULES:
        for row in claims.stated(tier):
            ident = f"{tier}.{row.id}" if row.id else tier
            assert proofs[ident].text == row.text
            assert proofs[ident].without == row.without
    assert set(proofs) == {
        f"{tier}.{row.id}" if row.id else tier for tier in tiers.MODULES for row in claims.stated(tier)
    }
    delegated = isinstance(cgroups.find(cgroups.MEMORY), Hierarchy)
    for one in proofs.values():
        if one.tier in IMAGE_TIERS:
            continue  # no image is in the store of this run: see the next test
        if one.id.endswith(".memory-box") and not delegated:
            assert (one.result, one.cause) == ("not run", "delegation")
            assert "not enforced" in one.evidence
            continue
        assert one.result == "proved", one
        assert one.evidence
        assert one.passed == one.time == report.time
        assert (one.cause, one.remedy, one.changed) == ("", "", ())
    assert not report.cached and not report.injected and not report.not_kept


def test_a_tier_without_an_image_was_not_tried_and_is_not_said_to_have_failed(report: HostReport) -> None:
    verdict = report.verdict("container")
    assert verdict is not None
    if os.geteuid() == 0:
        assert (verdict.result, verdict.cause) == ("failed", "host-lacks")
        assert "Podman runs as root" in verdict.evidence and "rootful = true" in verdict.remedy
    else:
        assert (verdict.result, verdict.cause) == ("not run", "image-none")
        assert verdict.remedy == "cloche image build --from-host python3 git --name tools"
    for one in report.proofs:
        if one.tier in IMAGE_TIERS and one.id != one.tier:
            assert (one.result, one.passed) == ("not run", 0.0) and one.without


def test_the_kept_answer_is_its_users_own(answer: tuple[HostReport, Path]) -> None:
    assert answer[1].stat().st_mode & 0o777 == 0o600


def test_a_proof_says_what_was_done_and_what_came_of_it(report: HostReport) -> None:
    said = {one.id: one.evidence for one in report.proofs}
    assert "No such file or directory" in said["process.denied"]
    assert "which the file system itself allows: Permission denied" in said["process.landlock"]
    assert "TIOCSTI on the own controlling terminal: Operation not permitted" in said["process.tiocsti"]
    assert "Resource temporarily unavailable" in said["process.processes-limit"]
    assert "198.51.100.7 port 443" in said["supervised.listed"]
    assert "to the relay, which sees where it was to go" in said["supervised.listed"]
    assert "asked for 128 MiB, 64 MiB are allowed" in said["process.memory-limit"]


def test_the_rights_that_landlock_handled_are_told(report: HostReport) -> None:
    said = {one.id: one.evidence for one in report.proofs}
    assert f"ABI {landlock.abi()}: EXECUTE" in said["process.landlock"]
    found = {one.id: one.value for one in report.facts}
    assert found["landlock-abi"] == str(landlock.abi())
    assert found["kernel"].startswith("Linux ")


def test_facts_are_of_their_groups_and_prove_nothing(report: HostReport) -> None:
    idents = [one.id for one in report.facts]
    assert len(idents) == len(set(idents))
    assert all(one.value and one.group in facts.GROUPS for one in report.facts)
    wanted = {
        "kernel", "lsm", "landlock-abi", "seccomp-actions", "tty-injection", "user-namespaces", "nf-tables",
        "cgroup-version", "cgroup-memory", "podman", "oci-runtimes", "vmms", "kvm", "virtualization", "git",
        "disk", "time",
    }  # fmt: skip
    assert wanted <= set(idents)


def test_an_answer_of_before_says_so_while_its_conditions_hold(
    kept: Path, report: HostReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ask", never)
    monkeypatch.setattr(conditions, "now", lambda: report.conditions)
    again = Engine(Path("/")).host()
    assert again.cached and again.proofs == report.proofs
    assert again.age >= 0 and again.time == report.time


def never(*_: object) -> dict[str, Answer]:
    raise AssertionError("nothing is to be tried")


def broken(words: tuple[str, ...], *_: object) -> dict[str, Answer]:
    return {word: Answer(None, "no answer within 20 s", 20.0) for word in words}


def refused(words: tuple[str, ...], *_: object) -> dict[str, Answer]:
    """Each tier is refused for a cause that lies in the host."""
    from backends.errors import Refused
    from backends.host.causes import BY_ID

    error = Refused("a box cannot start", "it is off", BY_ID["landlock"].remedy, code="launch-landlock")
    row = ["failed", "a box cannot start: it is off", 0.01]
    told = {word: {"claims": [[word, "", *row]], "error": error.as_dict()} for word in words}
    told["tools"] = {"facts": []}
    return {word: Answer(one, "", 0.01) for word, one in told.items()}


def test_another_condition_makes_an_answer_void_and_tells_what_changed(
    kept: Path, report: HostReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = report.conditions
    later = tuple((name, "6.99" if name == "kernel" else value) for name, value in real)
    monkeypatch.setattr(conditions, "now", lambda: later)
    monkeypatch.setattr(asking, "ask", refused)
    now = reporting.report()
    assert not now.cached and not now.not_kept
    process = now.verdict("process")
    assert process and (process.result, process.cause) == ("failed", "landlock")
    assert process.passed == report.time
    assert process.changed == (f"kernel: {dict(real)['kernel']} -> 6.99",)
    inside = next(one for one in now.proofs if one.id == "process.mount")
    assert (inside.result, inside.cause, inside.passed) == ("not run", "landlock", report.time)
    assert next(one.id for one in now.obstacles if one.tiers) == "landlock"
    monkeypatch.setattr(asking, "ask", never)
    assert reporting.report().cached, "what lies in the host is kept, too"


def test_a_failure_that_may_be_over_is_not_kept_and_takes_the_old_answer_away(
    kept: Path, report: HostReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ask", broken)
    now = reporting.report(fresh=True)
    verdict = now.verdict("process")
    assert verdict and (verdict.result, verdict.cause) == ("failed", "proof-hung")
    assert now.not_kept
    assert cache.load().proofs == ()
    assert cache.load().passed["process"].time == report.time, "when it last held is still known"


def test_a_clock_that_went_back_and_a_damaged_file_are_no_answers(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ask", broken)
    real = time.time
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time", lambda: real() - 1e6)
        assert not reporting.report().cached
    for text in ("", "[]", "{}", '{"schema": "cloche.host/1"}', '{"schema": "other"}', "[" * 100000):
        kept.write_text(text)
        assert cache.load() == cache.NOTHING
    kept.unlink()
    kept.symlink_to("/etc/passwd")
    assert cache.load() == cache.NOTHING


def test_where_nothing_can_be_kept_that_is_said(
    home: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(asking, "ask", refused)
    assert "host.json: Not a directory" in reporting.report().not_kept


def test_the_json_is_what_is_documented(cli: Cli, kept: Path, report: HostReport) -> None:
    done = cli("probe", "--json")
    assert done.code == 0
    said = json.loads(done.out)
    assert said["schema"] == "cloche.probe/1"
    # The command is of another process, which may have been given other groups or limits.
    assert {one["id"] for one in said["claims"]} == {one.id for one in report.proofs}
    documented = (support.ROOT / "docs" / "probe.md").read_text()
    for member in (set(said) - {"schema"}) | set(said["claims"][0]) | set(said["facts"][0]):
        assert f"| `{member}` |" in documented
