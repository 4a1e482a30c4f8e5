"""The box's state as its keeper changes it (running, idle), and ``live.json``, the facts of its launch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from backends.boxes import manifest as manifests
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import IDLE, RUNNING, legal
from backends.boxes.manifest import Manifest, write_atomically
from backends.evidence import journal
from backends.keeper.loop import Loop, Timer
from backends.keeper.recorder import Recorder
from backends.kernel import procfs
from backends.tiers.protocol import LiveBox
from backends.values import Claim, ProcessId

WHO = "keeper"
MOMENT = 0.05  # seconds from a change of state to the disk


class State:
    """Running while the box has a process, idle when none is left; journalled, then saved in the manifest.

    Everybody sees a change at once. That it is on the disk with the journal's end as its anchor, which takes
    time, comes a moment later: no command is kept waiting by it, and a short one's two changes take one turn.
    """

    def __init__(self, loop: Loop, paths: BoxPaths, manifest: Manifest, recorder: Recorder) -> None:
        self._loop = loop
        self._timer: Timer | None = None
        self._paths = paths
        self._manifest = manifest
        self._recorder = recorder

    @property
    def now(self) -> str:
        return self._manifest.state

    def running(self, why: str) -> None:
        self._move(RUNNING, why)

    def idle(self, why: str) -> None:
        if self.now == RUNNING:
            self._move(IDLE, why)

    def _move(self, target: str, why: str) -> None:
        source = self.now
        if source == target or not legal(source, target):
            return
        self._recorder.note("transition", {"from": source, "to": target, "who": WHO, "why": why})
        self._recorder.flush()
        self._manifest = self._manifest._replace(state=target)
        manifests.save(self._paths, self._manifest, durable=False)
        if self._timer is None:
            self._timer = self._loop.later(MOMENT, self.save)

    def save(self) -> None:
        """Save the manifest with the journal's present end as its anchor: a cut tail shows (rule S19)."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._recorder.flush(sync=True)
        count, head = journal.head(self._paths.journal)
        self._manifest = self._manifest._replace(journal={"count": count, "head": head})
        manifests.save(self._paths, self._manifest)


def identity(pid: int) -> ProcessId:
    """A live process by pid and start time."""
    found = procfs.identify(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} is gone")
    return found


def host_facts() -> dict[str, str]:
    """Which host launched, so that a claim is not taken for another host's."""
    name = os.uname()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {"node": name.nodename, "kernel": name.release, "boot_id": boot}


class Live:
    """``live.json``: written when the box is ready, and once more when it has ended."""

    def __init__(self, paths: BoxPaths) -> None:
        self._paths = paths
        self._facts: dict[str, Any] = {}

    def begin(
        self, keeper: ProcessId, box: LiveBox, claims: tuple[Claim, ...], socket: str, more: Mapping[str, Any]
    ) -> None:
        self._facts = {
            "version": 1,
            "keeper": keeper._asdict(),
            "init": box.init._asdict(),
            "socket": socket,
            "started": time.time(),
            "enforcement": [list(row) for row in box.enforcement],
            "claims": [list(row) for row in claims],
            "not_observed": [list(row) for row in box.not_observed],
            "host": host_facts(),
            "inside_tree": box.inside_tree,
            "inside_home": box.inside_home,
            "cgroups": list(box.cgroups),
            "beside": [ident._asdict() for ident in box.beside],
            "facts": dict(box.facts),
            **more,
        }
        self._write()

    def end(self, why: str) -> None:
        if self._facts:
            self._facts.update(ended=time.time(), why=why)
            self._write()

    @property
    def facts(self) -> Mapping[str, Any]:
        return self._facts

    def _write(self) -> None:
        text = json.dumps(self._facts, sort_keys=True, indent=1).encode() + b"\n"
        # After a crash of the host no box lives, whatever this file says.
        write_atomically(self._paths.live, text, durable=False)
