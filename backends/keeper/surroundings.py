"""What a process passes on to its children besides memory: a keeper must get it from whoever asks for one.

A keeper that another process forks on request inherits from that process and not from the one that asked.
The two are exchangeable only while everything here is equal; otherwise a box would miss the limits, the
processors or the namespaces that its starter was given. System call filters and Landlock rules cannot be read
of a process: :func:`comparable` and :func:`within_reach` tell whether they can differ. Keyrings and what only
prctl(2) knows of a process are left out.
"""

from __future__ import annotations

import os
import resource

from backends.digest import sha256
from backends.kernel.syscalls import syscall

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts")
# proc_pid_status(5): user and group ids, what was given up for good, processors and memory nodes. The mask
# for new files is not among them, since a keeper sets its own.
STATUS = (
    b"Uid:",
    b"Gid:",
    b"Groups:",
    b"NoNewPrivs:",
    b"Seccomp",
    b"Cap",
    b"Cpus_allowed:",
    b"Mems_allowed:",
    b"Speculation",
)
_IOPRIO_WHO_PROCESS = 1  # ioprio_get(2)
LIMITS = tuple(sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")))


def of(pid: int | None = None) -> str:
    """A digest of the surroundings of ``pid`` (default: of the caller). Raises OSError when they cannot be
    read, as those of a process of another user, or of one that has ended.
    """
    process = f"/proc/{pid or 'self'}"
    found = []
    for name in NAMESPACES:
        try:
            found.append(os.readlink(f"{process}/ns/{name}").encode())
        except FileNotFoundError:
            if pid is not None and not os.path.exists(process):
                raise
            found.append(b"-")  # an older kernel has no such namespace
    # Not its link, which reads differently from inside of a chroot(2) and from outside.
    root = os.stat(f"{process}/root")
    found.append(b"root %d %d" % (root.st_dev, root.st_ino))
    files = ("cgroup", "oom_score_adj", "attr/current", "personality")
    found += [_read(f"{process}/{name}") for name in files]
    found += [line for line in _read(f"{process}/status").splitlines() if line.startswith(STATUS)]
    number = pid or 0
    found += [b"%d %d" % resource.prlimit(number, kind) for kind in LIMITS]
    found.append(b"nice %d" % os.getpriority(os.PRIO_PROCESS, number))
    policy, priority = os.sched_getscheduler(number), os.sched_getparam(number).sched_priority
    found.append(b"scheduler %d %d" % (policy, priority))
    found.append(b"io %d" % syscall("ioprio_get", _IOPRIO_WHO_PROCESS, number))
    return sha256(b"\0".join(found)).hexdigest()


def comparable() -> bool:
    """Whether equal surroundings of ours mean equal system call filters.

    With ``no_new_privs`` anybody may add a filter (seccomp(2)), and nothing tells one from another; without
    it only who set this system up could.
    """
    rows = dict(line.partition(b":")[::2] for line in _read("/proc/self/status").splitlines())
    return rows.get(b"NoNewPrivs", b"").strip() == b"0" or rows.get(b"Seccomp", b"").strip() == b"0"


def within_reach(pid: int) -> bool:
    """Whether ``pid`` is under no fewer Landlock rules than we are: a domain looks into none but its own and
    those nested in it (landlock(7), ptrace restrictions). The other side's :func:`of` asks the other half.
    """
    try:
        os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return False
    return True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(65536)
    except FileNotFoundError:
        if not os.path.exists(os.path.dirname(path)):
            raise
        return b"-"
    except OSError as error:
        if error.errno != 22:  # EINVAL: no security module answers for attr/current (proc_pid_attr(5))
            raise
        return b"-"
