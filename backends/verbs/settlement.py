"""The policy of a new box, settled for this host: profile resolved, tier found able, digest taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from backends import tiers
from backends.boxes.layout import BoxPaths
from backends.errors import Refused
from backends.policy import canonical, explain
from backends.policy.files import LARGEST_FILE, REPOSITORY_FILE
from backends.policy.model import Policy
from backends.policy.resolve import Resolved, resolve, with_tier
from backends.record import NamedTuple
from backends.tiers import auto
from backends.trees import source as sources
from backends.trees.values import Base, Source
from backends.verbs.values import NewBox


class Settled(NamedTuple):
    """A policy with its canonical text, its digest, and the text of ``sources.json``."""

    policy: Policy
    text: bytes
    digest: str
    sources: bytes


def settle(
    request: NewBox, place: Source, base: Callable[[], Base], paths: BoxPaths, *, foreign: bool
) -> Settled:
    """Resolve, choose the tier and refuse what it cannot enforce. ``foreign``: the code is a stranger's.

    ``base`` may still be looked for, and is asked for where it matters.

    Profiles come from the person's own checkout and configuration. A ``cloche.toml`` that arrives with the
    base, when that is not what is checked out, may only narrow (product rule 7).
    """
    own = Path(place.work_tree) if place.work_tree and not foreign else None
    overrides: dict[str, object] = {"image": request.image} if request.image else {}
    resolved = resolve(
        request.profile or None,
        repository=own,
        trusted=not foreign,
        tier=request.tier or None,
        overrides=overrides,
        foreign=_file_of_base(place, base, request.rev),
        protected=(Path(place.common_dir), paths.root),
    )
    resolved = with_proved_tier(resolved, executed=request.tier == "auto")
    resolved = _pinned(resolved)
    text = canonical.encode(resolved.policy)
    return Settled(resolved.policy, text, canonical.digest(text), explain.encode_sources(resolved.sources))


def _pinned(resolved: Resolved) -> Resolved:
    """``resolved`` with its image as ``NAME@sha256:DIGEST``; ``Refused`` where there is none of that name.

    What the name means later is another matter: the box runs what was agreed on.
    """
    named = resolved.policy.image
    if not named:
        return resolved
    from backends.container import images

    name, at, digest = named.partition("@")
    image = images.pinned(digest) if at else images.find(named)
    name = name if at or named not in (image.digest, image.hex) else (image.names or (named,))[0]
    return resolved._replace(policy=resolved.policy._replace(image=f"{name}@{image.digest}"))


def _file_of_base(place: Source, base: Callable[[], Base], rev: str) -> tuple[str, bytes] | None:
    """The base's ``cloche.toml``, unless the base is what the person has checked out."""
    if place.work_tree and (rev == "HEAD" or sources.tip(place, "HEAD") == base().commit):
        return None
    git, commit = sources.git(place), base().commit
    name = f"{commit}:{REPOSITORY_FILE}"
    found = git.call("cat-file", "-s", name)
    if found.status != 0:
        return None
    if int(found.stdout) > LARGEST_FILE:
        raise Refused(
            f"the base's {REPOSITORY_FILE} is not read",
            f"it has {int(found.stdout)} bytes",
            "choose another revision: cloche new --from REV",
            code="too-long",
        )
    return f"{REPOSITORY_FILE} of {commit[:12]}", git.run("cat-file", "blob", name)


def with_proved_tier(resolved: Resolved, *, executed: bool = False) -> Resolved:
    """``resolved`` with the tier that a box made now would get; ``Refused`` when it cannot be had here.

    ``executed``: a person asked for auto by name, and a tier counts only when a box of it ran here. Where the
    profile leaves it to auto nothing is run first: each launch proves its claims, or is refused.
    """
    if resolved.policy.tier == "auto":
        if not executed:
            return with_tier(resolved, auto.choose(resolved.policy).tier)
        from backends.verbs import reasoning

        return with_tier(resolved, auto.choose(resolved.policy, verdict=reasoning.proved()).tier)
    _require(resolved.policy)
    return resolved


def _require(policy: Policy) -> None:
    """``Refused`` naming the first key or requirement that the policy's tier cannot meet on this host."""
    refusals = tiers.get(policy.tier).refusals(policy)
    if refusals:
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        raise Refused(
            f"the {policy.tier} tier cannot be had for this box",
            f"{first.key}: {first.why}{more}",
            first.remedy,
            code="tier-refused",
        )
