"""What the tier refuses, by name and with what to do; none of these boots a guest that is expected to run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from backends.errors import Refused
from backends.microvm import choosing, received, vmm
from backends.microvm.vmm import HARDWARE, TCG, Guest, GuestSpec, Limits, Observed, Proof
from backends.policy.model import Policy
from backends.tiers import microvm
from backends.tiers.limits import NOT_ENFORCED
from backends.tiers.protocol import Refusal
from tests.keeper.boxes import POLICY


class Monitor:
    """One that says what a test wants."""

    name = "qemu"
    accelerators: tuple[str, ...] = (HARDWARE, TCG)
    snapshots = False

    def __init__(self, *lacking: Refusal, boots: bool = True) -> None:
        self.lacking = lacking
        self.boots = boots
        self.proofs = 0

    def version(self) -> str:
        return "1.0"

    def obstacles(self, accelerator: str) -> tuple[Refusal, ...]:
        return self.lacking

    def prove(self, accelerator: str, patience: float) -> Proof:
        self.proofs += 1
        why = "kernels 1 and 2" if self.boots else "its monitor ended"
        return Proof(self.boots, why, 1.0, Observed("1", "x86_64") if self.boots else None)

    def not_observed(self, spec: GuestSpec) -> tuple[tuple[str, str], ...]:
        return ()

    def boot(self, spec: GuestSpec, limits: Limits, death: int) -> Guest:
        raise AssertionError("no test here boots")


@pytest.fixture
def monitors(monkeypatch: pytest.MonkeyPatch) -> dict[str, Monitor]:
    """Monitors by name, in the order in which they are asked."""
    found = {"microsandbox": Monitor(Refusal("vmm", "no msb", "get msb")), "qemu": Monitor()}
    found["microsandbox"].name = "microsandbox"
    monkeypatch.setattr(vmm, "get", lambda name: found[name])
    return found


def policy(**more: Any) -> Policy:
    stated: dict[str, Any] = {"tier": "microvm", "image": "box@sha256:" + "0" * 64, "accelerator": HARDWARE}
    return POLICY._replace(**{**stated, **more})


def test_a_monitor_that_booted_a_guest_is_taken_and_not_asked_again(monitors: dict[str, Monitor]) -> None:
    assert microvm.TIER.refusals(policy()) == ()
    assert choosing.choose("auto", HARDWARE) is monitors["qemu"]
    assert monitors["qemu"].proofs == 1


def test_without_one_the_refusal_says_of_each_what_failed(monitors: dict[str, Monitor]) -> None:
    monitors["qemu"].boots = False
    first, second = microvm.TIER.refusals(policy())
    assert first == Refusal("vmm", "microsandbox: no msb", "get msb")
    assert second.why == "qemu booted no guest here: its monitor ended"
    assert "--tier supervised" in second.remedy
    assert "no isolation promised" in second.remedy
    assert monitors["qemu"].proofs == 1
    with pytest.raises(Refused):
        choosing.choose("auto", HARDWARE)
    assert monitors["qemu"].proofs == 1


@pytest.mark.parametrize(
    ("asked", "accelerator", "why"),
    [
        (
            "kvm=boots-nothing",
            HARDWARE,
            "qemu booted no guest here: /dev/kvm opens, and no guest boots with it",
        ),
        ("kvm=absent", HARDWARE, "qemu: there is no /dev/kvm"),
        ("kvm=EACCES", HARDWARE, "qemu: /dev/kvm is closed to this user"),
        ("vmm=absent", TCG, "qemu: it is not installed"),
        ("vmm=hung", TCG, "qemu booted no guest here: its monitor gave no answer within 90 s"),
    ],
)
def test_a_failure_that_was_asked_for_is_the_refusal_and_is_not_kept(
    monitors: dict[str, Monitor], monkeypatch: pytest.MonkeyPatch, asked: str, accelerator: str, why: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("CLOCHE_INJECT", asked)
        found = microvm.TIER.refusals(policy(vmm="qemu", accelerator=accelerator))
        assert [one.why for one in found] == [f"{why} (injected)"]
        assert found[0].remedy
    assert monitors["qemu"].proofs == 0
    assert microvm.TIER.refusals(policy(vmm="qemu", accelerator=accelerator)) == ()


def test_another_version_of_a_monitor_is_proved_anew(
    monitors: dict[str, Monitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choosing.refusals("qemu", TCG) == ()
    monkeypatch.setattr(Monitor, "version", lambda _self: "2.0")
    assert choosing.refusals("qemu", TCG) == ()
    assert choosing.refusals("qemu", HARDWARE) == ()
    assert monitors["qemu"].proofs == 3


def test_emulation_is_never_taken_unasked(
    monitors: dict[str, Monitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monitors["qemu"].boots = False

    def prove(accelerator: str, patience: float) -> Proof:
        asked.append(accelerator)
        return Proof(accelerator == TCG, "", 0.0, None)

    monkeypatch.setattr(monitors["qemu"], "prove", prove)
    assert microvm.TIER.refusals(policy())
    assert asked == [HARDWARE]
    assert microvm.TIER.refusals(policy(accelerator=TCG)) == ()


def test_a_monitor_without_the_accelerator_is_refused_by_name(monitors: dict[str, Monitor]) -> None:
    monitors["microsandbox"].accelerators = (HARDWARE,)
    [only] = choosing.refusals("microsandbox", TCG)
    assert only.why == "microsandbox knows no accelerator tcg"


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"image": ""}, "image"),
        ({"tree": "overlay"}, "tree"),
        ({"fs": POLICY.fs._replace(write=("/srv",))}, "fs.write"),
        ({"net": POLICY.net._replace(mode="host")}, "net.mode"),
        ({"runtime": "gvisor"}, "runtime"),
        ({"rootful": True}, "rootful"),
        ({"services": (("db", "postgres"),)}, "services"),
        ({"secrets": ("token",)}, "secrets"),
    ],
)
def test_what_a_guest_cannot_be_held_to_is_refused_with_a_remedy(
    monitors: dict[str, Monitor], more: dict[str, Any], key: str
) -> None:
    [only] = microvm.TIER.refusals(policy(**more))
    assert only.key == key
    assert only.why
    assert only.remedy


def test_what_a_guest_has_whatever_was_stated_is_shown_as_not_enforced() -> None:
    for key in ("net.loopback", "net.unix"):
        held = received._inside(key, True, "its own", "it is there")
        assert (held.enforced, held.missing) == ("its own", "")
        lacking = received._inside(key, False, "its own", "it is there")
        assert lacking.requested == "false"
        assert lacking.enforced == NOT_ENFORCED
        assert lacking.missing.startswith("it is there")


def test_a_kept_proof_that_cannot_be_read_counts_for_nothing(
    monitors: dict[str, Monitor], home: object
) -> None:
    assert choosing.refusals("qemu", TCG) == ()
    [kept] = Path(os.environ["XDG_CACHE_HOME"]).glob("cloche/guest-proof-*")
    for text in ("", "[]", "{}", '{"key": 1, "proved": true}'):
        kept.write_text(text)
        assert choosing.refusals("qemu", TCG) == ()
    assert monitors["qemu"].proofs == 5
