"""Whether there is room to go on: bytes and inodes, for us, where boxes and their evidence are written."""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes.layout import cache_dir, runtime_dir, state_dir
from backends.doctor.rows import HOST, Box, Voice, command
from backends.record import NamedTuple
from backends.snapshots import Finding

WHY = "no session starts and no evidence is written on a full disk; what runs is stopped by failing writes"
FULL = 16 << 20  # bytes
SHORT = 512 << 20
FULL_INODES = 256
SHORT_INODES = 10_000


class Room(NamedTuple):
    """What is left of one file system; ``inodes`` is None where it has no fixed number of them."""

    place: Path
    free: int
    size: int
    inodes: int | None


def look(place: Path) -> Room:
    """Room for an unprivileged user at the nearest folder that exists (statvfs(3))."""
    while not place.is_dir() and place != place.parent:
        place = place.parent
    found = os.statvfs(place)
    inodes = found.f_favail if found.f_files else None
    return Room(place, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, inodes)


def check(box: Box) -> list[Finding]:
    """One row: the file system of the box's folder."""
    return [_row(Voice(box.paths.key, "disk"), look(box.paths.root))]


def host() -> list[Finding]:
    """One row for each file system that Cloche writes to."""
    rows: list[Finding] = []
    seen: set[int] = set()
    for name, place in (("state", state_dir()), ("cache", cache_dir()), ("sockets", runtime_dir())):
        room = look(place)
        device = room.place.stat().st_dev
        if device not in seen:
            seen.add(device)
            rows.append(_row(Voice(HOST, f"disk-{name}"), room))
    return rows


def _row(voice: Voice, room: Room) -> Finding:
    inodes = "" if room.inodes is None else f", {room.inodes} inodes"
    said = f"{room.place}: {room.free >> 20} of {room.size >> 20} MiB free{inodes}"
    few = room.inodes is not None and room.inodes < FULL_INODES
    if room.free < FULL or few:
        text = "no inodes are left" if few else "the disk is full"
        return voice.fail(text, said, WHY, _remedy(room))
    if min(SHORT, room.size // 20) > room.free or (room.inodes or SHORT_INODES) < SHORT_INODES:
        return voice.warn("room is short", said, WHY, _remedy(room))
    return voice.ok("there is room", said)


def _remedy(room: Room) -> str:
    return f"cloche gc && {command('df', '-h', room.place)}"
