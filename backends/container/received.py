"""What a box of tier ``container`` received: each key as requested, enforced, missing, by which means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.container import gvisor, gvisor_call
from backends.container.inspection import Seen
from backends.container.steward import Order
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.tiers.limits import NOT_ENFORCED, size
from backends.tiers.protocol import LaunchSpec
from backends.values import Enforcement, NotObserved

if TYPE_CHECKING:
    from backends.egress.pins import Pins

ROOTFUL = "rootful: Podman runs as root on the host"
_MEANS = {"cpu": "RLIMIT_CPU", "file_size": "RLIMIT_FSIZE", "files": "RLIMIT_NOFILE"}
_KERNEL_ALONE = "in a container the kernel refuses alone and tells the program alone"


class Told(NamedTuple):
    """What the steward told of its launch."""

    runtime: str
    seen: Seen
    groups: dict[str, str]
    rootful: bool
    unset: tuple[str, ...]  # paths of shares that could not be set


def not_observed(*, proxied: bool) -> tuple[NotObserved, ...]:
    """The kinds of refusal that this tier cannot see."""
    around = "what does not go through the proxy: " if proxied else ""
    kinds = ("fs-read", "fs-write", "exec", "dns", "socket", "syscall")
    return (
        *(NotObserved(kind, _KERNEL_ALONE) for kind in kinds),
        NotObserved("net", around + _KERNEL_ALONE),
        NotObserved("limit", f"beside what the keeper itself ends: {_KERNEL_ALONE}"),
    )


def facts(policy: Policy, order: Order, told: Told) -> tuple[tuple[str, str], ...]:
    """What is told of the box wherever it is shown."""
    name, _, digest = policy.image.rpartition("@")
    return (
        ("runtime", told.runtime),
        ("engine", ROOTFUL if told.rootful else "rootless Podman"),
        ("image", name),
        ("image_digest", digest),
        ("kernel", told.seen.texts.get("kernel", "").strip()),
    )


def enforcement(
    spec: LaunchSpec, order: Order, told: Told, pins: Pins | None = None
) -> tuple[Enforcement, ...]:
    """A row for every key that was asked for. ``pins``: the names of a list as they were looked up."""
    policy = spec.policy
    name, _, digest = policy.image.rpartition("@")
    rows = [
        Enforcement(
            "image", name, digest, _lacks(told.seen), "Podman, by digest, never pulled", "write-outside"
        ),
        Enforcement(
            "runtime",
            policy.runtime,
            told.runtime,
            "",
            "the first that started this container",
            "capabilities",
        ),
        Enforcement(
            "rootful",
            "true" if policy.rootful else "false",
            ROOTFUL if told.rootful else "rootless: the person's subordinate ids",
            "whoever gets out of the container is root on the host" if told.rootful else "",
            "user namespace",
            "",
        ),
        Enforcement(
            "fs.read",
            f"{len(policy.fs.read)} paths",
            "none of the host: the image's own files, read-only",
            "host paths of the profile are not mounted into an image" if policy.fs.read else "",
            "read-only root",
            "write-outside",
        ),
        Enforcement(
            "fs.write",
            f"{len(policy.fs.write)} paths beside the box's own",
            "the box's own folders only",
            "host paths of the profile are not mounted into an image" if policy.fs.write else "",
            "bind mounts, nosuid, nodev",
            "work-inside",
        ),
        Enforcement(
            "fs.deny", f"{len(policy.fs.deny)} paths", "absent", "", "nothing of the host is there", ""
        ),
        *_network(policy, pins),
        Enforcement(
            "net.unix",
            "true" if policy.net.unix else "false",
            "inside only; the host's are absent" if policy.net.unix else "refused",
            "",
            "network namespace, no host folder" if policy.net.unix else "seccomp",
            "network",
        ),
        Enforcement(
            "syscalls",
            "the table of refused calls" + (", debugger's calls allowed inside" if policy.debug else ""),
            "refused for every process of the box",
            _unknown_calls(),
            "seccomp, no_new_privs",
            "mount, user-namespace, set-id",
        ),
        Enforcement(
            "privileges",
            "none",
            f"uid {spec.payload_uid} outside, {order.process.uid} inside, no capabilities",
            "",
            "user namespace, no_new_privs, set-id bits refused",
            "capabilities, set-id",
        ),
        Enforcement(
            "env",
            f"{len(policy.env.passed)} names passed, {len(policy.env.set)} set",
            "besides these the image's own, and nothing of the host's",
            "",
            "a new environment for each session",
            "",
        ),
        _shares(order, told),
        *_limits(policy, told),
    ]
    return gvisor.rows(rows) if told.runtime == gvisor_call.NAME else tuple(rows)


def _lacks(seen: Seen) -> str:
    """What an agent takes for granted and this image has not."""
    lacking = [
        word for word, part in (("shell", "shell"), ("git", "git")) if not seen.texts.get(part, "").strip()
    ]
    return f"it has no {' and no '.join(lacking)}" if lacking else ""


def _network(policy: Policy, pins: Pins | None) -> tuple[Enforcement, ...]:
    loopback = Enforcement("net.loopback", "true", "the box's own", "", "network namespace", "network")
    if pins is None:
        nothing = "no network: an empty namespace"
        return (
            Enforcement("net.mode", policy.net.mode, nothing, "", "network namespace", "network"),
            loopback,
        )
    closed = [f"{pin.name}: {pin.error}" for pin in pins if not pin.addresses]
    addresses = {address for pin in pins for address in pin.addresses}
    return (
        Enforcement(
            "net.mode",
            policy.net.mode,
            "listed destinations through an HTTP proxy of the keeper, nothing else",
            "a program that does not use the proxy reaches nothing, and that is not counted",
            "network namespace, proxy",
            "network",
        ),
        Enforcement(
            "net.egress",
            f"{len(policy.net.egress)} rules",
            f"{len(addresses)} addresses of {len(list(pins))} names",
            "; ".join(closed[:8]),
            "proxy",
            "",
        ),
        loopback,
    )


def _shares(order: Order, told: Told) -> Enforcement:
    held = [share.text for share in order.shares if share.path not in told.unset]
    lacking = [share.text for share in order.shares if share.path in told.unset]
    missing = [f"this kernel lets no container be held to {', '.join(lacking)}"] if lacking else []
    missing.append("terminals are counted for all boxes together; the host keeps its reserve (pty.reserve)")
    return Enforcement(
        "shares",
        "a part of what the kernel gives one user",
        ", ".join(held) or NOT_ENFORCED,
        "; ".join(missing),
        "settings of the user and IPC namespaces" if held else "",
        "",
    )


def _unknown_calls() -> str:
    return "calls that the host's libseccomp has no name for are not filtered"


def _limits(policy: Policy, told: Told) -> list[Enforcement]:
    """From what a session saw of its limits, and what its control groups say."""
    resources = policy.resources
    inside = limits_inside(told.seen.texts.get("limits", ""))
    rows = []
    if resources.procs is not None:
        means = []
        if inside.get("Max processes") == str(resources.procs):
            means.append("RLIMIT_NPROC in the box's user namespace")
        if told.groups.get("pids") == str(resources.procs):
            means.append("cgroup pids")
        rows.append(
            _row("procs", str(resources.procs), means, "Podman's --pids-limit has no control group here")
        )
    if resources.mem is not None:
        held = told.groups.get("memory") == str(resources.mem)
        data = inside.get("Max data size") == str(resources.mem)
        rows.append(
            Enforcement(
                "resources.mem",
                size(resources.mem),
                f"{size(resources.mem)} in the box"
                if held
                else f"soft: {size(resources.mem)} in each process"
                if data
                else NOT_ENFORCED,
                ""
                if held
                else "the sum over the box is not enforced: Podman's --memory has no control group here",
                "cgroup memory" if held else "RLIMIT_DATA" if data else "",
                "limits",
            )
        )
    if resources.wall is not None:
        rows.append(_row("wall", f"{resources.wall} s", ["keeper's timer, SIGKILL"], ""))
    for key, title, value in (
        ("cpu", "Max cpu time", resources.cpu),
        ("file_size", "Max file size", resources.file_size),
        ("files", "Max open files", resources.files),
    ):
        if value is None:
            continue
        shown = size(value) if key == "file_size" else str(value)
        got = inside.get(title, "")
        limit = _MEANS[key]
        enforced = "each process" if got == str(value) else f"{got} in each process"
        missing = "" if got == str(value) else f"the host's own limits allow {got or 'nothing that is known'}"
        rows.append(Enforcement(f"resources.{key}", shown, enforced, missing, limit, "limits"))
    sizes = inspection_sizes(told.seen.texts.get("sizes", ""))
    for key, place, value in (("tmp", "/tmp", resources.tmp), ("shm", "/dev/shm", resources.shm)):  # noqa: S108
        got_kib = sizes.get(place)
        fits = got_kib is not None and got_kib * 1024 <= value + 4096
        rows.append(
            Enforcement(
                f"resources.{key}",
                size(value),
                size(value) if fits else NOT_ENFORCED,
                "" if fits else f"{place} inside has another size: {got_kib} KiB",
                "size of the private tmpfs" if fits else "",
                "sizes",
            )
        )
    if resources.disk is not None:
        why = "the host's file system has no quota that this tier can set"
        rows.append(Enforcement("resources.disk", size(resources.disk), NOT_ENFORCED, why, "", ""))
    return rows


def _row(key: str, requested: str, means: list[str], why: str) -> Enforcement:
    enforced = f"{requested} in the box" if means else NOT_ENFORCED
    return Enforcement(
        f"resources.{key}", requested, enforced, "" if means else why, ", ".join(means), "limits"
    )


def limits_inside(text: str) -> dict[str, str]:
    """Soft limits by title, from proc_pid_limits(5)."""
    found = {}
    for line in text.splitlines()[1:]:
        title, rest = line[:25].strip(), line[25:].split()
        if title and rest:
            found[title] = rest[0]
    return found


def inspection_sizes(text: str) -> dict[str, int]:
    """KiB by mount point, from df(1)."""
    found = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 6 and words[1].isdecimal():
            found[words[5]] = int(words[1])
    return found
