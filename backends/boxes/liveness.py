"""Whether a box's keeper lives: judged by pid and start time, never by a pid alone."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.record import NamedTuple
from backends.values import ProcessId


class Liveness(NamedTuple):
    """``kind`` is "live", "lost" (the keeper died without saying so) or "" (the box costs only disk)."""

    kind: str
    keeper: ProcessId | None
    init: ProcessId | None
    facts: dict[str, Any]  # live.json, {} when there is none

    @property
    def beside(self) -> tuple[ProcessId, ...]:
        """What the box's processes descend from beside ``init``, which may be a steward of the host."""
        told = self.facts.get("beside")
        found = map(_identity, told) if isinstance(told, list) else ()
        return tuple(one for one in found if one is not None)


def start_time(pid: int) -> int | None:
    """Start of ``pid`` in clock ticks after boot (proc_pid_stat(5) field 22); None for gone and zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = data[data.rfind(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def alive(process: ProcessId | None) -> bool:
    """Whether that very process still runs."""
    return process is not None and start_time(process.pid) == process.start


def _identity(value: object) -> ProcessId | None:
    if isinstance(value, dict) and isinstance(value.get("pid"), int) and isinstance(value.get("start"), int):
        return ProcessId(value["pid"], value["start"])
    return None


def read(paths: BoxPaths) -> Liveness:
    """Judge by ``live.json``. One damaged, or closed to us, counts as none: the lock protects the box."""
    try:
        with open(paths.live, "rb") as file:
            facts = json.loads(file.read())
    except (FileNotFoundError, PermissionError, ValueError):
        facts = {}
    if not isinstance(facts, dict) or not facts:
        return Liveness("", None, None, {})
    keeper, init = _identity(facts.get("keeper")), _identity(facts.get("init"))
    if "ended" in facts:
        return Liveness("", keeper, init, facts)
    return Liveness("live" if alive(keeper) else "lost", keeper, init, facts)


def end(process: ProcessId, limit: float = 5.0) -> bool:
    """SIGKILL that very process by pidfd and wait up to ``limit`` seconds; True once it is gone."""
    if alive(process):
        try:
            pidfd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return True
        try:
            # Only after the descriptor is held can the pid no longer be reused under our feet.
            if alive(process):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return True
        finally:
            os.close(pidfd)
    return wait_gone(process, limit)


def wait_gone(process: ProcessId, limit: float) -> bool:
    """Wait up to ``limit`` seconds for that very process to be gone; True once it is."""
    until = time.monotonic() + limit
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # Readable when it has ended (pidfd_open(2)); as a zombie it is still there for who counts processes.
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        while alive(process):
            left = until - time.monotonic()
            if left <= 0:
                return False
            if poller.poll(left * 1000):
                time.sleep(0.001)
    finally:
        os.close(pidfd)
    return True
