"""What this host is, as its kernel and its files tell it. Facts are no proofs: what is present may not work.

Cheap reads only, nothing is tried here; programs of the host are asked in :mod:`backends.host.tools`.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from backends import injected
from backends.boxes.layout import state_dir
from backends.host import switches
from backends.host.switches import setting
from backends.kernel import cgroups, landlock, mounts, syscalls
from backends.snapshots_host import Fact

GROUPS = ("kernel", "namespaces", "limits", "container", "virtual machine", "host")
_LSM = "/sys/kernel/security/lsm"
_CLOCK_SYNCHRONIZED = "/run/systemd/timesync/synchronized"
# Settings of the kernel that a boundary leans on or is strengthened by, with the default of mainline.
_SETTINGS = (
    ("tty-injection", "typing into a terminal by TIOCSTI", "dev.tty.legacy_tiocsti"),
    ("ptrace-scope", "which processes may be traced (Yama)", "kernel.yama.ptrace_scope"),
    ("bpf-disabled", "BPF for unprivileged users shut off", "kernel.unprivileged_bpf_disabled"),
    ("io-uring-disabled", "io_uring shut off", "kernel.io_uring_disabled"),
    ("dmesg-restrict", "the kernel's log for root only", "kernel.dmesg_restrict"),
    ("perf-paranoid", "performance events restricted", "kernel.perf_event_paranoid"),
)
_NETFILTER = ("nf_tables", "nft_ct", "nft_reject_inet", "nft_redir", "nft_chain_nat")


def gather() -> tuple[Fact, ...]:
    """Every fact that reading tells, in the order of :data:`GROUPS`."""
    found = [*_kernel(), *_namespaces(), *_limits(), *_machine(), *_host()]
    return tuple(sorted(found, key=lambda fact: GROUPS.index(fact.group)))


# ---- kernel


def _kernel() -> Iterator[Fact]:
    name = os.uname()
    level = landlock.abi()
    absent = "absent, or not in the kernel's lsm= list" + (injected.MARK if injected.how("landlock") else "")
    rights = ", ".join(landlock.domain(level).names()) if level else absent
    yield Fact("kernel", "kernel", f"{name.sysname} {name.release} {name.machine}", "kernel")
    yield Fact("lsm", "security modules", security_modules(), "kernel")
    yield Fact("landlock-abi", "Landlock ABI", str(level), "kernel")
    yield Fact("landlock-rights", "Landlock rights", rights, "kernel")
    yield Fact("seccomp", "system call table", _table(), "kernel")
    yield Fact("seccomp-actions", "actions of a filter", _actions(), "kernel")
    for ident, text, sysctl in _SETTINGS:
        yield Fact(ident, text, _set(sysctl), "kernel")


def security_modules() -> str:
    """The kernel's list, or why it cannot be read: Landlock may work all the same."""
    if injected.how("lsm-list"):
        return f"not told: No such file or directory{injected.MARK}"
    try:
        with open(_LSM, encoding="ascii", errors="replace") as file:
            return file.read(4096).strip() or "none"
    except OSError as error:
        return f"not told: {error.strerror}"


def _table() -> str:
    arch = syscalls.architecture()
    return arch if arch in syscalls.ARCHITECTURES else f"none for {arch}"


def _actions() -> str:
    return setting("kernel.seccomp.actions_avail") or "not told by this kernel"


def _set(sysctl: str) -> str:
    value = setting(sysctl)
    return f"{sysctl} = {value}" if value is not None else f"this kernel has no {sysctl}"


# ---- namespaces


def _namespaces() -> Iterator[Fact]:
    told = [
        f"{one.name.rpartition('.')[2]}={one.value}{' (forbids)' if one.forbids else ''}"
        for one in switches.found()
    ]
    yield Fact("user-namespaces", "user namespaces allowed", ", ".join(told) or "no switch", "namespaces")
    for kind in ("net", "pid", "mnt"):
        value = setting(f"user.max_{kind}_namespaces")
        yield Fact(f"{kind}-namespaces", f"{kind} namespaces allowed", value or "no bound", "namespaces")
    loaded = [name for name in _NETFILTER if Path("/sys/module", name).exists()]
    missing = [name for name in _NETFILTER if name not in loaded]
    value = f"loaded: {', '.join(loaded) or 'none'}"
    if missing:
        value += f"; not seen as modules, so built in, loaded on demand or absent: {', '.join(missing)}"
    if injected.how("nft"):
        value = f"absent{injected.MARK}"
    yield Fact("nf-tables", "packet filter", value, "namespaces")
    yield Fact("already-confined", "filters on ourselves", _own_filters(), "namespaces")


def _own_filters() -> str:
    wanted = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff", "CapBnd")
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return ", ".join(f"{name} {status[name]}" for name in wanted if name in status)


# ---- limits


def _limits() -> Iterator[Fact]:
    kinds = {point.kind for point in mounts.mount_points() if point.kind in ("cgroup", "cgroup2")}
    version = {("cgroup",): "1", ("cgroup2",): "2", ("cgroup", "cgroup2"): "1 and 2 (hybrid)"}
    yield Fact(
        "cgroup-version", "control groups", version.get(tuple(sorted(kinds)), "none mounted"), "limits"
    )
    for which in (cgroups.PIDS, cgroups.MEMORY):
        yield Fact(f"cgroup-{which}", f"{which} limit of a box", _group(which), "limits")
    for name, kind in (("files", resource.RLIMIT_NOFILE), ("processes", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        value = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        yield Fact(f"rlimit-{name}", f"hard limit of {name}", value, "limits")


def _group(controller: str) -> str:
    found = cgroups.find(controller)
    return found if isinstance(found, str) else f"cgroup v{found.version} below {found.parent}"


# ---- the machine below


def _machine() -> Iterator[Fact]:
    yield Fact("virtualization", "virtualization", _virtualization(), "virtual machine")
    yield Fact("containerized", "container around us", _containerized(), "container")


def _virtualization() -> str:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next(
            (line.split(":", 1)[1].split() for line in file if line.startswith(("flags", "Features"))), []
        )
    own = next((name for name in ("vmx", "svm") if name in flags), "no vmx or svm")
    where = "inside a virtual machine" if "hypervisor" in flags else "no hypervisor told"
    return f"{own}; {where}"


def _containerized() -> str:
    marks = [path for path in ("/.dockerenv", "/run/.containerenv") if Path(path).exists()]
    return f"yes: {', '.join(marks)}" if marks else "no mark of one"


# ---- host


def _host() -> Iterator[Fact]:
    yield Fact("host", "host name", os.uname().nodename, "host")
    yield Fact("user", "user", f"uid {os.geteuid()}", "host")
    yield Fact("python", "Python", f"{platform.python_version()}", "host")
    place = state_dir()
    while not place.exists():
        place = place.parent
    room = shutil.disk_usage(place)
    inodes = os.statvfs(place)
    value = f"{room.free >> 20} MiB of {room.total >> 20} MiB free"
    yield Fact("disk", "room for boxes", f"{value}, {inodes.f_favail} inodes; {place}", "host")
    synchronized = Path(_CLOCK_SYNCHRONIZED).exists()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    yield Fact("time", "time", f"{now}{', synchronized' if synchronized else ''}", "host")
