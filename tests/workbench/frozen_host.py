"""What the frozen engine answers about its host: which tier a box would get, and why."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from backends.errors import UsageError
from backends.snapshots_choice import ABSENT, DEARER, NEVER, REFUSED, TAKEN, Reasoning, Weighed

PROVED = "a box started, its init proved 14 claims, a program ran in it and ended"
NFTABLES = "the packet filter is loaded: No such file or directory (nft_redir)"
MODPROBE = "modprobe -a nf_tables nft_ct nft_reject_inet nft_redir nft_chain_nat"
LISTED = "net.mode: the process tier cannot hold a box to a list of destinations"
REASONING = Reasoning(
    "default",
    "process",
    "the cheapest tier that can enforce every key of the policy, proved on this host",
    (
        Weighed("workspace", NEVER, "auto never takes it: it enforces nothing", "", "", None),
        Weighed("process", TAKEN, "it can enforce every key, and did here", "", PROVED, 0.018),
        Weighed("supervised", REFUSED, NFTABLES, MODPROBE, "", None),
        Weighed("container", DEARER, "it can enforce every key, and did here", "", PROVED, 0.31),
        Weighed("microvm", ABSENT, "this version does not have it", "", "", None),
    ),
    90.0,
)


class FrozenHost:
    """Profiles: ``default`` as above, ``agent`` that only a refused tier could take, no other."""

    wait: Callable[[str, str], None]

    @cached_property
    def reasonings(self) -> dict[str, Reasoning]:
        return {"default": REASONING, "agent": agent()}

    def reasoning(self, request: Any) -> Reasoning:
        self.wait("reasoning", request.profile)
        if request.profile not in self.reasonings:
            raise UsageError(
                f"there is no profile {request.profile}", "cloche.toml states none", "name another", code="no"
            )
        return self.reasonings[request.profile]


def agent() -> Reasoning:
    """A profile with a list of destinations, which ``process`` cannot enforce."""
    rows = tuple(
        row._replace(state=REFUSED, why=LISTED, remedy="use --tier supervised", proof="", start=None)
        if row.tier == "process"
        else row._replace(state=ABSENT, why="this version does not have it", proof="", start=None)
        if row.tier == "container"
        else row
        for row in REASONING.rows
    )
    return Reasoning("agent", "", f"process: {LISTED}; supervised: {NFTABLES}", rows, 90.0)
