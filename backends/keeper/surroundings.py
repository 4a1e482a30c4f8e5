"""What a process passes on to its children besides memory: a keeper must get it from whoever asks for one.

A keeper that another process forks on request inherits from that process and not from the one that asked.
The two are exchangeable only while everything here is equal; otherwise a box would miss the limits, the
processors or the namespaces that its starter was given.
"""

from __future__ import annotations

import os
import resource

from backends.digest import sha256

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts")
# proc_pid_status(5): user and group ids, what was given up for good, and the mask for new files is not among
# them, since a keeper sets its own.
STATUS = (b"Uid:", b"Gid:", b"Groups:", b"NoNewPrivs:", b"Seccomp:", b"CapEff:", b"CapBnd:", b"Cpus_allowed:")
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
    found += [_read(f"{process}/{name}") for name in ("cgroup", "oom_score_adj", "attr/current")]
    found += [line for line in _read(f"{process}/status").splitlines() if line.startswith(STATUS)]
    number = pid or 0
    found += [b"%d %d" % resource.prlimit(number, kind) for kind in LIMITS]
    found.append(b"nice %d" % os.getpriority(os.PRIO_PROCESS, number))
    return sha256(b"\0".join(found)).hexdigest()


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
