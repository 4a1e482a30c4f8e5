"""What escapes usually use: configurations that delete a cell of the isolation matrix, found in a policy.

Pure. A deletion is not a refusal: a person may have reasons. It is named, because the cell is false with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from backends.policy import danger
from backends.policy.model import Policy
from backends.policy.paths import covers
from backends.record import NamedTuple

FILES, NETWORK, KERNEL, PRIVILEGE = "filesystem", "network", "kernel", "privilege"
NAMED = 3  # things that one sentence counts up

# At these tiers a read grant reaches no socket: a folder is an overlay, on whose inodes nobody listens, and a
# socket granted by itself is not shown. A launch is refused while a write grant holds one that listens.
NO_SOCKETS = frozenset({"process", "supervised"})
_BOUND_LATER = "; a launch is refused while something listens there, one that is bound later is reached"


class Deletion(NamedTuple):
    """A configuration, the columns of the matrix that it deletes, and what holds in their place."""

    id: str
    columns: tuple[str, ...]
    what: str
    text: str


class Deleted(NamedTuple):
    """A deletion found in a policy. ``where`` is the file and line that stated it, "" if unknown."""

    id: str  # of the Deletion
    columns: tuple[str, ...]
    key: str
    value: str
    text: str
    where: str


DELETIONS: tuple[Deletion, ...] = (
    Deletion("root-bind", (FILES, PRIVILEGE), "a bind of `/`", "every file of the host is in reach"),
    Deletion(
        "home-bind",
        (FILES, PRIVILEGE),
        "a bind of the home directory",
        "your files, your keys and what your shell runs are in reach",
    ),
    Deletion(
        "credentials",
        (PRIVILEGE,),
        "credentials inside: cloud, kubelet, SSH, registry",
        "whoever holds them acts as their owner, wherever they count",
    ),
    Deletion(
        "engine-socket",
        (FILES, KERNEL, PRIVILEGE),
        "the socket of Docker, Podman, containerd or CRI-O",
        "whoever reaches it starts containers with mounts and privileges of its choice",
    ),
    Deletion(
        "kernel-trees",
        (KERNEL, PRIVILEGE),
        "the host's `/proc`, `/sys` or `/dev`",
        "processes, devices and settings of the host are in reach",
    ),
    Deletion(
        "host-network",
        (NETWORK,),
        "the host's network",
        "every destination is reached, and every service on the host's loopback, tool servers among them",
    ),
    Deletion(
        "wide-egress",
        (NETWORK,),
        "wildcard, wide or private destinations",
        "what is listed is more than one organisation's, or not on the internet",
    ),
    Deletion(
        "host-service",
        (FILES, NETWORK, KERNEL, PRIVILEGE),
        "a tool server (MCP), D-Bus or other service that runs on the host and acts for the box",
        "what it does is done outside of the boundary, with its own rights",
    ),
    Deletion(
        "runs-later",
        (FILES, PRIVILEGE),
        "write access to what the host runs later",
        "what is written inside runs outside",
    ),
    Deletion(
        "rootful",
        (PRIVILEGE,),
        "a rootful engine: Docker's daemon, Podman started by root",
        "who gets out of the container, or reaches the engine, is root on the host",
    ),
    Deletion(
        "privileged",
        (KERNEL, PRIVILEGE),
        "`--privileged`, added capabilities, or no seccomp profile",
        "calls and devices are open that the wording counts as closed",
    ),
    Deletion(
        "host-stack",
        (NETWORK, KERNEL),
        "gVisor's `--network=host`",
        "the host's network stack serves the sandbox, its loopback included",
    ),
    Deletion(
        "shared-folder",
        (FILES,),
        "a folder of the host shared with the guest (virtio-fs, 9p)",
        "it is read, and changed where it is writable, from inside",
    ),
    Deletion(
        "device",
        (KERNEL,),
        "a device handed to the guest (VFIO)",
        "the guest drives hardware of the host",
    ),
    Deletion(
        "emulation",
        (KERNEL,),
        "emulation (TCG) in place of hardware virtualization",
        "its makers promise no isolation for it",
    ),
)
BY_ID = {one.id: one for one in DELETIONS}


def found(policy: Policy, home: str, sources: dict[str, str] | None = None) -> tuple[Deleted, ...]:
    """Every deletion in ``policy``, in the order of its keys. ``home`` is absolute and normalized."""
    known = sources or {}
    rows: list[Deleted] = []
    for ident, key, value, text in (*_files(policy, home), *_network(policy), *_environment(policy)):
        where = known.get(f"{key}[{value}]", known.get(key, ""))
        rows.append(Deleted(ident, BY_ID[ident].columns, key, value, text, where))
    return tuple(rows)


def rootful() -> Deleted:
    """Of a container box that root made: its engine is root's."""
    one = BY_ID["rootful"]
    return Deleted(one.id, one.columns, "tier", "container", f"root made the box: {one.text}", "")


Row = tuple[str, str, str, str]


def _files(policy: Policy, home: str) -> Iterator[Row]:
    for key, grants in (("fs.read", policy.fs.read), ("fs.write", policy.fs.write)):
        for grant in grants:
            if grant == "/":
                yield "root-bind", key, grant, BY_ID["root-bind"].text
            elif covers(grant, home):
                yield "home-bind", key, grant, BY_ID["home-bind"].text
            for ident, places in _places(home).items():
                held = [what for path, what in places if danger.reaches(policy, grant, path)]
                guarded = policy.tier in NO_SOCKETS and ident in ("engine-socket", "host-service")
                if held and not (guarded and key == "fs.read"):
                    later = _BOUND_LATER if guarded else ""
                    yield ident, key, grant, f"gives the box {_some(held)}{later}"
            if key == "fs.write":
                yield from _written(grant, home)


def _written(grant: str, home: str) -> Iterator[Row]:
    for ident, names, text in (
        ("runs-later", danger.EXECUTED_LATER, "the host runs later what is written to"),
        ("host-service", danger.TOOL_SERVERS, "the host starts tool servers that are named in"),
    ):
        paths = [f"{home}/{name}" for name in names]
        held = [path for path in paths if covers(grant, path) or covers(path, grant)]
        if held:
            yield ident, "fs.write", grant, f"{text} {_some(held)}"


def _places(home: str) -> dict[str, list[tuple[str, str]]]:
    return {
        "credentials": [(f"{home}/{n}", what) for n, what in danger.HOME_SECRETS] + list(danger.HOST_SECRETS),
        "engine-socket": list(danger.SOCKETS),
        "host-service": list(danger.BUSES),
        "kernel-trees": list(danger.KERNEL_TREES),
    }


def _some(held: list[str]) -> str:
    shown = list(dict.fromkeys(held))
    more = f" and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
    return ", ".join(shown[:NAMED]) + more


def _network(policy: Policy) -> Iterator[Row]:
    if policy.net.mode == "host":
        yield "host-network", "net.mode", "host", BY_ID["host-network"].text
    if not policy.net.egress:
        return
    from backends.policy.destinations import dangers  # with all that names and addresses take

    for rule in policy.net.egress:
        for text in dangers(rule):
            yield "wide-egress", "net.egress", rule, text


def _environment(policy: Policy) -> Iterator[Row]:
    for name in policy.env.passed:
        if name == "*" or danger.looks_secret(name):
            yield "credentials", "env.pass", name, "every process of the box can read it"
    for name, _ in policy.env.set:
        if danger.looks_secret(name):
            yield "credentials", f"env.set.{name}", name, "every process of the box can read it"
