"""What an answer about this host depends on: where one of these is another, it has to be found anew."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from backends.digest import sha256
from backends.host import facts, switches, tools
from backends.kernel import cgroups, landlock, namespaces

Conditions = tuple[tuple[str, str], ...]

# The records of package managers: which one there is changes with every package.
_PACKAGES = (
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/pacman/local",
    "/lib/apk/db/installed",
)
_PROGRAMS = ("podman", *tools.RUNTIMES, *tools.VMMS, "newuidmap", "newgidmap", "git", "dd")
_SETTINGS = (
    "user.max_user_namespaces", "user.max_net_namespaces", "user.max_mnt_namespaces",
    "user.max_pid_namespaces",
    "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns",
    "kernel.seccomp.actions_avail", "kernel.yama.ptrace_scope", "kernel.unprivileged_bpf_disabled",
    "kernel.io_uring_disabled", "dev.tty.legacy_tiocsti", "kernel.modules_disabled",
    "net.ipv6.conf.all.disable_ipv6",
)  # fmt: skip
_MODULES = ("nf_tables", "nft_ct", "nft_reject_inet", "nft_redir", "nft_chain_nat", "overlay", "kvm")
_OWN_ROOMS = ("host", "keeper", "kernel", "tiers", "policy", "egress", "container", "microvm")
_STATUS = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapEff", "CapBnd")


def now() -> Conditions:
    """Every condition as it is, by name, in words that a person can compare."""
    rows = [
        ("boot", _read("/proc/sys/kernel/random/boot_id")),
        ("kernel", f"{os.uname().release} {os.uname().version}"),
        ("security modules", facts.security_modules()),
        ("Landlock", str(landlock.abi())),
        ("modules", ", ".join(name for name in _MODULES if Path("/sys/module", name).exists()) or "none"),
        ("packages", _packages()),
        ("Cloche", _product()),
        ("interpreter", _identity(os.path.realpath(sys.executable))),
        *((f"program {name}", _program(name)) for name in _PROGRAMS),
        *((name, found) for name in _SETTINGS if (found := switches.setting(name)) is not None),
        *_ourselves(),
    ]
    return tuple(rows)


def differing(before: Conditions, after: Conditions) -> tuple[str, ...]:
    """What is another one now, as ``name: before -> after``."""
    old, new = dict(before), dict(after)
    names = [name for name, _ in after] + [name for name, _ in before if name not in new]
    return tuple(
        f"{name}: {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in names
        if old.get(name) != new.get(name)
    )


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(4096).strip()
    except OSError as error:
        return error.strerror or "unreadable"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _identity(path: str) -> str:
    try:
        found = Path(path).stat()
    except OSError:
        return "absent"
    return f"{path} of {_when(found.st_mtime)}, {found.st_size} bytes"


def _packages() -> str:
    return (
        "; ".join(_identity(path) for path in _PACKAGES if Path(path).exists()) or "no package manager known"
    )


def _program(name: str) -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = next((path for folder in folders if os.access(path := f"{folder}/{name}", os.X_OK)), "")
    return _identity(os.path.realpath(found)) if found else "absent"


def _product() -> str:
    """This program's own rooms: an update may prove more, or otherwise."""
    backends = Path(__file__).resolve().parents[1]
    seen = []
    for room in _OWN_ROOMS:
        if (backends / room).is_dir():
            with os.scandir(backends / room) as entries:
                seen += [
                    f"{room}/{entry.name} {entry.stat().st_mtime_ns} {entry.stat().st_size}"
                    for entry in entries
                    if entry.name.endswith(".py")
                ]
    return sha256("\n".join(sorted(seen)).encode()).hexdigest()[:16]


def _ourselves() -> Iterator[tuple[str, str]]:
    """What this process was given: two users, or a container, may get different answers on one host."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    yield "privileges", ", ".join(f"{name} {' '.join(status.get(name, '?').split())}" for name in _STATUS)
    inodes = [f"{name} {namespaces.inode('self', name)}" for name in ("user", "mnt", "net", "pid")]
    yield "namespaces", ", ".join(inodes)
    for controller in (cgroups.PIDS, cgroups.MEMORY):
        found = cgroups.find(controller)
        yield f"{controller} group", found if isinstance(found, str) else f"{found.version} {found.parent}"
    limits = (("files", resource.RLIMIT_NOFILE), ("processes", resource.RLIMIT_NPROC))
    yield "limits", ", ".join(f"{name} {resource.getrlimit(kind)[1]}" for name, kind in limits)
