"""Whom a box's files belong to, looked at before anything of them is read."""

from __future__ import annotations

import os
import stat

from backends.boxes.layout import BoxPaths
from backends.doctor.rows import Voice, command
from backends.snapshots import Finding

WHY = "whoever owns these files, or may write them, can change the policy, the journal and what is applied"
# What only the host writes. Tree, home and repository are the box's and are looked at elsewhere.
PRIVATE = ("manifest", "policy", "sources", "journal", "live", "lock", "review", "receipts", "quarantine")


def check(paths: BoxPaths) -> list[Finding]:
    """One row: ours and closed to others, or every file that is not."""
    voice = Voice(paths.key, "owner")
    status = os.lstat(paths.root)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o700 != 0o700:
        said = f"{paths.root} has mode {stat.S_IMODE(status.st_mode):04o}"
        why = "nothing of the box can be read, started or removed"
        return [voice.fail("its folder is closed to us", said, why, command("chmod", "700", paths.root))]
    foreign: list[str] = []
    open_to_all: list[str] = []
    for path in (paths.root, *(getattr(paths, name) for name in PRIVATE)):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        except PermissionError:
            break  # the folder above is closed to us: its owner says enough
        if status.st_uid != os.geteuid():
            foreign.append(f"{path.name if path != paths.root else path} belongs to user {status.st_uid}")
        elif _loose(status, folder=path == paths.root):
            open_to_all.append(f"{path} has mode {stat.S_IMODE(status.st_mode):04o}")
    if foreign:
        return [
            voice.fail(
                "its files belong to somebody else",
                "; ".join(foreign[:4]),
                WHY,
                _give_back(paths),
            )
        ]
    if open_to_all:
        remedy = command("chmod", "go-rwx", paths.root) + (
            "" if len(open_to_all) == 1 and str(paths.root) in open_to_all[0] else " && " + _close(paths)
        )
        text = "others may read or write what is yours alone"
        return [voice.fail(text, "; ".join(open_to_all[:4]), WHY, remedy, "private")]
    return [voice.ok("its files are yours and closed to others", f"user {os.geteuid()}")]


def _loose(status: os.stat_result, *, folder: bool) -> bool:
    """The folder is closed to everybody else; what lies in it must not be writable, should that be opened."""
    return bool(stat.S_IMODE(status.st_mode) & (0o077 if folder else 0o022)) and not stat.S_ISLNK(
        status.st_mode
    )


def _close(paths: BoxPaths) -> str:
    names = [path for name in PRIVATE if os.path.lexists(path := getattr(paths, name))]
    return command("chmod", "go-w", *names)


def _give_back(paths: BoxPaths) -> str:
    """Only what the host writes: files of the box belong to the user that it runs as."""
    words = [path for name in PRIVATE if os.path.lexists(path := getattr(paths, name))]
    return command("sudo", "chown", "-h", f"{os.geteuid()}:{os.getegid()}", paths.root, *words)


def close(paths: BoxPaths) -> str:
    """The repair: take from others what they may do. Follows no link."""
    done = 0
    for path in (paths.root, *(getattr(paths, name) for name in PRIVATE)):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            wanted = mode & ~(0o077 if path == paths.root else 0o022)
            if wanted != mode:
                os.fchmod(fd, wanted)
                done += 1
        finally:
            os.close(fd)
    return f"{done} file{'' if done == 1 else 's'} closed to others"
