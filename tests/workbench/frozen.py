"""Frozen values and an engine made of them, for tests of what is drawn and for injected faults.

Flows that change a box run against the real engine (test_flows.py); this one only answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.errors import Refused
from backends.snapshots import (
    BoxRow,
    BoxStatus,
    BoxView,
    CheckRow,
    Claim,
    DenialRow,
    Diff,
    DiffStat,
    EgressRow,
    Enforcement,
    Explanation,
    ExportOutcome,
    JournalRecord,
    NotObserved,
    ProcessId,
    ProcessRow,
    Proposal,
    ReviewView,
    SessionRow,
    SnapshotInfo,
    Tally,
)
from tests.workbench.frozen_answers import FrozenAnswers
from tests.workbench.frozen_apply import FrozenActs
from tests.workbench.frozen_compare import FrozenCompare
from tests.workbench.frozen_desk import FrozenDesk, desk_paths
from tests.workbench.frozen_diff import CHANGES, CHECKS, DIFF, PATCH
from tests.workbench.frozen_host import FrozenHost
from tests.workbench.frozen_matrix import FrozenMatrix

__all__ = ["CHANGES", "CHECKS", "DIFF", "PATCH"]

NOW = time.time()
KEY = "shop-0123456789"


def box(name: str, **changes: Any) -> BoxRow:
    row = BoxRow(
        key=f"{KEY}/{name}",
        name=name,
        repository="/home/dev/acme/shop",
        tier="process",
        profile="agent",
        state="running",
        live="live",
        base="3f2a9c1d" + "0" * 32,
        base_ref="refs/heads/main",
        drift=0,
        created=NOW - 750,
        purpose="",
        expires=None,
        needs="",
        processes=4,
        cpu=12.0,
        rss=310 << 20,
        denied=0,
        stat=DiffStat(9, 182, 40),
        last_line="",
        unconfined=False,
    )
    return row._replace(**changes)


def process(
    pid: int,
    depth: int,
    command: str,
    *,
    cpu: float = 0.0,
    rss: int = 4 << 20,
    age: float = 9.0,
    state: str = "S",
    start: int = 1000,
) -> ProcessRow:
    name = command.split(" ")[0].rsplit("/", 1)[-1]
    return ProcessRow(ProcessId(pid, start + pid), None, depth, state, cpu, rss, age, name, command, 1)


def denial(kind: str, what: str, count: int = 1, command: str = "node") -> DenialRow:
    return DenialRow(kind, what, "fs.read", "kernel", "landlock", 4242, command, count, NOW - 300, NOW - 12)


def tally(*rows: DenialRow, others: int = 0, unseen: tuple[NotObserved, ...] = ()) -> Tally:
    return Tally(rows, sum(row.count for row in rows) + others, others, unseen)


def refusal(kind: str, what: str, count: int, command: str = "node") -> dict[str, object]:
    """The data of one record that counts into the row that :func:`denial` makes."""
    row = denial(kind, what, count, command)._asdict()
    return {**row, "last": NOW - 600 + count, "first": NOW - 600}


def session(
    number: int, argv: str, code: int | None = None, took: float = 41.0, pty: bool = False
) -> SessionRow:
    ended = None if code is None else NOW - 60
    return SessionRow(
        number,
        tuple(argv.split()),
        pty,
        "running" if code is None else "exited",
        NOW - 60 - took,
        ended,
        code,
        12.4,
        420 << 20,
        None,
    )


AGENT = (
    process(4001, 0, "claude --resume", cpu=12, rss=310 << 20, age=750),
    process(4010, 1, "npm test", cpu=3, rss=96 << 20, age=12, state="S"),
    process(4011, 2, "node /work/node_modules/.bin/jest --watch", cpu=81, rss=420 << 20, age=9, state="R"),
    process(
        4015,
        3,
        "node /work/node_modules/jest-worker/build/workers/processChild.js",
        cpu=44,
        rss=180 << 20,
        age=8,
        state="R",
    ),
    process(4012, 1, "bash -c git status --porcelain", cpu=0, rss=4 << 20, age=1),
    process(4013, 1, "vite --host 127.0.0.1", cpu=0.2, rss=88 << 20, age=640),
)
DENIED = tally(
    denial("net", "telemetry.example:443", 11),
    denial("fs-write", "/home/box/.npmrc", 3),
    denial("fs-read", "/home/dev/.ssh/id_ed25519", 2, "postinstall.js"),
    denial("syscall", "keyctl", 1, "node"),
    unseen=(NotObserved("dns", "the process tier has no resolver of its own"),),
)
OUTPUT = (
    b"> shop@1.4.0 test\n> jest\n\nPASS src/cart.test.ts\nPASS src/price.test.ts\n"
    b"FAIL src/auth.test.ts (3)\n  \xe2\x97\x8f refresh \xe2\x80\xba waits for the first caller\n"
    b"    expect(received).toBe(expected)\n\nTests: 3 failed, 41 passed, 44 total\nTime:  9.31 s\n"
)
FLEET = (
    box(
        "fix-auth",
        denied=17,
        drift=2,
        last_line="FAIL src/auth.test.ts (3)",
        cpu=140.0,
        processes=6,
        rss=1100 << 20,
    ),
    box(
        "deps-bump",
        tier="process",
        needs="waits for an answer since 40s",
        last_line="Proceed with the upgrade? (y/n)",
        processes=2,
        cpu=0.0,
        rss=190 << 20,
        created=NOW - 3000,
        stat=DiffStat(2, 12, 12),
    ),
    box(
        "docs-tour",
        state="proposed",
        live="",
        needs="its proposal waits for review",
        processes=0,
        cpu=0.0,
        rss=0,
        created=NOW - 9000,
        stat=DiffStat(3, 40, 2),
        last_line="done, 3 files written",
    ),
    box(
        "try-esm",
        tier="workspace",
        unconfined=True,
        state="idle",
        live="",
        processes=0,
        cpu=0.0,
        rss=0,
        created=NOW - 90000,
        stat=DiffStat(0, 0, 0),
        drift=14,
    ),
    box(
        "bench-io",
        state="running",
        live="lost",
        processes=0,
        cpu=0,
        rss=0,
        created=NOW - 400,
        stat=None,
        needs="its keeper was lost",
    ),
)
STATUS = BoxStatus(
    FLEET[0],
    "41aa" * 16,
    "devbox (Linux 6.18)",
    "checkout",
    (
        Enforcement(
            "fs.read",
            "/usr, /etc/ssl",
            "/usr, /etc/ssl",
            "",
            "private root + landlock 7",
            "read of ~/.ssh refused",
        ),
        Enforcement(
            "net.mode", "deny", "deny", "", "empty network namespace", "connect to 1.1.1.1:443 refused"
        ),
        Enforcement(
            "resources.mem", "2G", "", "no cgroup delegation for this user", "RLIMIT_DATA per process", ""
        ),
    ),
    (
        Claim(
            "write-outside",
            "a write outside the grants fails",
            "proved",
            "open(/etc/cloche-probe) gave EACCES",
            0.0004,
        ),
        Claim("no-network", "no packet leaves", "proved", "connect gave ENETUNREACH", 0.0002),
        Claim(
            "inherit", "a double-forked child is bound as well", "proved", "same refusals in a daemon", 0.002
        ),
    ),
    (
        ("Where do package scripts execute?", "inside, under the policy of every other process"),
        (
            "Which home directory and credentials can they see?",
            "an empty private home; no credential of yours",
        ),
        ("Where does the dev server listen?", "on the box's own loopback; the host cannot reach it"),
        ("Which browser profile opens the page?", "none: no browser is opened by this box"),
        ("Can the agent write the accepted result directly?", "no: only a person applies a proposal"),
    ),
    None,
)
CLAIMS = (
    Claim(
        "process",
        "the process tier starts and holds",
        "proved",
        "a confined child was refused a write outside",
        0.018,
    ),
    Claim("supervised", "", "failed", "this version does not build the supervised tier", 0.0),
    Claim("container", "", "failed", "this version does not build the container tier", 0.0),
    Claim("microvm", "", "failed", "this version does not build the microvm tier", 0.0),
)
EGRESS = (
    EgressRow("npm-mirror.example", "npm-mirror.example", ("104.16.1.34", "104.16.2.34", "2606:4700::6810"),
        443, 12, 18_422, 6_412_330, 0, "pinned"),
    EgressRow("*.githubusercontent.com", "objects.githubusercontent.com", ("185.199.108.133",),
        443, 2, 3_100, 812_000, 1, "pinned"),
    EgressRow("10.1.2.0/24:5432", "", ("10.1.2.0/24",), 5432, 0, 0, 0, 0, "open"),
    EgressRow("mirror.example", "mirror.example", (), 443, 0, 0, 0, 0,
        "refused: its only answer 10.0.0.7 is private and no rule names it"),
)  # fmt: skip
PROPOSAL = Proposal(
    "net.egress",
    "telemetry.example",
    "/home/dev/acme/shop/cloche.toml",
    '--- cloche.toml\n+++ cloche.toml\n@@ -9,7 +9,8 @@\n [profile.agent]\n tier = "supervised"\n'
    ' \n [profile.agent.net]\n mode = "list"\n-egress = ["npm-mirror.example"]\n'
    '+egress = ["npm-mirror.example", "telemetry.example"]\n \n [profile.agent.fs]\n',
    True,
)
EXPLANATION = Explanation(
    "net",
    "telemetry.example:443",
    "not in net.egress",
    "/home/dev/acme/shop/cloche.toml:13",
    "telemetry.example:443 is none of the 4 destinations that net.egress lists",
    PROPOSAL,
    "",
)
SECRET = Explanation(
    "fs-read",
    "/home/dev/.ssh/id_ed25519",
    "fs.read",
    "built-in default",
    "your home folder is never shown in a box",
    None,
    "credentials are not granted by a path: a box gets none of yours",
)
SNAPSHOT = SnapshotInfo("9c1d" * 10, "3f2a9c1d" + "0" * 32, "ab" * 20, NOW - 30, DiffStat(3, 11, 4))
SAID: tuple[tuple[str, dict[str, object]], ...] = (
    ("created", {"base": "3f2a9c1", "tier": "process", "profile": "agent"}),
    ("launch", {"proofs": [1, 2, 3], "host": {"node": "devbox"}}),
    ("transition", {"from": "created", "to": "running", "who": "keeper", "why": "first process"}),
    ("session-start", {"session": 1, "argv": ["claude", "--resume"], "pty": True}),
    ("exec", {"pid": 4010, "argv": ["npm", "test"]}),
    ("denial", refusal("net", "telemetry.example:443", 1)),
    ("denial", refusal("fs-read", "/home/dev/.ssh/id_ed25519", 2, "postinstall.js")),
    ("denial", refusal("net", "telemetry.example:443", 10)),
    ("session-exit", {"session": 2, "exit": 1, "wall": 41.2, "cpu": 12.4, "peak_rss": 420 << 20}),
)
RECORDS = tuple(JournalRecord(n, NOW - 700 + 30 * n, kind, data, "") for n, (kind, data) in enumerate(SAID))


class Still:
    """A watch on a tree that changes when a test says so."""

    complete = True

    def __init__(self) -> None:
        self.event = threading.Event()
        self.closed = False

    def wait(self, timeout: float) -> bool:
        changed = self.event.wait(timeout)
        self.event.clear()
        return changed

    def close(self) -> None:
        self.closed = True


class FrozenEngine(FrozenActs, FrozenAnswers, FrozenCompare, FrozenHost, FrozenMatrix):
    (
        Claim(
            "process",
            "the process tier holds",
            "proved",
            "a confined child was refused a write outside",
            0.018,
        ),
    )

    def __init__(self, rows: tuple[BoxRow, ...] = FLEET) -> None:
        super().__init__()
        self.rows = rows
        self.views: dict[str, BoxView] = {}
        self.diff: Diff = DIFF
        self.checks: tuple[CheckRow, ...] = CHECKS
        self.asked: list[tuple[str, Any]] = []
        self.read: list[tuple[str, bool]] = []  # trees, and whether their boxes had to stand still
        self.watches: dict[str, Still] = {}
        self.wait: Callable[[str, str], None] = lambda verb, ref: None
        self.repository_key: str | None = KEY
        self.explanation: Explanation = EXPLANATION
        self.blobs: dict[str, bytes] = {}
        self.records: tuple[JournalRecord, ...] = RECORDS

    @cached_property
    def kept(self) -> BoxPaths:
        """Where its desks keep what is decided."""
        return desk_paths(self)

    def _note(self, verb: str, ref: str, *rest: Any) -> None:
        self.asked.append((verb, (ref, *rest)))
        self.wait(verb, ref)

    def _row(self, ref: str) -> BoxRow:
        return next(row for row in self.rows if row.key == ref)

    def boxes(self, everywhere: bool = False) -> tuple[BoxRow, ...]:
        self.wait("boxes", "")
        return self.rows

    def view(self, ref: str, lines: int = 200) -> BoxView:
        self.wait("view", ref)
        if ref in self.views:
            return self.views[ref]
        row = self._row(ref)
        processes = AGENT[: row.processes] if row.live == "live" else ()
        sessions = (session(1, "claude --resume", pty=True), session(2, "npm test", 1))
        output = OUTPUT if row.processes > 2 else row.last_line.encode() + b"\n"
        return BoxView(
            row, processes, DENIED if row.denied else tally(unseen=DENIED.not_observed), sessions, output
        )

    def status(self, ref: str) -> BoxStatus:
        self.wait("status", ref)
        return STATUS._replace(row=self._row(ref))

    def journal(self, ref: str) -> Iterator[JournalRecord]:
        self.wait("journal", ref)
        return iter(self.records)

    def snapshot_diff(self, ref: str, *, still: bool = True) -> Diff:
        self.wait("diff", ref)
        self.read.append((ref, still))
        return self.diff

    def watch_tree(self, ref: str) -> Still:
        self.wait("watch", ref)
        return self.watches.setdefault(ref, Still())

    def create(self, request: Any) -> BoxRow:
        self._note("create", request.name, request)
        raise Refused("no box was made", "this engine is frozen", "use the real one")

    def open_shell(self, ref: str, argv: Any = (), rows: int = 24, cols: int = 80, env: Any = None) -> Any:
        self._note("open_shell", ref)
        raise Refused("no shell was opened", "this engine is frozen", "use the real one")

    def attach(self, ref: str, session: int | None = None, rows: int = 24, cols: int = 80) -> Any:
        return self.open_shell(ref)

    def kill(self, ref: str, process: ProcessId, signal: int) -> None:
        self._note("kill", ref, process, signal)

    def stop(self, ref: str) -> bool:
        self._note("stop", ref)
        return True

    def propose(self, ref: str) -> SnapshotInfo:
        self._note("propose", ref)
        return SNAPSHOT

    def review(self, ref: str) -> ReviewView:
        self.wait("review", ref)
        ran = (session(1, "claude --resume", 0, 700), session(2, "npm test", 0))
        row = self._row(ref)
        return ReviewView(
            row, SNAPSHOT, "41aa" * 16, self.diff, self.checks, DENIED, ran, "refs/heads/main", SNAPSHOT.base,
            commits=self.commits,
        )  # fmt: skip

    def decisions(self, ref: str, who: str, **rest: Any) -> FrozenDesk:
        self.wait("decisions", ref)
        return FrozenDesk(self, who)

    def blob(self, ref: str, oid: str) -> bytes:
        self.wait("blob", ref)
        return self.blobs[oid]

    def export(self, ref: str, out: Path, force: bool = False) -> ExportOutcome:
        self._note("export", ref, out, force)
        return ExportOutcome(str(out), ("patch.diff", "report.md", "receipt.json"), SNAPSHOT)

    def reopen(self, ref: str) -> None:
        self._note("reopen", ref)

    def abort(self, ref: str, why: str = "") -> None:
        self._note("abort", ref)

    def remove(self, ref: str, force: bool = False) -> None:
        self._note("remove", ref, force)

    def policy_explain(
        self, ref: str | None = None, profile: str = "default"
    ) -> tuple[tuple[str, str, str], ...]:
        return (("net.mode", "deny", "built-in default"), ("resources.mem", "2G", "cloche.toml:12"))

    def explain_denial(self, ref: str, kind: str, object: str, rule: str) -> Explanation:
        self.wait("explain", ref)
        if kind != self.explanation.kind:
            return SECRET._replace(kind=kind, object=object, rule=rule)
        return self.explanation

    def accept_rule(self, ref: str, proposal: Proposal, who: str) -> None:
        self._note("accept_rule", ref, proposal, who)

    def egress(self, ref: str) -> tuple[EgressRow, ...]:
        self.wait("egress", ref)
        return EGRESS

    def probe(self) -> tuple[Claim, ...]:
        self.wait("probe", "")
        return CLAIMS
