"""The filter, verdict by verdict, for both architectures; the keeper's answer is the filter's mirror."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernel import seccomp, syscalls
from backends.kernel.denied import ARGUED, DENIED
from backends.kernel.seccomp import (
    AUDIT_ARCH,
    RET_ALLOW,
    RET_ERRNO,
    RET_KILL_PROCESS,
    RET_USER_NOTIF,
    FilterSpec,
)
from tests.kernel.bpf_machine import run

ARCHES = syscalls.ARCHITECTURES
ENOSYS = RET_ERRNO | errno.ENOSYS
HIGH = 1 << 32


def verdict(name: str, args: Sequence[int] = (), spec: FilterSpec | None = None, arch: str = "x86_64") -> int:
    number = syscalls.number(name, arch)
    assert number is not None
    return run(seccomp.build(spec or FilterSpec(), arch), number, AUDIT_ARCH[arch], args)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("row", DENIED, ids=lambda row: row.name)
def test_every_row_of_the_table_is_refused_on_every_architecture_that_has_it(arch: str, row: object) -> None:
    name, counted = row.name, row.counted  # type: ignore[attr-defined]
    if syscalls.number(name, arch) is None:
        return
    assert verdict(name, arch=arch) == (RET_USER_NOTIF if counted else ENOSYS)
    assert verdict(name, [(1 << 64) - 1] * 6, arch=arch) == (RET_USER_NOTIF if counted else ENOSYS)


def test_the_debuggers_calls_come_with_debug_and_no_other_does() -> None:
    allowed = {row.name for row in DENIED if verdict(row.name, spec=FilterSpec(debug=True)) == RET_ALLOW}
    assert allowed == {"ptrace", "process_vm_readv", "process_vm_writev", "kcmp"}


def test_foreign_call_tables_get_nothing() -> None:
    program = seccomp.build(FilterSpec(), "x86_64")
    i386 = 0x40000003
    assert run(program, 11, i386, ()) == RET_KILL_PROCESS
    x32_ptrace = 0x40000000 | 521
    assert run(program, x32_ptrace, AUDIT_ARCH["x86_64"], ()) == ENOSYS
    assert run(program, 0x40000000 | 0, AUDIT_ARCH["x86_64"], ()) == ENOSYS
    assert run(program, 0xFFFFFFFF, AUDIT_ARCH["x86_64"], ()) == ENOSYS


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("request_", [0x5412, 0x541C, 0x5423])
def test_terminal_injection_is_refused_whatever_the_high_bits_say(arch: str, request_: int) -> None:
    for bits in (0, HIGH, 7 * HIGH, 0xFFFFFFFF * HIGH):
        assert verdict("ioctl", [0, request_ + bits], arch=arch) == RET_USER_NOTIF
    assert verdict("ioctl", [0, 0x5413], arch=arch) == RET_ALLOW  # TIOCGWINSZ


@pytest.mark.parametrize("arch", ARCHES)
def test_new_namespaces_are_refused_and_threads_are_not(arch: str) -> None:
    thread = 0x3D0F00  # what pthread_create asks for
    assert verdict("clone", [thread], arch=arch) == RET_ALLOW
    assert verdict("clone", [17], arch=arch) == RET_ALLOW  # fork: SIGCHLD
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict("clone", [flag | 17], arch=arch) == RET_USER_NOTIF
        assert verdict("unshare", [flag], arch=arch) == RET_USER_NOTIF
    assert verdict("unshare", [0x80], arch=arch) == RET_USER_NOTIF  # CLONE_NEWTIME
    assert verdict("unshare", [0x400], arch=arch) == RET_ALLOW  # CLONE_FILES


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("call", "index", "flags"),
    [(call, mode, flags) for call, mode, flags in seccomp.MODE_CALLS],
    ids=lambda value: str(value),
)
def test_set_id_bits_are_refused_in_every_call_that_takes_a_mode(
    arch: str, call: str, index: int, flags: int | None
) -> None:
    if syscalls.number(call, arch) is None:
        return
    spec = FilterSpec(opens="none")
    for mode in (0o4755, 0o2755, 0o6000, 0o7777):
        args = [0] * 6
        args[index] = mode
        if flags is not None:
            args[flags] = 0o101  # O_CREAT | O_WRONLY
        assert verdict(call, args, spec, arch) == RET_USER_NOTIF
        number = syscalls.number(call, arch)
        assert number is not None
        assert seccomp.classify(spec, number, args, arch).errno == errno.EPERM
    args[index] = 0o1777
    assert verdict(call, args, spec, arch) == RET_ALLOW


def test_a_mode_counts_only_where_the_kernel_reads_it() -> None:
    spec = FilterSpec(opens="none")
    assert verdict("openat", [0, 0, 0, 0o4755], spec) == RET_ALLOW  # O_RDONLY: the register holds anything
    assert verdict("openat", [0, 0, 0o20200002, 0o4755], spec) == RET_USER_NOTIF  # O_TMPFILE | O_RDWR


SOCKETS = [
    ((1, 1, 0), True), ((1, 5, 0), True), ((2, 1, 0), True), ((2, 1, 6), True), ((2, 2, 17), True),
    ((10, 0o2004001, 0), True), ((10, 2, 0), True), ((16, 3, 0), True), ((16, 2, 0), True),
    ((2, 1, 262), False), ((2, 2, 136), False), ((10, 1, 132), False), ((2, 5, 132), False),
    ((2, 3, 1), False), ((2, 2, 1), False), ((10, 3, 58), False), ((2, 10, 0), False), ((17, 3, 768), False),
    ((16, 3, 9), False), ((16, 3, 12), False), ((16, 3, 4), False),
    ((38, 5, 0), False), ((40, 1, 0), False), ((15, 3, 2), False),
    ((44, 3, 0), False), ((21, 5, 0), False), ((0, 1, 0), False),
]  # fmt: skip


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(("args", "allowed"), SOCKETS)
def test_sockets_by_family_type_and_protocol(arch: str, args: tuple[int, int, int], allowed: bool) -> None:
    assert verdict("socket", args, arch=arch) == (RET_ALLOW if allowed else RET_USER_NOTIF)
    raised = [value + HIGH for value in args]  # the kernel reads 32 bits of each
    assert verdict("socket", raised, arch=arch) == (RET_ALLOW if allowed else RET_USER_NOTIF)
    if not allowed:
        number = syscalls.number("socket", arch)
        assert number is not None
        notice = seccomp.classify(FilterSpec(), number, [*args, 0, 0, 0], arch)
        assert notice.kind == "socket"
        assert notice.errno is not None


def test_unix_sockets_can_be_forbidden_and_pairs_stay() -> None:
    spec = FilterSpec(unix=False)
    assert verdict("socket", (1, 1, 0), spec) == RET_USER_NOTIF
    assert verdict("socketpair", (1, 1, 0), spec) == RET_ALLOW
    assert verdict("socketpair", (30, 1, 0)) == RET_USER_NOTIF


def test_personality_allows_what_setarch_needs() -> None:
    assert [verdict("personality", [value]) for value in (0, 0x40000, 0xFFFFFFFF)] == [RET_ALLOW] * 3
    assert verdict("personality", [0x0400000]) == RET_USER_NOTIF  # READ_IMPLIES_EXEC


@pytest.mark.parametrize(
    ("opens", "expected"),
    [("none", (0, 0)), ("writes", (0, 1)), ("all", (1, 1))],
    ids=["none", "writes", "all"],
)
def test_opens_are_asked_about_as_the_policy_says(opens: str, expected: tuple[int, int]) -> None:
    spec = FilterSpec(opens=opens)
    for call, flags in (("openat", 2), ("open", 1)):
        read, write = [0] * 6, [0] * 6
        write[flags] = 0o1
        got = tuple(int(verdict(call, args, spec) == RET_USER_NOTIF) for args in (read, write))
        assert got == expected


def test_sends_with_an_address_are_asked_about_and_others_are_not() -> None:
    assert verdict("sendto", [3, 1, 1, 0, 0, 0]) == RET_ALLOW
    assert verdict("sendto", [3, 1, 1, 0, 0x7000, 16]) == RET_USER_NOTIF
    assert verdict("sendto", [3, 1, 1, 0, 5 * HIGH, 16]) == RET_USER_NOTIF
    assert verdict("connect", [3, 1, 16], FilterSpec(connects=False)) == RET_ALLOW


def test_calls_of_everyday_tools_stay() -> None:
    program = seccomp.build(FilterSpec(), "x86_64")
    for number in (
        0,
        1,
        3,
        5,
        9,
        39,
        57,
        58,
        60,
        61,
        62,
        72,
        202,
        218,
        230,
        231,
        254,
        281,
        291,
        318,
        332,
        334,
        434,
        436,
        439,
        441,
    ):
        assert run(program, number, AUDIT_ARCH["x86_64"], ()) == RET_ALLOW


LONGS = st.integers(0, (1 << 64) - 1) | st.sampled_from(
    [0, 1, 2, 10, 16, 17, 0o101, 0o4755, 0x5412, 0x10000000]
)
SPECS = st.builds(
    FilterSpec,
    opens=st.sampled_from(["none", "writes", "all"]),
    execs=st.booleans(),
    connects=st.booleans(),
    unix=st.booleans(),
    debug=st.booleans(),
)


@given(
    name=st.sampled_from(sorted(syscalls.NUMBERS)),
    args=st.lists(LONGS, min_size=6, max_size=6),
    spec=SPECS,
    arch=st.sampled_from(ARCHES),
)
def test_what_the_filter_asks_about_is_what_the_keeper_can_name(
    name: str, args: list[int], spec: FilterSpec, arch: str
) -> None:
    number = syscalls.number(name, arch)
    if number is None or run(seccomp.build(spec, arch), number, AUDIT_ARCH[arch], args) != RET_USER_NOTIF:
        return
    notice = seccomp.classify(spec, number, args, arch)
    assert notice.call == name
    observed = notice.kind in ("open", "exec", "connect", "rename")
    assert (notice.errno is None) == observed
    refusable = {row.name for row in DENIED} | {call for row in ARGUED for call in row.names}
    assert observed or name in refusable


def test_a_filter_stays_far_below_the_kernels_limit() -> None:
    for arch in ARCHES:
        assert len(seccomp.build(FilterSpec(opens="all"), arch)) // 8 < 1000


def test_numbers_are_those_of_the_system_headers() -> None:
    header = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
    try:
        with open(header, encoding="ascii") as file:
            words = [line.split() for line in file if line.startswith("#define __NR_")]
    except FileNotFoundError:
        words = [["#define", "__NR_openat", "257"]]
    known = {parts[1].removeprefix("__NR_"): int(parts[2]) for parts in words}
    for name in known.keys() & syscalls.NUMBERS.keys():
        assert syscalls.NUMBERS[name][0] == known[name]
