"""The claims of the tiers that run an image, and what a probe tries them with: the newest image of the store.

A tier without an image is not one that failed: nothing can be run in it yet. Where a monitor boots nothing,
its proof says so and is remembered by :mod:`backends.microvm.choosing`.
"""

from __future__ import annotations

from backends.container import images, inspection, podman
from backends.errors import Refused
from backends.host import causes
from backends.microvm import choosing
from backends.microvm.vmm import AUTO, HARDWARE
from backends.policy.model import Policy
from backends.tiers.protocol import Refusal, Tier

_ANY = f"any@sha256:{'0' * 64}"  # what a policy says when only the host is asked about
MEMORY = 256 << 20  # bytes; a guest's kernel takes a part of it
PATIENCE = {
    "container": 30.0,
    "microvm": 75.0,
}  # seconds; a monitor that hangs is waited for one after another
NO_IMAGE = "image-none"  # the code of the refusal, and the cause

_WITHOUT = {
    "mount": "the root of the image could be rebuilt from inside",
    "user-namespace": "capabilities could be had inside, and with them most holes of a kernel",
    "write-outside": "a box would leave something behind for the next one of its image",
    "work-inside": "nothing could be done in a box",
    "first": "the box's first process could be taken over, and end what it holds",
    "device": "the disks and the memory of the host could be read",
    "set-id": "a file that gives its owner's rights could be left on the host",
    "capabilities": "a privilege could undo the boundary",
    "network": "what was read in a box could be sent anywhere",
    "processes": "processes of the host could be seen",
}
_GUEST: tuple[tuple[str, str, str], ...] = (
    (
        "guest-kernel",
        "the box's processes have a kernel of their own",
        "the host's kernel would be shared, which is what this tier is taken for",
    ),
)


def stated(tier: str) -> tuple[tuple[str, str, str], ...]:
    """Every claim of ``tier`` by id and sentence, with what becomes false without it."""
    if tier == "container":
        return tuple((ident, text, _WITHOUT[ident]) for ident, text in inspection.CLAIMS)
    return _GUEST


def newest() -> str:
    """The newest image of the store that has a name, pinned. ``Refused`` where there is none, or no store."""
    found = next((one for one in images.listing(podman.prepare()) if one.names), None)
    if found is None:
        raise Refused(
            "nothing can be tried",
            "no image is here, and this tier runs nothing else",
            causes.BY_ID[NO_IMAGE].remedy,
            code=NO_IMAGE,
        )
    return f"{found.names[0]}@{found.digest}"


def image(tier: Tier, policy: Policy) -> str:
    """The image for a look at ``tier``. ``Refused`` with what the host lacks; with :data:`NO_IMAGE` where
    only an image is missing. A guest is booted only when there is one."""
    if tier.name != "microvm" or _no_monitor():
        for first in tier.refusals(policy._replace(image=_ANY)):
            raise refused(tier.name, first)
    return newest()


def refused(tier: str, first: Refusal) -> Refused:
    """What a launch says of the same."""
    return Refused(f"the {tier} tier cannot take {first.key}", first.why, first.remedy, code="tier")


def _no_monitor() -> bool:
    return all(one.obstacles(HARDWARE) for one in choosing.candidates(AUTO, HARDWARE))
