"""Failures of a host, asked for by name: every answer that a host can give is tried on any host.

``CLOCHE_INJECT=ID[=HOW],...`` in the environment makes what is named fail the way a real host fails, in
``cloche probe`` and in launches alike, because both ask here. It can only make answers worse: nothing here
lets anything pass that would not pass without. An answer under injection is said to be one, and is never
kept. :data:`KNOWN` is the list; ``docs/probe.md`` has it for people.

Lean: part of every launch. Without the variable, a question is one look at the environment.
"""

from __future__ import annotations

import errno
import os

VARIABLE = "CLOCHE_INJECT"

# What can be asked for: how it may fail (the first is the default, "ID" stands for a name), what that means.
KNOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "userns": (("EPERM", "ENOSPC", "off"), "no user namespace can be made (off: by the switch of Debian)"),
    "apparmor": (("EACCES",), "a user namespace can be made and gives no right to mount (AppArmor)"),
    "uid-map": (("EPERM",), "user ids cannot be mapped"),
    "proc": (("EPERM",), "no fresh /proc can be mounted (it is masked)"),
    "overlay": (("ENODEV", "EPERM"), "no overlay can be mounted"),
    "netns": (("EPERM", "ENOSPC"), "the network namespace cannot be made ready"),
    "nft": (("EPROTONOSUPPORT", "ENOENT"), "nf_tables is absent"),
    "seccomp": (("EBUSY", "EINVAL"), "no system call filter with a listener can be installed"),
    "landlock": (("off", "absent"), "Landlock is off or not in the kernel"),
    "lsm-list": (("missing",), "the kernel's list of security modules cannot be read; Landlock works"),
    "delegation": (("none",), "no control group is handed to this user"),
    "podman": (("rootful", "absent", "hung"), "how Podman is found"),
    "kvm": (("boots-nothing", "absent", "EACCES"), "how /dev/kvm is found"),
    "vmm": (("absent", "hung"), "how every virtual machine monitor is found"),
    "stage": (
        ("ID",),
        "a launch ends at that stage: uts, devpts, cgroup, capabilities, ipv6, tree and others",
    ),
    "proof": (("ID",), "the proof of that claim fails"),
    "hang": (("ID",), "the proof of that claim, or the whole tier of that name, gives no answer"),
}
# The stage of a launch that each ends; the others are asked for where they are looked at.
_STAGES = {
    "userns": "userns", "apparmor": "mounts", "uid-map": "uid-map", "proc": "proc", "overlay": "overlay",
    "netns": "network", "nft": "nftables", "seccomp": "seccomp",
}  # fmt: skip
MARK = " (injected)"

_told: str | None = None


def begin(text: str) -> None:
    """Go by ``text`` from now on, for a process whose environment is not its asker's."""
    global _told
    _told = text


def text() -> str:
    """What was asked for, as it was written; "" for nothing."""
    return os.environ.get(VARIABLE, "") if _told is None else _told


def asked() -> tuple[tuple[str, str], ...]:
    """What was asked for: id and how, in the order given. Unknown ones are there too, see :func:`unknown`."""
    found = []
    for part in text().split(","):
        ident, _, how = part.strip().partition("=")
        if ident:
            hows = KNOWN.get(ident, ((how,), ""))[0]
            found.append((ident, how or hows[0]))
    return tuple(found)


def unknown() -> tuple[str, ...]:
    """Parts of the switch that mean nothing: they would make a test say yes to what it did not try."""
    return tuple(
        f"{ident}={how}"
        for ident, how in asked()
        if ident not in KNOWN or (KNOWN[ident][0] != ("ID",) and how not in KNOWN[ident][0])
    )


def how(ident: str) -> str:
    """How ``ident`` is to fail, "" when it is not to."""
    if not text():
        return ""
    return next((found for one, found in asked() if one == ident), "")


def meant(ident: str, name: str) -> bool:
    """Whether ``ident`` was asked for by that name; it may be asked for more than once."""
    return bool(text()) and (ident, name) in asked()


def strike(stage: str) -> None:
    """End a stage of a launch as was asked for: an ``OSError`` as the kernel's, marked as injected."""
    if not text():
        return
    for ident, found in asked():
        if _STAGES.get(ident) == stage or (ident, found) == ("stage", stage):
            code = getattr(errno, found, errno.EPERM)
            raise OSError(code, os.strerror(code) + MARK)
