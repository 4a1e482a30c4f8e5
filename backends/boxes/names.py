"""Names of boxes: what is allowed, and a readable one where none was given."""

from __future__ import annotations

import os

from backends.errors import UsageError

LONGEST = 48
FIRST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
REST = FIRST | frozenset("._-")

ADJECTIVES = (
    "amber", "brisk", "calm", "clear", "crisp", "early", "fair", "fresh", "gentle", "green", "keen", "light",
    "mellow", "mild", "neat", "plain", "quick", "quiet", "rapid", "ripe", "round", "sharp", "steady", "still",
    "sunny", "swift", "tidy", "vivid", "warm", "young", "bright", "bold",
)  # fmt: skip
PLANTS = (
    "alder", "aster", "basil", "birch", "borage", "cedar", "chive", "clover", "cress", "dill", "elder",
    "fennel", "fern", "hazel", "iris", "ivy", "juniper", "laurel", "lilac", "linden", "lovage", "mallow",
    "maple", "mint", "myrtle", "poppy", "rowan", "sage", "sorrel", "thyme", "violet", "willow",
)  # fmt: skip


def problem(name: str) -> str:
    """Why ``name`` cannot name a box, or "" when it can.

    A name becomes a folder, a host name and part of a Git branch (git-check-ref-format(1)), so the rule is
    the narrowest of the three: ``[a-z0-9][a-z0-9._-]{0,47}``, without ``..``, not ending in ``.`` or
    ``.lock``.
    """
    if not name:
        return "it is empty"
    if len(name) > LONGEST:
        return f"it has {len(name)} characters and at most {LONGEST} are allowed"
    if name[0] not in FIRST:
        return "it must begin with a lower-case letter or a digit"
    if any(c not in REST for c in name):
        return "only lower-case letters, digits, dot, underscore and hyphen are allowed"
    if ".." in name:
        return "two dots in a row are not allowed in a branch name"
    if name.endswith((".", ".lock")):
        return "a branch name cannot end in a dot or in .lock"
    return ""


def check(name: str) -> str:
    """``name`` itself when it can name a box; raises ``UsageError`` with the rule that it breaks."""
    why = problem(name)
    if why:
        raise UsageError(
            f"{name!r} cannot name a box",
            why,
            "choose a name such as fix-login, or give none",
            code="bad-name",
        )
    return name


def readable(taken: frozenset[str] | set[str]) -> str:
    """A random name of two words that is not in ``taken``."""
    for _ in range(64):
        a, b = os.urandom(2)
        name = f"{ADJECTIVES[a % len(ADJECTIVES)]}-{PLANTS[b % len(PLANTS)]}"
        if name not in taken:
            return name
    return f"box-{os.urandom(5).hex()}"
