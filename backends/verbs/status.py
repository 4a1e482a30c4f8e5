"""What a box actually received, and the five questions that every box answers (product rule 0)."""

from __future__ import annotations

import time
from typing import Any

from backends.boxes import liveness, store
from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import Manifest, load
from backends.errors import ClocheError
from backends.policy.canonical import decode
from backends.policy.fit import IMAGE_TIERS
from backends.policy.model import Policy
from backends.snapshots import BoxRow, BoxStatus, Claim, Enforcement
from backends.verbs.proposal import info

QUESTIONS = (
    "Where do package scripts execute?",
    "Which home directory and credentials can they see?",
    "Where does the dev server listen?",
    "Which browser profile opens the page?",
    "Can the agent write the accepted result directly?",
)


def status(paths: BoxPaths, row: BoxRow) -> BoxStatus:
    """From the manifest, the policy and the facts of the last launch."""
    manifest = load(paths)
    policy = decode(paths.policy.read_bytes())
    facts = liveness.read(paths).facts
    return BoxStatus(
        row,
        manifest.policy_digest,
        _host(facts),
        manifest.tree_provider,
        tuple(Enforcement(*map(str, one)) for one in facts.get("enforcement", [])),
        tuple(
            Claim(str(i), str(text), str(result), str(evidence), float(duration))
            for i, text, result, evidence, duration in facts.get("claims", [])
        ),
        answers(manifest, policy, unconfined_neighbours(paths)),
        info(manifest.snapshot) if manifest.snapshot else None,
        manifest.tree_reason,
    )


def _host(facts: dict[str, Any]) -> str:
    host = facts.get("host")
    if not isinstance(host, dict):
        return ""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(facts.get("started", 0))))
    node, kernel, boot = (host.get(key, "?") for key in ("node", "kernel", "boot_id"))
    told = facts.get("facts")
    more = "".join(f", {name} {value}" for name, value in told.items()) if isinstance(told, dict) else ""
    return f"{node}, Linux {kernel}, boot {boot}, at {when}{more}"


def unconfined_neighbours(paths: BoxPaths) -> tuple[str, ...]:
    """The other live boxes of tier ``workspace`` below this user's state folder, by key (rule S10)."""
    found = []
    for other in store.folders():
        if other.root == paths.root or liveness.read(other).kind != "live":
            continue
        try:
            tier = load(other).tier
        except ClocheError:
            tier = "workspace"  # live and not to be told: nothing better can be promised
        if tier == "workspace":
            found.append(other.key)
    return tuple(found)


def answers(
    manifest: Manifest, policy: Policy, neighbours: tuple[str, ...] = ()
) -> tuple[tuple[str, str], ...]:
    """The five questions with what holds for this box, from its resolved policy.

    ``neighbours``: live boxes that nothing confines. They run as the user who owns this box's records.
    """
    said = _unconfined() if manifest.tier == "workspace" else _confined(manifest, policy, neighbours)
    return tuple(zip(QUESTIONS, said, strict=True))


def _unconfined() -> tuple[str, ...]:
    return (
        "On this host, as you, with everything that you may do: nothing confines this tier.",
        "Yours: your home directory with all its credentials.",
        "On this host's network, reachable as any server that you start.",
        "Your own browser and profile, if the agent opens one.",
        "Yes, it can: it runs as you, and can call apply, write the branch and rewrite this box's journal.",
    )


def _written(neighbours: tuple[str, ...]) -> str:
    if not neighbours:
        return (
            "No. Nothing inside can accept, export or apply; its repository is its own, and what is applied "
            "is the snapshot that was reviewed."
        )
    return (
        "Not from inside: nothing in this box can accept, export or apply. But beside it runs, unconfined "
        f"and as you, {', '.join(neighbours)}: what runs there can write your branches, this box's files and "
        "Cloche's records of it."
    )


def _confined(manifest: Manifest, policy: Policy, neighbours: tuple[str, ...]) -> tuple[str, ...]:
    written = list(policy.fs.write)
    home = "A home of the box's own, empty at the start; yours is absent."
    if manifest.tier in IMAGE_TIERS:
        home += " Nothing of this host is granted: what is read comes with the image."
    elif policy.fs.read or written:
        home += f" Granted from this host: {len(policy.fs.read)} paths to read"
        home += f", to write: {', '.join(written)}." if written else ", none to write."
    passed = ", ".join(policy.env.passed)
    home += f" Variables passed: {passed}." if passed else " No variable of yours is passed."
    listens = {
        "deny": "On a loopback of the box's own: other processes of the box reach it, this host does not.",
        "allow": "On a loopback of the box's own: other processes of the box reach it, this host does not.",
        "host": "On this host's network: net.mode is host.",
    }[policy.net.mode]
    return (
        f"Inside the box, at tier {manifest.tier}, under policy {manifest.policy_digest[:12]}, "
        "like every other process of its tree.",
        home,
        listens,
        "None of yours: a browser would start inside the box with an empty profile.",
        _written(neighbours),
    )
