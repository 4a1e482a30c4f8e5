"""What each claim would be worth on macOS, and docs/macos.md made of it (``python -m backends.tiers.macos``).

This version runs on Linux only. The table says beforehand what a tier made of a Seatbelt profile could
promise, so that nobody takes a claim of Linux for one of macOS. All of it is unproved until it is run there.
"""

from __future__ import annotations

import sys

from backends.record import NamedTuple

SEATBELT, SYSTEM, DIFFERS, NOT = "by Seatbelt", "by the system", "differs", "not enforced"
"""What holds a claim there. ``differs``: something else is true, which the text says."""


class Statement(NamedTuple):
    """One claim of the tiers ``process`` and ``supervised``, and what becomes of it on macOS."""

    id: str  # as in backends.host.claims, without the tier's name
    standing: str
    text: str


STATEMENTS: tuple[Statement, ...] = (
    Statement("started", DIFFERS, "sandbox-exec starts a program; what that costs was measured nowhere"),
    Statement("write-outside", SEATBELT, "file-write* is allowed below own folders and write grants only"),
    Statement("work-inside", SEATBELT, "the same rules; the tree's .git cannot be written"),
    Statement("bounded", NOT, "private folders are folders of the host's file system and have no size"),
    Statement("absent", DIFFERS, "what was not granted cannot be opened or listed, but its name is not gone"),
    Statement("denied", SEATBELT, "a deny rule after the grants; spelled as the file system spells the path"),
    Statement("mount", SEATBELT, "no rule allows mounting"),
    Statement("user-namespace", DIFFERS, "there are no namespaces, and so none to be made"),
    Statement("namespaces", NOT, "there are none: processes, names and the network stack are the host's"),
    Statement("sockets", SEATBELT, "no rule allows raw or system sockets"),
    Statement("network", DIFFERS, "nothing or the host's; no list of destinations; loopback is the host's"),
    Statement("listed", NOT, "no list can be held, so a policy with one is refused"),
    Statement("capabilities", DIFFERS, "there are none; processes run as the user, never as root"),
    Statement("filter", NOT, "no filter of system calls; Seatbelt decides by operation"),
    Statement("calls", NOT, "the list of refused calls is Linux's; no part of it is compiled"),
    Statement("landlock", DIFFERS, "Seatbelt stands in its place, without a version that tells its rights"),
    Statement("processes", DIFFERS, "others are in sight by number; what they are cannot be asked"),
    Statement("host-process", SEATBELT, "signals reach processes of the same sandbox only"),
    Statement("inherited", SEATBELT, "a child is in its parent's sandbox, and no call leaves one"),
    Statement("descriptors", SYSTEM, "the launcher closes them; a profile does not look at open ones"),
    Statement("host-socket", SEATBELT, "a socket's path must lie in the box's own folders"),
    Statement("tiocsti", DIFFERS, "refused for other terminals than the session's own, which is the box's"),
    Statement("set-id", SEATBELT, "file-write-setugid is denied last"),
    Statement("limits", SYSTEM, "open files, CPU seconds and file size of one process (setrlimit(2))"),
    Statement("processes-limit", NOT, "RLIMIT_NPROC counts all processes of the user, not the box's"),
    Statement("memory-limit", NOT, "the system does not hold RLIMIT_DATA or RLIMIT_AS"),
    Statement("memory-box", NOT, "there are no control groups"),
)

HEAD = """# macOS

*Made by `python -m backends.tiers.macos > docs/macos.md`; a test keeps it up to date.*

Cloche runs on Linux. This page says what could be promised on macOS by a tier that is made of a Seatbelt
profile, claim by claim. **All of it is unproved until it is run there**: no launch uses it, `cloche probe`
tries none of it, and no box of this version starts on macOS.

The compiler from a policy to a profile is there (`backends/tiers/seatbelt.py`): pure, and compared word for
word with written profiles by its tests. That proves the compiler, not the boundary. `sandbox-exec` is
deprecated by Apple, and its language has no public reference.

## Claims

The ids are those of `cloche probe` at the tiers `process` and `supervised`.

| id | on macOS | what would be true |
|---|---|---|
"""

TAIL = """
## What a profile refuses

| in the policy | becomes of it |
|---|---|
| `net.mode = "allow"` | refused: addresses are compared with `*` and `localhost` only |
| `image`, `services`, `secrets` | refused |
| `net.loopback = true` | stays closed: there is one loopback, and it is the host's |
| `resources.mem`, `resources.procs` | not enforced |
| `resources.tmp` | not enforced: a folder of the host's file system |
| `resources.shm` | shared memory is refused |
| `observe` | not observed |
| a path with control characters, or not as `realpath` gives it | refused |

Names are compared in the spelling of the file system, which on macOS does not tell upper from lower case. A
path in the policy must be spelled as it is on disk; whoever compiles a profile resolves it first.
"""


def render() -> str:
    """The whole document."""
    return HEAD + "".join(f"| `{one.id}` | {one.standing} | {one.text} |\n" for one in STATEMENTS) + TAIL


if __name__ == "__main__":
    sys.stdout.write(render())
