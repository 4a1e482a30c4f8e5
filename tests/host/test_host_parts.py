"""The parts of the answer about a host that ask no kernel: tables, comparisons, what programs say."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import injected, tiers
from backends.host import cache, causes, conditions, probes, proofs_inside, reference, switches, tools
from backends.keeper import init_proofs
from backends.kernel import rlimits
from backends.kernel.denied import DeniedCall
from backends.kernel.syscalls import NUMBERS
from backends.snapshots_host import Fact, Proof
from backends.tiers import remedies, starting
from backends.tiers.protocol import LaunchSpec
from tests import support


def test_the_document_is_what_the_code_says() -> None:
    written = (support.ROOT / "docs" / "probe.md").read_text(encoding="utf-8")
    assert written == reference.render(), "run: python -m backends.host.reference > docs/probe.md"


def test_every_stage_of_a_launch_has_its_cause() -> None:
    named: set[str] = set()
    for path in (support.ROOT / "backends" / "tiers").glob("*.py"):
        text = path.read_text()
        named |= set(re.findall(r'(?:stage, what|_[A-Z]+) = "([a-z-]+)", "', text))
        named |= set(re.findall(r'BuildError\(\s*"([a-z0-9-]+)"', text))
        named |= set(re.findall(r'remedy\("([a-z]+)"\)', text))
    assert {"userns", "mounts", "nftables", "seccomp", "tree"} <= named
    assert named <= set(causes.BY_ID)


def test_causes_stand_once_and_say_what_to_do() -> None:
    idents = [one.id for one in causes.CAUSES]
    assert len(idents) == len(set(idents))
    assert all(one.what and one.why and one.remedy for one in causes.CAUSES)
    remedy = [one.remedy for one in causes.CAUSES]
    assert len(remedy) == len(set(remedy)), "a refusal is led back to its cause by its remedy"
    assert {one[2] for one in switches._KNOWN} <= set(idents)


def test_an_unknown_stage_leads_to_the_probe() -> None:
    assert remedies.explained("nosuch", "") == (causes.BY_ID["init"].why, causes.BY_ID["init"].remedy)


words = st.sampled_from(["nft", "userns", "landlock", "hang", "=", ",", " ", "EPERM", "x", "\0"])


@given(st.lists(words, max_size=8).map("".join))
def test_no_text_of_the_switch_strikes_what_it_does_not_name(text: str) -> None:
    injected.begin(text)
    try:
        asked = injected.asked()
        assert all(ident for ident, _ in asked)
        assert len(injected.unknown()) <= len(asked)
        injected.strike("seccomp")
    finally:
        injected._told = None


def test_a_failure_strikes_its_own_stage_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injected, "_told", "nft=ENOENT")
    injected.strike("userns")
    with pytest.raises(FileNotFoundError) as struck:
        injected.strike("nftables")
    assert struck.value.strerror == "No such file or directory (injected)"


rows = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), unique_by=lambda row: row[0])


@given(rows, rows)
def test_what_differs_is_told_and_nothing_else(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    told = conditions.differing(tuple(before), tuple(after))
    old, new = dict(before), dict(after)
    assert {one.partition(":")[0] for one in told} == {
        name for name in {*old, *new} if old.get(name) != new.get(name)
    }


KEPT = cache.Kept(
    (("kernel", "6.1"),),
    5.0,
    0.5,
    (Fact("git", "git", "git version 2", "host"),),
    (
        Proof(
            "process", "t", "failed", "e", 0.1, "process", "w", 5.0, "userns", "r", 4.0, ("kernel: 5 -> 6",)
        ),
    ),
    {
        "process": cache.Passed(4.0, (("kernel", "5"),)),
        "process.mount": cache.Passed(5.0, (("kernel", "6.1"),)),
    },
)


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    cache.save(KEPT)
    assert cache.load() == KEPT


@given(st.data())
def test_no_damage_to_the_file_is_an_error(data: st.DataObject) -> None:
    whole = cache.encode(KEPT)
    cut = data.draw(st.integers(0, len(whole)))
    into = data.draw(st.binary(max_size=6) | st.sampled_from([b"null", b"[]", b"1e999", b'"x"', b"{}"]))
    found = cache.parse(whole[:cut] + into + whole[data.draw(st.integers(cut, len(whole))) :])
    assert isinstance(found, cache.Kept)
    assert all(one.result in ("proved", "failed", "not run") for one in found.proofs)


def test_conditions_of_one_moment_are_equal() -> None:
    assert conditions.now() == conditions.now()


def test_a_program_of_the_host_that_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, script in (
        ("hangs", "exec sleep 600"),
        ("fails", "exit 3"),
        ("says", "printf 'one\\033[31m\\ntwo'"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked = {name: [name] for name in ("fails", "says", "absent")}
    said = tools.ask(asked, 30.0)
    assert said["fails"].why == "it ended with 3"
    assert said["absent"].why == "absent"
    assert tools._first(said["says"]) == "one?[31m"
    assert tools.ask({"hangs": ["hangs"]}, 0.2)["hangs"].why == "no answer within 0.2 s"


def test_every_proof_of_a_probe_can_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Outside a box each action goes through or finds another state: no proof says yes by itself."""
    assert "keyctl" in NUMBERS
    monkeypatch.setattr(proofs_inside, "DENIED", (DeniedCall("keyctl", "a call that does no harm"),))
    with socket.socket(socket.AF_UNIX) as host:
        name = f"cloche-test-{os.urandom(8).hex()}"
        host.bind("\0" + name)
        host.listen(1)
        outside = proofs_inside.Outside.seen("/usr", name, 1 << 20, listed=True)
        monkeypatch.setattr(rlimits, "apply", lambda _: None)
        monkeypatch.setattr(proofs_inside, "LISTED", ("127.0.0.1", 1))
        passed = []
        for ident, _, proof in proofs_inside.proofs(outside._replace(procs=2)):
            try:
                proof(init_proofs.Promises((), (), (), "deny", True, (), 0))
            except (init_proofs.Failed, OSError):
                continue
            passed.append(ident)
    assert passed in ([], ["tiocsti"]), "a host may forbid TIOCSTI by itself (dev.tty.legacy_tiocsti)"


def test_the_groups_of_a_probe_tell_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes away what killed probes left has to know which of them live."""
    named: list[str] = []

    def launch(spec: LaunchSpec) -> NoReturn:
        named.append(starting._group_name(spec))
        raise OSError("that is enough")

    tier = tiers.get("process")
    monkeypatch.setattr(type(tier), "launch", lambda _self, spec: launch(spec))
    with pytest.raises(OSError, match="that is enough"):
        probes.under(tier, probes._policy("process"))
    assert re.fullmatch(rf"probe-{os.getpid()}-{support.start_time(os.getpid())}-probe-[0-9a-f]+", named[0])
