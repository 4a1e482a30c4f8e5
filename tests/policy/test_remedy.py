"""A refusal explains itself: where it was decided, and the one change that allows it, or why none does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernel.denied import DENIED
from backends.kernel.seccomp import FAMILIES
from backends.policy import schema, values
from backends.policy.explain import value_of
from backends.policy.model import Policy
from backends.policy.remedy import Change, Refused, Remedy, forbidden, larger, remedy
from tests.policy.test_canonical import EXAMPLE

HOME = "/home/ada"
SOURCES = {
    "net.mode": "/p/cloche.toml:7",
    "net.unix": "/p/cloche.toml:9",
    "debug": "built-in default",
    "fs.deny[/srv/keep]": "/p/cloche.toml:3",
    "fs.deny[/home/ada/.local/state/cloche]": "built-in rule: no box sees this folder",
    "fs.deny[/home/ada/.ssh]": "built-in profile default:60",
    "resources.procs": "/p/cloche.toml:12",
    "resources.mem": "built-in default",
}
CLOSED = EXAMPLE._replace(
    profile="web",
    tier="process",
    fs=EXAMPLE.fs._replace(read=("/usr",), write=(), deny=("/srv/keep", "/home/ada/.ssh"), hidden=()),
    net=EXAMPLE.net._replace(mode="deny", egress=(), unix=True),
    resources=EXAMPLE.resources._replace(
        mem=3 << 30, procs=100, wall=90, cpu=None, file_size=5000, disk=1 << 30
    ),
)
LISTED = CLOSED._replace(tier="supervised", net=CLOSED.net._replace(mode="allow", egress=("pypi.org",)))


def why(kind: str, object: str, rule: str, policy: Policy = CLOSED) -> Remedy:
    return remedy(Refused(kind, object, rule, policy, SOURCES, HOME))


@pytest.mark.parametrize(
    ("kind", "object", "rule", "policy", "change"),
    [
        ("fs-read", "/opt/sdk/lib.so", "fs.read", CLOSED, Change("fs.read", "/opt/sdk/lib.so")),
        ("fs-read", "/opt/a b'\"c", "fs.read", CLOSED, Change("fs.read", "/opt/a b'\"c")),
        ("exec", "/opt/sdk/bin/cc", "fs.read", CLOSED, Change("fs.read", "/opt/sdk/bin/cc")),
        ("fs-write", "/var/cache/x", "fs.write", CLOSED, Change("fs.write", "/var/cache/x")),
        ("net", "files.example:443", "no rule", LISTED, Change("net.egress", "files.example")),
        ("net", "Files.Example:8443", "no rule", LISTED, Change("net.egress", "files.example:8443")),
        ("net", "8.8.8.8:853", "no rule", LISTED, Change("net.egress", "8.8.8.8:853")),
        ("net", "10.1.2.3:5432", "no rule", LISTED, Change("net.egress", "10.1.2.3:5432")),
        ("net", "[2606:4700::1111]:443", "no rule", LISTED, Change("net.egress", "[2606:4700::1111]")),
        ("net", "151.101.0.223:443 (SNI b.example)", "it says", LISTED, Change("net.egress", "b.example")),
        ("net", "151.101.0.223:80 (Host a.example)", "it says", LISTED, Change("net.egress", "a.example:80")),
        ("dns", "telemetry.example", "no rule", LISTED, Change("net.egress", "telemetry.example")),
        ("dns", "Telemetry.Example.", "no rule", LISTED, Change("net.egress", "telemetry.example")),
        ("syscall", "ptrace", "no ptrace", CLOSED, Change("debug", "true")),
        ("limit", "processes", "resources.procs = 100", CLOSED, Change("resources.procs", "200")),
        ("limit", "memory", "resources.mem", CLOSED, Change("resources.mem", "4G")),
        ("limit", "wall time of session 3", "resources.wall = 90 s", CLOSED, Change("resources.wall", "3m")),
        ("limit", "disk", "resources.disk = 1073741824", CLOSED, Change("resources.disk", "2G")),
        ("limit", "file size", "resources.file_size = 5000", CLOSED, Change("resources.file_size", "8K")),
    ],
)  # fmt: skip
def test_what_would_allow_it_is_proposed_exactly_as_narrow(
    kind: str, object: str, rule: str, policy: Policy, change: Change
) -> None:
    found = why(kind, object, rule, policy)
    assert (found.change, found.why_not) == (change, "")


@pytest.mark.parametrize(
    ("kind", "object", "rule", "policy", "said"),
    [
        ("fs-read", "/etc/shadow", "fs.read", CLOSED, "password hashes"),
        ("fs-read", "/home/ada/.aws/config", "fs.read", CLOSED, "AWS credentials"),
        ("fs-read", "/home/ada", "fs.read", CLOSED, "whole home directory"),
        ("fs-read", "/", "fs.read", CLOSED, "whole host"),
        ("fs-read", "/srv/app/.env", "fs.read", CLOSED, "holds credentials"),
        ("fs-read", "/srv/tls/server.KEY", "fs.read", CLOSED, "holds credentials"),
        ("fs-read", "/home/ada/work/id_ed25519", "fs.read", CLOSED, "holds credentials"),
        ("fs-read", "/run/docker.sock", "fs.read", CLOSED, "Docker socket"),
        ("fs-write", "/home/ada/.bashrc", "fs.write", CLOSED, "runs on the host later"),
        ("fs-write", "/proc/sys/kernel/core_pattern", "fs.write", CLOSED, "/proc"),
        ("fs-read", "~/.ssh/id_rsa", "fs.deny = /home/ada/.ssh", CLOSED, "holds credentials"),
        ("fs-read", "/srv/keep/x", "fs.deny = /srv/keep", CLOSED, "on purpose"),
        ("fs-read", "~/.mozilla/x", "fs.deny = /home/ada/.mozilla", CLOSED, "on purpose"),
        (
            "fs-read", "/home/ada/.local/state/cloche/k", "fs.deny = /home/ada/.local/state/cloche", CLOSED,
            "no box is shown it",
        ),
        ("fs-read", "/opt/\u202egnp.exe", "fs.read", CLOSED, "cannot see"),
        ("fs-read", "/opt/a\nb", "fs.read", CLOSED, "cannot see"),
        ("fs-read", "/opt/\udcff", "fs.read", CLOSED, "cannot see"),
        ("net", "files.example:443", "net.mode = deny", CLOSED, "never widened"),
        ("dns", "files.example", "net.mode = deny", CLOSED, "never widened"),
        ("net", "8.8.8.8:53 (name server)", "net.mode = deny", LISTED, "no rule opens port 53"),
        ("net", "files.example:443/udp", "no rule", LISTED, "rules are for TCP"),
        ("net", "151.101.0.223:5432 (no name)", "no name", LISTED, "raw:HOST:PORT"),
        ("net", "169.254.169.254:80", "no rule", LISTED, "metadata"),
        ("net", "[64:ff9b::a9fe:a9fe]:80", "no rule", LISTED, "metadata"),
        ("net", "[::ffff:169.254.169.254]:80", "no rule", LISTED, "metadata"),
        ("dns", "metadata.google.internal", "no rule", LISTED, "metadata"),
        ("net", "127.0.0.1:22", "no rule", LISTED, "loopback"),
        ("net", "224.0.0.251:443", "no rule", LISTED, "multicast"),
        ("dns", "com", "no rule", LISTED._replace(tier="process"), "cannot hold"),
        ("dns", "a b;c", "no rule", LISTED, "no rule can say it"),
        ("net", "no port here", "no rule", LISTED, "no host and port"),
        ("socket", "unix:/run/docker.sock", "host sockets are not granted", CLOSED, "no key opens one"),
        ("limit", "connections", "at most 1024 connections at a time", LISTED, "no key"),
        ("gate", "x", "y", CLOSED, "nothing would allow it"),
    ],
)  # fmt: skip
def test_what_is_never_proposed_says_why(
    kind: str, object: str, rule: str, policy: Policy, said: str
) -> None:
    found = why(kind, object, rule, policy)
    assert found.change is None
    assert said in found.why_not


@pytest.mark.parametrize("family", [name for name in FAMILIES.values() if name != "AF_UNIX"])
def test_no_socket_family_is_ever_proposed(family: str) -> None:
    found = why("socket", f"{family} SOCK_RAW", "no socket")
    assert found.change is None and found.why_not


def test_unix_sockets_that_the_profile_turned_off_can_be_turned_on() -> None:
    off = CLOSED._replace(net=CLOSED.net._replace(unix=False))
    found = why("socket", "AF_UNIX SOCK_STREAM", "no socket", off)
    assert found.change == Change("net.unix", "true")
    assert found.where == "/p/cloche.toml:9"
    assert why("socket", "AF_UNIX SOCK_STREAM", "no socket").change is None


@pytest.mark.parametrize("row", DENIED, ids=lambda row: row.name)
def test_a_refused_call_is_explained_by_the_table_and_only_debuggers_calls_have_a_key(row: object) -> None:
    name, debug, reason = row.name, row.debug, row.reason  # type: ignore[attr-defined]
    found = why("syscall", name, f"no {name}")
    assert reason in found.reason
    assert found.change == (Change("debug", "true") if debug else None)


@pytest.mark.parametrize(
    ("kind", "object", "rule", "where"),
    [
        ("net", "8.8.8.8:443", "net.mode = deny", "/p/cloche.toml:7"),
        ("fs-read", "/srv/keep/x", "fs.deny = /srv/keep", "/p/cloche.toml:3"),
        ("fs-read", "~/.ssh/id_rsa", "fs.deny = /home/ada/.ssh", "built-in profile default:60"),
        ("limit", "processes", "resources.procs = 100", "/p/cloche.toml:12"),
        ("limit", "memory", "resources.mem", "built-in default"),
        ("syscall", "ptrace", "no ptrace", "built-in default"),
    ],
)
def test_it_names_the_file_and_line_or_the_default_that_refused(
    kind: str, object: str, rule: str, where: str
) -> None:
    assert why(kind, object, rule).where == where


@given(
    st.sampled_from(["fs-read", "fs-write", "exec", "net", "dns", "socket", "syscall", "limit", "gate", "x"]),
    st.text(max_size=60),
    st.text(max_size=40),
    st.sampled_from([CLOSED, LISTED]),
)
def test_whatever_a_box_asks_for_is_explained_and_what_is_proposed_is_a_value_of_the_schema(
    kind: str, object: str, rule: str, policy: Policy
) -> None:
    found = why(kind, object, rule, policy)
    assert found.reason and found.where
    assert (found.change is None) == bool(found.why_not)
    if found.change is not None:
        key = schema.BY_PATH[found.change.key]
        assert found.change.value.isprintable()
        assert forbidden(found.change, policy, HOME) == ""
        if key.is_list:
            assert values.entry(key, found.change.value) == found.change.value


@given(
    st.sampled_from([key for key in schema.KEYS if key.path.startswith("resources.")]),
    st.integers(1, 1 << 50),
)
def test_a_raised_limit_is_larger_and_can_be_written(key: schema.Key, value: int) -> None:
    raised = larger(key, value)
    assert value < raised <= max(values.LARGEST, value)
    assert values.scalar(key, values.show(key, raised)) == raised


def test_the_keys_of_what_is_proposed_are_those_of_the_policy() -> None:
    for key in schema.KEYS:
        value_of(CLOSED, key.path)
        if key.path not in ("fs.read", "fs.write", "net.egress", "net.unix", "debug"):
            refused = forbidden(Change(key.path, "1"), CLOSED, HOME)
            assert bool(refused) == (not key.path.startswith("resources."))
