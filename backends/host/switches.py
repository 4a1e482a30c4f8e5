"""The switches that distributions have for unprivileged user namespaces, and what each of them forbids."""

from __future__ import annotations

import os

from backends import injected
from backends.record import NamedTuple


class Switch(NamedTuple):
    """One setting below /proc/sys: the value found, and the cause that stands behind the one that forbids."""

    name: str  # as sysctl(8) names it
    value: str
    forbids: bool
    cause: str


_KNOWN = (
    ("user.max_user_namespaces", "0", "userns-limit", "userns=ENOSPC"),
    ("kernel.unprivileged_userns_clone", "0", "userns-clone", "userns=off"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "apparmor-userns", "apparmor=EACCES"),
)


def setting(name: str) -> str | None:
    """The value of a sysctl, None where this kernel has none of that name; an error's words instead."""
    try:
        with open(f"/proc/sys/{name.replace('.', '/')}", encoding="ascii", errors="replace") as file:
            return " ".join(file.read().split())
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or "unreadable"


def found() -> tuple[Switch, ...]:
    """Every switch that this kernel has."""
    asked = {f"{ident}={how}" for ident, how in injected.asked()}
    rows = []
    for name, forbidding, cause, injection in _KNOWN:
        struck = injection in asked
        value = forbidding if struck else setting(name)
        if value is not None:
            rows.append(
                Switch(name, value + (injected.MARK if struck else ""), struck or value == forbidding, cause)
            )
    return tuple(rows)


def forbidding() -> tuple[Switch, ...]:
    """Those that forbid user namespaces to us: root of the host is asked the first one only."""
    root = os.geteuid() == 0 and not injected.text()
    return tuple(one for one in found() if one.forbids and (not root or one.cause == "userns-limit"))
