"""H1 and H2: each failure of a host, asked for by the documented switch, has its cause, tiers and remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from backends import injected
from backends.engine import Engine
from backends.errors import ClocheError, Refused, UsageError
from backends.host import asking, causes, facts, injections, obstacles, probes, reporting, tools
from backends.host.asking import Answer
from backends.keeper import init_proofs
from backends.snapshots_host import Fact, HostReport
from tests import support
from tests.boundary import harness

Cli = Callable[..., support.Done]

LAUNCHES = [
    ("userns", "userns", "Operation not permitted"),
    ("userns=ENOSPC", "userns-limit", "No space left on device"),
    ("userns=off", "userns-clone", "Operation not permitted"),
    ("apparmor", "apparmor-userns", "Permission denied"),
    ("uid-map", "uid-map", "Operation not permitted"),
    ("proc", "proc", "Operation not permitted"),
    ("overlay", "overlay", "No such device"),
    ("netns", "network", "Operation not permitted"),
    ("seccomp", "seccomp-busy", "Device or resource busy"),
    ("landlock", "landlock", "this kernel offers none"),
    ("stage=uts", "uts", "Operation not permitted"),
    ("stage=devpts", "devpts", "Operation not permitted"),
    ("stage=cgroup", "cgroup", "Operation not permitted"),
    ("stage=capabilities", "capabilities", "Operation not permitted"),
    ("stage=grant", "grant", "Operation not permitted"),
]


def inject(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(injected.VARIABLE, text)


@pytest.mark.parametrize(("asked", "cause", "why"), LAUNCHES)
def test_a_failure_of_the_host_has_one_cause_and_remedy_in_probe_and_launch(
    asked: str, cause: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(monkeypatch, asked)
    tried = probes.attempt("process")
    known = causes.BY_ID[cause]
    assert tried.claims[0].result == "failed"
    assert tried.error is not None
    found = causes.of_error(tried.error)
    assert found is not None and found.id == cause
    assert f"{why}{injected.MARK}" in tried.claims[0].evidence
    assert known.remedy in tried.claims[0].evidence
    # What the launch itself raised, which is the code of every launch.
    assert isinstance(tried.error, Refused)
    assert tried.error.next_step == known.remedy
    assert f"{why}{injected.MARK}" in tried.error.why


def test_without_ipv6_it_is_that_which_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, "stage=ipv6")
    tried = probes.attempt("supervised")
    assert tried.error is not None
    assert causes.of_error(tried.error) == causes.BY_ID["ipv6"]


def test_without_nf_tables_only_the_tier_that_needs_them_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, "nft")
    tried = probes.attempt("supervised")
    assert tried.error is not None
    assert causes.of_error(tried.error) == causes.BY_ID["nftables"]
    assert "modprobe -a nf_tables" in tried.claims[0].evidence
    with harness.box() as box:
        assert box.python("print(1)").out == "1\n"


def test_landlock_works_where_the_list_of_modules_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behaviour is probed, not files."""
    inject(monkeypatch, "lsm-list")
    rows = {fact.id: fact for fact in facts.gather()}
    assert rows["lsm"].value == "not told: No such file or directory (injected)"
    with harness.box() as box:
        assert {row.key for row in box.live.enforcement} >= {"landlock"}
        assert box.python("print(1)").out == "1\n"
    (told,) = obstacles.find([rows["lsm"]], ())
    assert (told.id, told.tiers) == ("lsm-list", ())


def test_without_delegation_the_limit_of_a_box_is_said_to_be_not_enforced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inject(monkeypatch, "delegation")
    proofs = {claim.id: claim for claim in probes.probe("process")}
    assert proofs["process"].result == "proved"
    assert proofs["process.memory-limit"].result == "proved", "each process is held all the same"
    whole = proofs["process.memory-box"]
    assert whole.result == "not run"
    assert "the sum over the box is not enforced" in whole.evidence
    assert injected.MARK in whole.evidence
    with harness.box(harness.policy(mem=64 << 20)) as box:
        (row,) = [row for row in box.live.enforcement if row.key == "resources.mem"]
    assert row.enforced == "soft: 64 MiB in each process"
    assert "the sum over the box is not enforced" in row.missing


@pytest.mark.parametrize(
    ("asked", "fact", "cause", "tier"),
    [
        ("podman=rootful", "podman", "podman-rootful", "container"),
        ("podman=absent", "podman", "podman-absent", "container"),
        ("podman=hung", "podman", "podman-hung", "container"),
        ("kvm=absent", "kvm", "kvm-absent", "microvm"),
        ("kvm=EACCES", "kvm", "kvm-refused", "microvm"),
        ("kvm=boots-nothing", "kvm", "kvm-boots-nothing", "microvm"),
    ],
)
def test_what_stands_in_the_way_of_engines_is_told_with_its_remedy(
    asked: str, fact: str, cause: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    inject(monkeypatch, asked)
    found = next(one for one in tools.gather() if one.id == fact)
    assert injected.MARK in found.value
    (told,) = obstacles.find([found], ())
    assert (told.id, told.tiers) == (cause, (tier,))
    assert told.remedy == causes.BY_ID[cause].remedy
    assert found.value in told.evidence


@pytest.mark.parametrize(("asked", "why"), [("vmm=absent", "absent"), ("vmm=hung", "no answer within 2.5 s")])
def test_every_monitor_is_found_as_was_asked_for(
    asked: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    inject(monkeypatch, asked)
    found = {one.id: one.value for one in tools.gather()}
    for name in tools.VMMS:
        assert f"{name}: {why}{injected.MARK}" in found["vmms"]
    assert injected.MARK not in found["podman"] + found["oci-runtimes"]


def test_a_proof_that_fails_leaves_the_others_told(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, "proof=tiocsti")
    claims = {claim.id: claim for claim in probes.probe("process")}
    assert claims["process"].result == claims["process.tiocsti"].result == "failed"
    assert "the proof tiocsti failed" in claims["process"].evidence
    assert claims["process.tiocsti"].evidence.startswith("it was to fail (injected)")
    assert claims["process.write-outside"].result == "proved"


def test_a_proof_that_hangs_is_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_proofs, "EACH", 0.5)
    inject(monkeypatch, "hang=mount")
    claims = {claim.id: claim for claim in probes.probe("process")}
    assert claims["process"].result == claims["process.mount"].result == "failed"
    assert claims["process.mount"].evidence == "it gave no answer within 0.5 s (injected)"
    assert claims["process.absent"].result == "proved"


def test_a_tier_that_hangs_is_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, "hang=process")
    verdict = probes.probe("process", patience=0.4)[0]
    assert verdict.result == "failed"
    assert "within 0.4 s (injected)" in verdict.evidence
    answer = asking.ask(("process",), patience=0.6)["process"]
    assert answer.document is None
    assert answer.why == "no answer within 0.6 s (injected)"


def test_a_prober_that_fails_says_why() -> None:
    answer = asking.ask(("nosuch",))["nosuch"]
    assert answer.document is None
    assert answer.why.startswith("the process that tries it failed: UsageError in __init__.py:")
    assert "there is no tier nosuch" in answer.why


def test_an_injected_answer_is_shown_as_one_and_never_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept.read_bytes()
    monkeypatch.setattr(asking, "ask", hung)
    inject(monkeypatch, "hang=process")
    now: HostReport = reporting.report()
    assert now.injected == ("hang=process",)
    assert not now.cached
    verdict = now.verdict("process")
    assert verdict and verdict.cause == "proof-hung" and verdict.changed[0] == "injected: hang=process"
    assert kept.read_bytes() == before


def hung(words: tuple[str, ...], *_: object) -> dict[str, Answer]:
    return {word: Answer(None, "no answer within 20 s (injected)", 20.0) for word in words}


def test_the_command_line_says_the_same_in_probe_and_run(cli: Cli) -> None:
    assert cli("new", "b", "--tier", "process").code == 0
    env = {injected.VARIABLE: "seccomp,kvm=boots-nothing"}
    argv = support.cloche_argv("probe", "--json")
    probe = support.run(argv, env=env)
    told = "failures are injected: seccomp=EBUSY, kvm=boots-nothing"
    assert told in probe.err
    said = json.loads(probe.out)
    assert said["injected"] == ["seccomp=EBUSY", "kvm=boots-nothing"]
    met = {one["id"]: one for one in said["obstacles"]}
    assert met["seccomp-busy"]["tiers"] == ["process", "supervised"]
    assert met["kvm-boots-nothing"]["tiers"] == ["microvm"]
    assert {one["result"] for one in said["claims"] if one["tier"] == "supervised"} == {"failed", "not run"}
    argv = support.cloche_argv("run", Engine(Path("/")).boxes(everywhere=True)[0].key, "--", "true")
    run = support.run(argv, env=env)
    assert run.code == 3 and told in run.err
    assert met["seccomp-busy"]["remedy"] in run.err
    assert met["seccomp-busy"]["why"] in run.err.replace("\n        ", " ")


def test_a_misspelt_failure_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("nosuch", "userns=EWRONG", "kvm=works"):
        inject(monkeypatch, text)
        with pytest.raises(UsageError) as refused:
            injections.asked()
        assert refused.value.code == "bad-injection"
    done = cli("ls")
    assert done.code == 2
    assert "kvm=works" in done.err


def test_a_refusal_of_the_policy_is_no_cause_of_the_host() -> None:
    assert causes.of_error(ClocheError("a", "b", "remove it from the profile", code="tier")) is None
    assert Fact("kvm", "/dev/kvm", "opens", "virtual machine") and obstacles.find((), ()) == ()
