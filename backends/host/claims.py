"""What each tier claims: one sentence per row, and what becomes false where it does not hold.

Each is proved by an action: of the box's own init at every launch (:mod:`backends.keeper.init_proofs`), or of
a probe (:mod:`backends.host.proofs_inside`, :mod:`backends.host.proofs_talk`).
"""

from __future__ import annotations

from backends import tiers
from backends.host import proofs_image, proofs_inside, proofs_talk
from backends.keeper import init_proofs
from backends.policy.fit import IMAGE_TIERS
from backends.record import NamedTuple

KERNEL_TIERS = ("process", "supervised")


class Stated(NamedTuple):
    """A claim as a tier states it."""

    tier: str
    id: str  # without the tier's name
    text: str
    without: str


# What init proves at every launch, by its id: what a person loses without it.
_WITHOUT: dict[str, str] = {
    "write-outside": "an agent or a dependency of its could change your files, your shell's start, your keys",
    "work-inside": "nothing could be done in a box",
    "bounded": "a box could fill the memory of the host with files",
    "absent": "keys, tokens and other boxes could be read",
    "mount": "the root of granted paths could be rebuilt from inside",
    "user-namespace": "capabilities could be had inside, and with them most holes of a kernel",
    "sockets": "packets could be made that the filter of the network does not see",
    "network": "what was read in a box could be sent anywhere",
    "capabilities": "a privilege could undo the boundary",
    "filter": "system calls that lead out of boxes could be made",
    "processes": "processes of the host could be seen, and the box's init be taken over",
    "inherited": "a child of a child could do what its parent may not",
    "descriptors": "an open file of the host could be used from inside",
    "limits": "one box could use up what all others need",
}


def stated(tier: str) -> tuple[Stated, ...]:
    """Every claim of a tier; the first row is its promise as a whole."""
    known = tiers.get(tier)
    rows = [Stated(tier, "", known.promise, "the tier cannot be had on this host")]
    rows.append(Stated(tier, *proofs_talk.STARTED_CLAIM))
    if tier in KERNEL_TIERS:
        rows += [Stated(tier, ident, text, _WITHOUT[ident]) for ident, text in init_proofs.CLAIMS]
        rows += [Stated(tier, *row) for row in (*proofs_inside.CLAIMS, *proofs_talk.MEMORY_CLAIMS)]
    if tier in IMAGE_TIERS:
        rows += [Stated(tier, *row) for row in proofs_image.stated(tier)]
    if tier == "supervised":
        rows.append(Stated(tier, *proofs_inside.LISTED_CLAIM))
    return tuple(rows)


def without(ident: str) -> str:
    """What becomes false where the claim ``tier`` or ``tier.claim`` does not hold, "" for an unknown one."""
    tier, _, name = ident.partition(".")
    if tier not in tiers.MODULES:
        return ""
    return next((row.without for row in stated(tier) if row.id == name), "")
