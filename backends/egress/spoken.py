"""What a parser knows of the name that a connection says by its first bytes.

Everything comes out of a box and is hostile; no parser keeps more than ``LIMIT`` bytes, and none says a name
before it has seen all that could contradict it.
"""

from __future__ import annotations

from typing import NamedTuple

from backends.egress import addresses, hostnames

LIMIT = 16 << 10  # bytes in which the name must have been said


class Need(NamedTuple):
    """Nothing is decided yet: feed more."""


class Found(NamedTuple):
    """The name, lower case and without a final dot. It may be the text of an address, which no rule names.

    ``ech``: the connection says that it hides another name inside (browsers say so even where they do not).
    """

    name: str
    ech: bool = False


class Bad(NamedTuple):
    """The connection says no name that can be trusted; ``reason`` is a phrase to show. Final."""

    reason: str


NEED = Need()
Result = Need | Found | Bad


def host(raw: bytes) -> str:
    """The name or address that ``raw`` spells, as it is compared, IPv6 without brackets; "" for neither."""
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        return ""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        return text.lower() if ":" in text and addresses.packed(text) is not None else ""
    if ":" not in text and addresses.packed(text) is not None:
        return text
    return hostnames.folded(text)
