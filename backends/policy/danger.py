"""What a person should know before a box gets this policy: grants through which people are usually robbed.

Pure: the policy and the home directory in, warnings out. Nothing here refuses; a person may have reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from backends.policy.model import Policy
from backends.policy.paths import covers
from backends.record import NamedTuple


class PolicyWarning(NamedTuple):
    """One grant that deserves a second look. ``where`` is the file and line that stated it, "" if unknown."""

    key: str
    value: str
    text: str
    where: str


# Below the home directory, with what they hold. A grant warns if it covers one, or lies in one.
HOME_SECRETS: tuple[tuple[str, str], ...] = (
    (".ssh", "your SSH keys"),
    (".aws", "your AWS credentials"),
    (".azure", "your Azure credentials"),
    (".config/gcloud", "your Google Cloud credentials"),
    (".config/gh", "your GitHub token"),
    (".kube", "your Kubernetes credentials"),
    (".docker", "your registry credentials"),
    (".gnupg", "your GnuPG keys"),
    (".netrc", "your passwords for hosts"),
    (".git-credentials", "your git passwords"),
    (".npmrc", "your npm token"),
    (".pypirc", "your PyPI token"),
    (".local/share/keyrings", "your desktop's keyring"),
    (".config/containers", "your registry credentials"),
    (".config/doctl", "your DigitalOcean credentials"),
    (".config/rclone", "your credentials for cloud storage"),
    (".oci", "your Oracle Cloud credentials"),
    (".terraform.d", "your Terraform credentials"),
    (".vault-token", "your Vault token"),
)

HOST_SECRETS: tuple[tuple[str, str], ...] = (
    ("/etc/shadow", "the password hashes of this host"),
    ("/etc/ssl/private", "the private TLS keys of this host"),
    ("/etc/kubernetes", "the kubelet's credentials"),
    ("/var/lib/kubelet", "the kubelet's credentials and every pod's secrets"),
    ("/run/secrets/kubernetes.io", "the service account of this pod"),
    ("/var/run/secrets/kubernetes.io", "the service account of this pod"),
    ("/etc/rancher", "the cluster administrator's credentials"),
    ("/var/lib/rancher", "the cluster's keys and every pod's secrets"),
    ("/var/lib/cloud", "what the cloud handed this machine at its first start"),
    ("/var/lib/docker", "the files and secrets of every Docker container"),
    ("/var/lib/containers", "the files and secrets of every Podman container of root"),
)

SOCKETS: tuple[tuple[str, str], ...] = (
    ("/run/docker.sock", "the Docker socket: whoever reaches it is root on this host"),
    ("/var/run/docker.sock", "the Docker socket: whoever reaches it is root on this host"),
    ("/run/podman/podman.sock", "the Podman socket: whoever reaches it can start containers on this host"),
    ("/run/containerd/containerd.sock", "the containerd socket: whoever reaches it is root on this host"),
    ("/var/run/containerd/containerd.sock", "the containerd socket: whoever reaches it is root on this host"),
    ("/run/crio/crio.sock", "the CRI-O socket: whoever reaches it is root on this host"),
    (
        "/run/user",
        "the sockets of login sessions: Podman's and Docker's where rootless, D-Bus, agents of keys",
    ),
)

# Services of the host that act for whoever reaches them.
BUSES: tuple[tuple[str, str], ...] = (
    ("/run/dbus/system_bus_socket", "the system bus of this host"),
    ("/var/run/dbus/system_bus_socket", "the system bus of this host"),
)

KERNEL_TREES: tuple[tuple[str, str], ...] = (
    ("/proc", "the host's /proc: every process of the host, with environment and memory"),
    ("/sys", "the host's /sys: devices and kernel settings of the host"),
    ("/dev", "the host's devices"),
)

# Files that run on the host when they are next used, so that writing them is leaving the box.
EXECUTED_LATER: tuple[str, ...] = (
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".config/autostart",
    ".config/git",
    ".config/systemd",
    ".gitconfig",
    ".local/bin",
    ".claude",
    ".codex",
    ".cargo/bin",
)

# Files that name tool servers (MCP), which a program of the host starts or calls.
TOOL_SERVERS: tuple[str, ...] = (
    ".claude.json",
    ".config/Claude",
    ".config/Code/User",
    ".cursor",
    ".gemini",
)

# Variables that name a door of the host: useless alone, a way out where the door is in reach as well.
DOORS: tuple[tuple[str, str], ...] = (
    ("CONTAINER_HOST", "Podman"),
    ("DBUS_SESSION_BUS_ADDRESS", "your session's D-Bus"),
    ("DOCKER_HOST", "Docker"),
    ("GPG_AGENT_INFO", "your GnuPG agent"),
    ("KUBECONFIG", "your Kubernetes clusters, with credentials"),
    ("SSH_AUTH_SOCK", "your SSH agent, which signs for whoever reaches it"),
)

SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIAL")

Report = Callable[[str, str, str], PolicyWarning]


def warnings(policy: Policy, home: str, sources: dict[str, str] | None = None) -> tuple[PolicyWarning, ...]:
    """Every dangerous grant of ``policy``, in the order of its keys. ``home`` is absolute and normalized."""
    known = sources or {}

    def report(key: str, value: str, text: str) -> PolicyWarning:
        return PolicyWarning(key, value, text, known.get(f"{key}[{value}]", known.get(key, "")))

    found = [*_files(policy, home, report), *_network(policy, report), *_environment(policy, report)]
    if policy.debug:
        found.append(
            report("debug", "true", "debuggers work in the box, by calls that the kernel guards least")
        )
    return tuple(found)


def _files(policy: Policy, home: str, report: Report) -> Iterator[PolicyWarning]:
    for key, grants in (("fs.read", policy.fs.read), ("fs.write", policy.fs.write)):
        verb = "read" if key == "fs.read" else "change"
        for grant in grants:
            if grant == "/":
                yield report(key, grant, f"the box can {verb} the whole host")
            elif covers(grant, home):
                yield report(key, grant, f"the box can {verb} your whole home directory")
            for path, what in sensitive(home):
                if reaches(policy, grant, path):
                    yield report(key, grant, f"gives the box {what} ({path})")
            if key == "fs.write":
                for name in EXECUTED_LATER:
                    if covers(grant, f"{home}/{name}") or covers(f"{home}/{name}", grant):
                        text = f"what the box writes to {home}/{name} runs on the host later"
                        yield report(key, grant, text)
                for name in TOOL_SERVERS:
                    if covers(grant, f"{home}/{name}") or covers(f"{home}/{name}", grant):
                        text = f"{home}/{name} names tool servers that run on the host, outside of every box"
                        yield report(key, grant, text)


def sensitive(home: str) -> Iterator[tuple[str, str]]:
    """The places that a grant warns of, with what they hold."""
    for name, what in HOME_SECRETS:
        yield f"{home}/{name}", what
    yield from HOST_SECRETS
    yield from SOCKETS
    yield from BUSES
    yield from KERNEL_TREES


def reaches(policy: Policy, grant: str, path: str) -> bool:
    """Whether ``grant`` gives the box ``path``: it lies in it, or covers it and no mask hides it."""
    return covers(path, grant) or (covers(grant, path) and not _masked(policy, path))


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a credential."""
    return any(word in name.upper() for word in SECRET_WORDS)


def _masked(policy: Policy, path: str) -> bool:
    return any(covers(mask, path) for mask in policy.fs.deny)


def _network(policy: Policy, report: Report) -> Iterator[PolicyWarning]:
    if policy.net.mode == "host":
        text = (
            "the box uses the host's network: every destination, and every service on the host's loopback, "
            "tool servers (MCP) among them"
        )
        yield report("net.mode", "host", text)
    if not policy.net.egress:
        return
    from backends.policy.destinations import dangers  # with all that names and addresses take

    for text in policy.net.egress:
        for warning in dangers(text):
            yield report("net.egress", text, warning)


def _environment(policy: Policy, report: Report) -> Iterator[PolicyWarning]:
    for name in policy.env.passed:
        if name == "*":
            yield report("env.pass", name, "every variable of yours is passed in, tokens included")
        elif looks_secret(name):
            yield report("env.pass", name, f"every process of the box can read {name}")
        for door, what in DOORS:
            if name == door:
                text = f"it leads to {what}, on the host, where a grant or the network reaches that too"
                yield report("env.pass", name, text)
    for name, _ in policy.env.set:
        if looks_secret(name):
            text = f"the value of {name} is written into the policy file and readable inside"
            yield PolicyWarning(f"env.set.{name}", name, text, "")
