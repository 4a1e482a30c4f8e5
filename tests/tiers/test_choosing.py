"""One reasoning about tiers: what auto takes, why, what was passed over, and what would change that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from backends import tiers
from backends.engine import Engine, NewBox
from backends.errors import Refused
from backends.policy.fit import AUTO_ORDER
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy, Resources
from backends.snapshots_choice import ABSENT, DEARER, NEVER, REFUSED, TAKEN
from backends.snapshots_host import Proof
from backends.tiers import auto, choosing
from backends.values import Claim
from tests.support import Done

PLAIN = Policy(
    1, "default", "auto", "checkout", "full", "none", False, FsPolicy(("/usr",), (), ()),
    NetPolicy("deny", (), True, True), EnvPolicy((), ()),
    Resources(None, None, None, None, None, 1024, 1 << 20, 1 << 20, None), "", (), (),
)  # fmt: skip
LISTED = PLAIN._replace(profile="agent", net=NetPolicy("allow", ("a.example",), True, True))
HOLDS = "a box started, and every claim was proved in it"


def proof(ident: str, result: str, evidence: str, remedy: str = "", duration: float = 0.3) -> Proof:
    return Proof(ident, "", result, evidence, duration, ident, "", 1.0, "", remedy, 0.0, ())


def host(**failed: tuple[str, str]) -> choosing.Verdict:
    """A host where every tier is proved but the named ones, which fail with this evidence and remedy."""

    def verdict(ident: str) -> Claim | Proof | None:
        tier, _, claim = ident.partition(".")
        if tier in failed:
            return None if claim else proof(tier, "failed", *failed[tier])
        return proof(ident, "proved", HOLDS, duration=0.02) if claim else proof(tier, "proved", HOLDS)

    return verdict


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tiers, where nothing but the policy and the verdict decides."""
    from backends.tiers import process, supervised

    for tier in (process.TIER, supervised.TIER):
        monkeypatch.setattr(type(tier), "refusals", lambda self, policy: ())
    monkeypatch.setattr(
        tiers, "MODULES", {name: tiers.MODULES[name] for name in ("workspace", "process", "supervised")}
    )


def test_every_tier_answers_one_question_and_auto_comes_first() -> None:
    assert [question.tier for question in choosing.QUESTIONS] == ["auto", "workspace", *AUTO_ORDER]
    for question in choosing.QUESTIONS:
        assert question.must_not and question.becomes_true and question.stays_false and question.profile


@pytest.mark.usefixtures("able")
def test_auto_takes_the_cheapest_that_was_proved_and_weighs_all() -> None:
    found = choosing.weigh(PLAIN, host(), age=3.0)
    assert (found.tier, found.profile, found.age) == ("process", "default", 3.0)
    assert found.why == f"{choosing.CHEAPEST}, proved on this host"
    assert {row.tier: row.state for row in found.rows} == {
        "workspace": NEVER, "process": TAKEN, "supervised": DEARER, "container": ABSENT, "microvm": ABSENT,
    }  # fmt: skip
    taken = found.row("process")
    assert taken is not None and (taken.proof, taken.start, taken.remedy) == (HOLDS, 0.02, "")


@pytest.mark.usefixtures("able")
def test_a_tier_whose_proof_failed_is_passed_over_with_its_reason_and_remedy() -> None:
    found = choosing.weigh(
        PLAIN, host(process=("no overlayfs. Remedy: modprobe overlay", "modprobe overlay"))
    )
    assert found.tier == "supervised"
    assert found.why == f"{choosing.CHEAPEST}, proved on this host (process: no overlayfs)"
    row = found.row("process")
    assert row is not None
    assert (row.state, row.why, row.remedy, row.start) == (
        REFUSED,
        "no overlayfs",
        "modprobe overlay",
        None,
    )


@pytest.mark.usefixtures("able")
def test_a_key_that_a_tier_cannot_enforce_counts_before_any_proof() -> None:
    asked: list[str] = []

    def verdict(ident: str) -> Claim | Proof | None:
        asked.append(ident)
        return host()(ident)

    found = choosing.weigh(LISTED, verdict)
    assert found.tier == "supervised"
    row = found.row("process")
    assert row is not None and row.state == REFUSED and row.why.startswith("net.mode: ") and row.remedy
    assert "process" not in asked


@pytest.mark.usefixtures("able")
def test_workspace_is_never_taken_whatever_fails() -> None:
    found = choosing.weigh(PLAIN, host(process=("broken", "mend it"), supervised=("broken too", "")))
    assert found.tier == ""
    assert found.why == ("process: broken; supervised: broken too")
    with pytest.raises(Refused) as refused:
        auto.choose(PLAIN, verdict=host(process=("broken", "mend it"), supervised=("broken too", "")))
    assert (refused.value.code, refused.value.why, refused.value.next_step) == (
        "no-tier",
        found.why,
        "mend it",
    )


@pytest.mark.usefixtures("able")
def test_without_a_proof_it_is_said_that_the_launch_proves_it() -> None:
    found = choosing.weigh(PLAIN)
    row = found.row("process")
    assert row is not None and (row.state, row.why, row.proof, row.start) == (
        TAKEN,
        choosing.UNTRIED,
        "",
        None,
    )
    assert "proved" not in found.why
    assert auto.choose(PLAIN) == ("process", found.why)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("policy", [PLAIN, LISTED], ids=["plain", "listed"])
@pytest.mark.parametrize("failed", [(), ("process",), ("supervised",), ("process", "supervised")])
def test_the_choice_and_the_reasoning_never_differ(policy: Policy, failed: tuple[str, ...]) -> None:
    verdict = host(**dict.fromkeys(failed, ("broken", "mend it")))
    found = choosing.weigh(policy, verdict)
    try:
        assert auto.choose(policy, verdict=verdict) == (found.tier, found.why)
    except Refused as refused:
        assert (found.tier, found.why) == ("", refused.why)


@pytest.mark.usefixtures("able")
def test_auto_asks_no_dearer_tier_than_it_takes() -> None:
    asked: list[str] = []

    def verdict(ident: str) -> Claim | Proof | None:
        asked.append(ident)
        return host()(ident)

    assert auto.choose(PLAIN, verdict=verdict).tier == "process"
    assert {ident.partition(".")[0] for ident in asked} == {"process"}


@pytest.mark.usefixtures("able")
def test_the_sentences_name_every_tier_once_with_state_reason_remedy_and_cost() -> None:
    head, *rows = choosing.sentences(choosing.weigh(PLAIN, host(supervised=("no nf_tables", "modprobe it"))))
    assert head == f"tier process: {choosing.CHEAPEST} (profile default)"
    assert [row.split()[:2] for row in rows] == [
        [NEVER, "workspace"],
        [TAKEN, "process"],
        [REFUSED, "supervised"],
        [ABSENT, "container"],
        [ABSENT, "microvm"],
    ]
    assert rows[1].endswith(f"{HOLDS}; a start takes 20 ms")
    assert rows[2].endswith("no nf_tables; modprobe it")
    none = choosing.sentences(choosing.weigh(PLAIN, host(process=("x", ""), supervised=("y", ""))))
    assert none[0] == "no tier can enforce this policy here (profile default)"


@pytest.mark.real
def test_the_command_line_prints_the_reasoning_that_the_dialog_shows(
    cli: Callable[..., Done], repo: Path
) -> None:
    made = cli("new", "--tier", "auto", "a")
    assert made.code == 0 and made.out == "a\n"
    reasoning = Engine(repo).reasoning(NewBox(tier="auto"))
    assert reasoning.tier == "process"
    said = made.err
    for sentence in choosing.sentences(reasoning):
        assert sentence.partition(";")[0] in said
    assert all(row.start for row in reasoning.rows if row.tier in ("process", "supervised"))


@pytest.mark.real
def test_the_document_of_a_new_box_has_the_reasoning_only_where_it_was_asked_for(
    cli: Callable[..., Done],
) -> None:
    asked = json.loads(cli("new", "--json", "--tier", "auto", "--profile", "agent", "a").out)
    assert asked["reasoning"]["tier"] == asked["box"]["tier"] == "supervised"
    assert [row["tier"] for row in asked["reasoning"]["rows"]] == ["workspace", *AUTO_ORDER]
    assert json.loads(cli("new", "--json", "b").out)["reasoning"] is None
    assert "dearer" not in cli("new", "c").err


@pytest.mark.real
def test_new_the_reasoning_and_doctor_say_the_same_of_a_host_that_fails(
    cli: Callable[..., Done], repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_INJECT", "nft")
    refused = cli("new", "--json", "--tier", "auto", "--profile", "agent", "a")
    assert refused.code == 3
    error = json.loads(refused.err.splitlines()[-1])
    engine = Engine(repo)
    row = engine.reasoning(NewBox(profile="agent")).row("supervised")
    finding = next(found for found in engine.doctor() if found.id == "supervised")
    assert row is not None and row.state == REFUSED
    assert error["why"] == f"supervised: {row.why}"
    assert error["next"] == row.remedy == finding.remedy
    assert row.why in finding.evidence
    assert "injected" in row.why
    assert engine.boxes() == ()
