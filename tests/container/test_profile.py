"""The profile for runtimes refuses what the filter of tier ``process`` refuses, call by call."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.container import profile
from backends.kernel import seccomp, syscalls
from backends.kernel.denied import DENIED
from backends.kernel.seccomp import FilterSpec
from tests.kernel import bpf_machine

MACHINE = "x86_64"
SPEC = FilterSpec(opens="none", execs=False, connects=False)


def judge(rules: list[dict[str, Any]], name: str, args: list[int]) -> int | None:
    """The errno that a runtime's filter answers with, ``None`` where it lets the call through."""
    for rule in rules:
        if name in rule["names"] and all(_fits(one, args[one["index"]]) for one in rule["args"]):
            code: int = rule["errnoRet"]
            return code
    return None


def _fits(one: dict[str, Any], value: int) -> bool:
    """libseccomp's comparisons (seccomp_rule_add(3)), all of 64 bits."""
    operator = one["op"].removeprefix("SCMP_CMP_")
    if operator == "MASKED_EQ":
        return bool(value & one["value"] == one["valueTwo"])
    return bool(
        {"EQ": value == one["value"], "NE": value != one["value"], "GE": value >= one["value"]}[operator]
    )


def rules(**how: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(profile.build(MACHINE, **how))["syscalls"]
    return found


RULES = rules()


def test_every_row_of_the_table_is_refused_with_its_errno() -> None:
    for row in DENIED:
        assert judge(RULES, row.name, [0] * 6) == row.errno


def test_a_debuggers_calls_stay_where_the_policy_says_so() -> None:
    debug = rules(debug=True)
    kept = {row.name for row in DENIED if row.debug}
    assert kept
    assert all(judge(debug, row.name, [0] * 6) == (None if row.debug else row.errno) for row in DENIED)


def test_unix_sockets_go_where_the_policy_says_so_and_pairs_stay() -> None:
    without = rules(unix=False)
    assert judge(RULES, "socket", [seccomp.AF_UNIX, 1, 0, 0, 0, 0]) is None
    assert judge(without, "socket", [seccomp.AF_UNIX, 1, 0, 0, 0, 0]) == errno.EAFNOSUPPORT
    assert judge(without, "socketpair", [seccomp.AF_UNIX, 1, 0, 0, 0, 0]) is None


words = st.integers(0, (1 << 32) - 1) | st.sampled_from([0, 1, 2, 3, 10, 16, 17, 0o4755, 0o100644, 1 << 31])
CALLS = (
    "clone",
    "unshare",
    "personality",
    "socket",
    "socketpair",
    "chmod",
    "openat",
    "open",
    "mknod",
    "ioctl",
)


@given(name=st.sampled_from(CALLS), args=st.lists(words, min_size=6, max_size=6))
def test_what_arguments_decide_is_decided_as_in_the_other_filter(name: str, args: list[int]) -> None:
    number = syscalls.number(name, MACHINE)
    assert number is not None
    assert (judge(RULES, name, args) is not None) == _refused_by_process(number, args)


def _refused_by_process(number: int, args: list[int]) -> bool:
    """What tier ``process`` comes to: its program, and the keeper where that is asked."""
    action = bpf_machine.run(seccomp.build(SPEC, MACHINE), number, seccomp.AUDIT_ARCH[MACHINE], args)
    if action == seccomp.RET_USER_NOTIF:
        return seccomp.classify(SPEC, number, args, MACHINE).errno is not None
    return action != seccomp.RET_ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_profile_is_for_one_machine_alone(machine: str) -> None:
    value = json.loads(profile.build(machine))
    assert value["architectures"] == [f"SCMP_ARCH_{'X86_64' if machine == 'x86_64' else 'AARCH64'}"]
    assert value["defaultAction"] == "SCMP_ACT_ALLOW"
