"""The command line of one container: decided before anything is started, a value of words."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from backends.record import NamedTuple

INIT = "/.cloche/busybox"  # inside: a static program that the first process is made of
# Ends when the keeper does: its socket ends, and with it the first process and so every process. Orphans are
# handed to it, and a parent that ignores SIGCHLD has none to reap (sigaction(2)).
# By its path: a shell that was built to prefer programs would take the image's own "cat".
FIRST = f'trap "" CHLD; exec {INIT} cat <&3 >/dev/null 2>&1'
KEEPER = 65534  # the first process's uid inside: nobody in the box may look into it or signal it
REMOVE = ("rm", "--force", "--time=0", "--ignore")  # the words that take a container away
RECORDS = "images/overlay-containers"  # below the store: a folder for each container that there is
_NEW = 60.0  # seconds
CGROUP = "cloche-podman"  # where a rootful Podman makes its groups
_ALONE = 64  # processes of the first one's user, of which there is one
UID = 1000  # of sessions, inside


class Mount(NamedTuple):
    source: str
    target: str
    writable: bool


class Plan(NamedTuple):
    """All that Podman is told of a box. ``uidmap``: rootful only; else the person's ids are kept."""

    name: str
    image: str  # the digest's 64 digits, so that no name is looked up
    hostname: str
    folder: str  # 0700, of this launch: files that are mounted, sockets
    seccomp: str  # file
    mounts: tuple[Mount, ...]
    tmp: int
    shm: int
    memory: int | None
    procs: int | None
    files: int
    uidmap: tuple[tuple[int, int, int], ...] = ()
    gidmap: tuple[tuple[int, int, int], ...] = ()


def run(plan: Plan, runtime: str, *, first: str = FIRST, held: bool = True) -> list[str]:
    """The words after ``podman``: start the box's container with descriptor 3 for its first process."""
    words = ["--runtime", runtime, "run", "--detach", "--rm", "--replace", "--name", plan.name]
    words += ["--pull=never", f"--conmon-pidfile={plan.folder}/conmon"]
    if held:
        words.append("--preserve-fds=1")
    words += [f"--pidfile={plan.folder}/first", f"--hostname={plan.hostname}"]
    words += ["--cap-drop=all", "--security-opt=no-new-privileges"]
    # What is below names control groups and devices of the host, and tells a box nothing that it needs.
    words += [f"--security-opt=seccomp={plan.seccomp}", "--security-opt=mask=/sys/fs/cgroup"]
    words += ["--read-only", "--read-only-tmpfs=false", "--image-volume=ignore", "--systemd=false"]
    words += ["--network=none", "--ipc=private", "--pid=private", "--uts=private"]
    words += ["--http-proxy=false", "--no-hosts", "--no-healthcheck", "--sdnotify=ignore"]
    words += ["--log-driver=none", "--stop-timeout=0", "--restart=no"]
    if plan.uidmap:
        words.append(f"--cgroup-parent=/{CGROUP}")
        words += [f"--uidmap={inside}:{outside}:{count}" for inside, outside, count in plan.uidmap]
        words += [f"--gidmap={inside}:{outside}:{count}" for inside, outside, count in plan.gidmap]
    else:
        words.append(f"--userns=keep-id:uid={UID},gid={UID}")
    words += [f"--user={KEEPER}:{KEEPER}", "--workdir=/"]
    words += [f"--ulimit=nofile={plan.files}:{plan.files}", "--ulimit=core=0:0"]
    words.append(f"--ulimit=nproc={_ALONE}:{_ALONE}")  # or Podman sets one that a host may not give
    words += [f"--shm-size={plan.shm}"]
    words += [f"--tmpfs=/tmp:rw,size={plan.tmp},mode=1777,nosuid,nodev"]
    if plan.memory is not None:
        words += [f"--memory={plan.memory}", f"--memory-swap={plan.memory}"]
    if plan.procs is not None:
        words.append(f"--pids-limit={plan.procs}")
    words += _mounts(plan.mounts)
    words += ["--entrypoint", json.dumps([INIT, "sh", "-c", first]), plan.image]
    return words


def _mounts(mounts: Iterable[Mount]) -> list[str]:
    """``--mount`` takes a comma for the next option, so a path with one goes through ``csv``'s quotes."""
    words = []
    for one in mounts:
        parts = ["type=bind", f"source={one.source}", f"destination={one.target}"]
        parts += ["bind-propagation=rprivate", "nosuid", "nodev"]
        if not one.writable:
            parts.append("ro")
        words.append("--mount=" + ",".join(_quoted(part) for part in parts))
    return words


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if set(part) & set(',"\n') else part


def drop_groups(container: str) -> None:
    """Remove the control groups that a rootful Podman left of ``container``, and its own when none is left.

    It removes a running container's itself; of one whose monitor was killed it forgets them.
    """
    for parent in Path("/sys/fs/cgroup").glob(f"*/{CGROUP}"):
        for folder in (parent / f"libpod-{container}", parent / "conmon", parent):
            with contextlib.suppress(OSError):  # not there, or another box has its own in it
                folder.rmdir()


def drop_old_groups() -> None:
    """Remove the control groups of containers that nobody removes: of one that was replaced after a crash.

    One that has a process stays by itself; of a new one the first process may be on its way.
    """
    for folder in Path("/sys/fs/cgroup").glob(f"*/{CGROUP}/libpod-*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_ctime > _NEW:
                folder.rmdir()
    drop_groups("")
