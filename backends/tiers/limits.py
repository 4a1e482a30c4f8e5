"""Which mechanism holds each requested limit on this host, said value by value."""

from __future__ import annotations

import resource

from backends.kernel import cgroups, rlimits
from backends.kernel.cgroups import Groups
from backends.kernel.rlimits import Limits
from backends.policy.model import Resources
from backends.record import NamedTuple
from backends.values import Enforcement

NOT_ENFORCED = "not enforced"


class Held(NamedTuple):
    groups: Groups
    limits: Limits
    rows: tuple[Enforcement, ...]


def size(value: int) -> str:
    """Bytes for people: the largest binary unit that divides them."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor and value % factor == 0:
            return f"{value // factor} {unit}"
    return f"{value} B"


def hold(name: str, resources: Resources, *, confined: bool) -> Held:
    """Makes the control groups, chooses the process limits and tells what became of every value.

    Where nothing confines (``confined=False``) the limits of one process are set all the same, but no group
    is made: a process of the same user could leave it.
    """
    wanted_procs, wanted_mem = resources.procs, resources.mem
    # init and a session's helper count too
    procs = None if wanted_procs is None else wanted_procs + 2
    groups = cgroups.create(name, procs=procs, memory=wanted_mem) if confined else Groups((), (), ())
    held, missing = dict(groups.held), dict(groups.missing)
    files = rlimits.open_files(resources.files, shared=confined)
    limits = Limits(
        procs=wanted_procs if confined else None,
        data=None if cgroups.MEMORY in held else wanted_mem,
        cpu=resources.cpu,
        file_size=resources.file_size,
        files=files,
        signals=rlimits.share(resource.RLIMIT_SIGPENDING) if confined else None,
        queues=rlimits.share(resource.RLIMIT_MSGQUEUE) if confined else None,
    )
    rows: list[Enforcement] = []
    if wanted_procs is not None:
        rows.append(_procs(wanted_procs, held, confined=confined))
    if wanted_mem is not None:
        rows.append(_memory(wanted_mem, held, missing, confined=confined))
    if resources.wall is not None:
        rows.append(_row("wall", f"{resources.wall} s", "each session", "", "keeper's timer, SIGKILL", ""))
    if resources.cpu is not None:
        does = "each process: SIGXCPU, and SIGKILL a second later"
        rows.append(_row("cpu", f"{resources.cpu} s", does, "", "RLIMIT_CPU", "limits"))
    if resources.file_size is not None:
        rows.append(_row("file_size", size(resources.file_size), "each file", "", "RLIMIT_FSIZE", "limits"))
    short = ""
    if files != resources.files:
        part = "half of the host's hard limit" if confined else "the host's hard limit"
        short = f"{part} is {files}"
    rows.append(
        _row("files", str(resources.files), f"{files} in each process", short, "RLIMIT_NOFILE", "limits")
    )
    if confined:
        rows.append(
            _row("tmp", size(resources.tmp), size(resources.tmp), "", "size of the private tmpfs", "bounded")
        )
        rows.append(
            _row("shm", size(resources.shm), size(resources.shm), "", "size of the private tmpfs", "bounded")
        )
    else:
        for key, value in (("tmp", resources.tmp), ("shm", resources.shm)):
            rows.append(_row(key, size(value), NOT_ENFORCED, "the host's own folders are used", "", ""))
    if resources.disk is not None:
        why = "the host's file system has no quota that this tier can set"
        rows.append(_row("disk", size(resources.disk), NOT_ENFORCED, why, "", ""))
    return Held(groups, limits, tuple(rows))


def _row(key: str, requested: str, enforced: str, missing: str, mechanism: str, proof: str) -> Enforcement:
    return Enforcement(f"resources.{key}", requested, enforced, missing, mechanism, proof)


def _procs(value: int, held: dict[str, str], *, confined: bool) -> Enforcement:
    if not confined:
        why = "a count for this tree alone takes a user namespace or a control group"
        return _row("procs", str(value), NOT_ENFORCED, why, "", "")
    mechanism = "RLIMIT_NPROC in the box's user namespace"
    if cgroups.PIDS in held:
        mechanism = f"{held[cgroups.PIDS]}, {mechanism}"
    return _row("procs", str(value), f"{value} in the box", "", mechanism, "limits")


def _memory(value: int, held: dict[str, str], missing: dict[str, str], *, confined: bool) -> Enforcement:
    if cgroups.MEMORY in held:
        return _row("mem", size(value), f"{size(value)} in the box", "", held[cgroups.MEMORY], "")
    why = missing.get(cgroups.MEMORY, "" if confined else "this tier makes no control group")
    return _row(
        "mem",
        size(value),
        f"soft: {size(value)} in each process",
        f"the sum over the box is not enforced: {why}",
        "RLIMIT_DATA",
        "limits",
    )
