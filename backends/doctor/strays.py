"""What no box of this user has any more: sockets and control groups of boxes that are gone."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path

from backends.boxes import store
from backends.boxes.layout import runtime_dir, socket_path
from backends.doctor.rows import HOST, Voice, command
from backends.kernel import cgroups
from backends.snapshots import Finding

_HEX = frozenset("0123456789abcdef")
_OLD = 60.0  # seconds; what is younger may belong to a box that is just being made or removed
_SHOWN = 4


def check() -> list[Finding]:
    """A row for each kind that is there."""
    rows: list[Finding] = []
    if left := sockets():
        text, why = "sockets are left of boxes that are gone", "nobody listens there"
        said, remedy = "; ".join(map(str, left[:_SHOWN])), command("rm", *left)
        rows.append(Voice(HOST, "stray-sockets").note(text, said, why, remedy, "sockets"))
    if groups := stray_groups():
        text, why = "control groups are left of boxes that are gone", "each takes memory of the kernel"
        said, remedy = "; ".join(groups[:_SHOWN]), command("rmdir", *groups)
        rows.append(Voice(HOST, "stray-cgroups").note(text, said, why, remedy, "stray-cgroups"))
    return rows


def sockets() -> list[Path]:
    """Sockets of keepers in our own folder that belong to no box, and at which nobody listens."""
    known = {socket_path(paths) for paths in store.folders()}
    return [
        path
        for path in sorted(runtime_dir().glob("*.sock"))
        if len(path.stem) == 20 and _HEX.issuperset(path.stem) and path not in known and _dead(path)
    ]


def _dead(path: Path) -> bool:
    try:
        if time.time() - path.lstat().st_mtime < _OLD:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            trial.settimeout(1.0)
            trial.connect(str(path))
    except OSError as error:
        return error.errno == errno.ECONNREFUSED  # unix(7): there is a socket and nobody listens
    return False


def stray_groups() -> list[str]:
    """Empty groups that are older than any launch; keepers remove them too, when they next make one."""
    found: dict[str, None] = {}
    for controller in (cgroups.PIDS, cgroups.MEMORY):
        where = cgroups.find(controller)
        if isinstance(where, str):
            continue
        for folder in Path(where.parent).glob(f"{cgroups.PREFIX}*"):
            try:
                old = time.time() - folder.stat().st_mtime > cgroups.STALE
                if old and folder.stat().st_uid == os.geteuid() and not (folder / "cgroup.procs").read_text():
                    found[str(folder)] = None
            except OSError:
                continue  # it went away meanwhile, or is somebody else's
    return list(found)


def drop_sockets() -> str:
    """The repair: remove them."""
    left = sockets()
    for path in left:
        path.unlink(missing_ok=True)
    return f"removed {', '.join(map(str, left))}"


def drop_groups() -> str:
    """The repair: remove them; rmdir(2) takes no group that holds a process."""
    left = stray_groups()
    stay = cgroups.remove(tuple(left))
    return f"removed {len(left) - len(stay)} control groups"
