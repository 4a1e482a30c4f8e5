"""What a box of the ``process`` tier received: each key as requested, enforced, missing, by which means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backends.kernel import cgroups, connector, landlock, mounts
from backends.kernel.shares import Share
from backends.policy.model import Policy
from backends.tiers import etc, grants
from backends.tiers.limits import Held
from backends.tiers.protocol import LaunchSpec
from backends.values import Enforcement, NotObserved

if TYPE_CHECKING:
    from backends.tiers.networking import Networking


def not_observed(
    policy: Policy, held: Held, networking: Networking | None = None, silent: str = ""
) -> tuple[NotObserved, ...]:
    """The kinds of refusal that this tier cannot see under ``policy``, each with the reason.

    ``silent``: why Landlock's own records cannot be read.
    """
    rows = []
    if networking is None:
        rows.append(NotObserved("dns", "this tier runs no resolver that could see names"))
    rows.append(NotObserved("limit", "; ".join(_limits(policy, held))))
    if policy.observe == "none":
        rows.append(NotObserved("fs-write", 'observe = "none": opens are not asked about'))
        if networking is None:
            rows.append(NotObserved("net", 'observe = "none": connects are not asked about'))
    if silent:
        rows.append(NotObserved("landlock", f"what Landlock refuses beside opens and execs: {silent}"))
    if policy.observe != "all":
        rows.append(NotObserved("fs-read", 'reads are counted only with observe = "all"'))
    return tuple(rows)


def _limits(policy: Policy, held: Held) -> list[str]:
    """What limits refuse without a word to anybody but the program."""
    resources = policy.resources
    rows = ["descriptors, and writes to a full /tmp or /dev/shm: the kernel tells the program alone"]
    if resources.procs is not None:
        rows.append(
            "which forks RLIMIT_NPROC refused (that the box came to be full is looked for up to 10 times a"
            " second)"
        )
    if resources.mem is not None and cgroups.MEMORY not in dict(held.groups.held):
        rows.append("allocations that RLIMIT_DATA refused: the kernel tells the program alone")
    if resources.file_size is not None:
        rows.append("writes beyond RLIMIT_FSIZE by programs that ignore SIGXFSZ, as Python does")
    if (resources.file_size is not None or resources.cpu is not None) and not connector.available():
        rows.append(
            "file size and processor time of processes whose parent is not init: the process connector of"
            " Linux 6.6 cannot be had"
        )
    return rows


def enforcement(
    spec: LaunchSpec, plan: grants.Plan, networking: Networking | None = None
) -> tuple[Enforcement, ...]:
    """The rows of every key but the limits, whose rows come with the means that hold them."""
    policy = spec.policy
    level = landlock.abi()
    handled = landlock.domain(level)
    shown = [step for step in plan.steps if not isinstance(step, grants.Mask | grants.Folder)]
    written = [step for step in plan.steps if isinstance(step, grants.Folder)]
    absent = ", ".join(f"{path} ({why})" for path, why in plan.left_out)
    rows = [
        Enforcement(
            "fs.read",
            f"{len(policy.fs.read)} paths",
            f"{len(shown)} shown, everything else is absent",
            f"left out: {absent}" if absent else "",
            "mount namespace with an empty root, read-only overlays, Landlock",
            "write-outside, absent",
        ),
        Enforcement(
            "fs.write",
            f"{len(policy.fs.write)} paths beside the box's own",
            f"{len(written)} mounted" if written else "the box's own folders only",
            "a socket that a host process binds below a write grant later is reachable" if written else "",
            "bind mounts, Landlock",
            "work-inside",
        ),
        Enforcement(
            "fs.deny",
            f"{len(policy.fs.deny)} paths",
            "absent",
            "",
            "whiteouts over the grants, masks over write grants",
            "absent",
        ),
        *(networking.rows if networking else _network(policy)),
        Enforcement(
            "net.unix",
            _yes(policy.net.unix),
            "inside only; the host's are absent or answer nobody" if policy.net.unix else "refused",
            "",
            "overlays, network namespace, Landlock scope" if policy.net.unix else "seccomp",
            "absent, sockets",
        ),
        Enforcement(
            "syscalls",
            "the table of refused calls" + (", debugger's calls allowed inside" if policy.debug else ""),
            "refused for every process of the box",
            "",
            "seccomp, no_new_privs",
            "filter, mount, user-namespace",
        ),
        Enforcement(
            "landlock",
            f"every right that ABI {level} knows",
            ", ".join(handled.names()),
            "",
            f"Landlock ABI {level}",
            "write-outside",
        ),
        Enforcement(
            "privileges",
            "none",
            f"uid {spec.payload_uid} outside, {etc.UID} inside, no capabilities",
            "" if os.geteuid() == 0 else _kept_groups(spec.payload_gid),
            "two user namespaces, no_new_privs, set-id bits refused",
            "capabilities, filter",
        ),
        Enforcement(
            "env",
            f"{len(policy.env.passed)} names passed, {len(policy.env.set)} set",
            "everything else is cleared",
            "",
            "a new environment for each session",
            "descriptors",
        ),
    ]
    return tuple(rows)


def _network(policy: Policy) -> tuple[Enforcement, ...]:
    host = policy.net.mode == "host"
    return (
        Enforcement(
            "net.mode",
            policy.net.mode,
            "the host's network" if host else "no network: an empty namespace",
            "",
            "socket gate" if host else "network namespace, socket gate",
            "network, sockets",
        ),
        Enforcement(
            "net.loopback",
            _yes(policy.net.loopback),
            "the host's" if host else ("the box's own" if policy.net.loopback else "down"),
            "",
            "network namespace",
            "network",
        ),
    )


def shared(shares: tuple[Share, ...], unset: tuple[str, ...]) -> Enforcement:
    """The row of what the kernel counts for a whole user. ``unset``: paths of settings it did not take."""
    held = [share.text for share in shares if share.path not in unset]
    open_ended = [share.text for share in shares if share.path in unset]
    return Enforcement(
        "shares",
        "a part of what the kernel gives one user",
        ", ".join([*held, f"{mounts.TERMINALS} terminals"]),
        f"this kernel lets no box be held to {', '.join(open_ended)}" if open_ended else "",
        "settings of the user and IPC namespaces, devpts",
        "",
    )


def _kept_groups(own: int) -> str:
    others = sorted(set(os.getgroups()) - {own})
    if not others:
        return ""
    return (
        f"your other groups ({', '.join(map(str, others))}) cannot be given up by an unprivileged user: they"
        " still count for files below a grant"
    )


def _yes(value: bool) -> str:
    return "true" if value else "false"
