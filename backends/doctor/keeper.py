"""Whether the processes that a box says it has are there, and who holds its lock."""

from __future__ import annotations

import json
from pathlib import Path

from backends.boxes import liveness, store
from backends.boxes.layout import socket_path
from backends.boxes.lifecycle import RUNNING
from backends.doctor.rows import Box, Voice, command
from backends.snapshots import Finding
from backends.verbs import passage

WHY = "nothing of the box runs on; its files and its journal are whole, and its next start settles it"


def check(box: Box) -> list[Finding]:
    """The keeper, then the lock."""
    return [_keeper(box), _lock(box)]


def _keeper(box: Box) -> Finding:
    voice, live = Voice(box.paths.key, "keeper"), box.live
    stop = command("cloche", "stop", box.paths.key)
    if live.kind == "live" and live.keeper:
        return voice.ok("its keeper is live", f"pid {live.keeper.pid}")
    if live.kind == "lost" and live.keeper:
        left = "its init still runs" if liveness.alive(live.init) else "its processes ended with it"
        return voice.warn("its keeper died", f"pid {live.keeper.pid}; {left}", WHY, stop, "settle")
    if box.manifest.state == RUNNING:
        return voice.warn("it says running and has no keeper", "live.json tells of none", WHY, stop, "settle")
    return voice.ok("it is not live and costs only disk")


def _lock(box: Box) -> Finding:
    voice = Voice(box.paths.key, "lock")
    if not store.held(box.paths):
        if box.live.kind == "live":
            return voice.fail(
                "its keeper is live and does not hold the lock",
                f"{box.paths.lock} was replaced or removed",
                "two commands could change the box at once",
                command("cloche", "stop", box.paths.key),
            )
        return voice.ok("nobody holds its lock")
    said = store.holder(box.paths)
    if box.live.kind == "live" or _alive(box):
        return voice.ok("its lock is held by a live process", said)
    return voice.warn(
        "its lock is held, and not by who wrote it",
        said,
        "no command can change the box until that process ends",
        command("fuser", "-v", box.paths.lock),
    )


def _alive(box: Box) -> bool:
    """Whether who wrote its name into the lock still runs; the kernel releases the lock of one that ended."""
    try:
        value = json.loads(box.paths.lock.read_bytes() or b"{}")
        return isinstance(value, dict) and Path(f"/proc/{int(value.get('pid', 0))}").exists()
    except (OSError, ValueError, TypeError):
        return False


def settle(box: Box) -> str:
    """The repair: what ``cloche stop`` does for a box whose keeper died."""
    with passage.holding(box.paths, "doctor") as held:
        socket_path(box.paths).unlink(missing_ok=True)  # nobody listens there any more
        return f"it is {held.manifest.state}, and its journal says that its keeper was lost"
