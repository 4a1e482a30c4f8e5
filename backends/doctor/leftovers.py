"""What an ended box still has outside its folder: mounts, control groups, sockets, processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, socket_path
from backends.doctor.rows import Box, Voice, command
from backends.errors import Busy, ClocheError
from backends.kernel import cgroups, mounts
from backends.snapshots import Finding
from backends.verbs import passage
from backends.verbs.creation import PAYLOAD_UIDS

_HEX = frozenset("0123456789abcdef")


def check(box: Box) -> list[Finding]:
    """A row for each kind of thing that is left; one that nothing is."""
    if not box.ended:
        return []
    rows = [*_mounts(box), *_groups(box), *_socket(box), *_processes(box)]
    return rows or [
        Voice(box.paths.key, "leftovers").ok("no mount, control group, socket or process is left")
    ]


def mounted(paths: BoxPaths) -> list[str]:
    """Mount points at or below the box's folder in this mount namespace, the innermost first."""
    root = os.fsencode(os.path.realpath(paths.root))
    return [
        os.fsdecode(point.target)
        for point in reversed(mounts.mount_points())
        if point.target == root or point.target.startswith(root + b"/")
    ]


def _mounts(box: Box) -> list[Finding]:
    left = mounted(box.paths)
    if not left:
        return []
    why = "the box cannot be removed, and what is mounted would be taken for its files"
    remedy = " && ".join(command("umount", point) for point in left)
    fix = "unmount" if os.geteuid() == 0 else ""
    if os.geteuid() != 0:
        remedy = " && ".join(command("sudo", "umount", point) for point in left)
    return [
        Voice(box.paths.key, "mounts").warn("mounts are left in it", "; ".join(left[:4]), why, remedy, fix)
    ]


def groups(paths: BoxPaths) -> list[str]:
    """Control groups that were made for this box, live or not."""
    start = f"{cgroups.PREFIX}{paths.repository_key}-{paths.name}-"
    found: dict[str, None] = {}
    for controller in (cgroups.PIDS, cgroups.MEMORY):
        where = cgroups.find(controller)
        if isinstance(where, str):
            continue
        for folder in Path(where.parent).iterdir():
            name = folder.name
            if name.startswith(start) and len(name) == len(start) + 8 and _HEX.issuperset(name[-8:]):
                found[str(folder)] = None
    return list(found)


def _groups(box: Box) -> list[Finding]:
    left = groups(box.paths)
    if not left or box.live.kind == "lost":
        return []  # those of a lost keeper go when it is settled
    why = "each takes memory of the kernel, and counts against the limit of groups"
    remedy = command("rmdir", *left)
    text = "control groups are left of it"
    return [Voice(box.paths.key, "cgroups").warn(text, "; ".join(left[:4]), why, remedy, "cgroups")]


def _socket(box: Box) -> list[Finding]:
    path = socket_path(box.paths)
    if box.live.kind == "lost" or not os.path.lexists(path):
        return []
    why = "nobody listens there; the next start replaces it"
    return [
        Voice(box.paths.key, "socket").note("a socket is left", str(path), why, command("rm", path), "socket")
    ]


def _processes(box: Box) -> list[Finding]:
    """Only a box of root has a user of its own; those of others are told from nothing once init ended."""
    uid = box.manifest.payload_uid
    if uid < PAYLOAD_UIDS or box.live.kind == "lost":
        return []
    left = [one.name for one in Path("/proc").iterdir() if one.name.isdecimal() and _owner(one) == uid]
    if not left:
        return []
    why = "they write to the box's files, and nothing counts what they do"
    remedy = command("kill", "-KILL", *left)
    text = "processes run as the box's user"
    return [Voice(box.paths.key, "processes").fail(text, f"pids {', '.join(left[:8])}", why, remedy)]


def _owner(process: Path) -> int | None:
    """Whose a process is; None for one that is gone, or a zombie that only waits to be collected."""
    with suppress(FileNotFoundError, ProcessLookupError):
        owner = process.stat().st_uid
        return owner if liveness.start_time(int(process.name)) is not None else None
    return None


def unmount(box: Box) -> str:
    """The repair: take away mounts below the box's folder. ``Busy`` while the box, or a mount, is in use."""
    with passage.holding(box.paths, "doctor"):
        left = mounted(box.paths)
        for point in left:
            mounts.unmount(point)
    return f"unmounted {', '.join(left)}"


def drop_groups(box: Box) -> str:
    """The repair: remove control groups that hold no process."""
    with passage.holding(box.paths, "doctor"):
        wanted = tuple(groups(box.paths))
        stay = cgroups.remove(wanted)
    if stay:
        raise Busy(
            "a control group cannot be removed",
            f"processes run in {stay[0]}",
            f"look at them: {command('cat', stay[0] + '/cgroup.procs')}",
            code="in-use",
        )
    return f"removed {', '.join(wanted)}"


def drop_socket(box: Box) -> str:
    """The repair: remove the socket of a keeper that ended."""
    with passage.holding(box.paths, "doctor"):
        path = socket_path(box.paths)
        try:
            path.unlink()
        except IsADirectoryError as error:
            raise ClocheError(
                "the socket cannot be removed", f"{path} is a folder", command("rm", "-r", path)
            ) from error
    return f"removed {path}"
