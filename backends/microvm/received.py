"""What a box of tier ``microvm`` received: each key as requested, enforced, missing, by which means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.microvm.vmm import TCG, TCG_LABEL, GuestSpec, Observed, Vmm
from backends.tiers.limits import NOT_ENFORCED, size
from backends.tiers.protocol import LaunchSpec
from backends.values import Enforcement, NotObserved

if TYPE_CHECKING:
    from backends.egress.pins import Pins

_MACHINE = "virtual machine"
_CLOSED = 8  # names that could not be looked up, in the row of the list


def label(accelerator: str) -> str:
    """The accelerator as it is shown everywhere."""
    return f"tcg: {TCG_LABEL}" if accelerator == TCG else accelerator


def not_observed(guest: GuestSpec, vmm: Vmm) -> tuple[NotObserved, ...]:
    rows = [NotObserved(kind, reason) for kind, reason in vmm.not_observed(guest)]
    rows.append(NotObserved("limit", "what the guest's own kernel refuses: it tells the program alone"))
    return tuple(rows)


def facts(guest: GuestSpec, vmm: Vmm, kernel: str, bound: str) -> tuple[tuple[str, str], ...]:
    """What is told of the box wherever it is shown."""
    return (
        ("vmm", f"{vmm.name} ({vmm.version()})"),
        ("accelerator", label(guest.accelerator)),
        ("image", guest.image.reference),
        ("image_digest", guest.image.digest),
        ("kernel", kernel),
        ("monitor", bound),
    )


def enforcement(
    spec: LaunchSpec, guest: GuestSpec, vmm: Vmm, seen: Observed, pins: Pins | None = None
) -> tuple[Enforcement, ...]:
    """A row for every key that was asked for. ``pins``: the names of a list as they were looked up."""
    policy = spec.policy
    emulated = guest.accelerator == TCG
    host_paths = "host paths of the profile are not shared with a guest"
    rows = [
        Enforcement(
            "image",
            guest.image.reference,
            guest.image.digest,
            _lacks(seen),
            "read-only disk",
            "guest-kernel",
        ),
        Enforcement(
            "vmm", policy.vmm, f"{vmm.name} ({vmm.version()})", "", "booted for this box", "guest-kernel"
        ),
        Enforcement(
            "accelerator",
            policy.accelerator,
            f"{label(guest.accelerator)}; guest kernel {seen.kernel}",
            "no isolation is promised by an emulated processor" if emulated else "",
            _MACHINE,
            "guest-kernel",
        ),
        Enforcement(
            "fs.read",
            f"{len(policy.fs.read)} paths",
            "none of the host: the image's own files, read-only",
            host_paths if policy.fs.read else "",
            _MACHINE,
            "",
        ),
        Enforcement(
            "fs.write",
            "the box's own folders only",
            "shared by virtio-9p, attributes mapped: links and devices are plain files on the host",
            "",
            "mapped-xattr",
            "",
        ),
        Enforcement(
            "fs.deny", f"{len(policy.fs.deny)} paths", "absent", "", "nothing of the host is there", ""
        ),
        *_network(spec, guest, pins),
        Enforcement(
            "syscalls",
            "the table of refused calls",
            "the guest's own kernel takes them; the host's takes the monitor's alone",
            "the table is not applied inside: what it refuses elsewhere, the guest's kernel answers itself",
            f"{_MACHINE}, the monitor's own filter",
            "",
        ),
        Enforcement(
            "privileges",
            "none",
            f"uid {spec.payload_uid} inside, no capabilities; the monitor runs as uid {spec.payload_uid}",
            "",
            "no_new_privs",
            "",
        ),
        Enforcement(
            "env",
            f"{len(policy.env.passed)} names passed, {len(policy.env.set)} set",
            "everything else is cleared",
            "",
            "a new environment for each session",
            "",
        ),
        *_limits(spec, guest),
    ]
    return tuple(rows)


def _lacks(seen: Observed) -> str:
    """What an agent takes for granted and this image has not, as far as the guest tells."""
    lacking = [word for word, there in (("shell", bool(seen.shell)), ("git", seen.git)) if not there]
    return f"it has no {' and no '.join(lacking)}" if lacking else ""


def _network(spec: LaunchSpec, guest: GuestSpec, pins: Pins | None) -> list[Enforcement]:
    net = spec.policy.net
    closed = [f"{pin.name}: {pin.error}" for pin in pins or () if not pin.addresses]
    rows = [
        Enforcement(
            "net.mode",
            net.mode,
            "no network card"
            + ("; a proxy of the keeper behind 127.0.0.1:3128 inside" if guest.proxy else ""),
            "",
            _MACHINE,
            "",
        ),
        _inside("net.loopback", net.loopback, "the guest's own", "a guest's loopback is always up"),
        _inside(
            "net.unix", net.unix, "inside only; the host's are absent", "the guest's kernel has unix sockets"
        ),
    ]
    if guest.proxy:
        rows.append(
            Enforcement(
                "net.egress",
                f"{len(net.egress)} rules",
                "by the keeper's proxy, which takes CONNECT and plain HTTP",
                "; ".join(["a program that ignores the proxy reaches nothing", *closed[:_CLOSED]]),
                "the proxy is the only way out",
                "",
            )
        )
    return rows


def _inside(key: str, stated: bool, enforced: str, has: str) -> Enforcement:
    """What a guest has of its own, whatever was stated; nothing of the host's is ever reached by it."""
    return Enforcement(
        key,
        str(stated).lower(),
        enforced if stated else NOT_ENFORCED,
        "" if stated else f"{has}, and nothing of the host's is reached by it",
        _MACHINE if stated else "",
        "",
    )


def _limits(spec: LaunchSpec, guest: GuestSpec) -> list[Enforcement]:
    resources = spec.policy.resources
    rows: list[Enforcement] = []

    def row(key: str, requested: str, enforced: str, means: str, missing: str = "") -> None:
        rows.append(Enforcement(f"resources.{key}", requested, enforced, missing, means, ""))

    more = resources.mem is not None and guest.memory > resources.mem
    # The word is how a keeper knows that it need not look itself (backends.keeper.limits).
    row(
        "mem",
        "none" if resources.mem is None else size(resources.mem),
        f"{size(guest.memory)} of the whole guest, its kernel included",
        "the machine has no more memory (no cgroup needed)",
        "with less no guest boots" if more else "",
    )
    if resources.procs is not None:
        row(
            "procs",
            str(resources.procs),
            f"{resources.procs} in the box",
            "cgroup pids of the guest's kernel",
        )
    if resources.wall is not None:
        row("wall", f"{resources.wall} s", "each session", "keeper's timer, SIGKILL to its control group")
    if resources.cpu is not None:
        row("cpu", f"{resources.cpu} s", "each process", "RLIMIT_CPU of the guest's kernel")
    if resources.file_size is not None:
        row("file_size", size(resources.file_size), "each file", "RLIMIT_FSIZE of the guest's kernel")
    row("files", str(resources.files), "each process", "RLIMIT_NOFILE of the guest's kernel")
    row("tmp", size(resources.tmp), size(resources.tmp), "size of the guest's tmpfs")
    row("shm", size(resources.shm), size(resources.shm), "size of the guest's tmpfs")
    if resources.disk is not None:
        why = "the host's file system has no quota that this tier can set"
        row("disk", size(resources.disk), NOT_ENFORCED, "", why)
    return rows
