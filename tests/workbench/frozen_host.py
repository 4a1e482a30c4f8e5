"""What the frozen engine answers about its host: which tier a box would get, and what no longer holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from backends.errors import UsageError
from backends.snapshots import Finding
from backends.snapshots_choice import ABSENT, DEARER, NEVER, REFUSED, TAKEN, Reasoning, Weighed
from backends.snapshots_doctor import Repair, Triage
from backends.snapshots_host import HostReport, Proof

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


NOW = time.time()
KEY = "shop-0123456789"
BROKEN, LOST = f"{KEY}/fix-auth", f"{KEY}/bench-io"
WRITE = "A write outside the box's own folders is refused."
SUPERVISED = "all of process, and a private network"
FINDINGS = (
    Finding("process", "ok", "the process tier starts and holds", PROVED, "", "", "", "host"),
    Finding("process.write-outside", "ok", WRITE, "open(/etc/x) gave EROFS", "", "", "", "host"),
    Finding(
        "supervised", "warn", SUPERVISED, NFTABLES, MODPROBE,
        "boxes of this tier do not start; no box that was looked at needs it", "", "host",
    ),
    Finding(f"{BROKEN}: policy", "fail", "the policy was changed", "policy.json has 66aa, not 41aa",
        "cloche rm --force fix-auth", "what is enforced is no longer what was promised", "", BROKEN),
    Finding(f"{BROKEN}: journal", "ok", "the journal is whole", "", "", "", "", BROKEN),
    Finding(f"{LOST}: keeper", "warn", "its keeper died", "pid 4001; its processes ended with it",
        "cloche stop bench-io", "nothing of it runs", "stop", LOST),
    Finding(f"{LOST}: clock", "note", "its last record is of tomorrow", "2 s", "", "ages are off", "", LOST),
)  # fmt: skip


def proof(ident: str, result: str = "proved", **changes: Any) -> Proof:
    """One of the host's proofs."""
    made = Proof(
        ident, "", result, PROVED, 0.018, ident.partition(".")[0], "files could be changed", NOW - 90, "", "",
        NOW - 90, (),
    )  # fmt: skip
    return made._replace(**changes)


PROOFS = (
    proof("process"),
    proof("process.write-outside", duration=0.0004),
    proof(
        "supervised",
        "failed",
        evidence=NFTABLES,
        remedy=MODPROBE,
        passed=NOW - 90_000,
        changed=("kernel: 6.1.0 -> 6.12.3",),
    ),
)


class FrozenHost:
    """Profiles: ``default`` as above, ``agent`` that only a refused tier could take, no other."""

    wait: Callable[[str, str], None]
    asked: list[tuple[str, Any]]
    findings: tuple[Finding, ...] = FINDINGS
    bundle: Triage | None = None

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

    def host(self) -> HostReport:
        return HostReport((), PROOFS, (), NOW - 90, 0.4, True, 90.0, (), ())

    def doctor(
        self,
        ref: str | None = None,
        *,
        everywhere: bool = False,
        fresh: bool = False,
        boxes: bool = True,
        progress: Callable[[str], None] | None = None,
    ) -> tuple[Finding, ...]:
        self.asked.append(("doctor", (ref, everywhere, fresh, boxes)))
        if progress:
            progress("tier supervised")
        self.wait("doctor", ref or "")
        return tuple(
            row
            for row in self.findings
            if row.subject == "host" or (boxes and (ref is None or row.subject == ref))
        )

    def repair(self, findings: tuple[Finding, ...], who: str) -> tuple[Repair, ...]:
        self.asked.append(("repair", (findings, who)))
        return tuple(Repair(row.subject, row.fix, row.id, True, "it was stopped") for row in findings)

    def triage(self, ref: str | None = None, *, everywhere: bool = False) -> bytes:
        self.asked.append(("triage", (ref, everywhere)))
        return b"{}\n"

    def open_triage(self, path: Path) -> Triage:
        self.asked.append(("open_triage", (path,)))
        assert self.bundle is not None
        return self.bundle


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
