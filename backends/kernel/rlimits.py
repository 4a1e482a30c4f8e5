"""Limits of one process that its children inherit. Source: getrlimit(2)."""

from __future__ import annotations

import resource

from backends.record import NamedTuple


class Limits(NamedTuple):
    """Hard and soft limit alike (see :func:`ceiling`); ``None`` leaves what is inherited."""

    procs: int | None = None  # RLIMIT_NPROC: of this user in this user namespace
    data: int | None = None  # RLIMIT_DATA, bytes of one process
    cpu: int | None = None  # RLIMIT_CPU, seconds of one process
    file_size: int | None = None  # RLIMIT_FSIZE, bytes of one file
    files: int | None = None  # RLIMIT_NOFILE of one process
    signals: int | None = None  # RLIMIT_SIGPENDING, queued signals and timers of this user
    queues: int | None = None  # RLIMIT_MSGQUEUE, bytes of POSIX message queues of this user


_KINDS = (
    ("procs", resource.RLIMIT_NPROC),
    ("data", resource.RLIMIT_DATA),
    ("cpu", resource.RLIMIT_CPU),
    ("file_size", resource.RLIMIT_FSIZE),
    ("files", resource.RLIMIT_NOFILE),
    ("signals", resource.RLIMIT_SIGPENDING),
    ("queues", resource.RLIMIT_MSGQUEUE),
)


def wanted(limits: Limits) -> tuple[tuple[str, int, int], ...]:
    """What :func:`apply` sets from here: field, ``RLIMIT_*`` number and value, cut to the hard limit."""
    return tuple(
        (field, kind, capped(kind, value))
        for field, kind in _KINDS
        if (value := getattr(limits, field)) is not None
    )


def ceiling(kind: int, value: int) -> int:
    """The hard limit beside a soft one of ``value``: the same, but for processor time.

    There a process that reaches both at once is ended by SIGKILL, which tells nobody why. One second between
    them lets SIGXCPU come first.
    """
    return capped(kind, value + 1) if kind == resource.RLIMIT_CPU else value


def apply(limits: Limits) -> None:
    """Sets the limits on the calling process, and no core dumps. A value above the inherited hard limit is
    cut to it: a limit can only become tighter."""
    # core(5): at 0 the kernel still starts the host's handler of core dumps, at 1 it does not.
    core = capped(resource.RLIMIT_CORE, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core))
    for _, kind, value in wanted(limits):
        resource.setrlimit(kind, (value, ceiling(kind, value)))


def capped(kind: int, value: int) -> int:
    """``value``, or the inherited hard limit where that is lower."""
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def open_files(value: int, *, shared: bool) -> int:
    """How many open files a request for ``value`` comes to here.

    ``shared``: at most half of the hard limit. Descriptors that wait in UNIX sockets are counted for the user
    as a whole and held against the limit of whoever sends one (unix(7), ETOOMANYREFS): outside, more must be
    left.
    """
    got = capped(resource.RLIMIT_NOFILE, value)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return got if not shared or hard == resource.RLIM_INFINITY else min(got, hard // 2)


def share(kind: int) -> int | None:
    """A quarter of a limit that counts for the user as a whole; ``None`` where there is no limit."""
    hard = resource.getrlimit(kind)[1]
    return None if hard == resource.RLIM_INFINITY else hard // 4
