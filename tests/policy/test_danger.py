"""The grants through which people are usually robbed are named before the box exists."""

from __future__ import annotations

import pytest

from backends.egress.rules import parse
from backends.policy.danger import PolicyWarning, warnings
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy
from tests.policy.test_canonical import EXAMPLE

HOME = "/home/ada"
SAFE = EXAMPLE._replace(fs=FsPolicy(("/usr", "/etc/ssl/certs"), ("/srv/cache",), ()))


def texts(found: tuple[PolicyWarning, ...]) -> str:
    return "\n".join(f"{one.key}: {one.value}: {one.text}" for one in found)


def test_a_harmless_policy_has_no_warning() -> None:
    assert warnings(SAFE, HOME) == ()


@pytest.mark.parametrize(
    ("grant", "named"),
    [
        ("/", "whole host"),
        ("/home", "home directory"),
        ("/home/ada", "home directory"),
        ("/home/ada/.ssh", "SSH keys"),
        ("/home/ada/.ssh/id_ed25519", "SSH keys"),
        ("/home/ada/.aws", "AWS"),
        ("/home/ada/.config", "Google Cloud"),
        ("/home/ada/.config/gcloud", "Google Cloud"),
        ("/home/ada/.kube/config", "Kubernetes"),
        ("/home/ada/.docker", "registry"),
        ("/var/run/docker.sock", "Docker socket"),
        ("/run", "Docker socket"),
        ("/var/lib/kubelet/pods", "kubelet"),
        ("/etc/kubernetes", "kubelet"),
        ("/etc", "password hashes"),
        ("/proc", "host's /proc"),
        ("/proc/1/root", "host's /proc"),
        ("/sys", "host's /sys"),
        ("/sys/fs/cgroup", "host's /sys"),
        ("/dev", "devices"),
    ],
)
@pytest.mark.parametrize("key", ["fs.read", "fs.write"])
def test_a_dangerous_path_is_named_with_what_it_holds(key: str, grant: str, named: str) -> None:
    fs = FsPolicy((grant,), (), ()) if key == "fs.read" else FsPolicy((), (grant,), ())
    found = warnings(SAFE._replace(fs=fs), HOME, {f"{key}[{grant}]": "cloche.toml:7"})
    assert named in texts(found)
    assert {(one.key, one.value, one.where) for one in found} == {(key, grant, "cloche.toml:7")}


@pytest.mark.parametrize("grant", ["/home/ada/.sshx", "/home/adam", "/process", "/system", "/home/ada/src"])
def test_a_name_that_only_looks_alike_is_no_danger(grant: str) -> None:
    assert warnings(SAFE._replace(fs=FsPolicy((grant,), (), ())), HOME) == ()


def test_what_is_masked_is_not_warned_about() -> None:
    found = warnings(SAFE._replace(fs=FsPolicy(("/home/ada",), (), ("/home/ada/.ssh",))), HOME)
    assert "SSH keys" not in texts(found)
    assert "AWS" in texts(found)


@pytest.mark.parametrize("grant", ["/home/ada/.bashrc", "/home/ada/.local", "/home/ada/.claude/hooks"])
def test_writing_what_the_host_runs_later_is_leaving_the_box(grant: str) -> None:
    assert "runs on the host later" in texts(warnings(SAFE._replace(fs=FsPolicy((), (grant,), ())), HOME))
    assert "runs on the host later" not in texts(warnings(SAFE._replace(fs=FsPolicy((grant,), (), ())), HOME))


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("*.example.com:22", "below example.com"),
        ("*.github.io", "anybody can have one: github.io"),
        ("*.bucket.s3.amazonaws.com", "anybody can have one: amazonaws.com"),
        ("*.core.windows.net", "anybody can have one"),
        ("0.0.0.0/0", "4,294,967,296 addresses"),
        ("8.0.0.0/8:22", "16,777,216 addresses"),
        ("::/0", "2^128 addresses"),
        ("10.0.0.0/24", "a private network, which is not the internet"),
        ("100.64.0.0/24", "addresses that are shared by a carrier"),
        ("[fd00::1]", "a private network"),
        ("169.254.169.254:80", "credentials"),
        ("[fd00:ec2::254]:80", "credentials"),
        ("raw:cdn.example.com", "no connection has to say a name"),
    ],
)
def test_destinations_that_let_more_through_than_they_seem_are_named(rule: str, named: str) -> None:
    assert parse(rule).text == rule
    found = warnings(
        SAFE._replace(net=NetPolicy("allow", (rule, "example.org"), True, True)),
        HOME,
        {f"net.egress[{rule}]": "cloche.toml:4"},
    )
    assert {(one.key, one.value, one.where) for one in found} == {("net.egress", rule, "cloche.toml:4")}
    assert named in texts(found)


def test_narrow_destinations_are_no_danger() -> None:
    rules = (
        "example.org",
        "example.org:22",
        "raw:db.example.org:5432",
        "8.8.8.8",
        "8.8.0.0/16",
        "2606:4700::/32",
    )
    assert warnings(SAFE._replace(net=NetPolicy("allow", rules, True, True)), HOME) == ()


def test_the_hosts_network_is_named() -> None:
    found = warnings(SAFE._replace(net=NetPolicy("host", (), True, True)), HOME)
    assert [(one.key, one.value) for one in found] == [("net.mode", "host")]


def test_variables_that_look_like_credentials_are_named() -> None:
    env = EnvPolicy(("LANG", "GITHUB_TOKEN", "*", "MONKEY"), (("NPM_TOKEN", "x"), ("CI", "1")))
    found = warnings(SAFE._replace(env=env), HOME)
    assert [(one.key, one.value) for one in found] == [
        ("env.pass", "GITHUB_TOKEN"),
        ("env.pass", "*"),
        ("env.set.NPM_TOKEN", "NPM_TOKEN"),
    ]


def test_debugging_is_named() -> None:
    assert [one.key for one in warnings(SAFE._replace(debug=True), HOME)] == ["debug"]
