"""What this host is, as its kernel tells it. Facts are no proofs: what is present may still not work."""

from __future__ import annotations

import os

from backends.kernel import cgroups, landlock, syscalls
from backends.snapshots_host import Fact

GROUPS = ("kernel", "namespaces", "limits", "container", "virtual machine", "host")


def gather() -> tuple[Fact, ...]:
    """Cheap reads only; nothing is tried."""
    name = os.uname()
    level = landlock.abi()
    rights = (
        ", ".join(landlock.domain(level).names()) if level else "absent, or not in the kernel's lsm= list"
    )
    return (
        Fact("kernel", "kernel", f"{name.sysname} {name.release} {name.machine}", "kernel"),
        Fact("host", "host name", name.nodename, "host"),
        Fact("user", "user", f"uid {os.geteuid()}", "host"),
        Fact("landlock-abi", "Landlock ABI", str(level), "kernel"),
        Fact("landlock-rights", "Landlock rights", rights, "kernel"),
        Fact("user-namespaces", "user namespaces allowed", _user_namespaces(), "namespaces"),
        Fact("seccomp", "system call table", _table(), "kernel"),
        *(
            Fact(f"cgroup-{which}", f"{which} limit of a box", _group(which), "limits")
            for which in ("pids", "memory")
        ),
    )


def _table() -> str:
    arch = syscalls.architecture()
    return arch if arch in syscalls.ARCHITECTURES else f"none for {arch}"


def _group(controller: str) -> str:
    found = cgroups.find(controller)
    return found if isinstance(found, str) else f"cgroup v{found.version} below {found.parent}"


# The switches that distributions have for unprivileged user namespaces, with the value that forbids them.
_SWITCHES = (
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
)


def _user_namespaces() -> str:
    found = []
    for path, forbids in _SWITCHES:
        try:
            with open(path, encoding="ascii") as file:
                value = file.read().strip()
        except FileNotFoundError:
            continue
        except OSError as error:
            value = error.strerror or "unreadable"
        found.append(f"{path.rpartition('/')[2]}={value}{' (forbids)' if value == forbids else ''}")
    return ", ".join(found) or "no switch"
