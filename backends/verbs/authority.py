"""Who calls: nothing that runs inside a box may export or apply its own result (product rule 8)."""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes import liveness, store
from backends.errors import Refused
from backends.snapshots import ProcessId

VARIABLE = "CLOCHE_BOX"  # every session starts with it; see backends/keeper/environment.py


def ancestors(pid: int | None = None) -> list[ProcessId]:
    """This process and those it descends from, nearest first, by pid and start time."""
    found: list[ProcessId] = []
    at = os.getpid() if pid is None else pid
    while at > 0 and len(found) < 4096:
        try:
            with open(f"/proc/{at}/stat", "rb", buffering=0) as file:
                data = file.read(4096)
        except (FileNotFoundError, ProcessLookupError):
            break
        fields = data[data.rfind(b")") + 2 :].split()
        found.append(ProcessId(at, int(fields[19])))
        at = int(fields[1])
    return found


def _namespace(pid: int | str) -> tuple[int, int] | None:
    """The pid namespace of a process; None when it is gone or cannot be asked."""
    try:
        status = Path(f"/proc/{pid}/ns/pid").stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def require_outside(act: str) -> None:
    """``Refused`` when the caller descends from a live box's init or shares its pid namespace.

    What left a box's tree on purpose cannot be told at tier ``workspace``, where nothing holds it: there the
    fifth question is answered "yes, it can". In a confined tier neither this command's files nor the host's
    processes exist inside, so this is the second barrier and not the first.
    """
    inside = os.environ.get(VARIABLE, "")
    if inside:
        raise _refused(act, inside, f"{VARIABLE} is set: this command was started in that box")
    mine = set(ancestors())
    own = _namespace("self")
    for paths in store.folders():
        live = liveness.read(paths)
        init = live.init
        if init is None or not liveness.alive(init):
            continue
        if init in mine:
            raise _refused(act, paths.key, f"this command descends from the box's process {init.pid}")
        theirs = _namespace(init.pid)
        if (
            theirs is not None
            and theirs == own
            and theirs != _namespace(live.keeper.pid if live.keeper else 0)
        ):
            raise _refused(act, paths.key, "this command runs in the box's pid namespace")


def _refused(act: str, box: str, why: str) -> Refused:
    return Refused(
        f"cloche {act} is not for callers inside a box",
        f"{why} ({box}); nothing inside a box may decide about a result",
        "run it in a terminal outside, as the person who decides",
        code="inside-box",
    )
