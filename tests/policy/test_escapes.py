"""What in a policy deletes a cell of the isolation matrix is named, with the column that it deletes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.policy import danger, escapes
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy
from tests.policy.test_canonical import EXAMPLE

HOME = "/home/ada"
SAFE = EXAMPLE._replace(
    tier="container",
    fs=FsPolicy(("/usr", "/etc/ssl/certs"), ("/srv/cache",), ()),
    net=NetPolicy("deny", (), True, True),
    env=EnvPolicy(("LANG",), ()),
)
ALL = ("filesystem", "network", "kernel", "privilege")


def with_files(
    *, read: tuple[str, ...] = (), write: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> Policy:
    return SAFE._replace(fs=FsPolicy(read, write, deny))


def ids(policy: Policy) -> list[str]:
    return [one.id for one in escapes.found(policy, HOME)]


def test_a_harmless_policy_deletes_nothing() -> None:
    assert escapes.found(SAFE, HOME) == ()


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        ("/", ["root-bind", "credentials", "engine-socket", "host-service", "kernel-trees"]),
        ("/home", ["home-bind", "credentials"]),
        (HOME, ["home-bind", "credentials"]),
        (f"{HOME}/.aws", ["credentials"]),
        (f"{HOME}/.config/gcloud/adc.json", ["credentials"]),
        ("/var/lib/kubelet/pods", ["credentials"]),
        ("/run/secrets/kubernetes.io/serviceaccount", ["credentials"]),
        ("/var/run/docker.sock", ["engine-socket"]),
        ("/run/user/1000/podman", ["engine-socket"]),
        ("/run/containerd", ["engine-socket"]),
        ("/run/dbus", ["host-service"]),
        ("/proc/1/root", ["kernel-trees"]),
        ("/sys/fs/cgroup", ["kernel-trees"]),
    ],
)
def test_a_bind_is_named_by_what_it_leads_to(grant: str, expected: list[str]) -> None:
    assert ids(with_files(read=(grant,))) == expected


@pytest.mark.parametrize(
    ("grant", "expected"),
    [
        (f"{HOME}/.bashrc", ["runs-later"]),
        (f"{HOME}/.claude.json", ["host-service"]),
        (f"{HOME}/.cursor/mcp.json", ["host-service"]),
        (f"{HOME}/src", []),
        (f"{HOME}/.claude.json.bak", []),
    ],
)
def test_writing_what_the_host_runs_or_starts_deletes_too(grant: str, expected: list[str]) -> None:
    assert ids(with_files(write=(grant,))) == expected
    assert ids(with_files(read=(grant,))) == []


def test_what_a_mask_hides_is_not_given() -> None:
    masked = with_files(
        read=("/run",), deny=tuple(path for path, _ in danger.SOCKETS if path.startswith("/run"))
    )
    assert ids(masked) == ["credentials", "host-service"]


def test_the_columns_are_those_of_the_configuration() -> None:
    (network,) = escapes.found(SAFE._replace(net=NetPolicy("host", (), True, True)), HOME)
    assert (network.id, network.columns) == ("host-network", ("network",))
    (server,) = escapes.found(with_files(write=(f"{HOME}/.gemini",)), HOME)
    assert server.columns == ALL


@pytest.mark.parametrize("rule", ["*.example.org", "0.0.0.0/0", "10.0.0.0/8", "169.254.169.254"])
def test_a_wide_destination_deletes_the_network_cell(rule: str) -> None:
    policy = SAFE._replace(net=NetPolicy("allow", ("pypi.org", rule), True, True))
    found = escapes.found(policy, HOME)
    assert found and {(one.id, one.key, one.value) for one in found} == {("wide-egress", "net.egress", rule)}


def test_a_variable_that_is_a_credential_is_named_and_its_value_is_not() -> None:
    policy = SAFE._replace(env=EnvPolicy(("GITHUB_TOKEN", "SSH_AUTH_SOCK"), (("API_KEY", "hunter2"),)))
    found = escapes.found(policy, HOME)
    assert [(one.id, one.key, one.value) for one in found] == [
        ("credentials", "env.pass", "GITHUB_TOKEN"),
        ("credentials", "env.set.API_KEY", "API_KEY"),
    ]
    assert "hunter2" not in repr(found)


def test_where_it_was_stated_is_kept() -> None:
    sources = {"fs.read": "cloche.toml:3", "fs.read[/proc]": "cloche.toml:9"}
    found = escapes.found(with_files(read=("/proc", "/sys")), HOME, sources)
    assert [one.where for one in found] == ["cloche.toml:9", "cloche.toml:3"]


def test_one_grant_is_named_once_for_each_thing_that_it_does() -> None:
    found = escapes.found(with_files(read=(HOME,)), HOME)
    assert len({(one.id, one.key, one.value) for one in found}) == len(found)
    keys = next(one for one in found if one.id == "credentials")
    assert keys.text == (
        "gives the box your SSH keys, your AWS credentials, your Azure credentials "
        f"and {len({what for _, what in danger.HOME_SECRETS}) - 3} more"
    )


@pytest.mark.parametrize("tier", ["process", "supervised"])
@pytest.mark.parametrize("path", ["/run/docker.sock", "/run", "/run/user/1000", "/run/dbus"])
def test_sockets_that_a_tier_does_not_let_through_delete_nothing(tier: str, path: str) -> None:
    sockets = {"engine-socket", "host-service"}
    assert not sockets & set(ids(with_files(read=(path,))._replace(tier=tier)))
    written = escapes.found(with_files(write=(path,))._replace(tier=tier), HOME)
    (late, *_) = [one for one in written if one.id in sockets]
    assert late.text.endswith("one that is bound later is reached")


PLACES = [path for path, _ in danger.sensitive(HOME)] + [
    "/", "/home", HOME, "/etc", "/run", "/srv", "/usr", f"{HOME}/src", f"{HOME}/.config",
    *(f"{HOME}/{name}" for name in (*danger.EXECUTED_LATER, *danger.TOOL_SERVERS)),
]  # fmt: skip
GRANTS = st.lists(st.sampled_from(PLACES), max_size=3).map(tuple)


@given(GRANTS, GRANTS, GRANTS)
def test_nothing_deletes_a_cell_without_a_warning_and_no_grant_is_warned_of_for_nothing(
    read: tuple[str, ...], write: tuple[str, ...], deny: tuple[str, ...]
) -> None:
    policy = with_files(read=read, write=write, deny=deny)
    warned = {(one.key, one.value) for one in danger.warnings(policy, HOME)}
    assert {(one.key, one.value) for one in escapes.found(policy, HOME)} == warned


@pytest.mark.parametrize(
    ("name", "told"),
    [("DOCKER_HOST", "Docker"), ("SSH_AUTH_SOCK", "SSH agent"), ("KUBECONFIG", "Kubernetes")],
)
def test_a_variable_that_leads_to_a_service_of_the_host_is_warned_of(name: str, told: str) -> None:
    (warning,) = danger.warnings(SAFE._replace(env=EnvPolicy((name,), ())), HOME)
    assert (warning.key, warning.value) == ("env.pass", name)
    assert told in warning.text


def test_files_that_name_tool_servers_are_warned_of_when_they_can_be_written() -> None:
    found: list[Any] = list(danger.warnings(with_files(write=(f"{HOME}/.cursor",)), HOME))
    assert [one.text for one in found] == [
        f"{HOME}/.cursor names tool servers that run on the host, outside of every box"
    ]
