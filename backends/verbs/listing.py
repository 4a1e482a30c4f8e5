"""Boxes as rows and views: what disk, keepers and /proc say at one moment; no slow keeper is waited for."""

from __future__ import annotations

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

from backends.boxes import liveness, store
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import ABORTED, APPLIED, IDLE, PROPOSED, RUNNING
from backends.boxes.manifest import Manifest, load
from backends.boxes.place import DETACHED
from backends.kernel import procfs
from backends.snapshots import BoxRow, BoxView, Diff, DiffStat, ProcessId, ProcessRow, SessionRow
from backends.verbs import asking, processes, records

WANTED = tuple(
    f'"kind":"{kind}"'.encode() for kind in ("denial", "lost", "session-exit", "session-start", "stop")
)
STAT: asking.Question = ("stat", {"count": False})  # processes are counted here, for all boxes at once
DAMAGED = "damaged"  # the state shown for a box whose manifest cannot be read


class Summary:
    """Number of refusals and the last exit code, from a journal that only grows; cheaper than a tally."""

    def __init__(self) -> None:
        self._inode = 0
        self._offset = 0
        self.denied = 0
        self.last_exit: int | None = None
        self._stopped = False  # by a person, and nothing was started since

    def refresh(self, paths: BoxPaths) -> Summary:
        """Read on. Only lines of the kinds wanted are parsed: a list must not read every execve."""
        try:
            status = paths.journal.stat()
            if (status.st_ino, status.st_size) == (self._inode, self._offset):
                return self
            with open(paths.journal, "rb") as file:
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                    self.denied, self.last_exit, self._stopped = 0, None, False
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    if any(kind in line for kind in WANTED):
                        self._add(line)
        except FileNotFoundError:
            return self
        return self

    def _add(self, line: bytes) -> None:
        try:
            value = json.loads(line)
            kind, data = value["kind"], value["data"]
        except (ValueError, KeyError, TypeError):
            return  # verify and doctor say what is wrong with the line; a list shows what can be read
        if kind == "session-exit":
            code = data.get("exit")
            # Whoever stopped a box knows how its commands ended; that is no failure to look at.
            self.last_exit = code if isinstance(code, int) and not self._stopped else None
        elif kind == "session-start":
            self._stopped = False
        elif kind == "stop":
            self._stopped = data.get("who") != "keeper"
        elif kind == "denial" or (kind == "lost" and data.get("what") == "denials"):
            count = data.get("count")
            self.denied += count if type(count) is int and count >= 0 else 1


class Lister:
    """Makes rows. One lives as long as its engine: it remembers CPU times, journals read and last diffs."""

    def __init__(self, patience: float | None = None) -> None:
        """``patience``: seconds for the keepers that are asked, ``asking.LIMIT`` if not given."""
        self._patience = patience
        self._lock = threading.Lock()
        self._meter = processes.Meter()
        self._summaries: dict[str, Summary] = {}
        self._digests: dict[str, records.Digest] = {}
        self._diffs: dict[str, tuple[str, DiffStat]] = {}
        self._drifts: dict[tuple[str, str, str, str], int | None] = {}

    def forget(self) -> None:
        """A box was just changed: the next look is a new one."""
        self._meter.forget()

    # ---------------------------------------------------------------- rows

    def rows(self, repository_key: str | None) -> tuple[BoxRow, ...]:
        """The boxes of one repository and the detached ones, or all; by age, oldest first."""
        found = store.entries(repository_key)
        if repository_key not in (None, DETACHED):
            found += store.entries(DETACHED)
        lives = {entry.paths.key: liveness.read(entry.paths) for entry in found}
        wanted = {e.paths.key: e.paths for e in found if lives[e.paths.key].kind == "live"}
        scan: processes.Sight | None = None

        def look() -> None:
            nonlocal scan
            scan = self._meter.scan()

        answers = asking.ask(wanted, [STAT], self._patience, lives=lives, meanwhile=look) if wanted else {}
        rows = [self._row(e, lives[e.paths.key], answers.get(e.paths.key), scan) for e in found]
        return tuple(sorted(rows, key=lambda row: (row.created, row.key)))

    def row(self, paths: BoxPaths) -> BoxRow:
        """One box; ``NoSuchBox`` when it is gone, ``Refused`` when its manifest is damaged."""
        entry = store.Entry(paths, load(paths), None)
        live = liveness.read(paths)
        answers = asking.ask({paths.key: paths}, [STAT], self._patience) if live.kind == "live" else {}
        return self._row(entry, live, answers.get(paths.key), self._meter.scan() if answers else None)

    def _row(
        self,
        entry: store.Entry,
        live: liveness.Liveness,
        answers: asking.Answers | None,
        scan: processes.Sight | None,
    ) -> BoxRow:
        paths, manifest = entry.paths, entry.manifest
        if manifest is None:
            return _damaged(paths, entry.error.why if entry.error else "")
        kind = live.kind
        if answers is not None and answers.state != "live":
            kind = liveness.read(paths).kind  # it may have ended in order while it was asked
            if kind == "live":
                kind = "slow"
        if kind == "lost" and manifest.state != RUNNING:
            kind = ""  # it died with nothing in the box: nothing was lost
        stat = answers.replies.get("stat", {}) if answers else {}
        used = (
            scan.load(live.init, live.beside) if scan and kind in ("live", "slow") else procfs.Load(0, 0.0, 0)
        )
        summary = self._summary(paths)
        # While it lives, the keeper has counted refusals that it did not write down yet.
        denied = stat.get("denied")
        return BoxRow(
            key=paths.key,
            name=manifest.name,
            repository=manifest.repository,
            tier=manifest.tier,
            profile=manifest.profile,
            state=manifest.state,
            live=kind,
            base=manifest.base,
            base_ref=manifest.base_ref,
            drift=self._drift(manifest),
            created=manifest.created,
            purpose=manifest.purpose,
            expires=manifest.expires,
            needs=_needs(manifest, kind, summary.last_exit),
            processes=used.processes,
            cpu=round(used.cpu, 1),
            rss=used.rss,
            denied=denied if isinstance(denied, int) else summary.denied,
            stat=self._stat(manifest, paths),
            last_line=_last_line(stat),
            unconfined=manifest.tier == "workspace",
            caveat=manifest.caveat,
        )

    def _summary(self, paths: BoxPaths) -> Summary:
        with self._lock:
            return self._summaries.setdefault(paths.key, Summary()).refresh(paths)

    def _stat(self, manifest: Manifest, paths: BoxPaths) -> DiffStat | None:
        if manifest.snapshot and manifest.state in (PROPOSED, APPLIED, ABORTED):
            return DiffStat(*manifest.snapshot["stat"])
        base, stat = self._diffs.get(paths.key, ("", None))
        return stat if base == manifest.base else None

    def remember(self, paths: BoxPaths, diff: Diff) -> None:
        """Keep the size of a live diff, so that the next list can show it."""
        stat = DiffStat(
            len(diff.changes),
            sum(c.added or 0 for c in diff.changes),
            sum(c.deleted or 0 for c in diff.changes),
        )
        self._diffs[paths.key] = (diff.base, stat)

    def _drift(self, manifest: Manifest) -> int | None:
        if manifest.detached or not manifest.base_ref:
            return None
        tip = _loose_tip(manifest)
        if tip == manifest.base:
            return 0
        key = (manifest.git_dir, manifest.base_ref, manifest.base, tip)
        if tip and key in self._drifts:
            return self._drifts[key]
        if not Path(manifest.git_dir).is_dir():
            return None
        from backends.trees import source
        from backends.trees.values import Source

        where = Source(manifest.repository, manifest.git_dir, manifest.git_dir)
        self._drifts[key] = source.drift(where, manifest.base, manifest.base_ref)
        return self._drifts[key]

    # ---------------------------------------------------------------- one box in full

    def processes(self, paths: BoxPaths) -> tuple[ProcessRow, ...]:
        """The process tree; shown from /proc even while the keeper is slow."""
        live = liveness.read(paths)
        if not liveness.alive(live.init):
            return ()
        replies = asking.ask({paths.key: paths}, [("processes", {})], self._patience)[paths.key].replies
        return self._meter.scan().tree(live.init, _numbers(replies.get("processes", {})), beside=live.beside)

    def view(self, paths: BoxPaths, lines: int) -> BoxView:
        """Row, processes, tally, sessions and the tail of the output of one box."""
        manifest = load(paths)
        live = liveness.read(paths)
        answers = None
        scan = None
        if live.kind == "live":
            questions: list[asking.Question] = [
                STAT,
                ("sessions", {}),
                ("processes", {}),
                ("output", {"session": None, "limit": min(lines * 512, 1 << 18)}),
            ]
            answers = asking.ask({paths.key: paths}, questions, self._patience, lives={paths.key: live})[
                paths.key
            ]
            scan = self._meter.scan()
        row = self._row(store.Entry(paths, manifest, None), live, answers, scan)
        replies = answers.replies if answers else {}
        tree = (
            scan.tree(live.init, _numbers(replies.get("processes", {})), beside=live.beside) if scan else ()
        )
        with self._lock:
            digest = self._digests.setdefault(paths.key, records.Digest(paths))
        digest.refresh()
        return BoxView(
            row,
            tree,
            digest.tally(records.not_observed(paths, live)),
            _with_processes(digest.sessions(live.kind == "live"), replies.get("sessions", {})),
            base64.b64decode(replies.get("output", {}).get("data", "")),
        )


def _numbers(reply: dict[str, Any]) -> dict[int, int]:
    """Pid to session, as the keeper tells it: it knows also who left its session's tree."""
    rows = reply.get("processes", [])
    return {row["pid"]: row["session"] for row in rows if row.get("session") is not None}


def _with_processes(rows: tuple[SessionRow, ...], reply: dict[str, Any]) -> tuple[SessionRow, ...]:
    known = {row["id"]: row for row in reply.get("sessions", []) if isinstance(row, dict)}
    return tuple(
        row._replace(process=ProcessId(*known[row.id]["process"]))
        if row.id in known and known[row.id].get("process")
        else row
        for row in rows
    )


def _needs(manifest: Manifest, live: str, last_exit: int | None) -> str:
    if live == "lost":
        return "its keeper died"
    if live == "slow":
        return "its keeper does not answer"
    if manifest.state == PROPOSED:
        return "review its proposal"
    if (
        manifest.expires is not None
        and manifest.expires < time.time()
        and manifest.state not in (APPLIED, ABORTED)
    ):
        return "overdue"
    if not manifest.detached and not Path(manifest.git_dir).is_dir():
        return "its repository is gone"
    if manifest.state == IDLE and last_exit:
        return f"its last command failed ({last_exit})"
    return ""


def _last_line(stat: dict[str, Any]) -> str:
    line = str(stat.get("last_line", ""))
    if not line:
        return ""
    from backends.evidence.redact import redact_text  # its patterns are compiled when it is loaded

    return redact_text(line)


def _loose_tip(manifest: Manifest) -> str:
    """Where the branch is, when it lies as a loose file; asking Git costs a process for each row."""
    try:
        return (Path(manifest.git_dir) / manifest.base_ref).read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _damaged(paths: BoxPaths, why: str) -> BoxRow:
    return BoxRow(
        paths.key,
        paths.name,
        "",
        "",
        "",
        DAMAGED,
        "",
        "",
        "",
        None,
        0.0,
        "",
        None,
        why,
        0,
        0.0,
        0,
        0,
        None,
        "",
        False,
    )
