"""The resolved policy of one box: frozen at creation, named by its digest.

Field names are the keys of ``policy.json``; the schema of what a person writes is in
:mod:`backends.policy.schema`. Sizes are bytes, times are seconds; ``None`` means no limit was asked for.
"""

from __future__ import annotations

from backends.record import NamedTuple

POLICY_VERSION = 1
TIERS = ("workspace", "process", "supervised", "container", "microvm")

# The tier itself gives the box these; another value could not be true inside.
OWN_VARIABLES = frozenset({"HOME", "USER", "LOGNAME", "SHELL"})


class FsPolicy(NamedTuple):
    read: tuple[str, ...]  # host paths granted read and execute; ~ already expanded, absolute
    write: tuple[str, ...]  # host paths granted read and write, beside the tree, home and temporary folders
    deny: tuple[str, ...]  # host paths masked although a grant above covers them
    # What each mask below a write grant was when the box was made; by now the box can have moved it.
    hidden: tuple[tuple[str, str], ...] = ()


class NetPolicy(NamedTuple):
    mode: str  # deny, host, allow (allow: only the egress list, from the supervised tier on)
    egress: tuple[str, ...]
    loopback: bool
    unix: bool
    repin: int | None = None  # seconds between two look-ups of the listed names, None: only when asked to


class EnvPolicy(NamedTuple):
    passed: tuple[str, ...]  # names copied from the caller's environment; LC_* stands for all that begin so
    set: tuple[tuple[str, str], ...]

    def passes(self, name: str) -> bool:
        """Whether the caller's variable ``name`` is copied into the box."""
        if name in OWN_VARIABLES:
            return False
        return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in self.passed)


class Resources(NamedTuple):
    mem: int | None
    procs: int | None
    wall: int | None  # of one session
    cpu: int | None  # CPU seconds of one process (RLIMIT_CPU)
    file_size: int | None
    files: int  # open files of one process
    tmp: int  # size of the private /tmp
    shm: int  # size of the private /dev/shm
    disk: int | None  # growth of tree, repository, home and journal together


class ReviewPolicy(NamedTuple):
    file: str = ".cloche-review.md"  # at the top of the tree; what a reviewer asks for is written there


class Policy(NamedTuple):
    version: int
    profile: str
    tier: str
    tree: str  # checkout, overlay, auto
    history: str  # full: the box's repository holds what the base reaches; none: the base's tree only
    observe: str  # none, writes, all: which refusals on paths are counted
    debug: bool  # permits ptrace within the box
    fs: FsPolicy
    net: NetPolicy
    env: EnvPolicy
    resources: Resources
    image: str  # NAME@sha256:DIGEST once a box is made of it
    services: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    review: ReviewPolicy = ReviewPolicy()
    runtime: str = "auto"  # of tier container: what starts its processes
    rootful: bool = False  # of tier container: permits a box whose engine runs as root
    accelerator: str = "hardware"  # of tier microvm; tcg: a processor that is emulated
    vmm: str = "auto"  # of tier microvm: what runs the guest
