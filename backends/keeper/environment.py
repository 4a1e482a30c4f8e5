"""The environment of a session: the box's own values, then what the policy lets through and sets."""

from __future__ import annotations

from collections.abc import Mapping

from backends.policy.model import Policy

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
USER = "box"
# What the person's terminal can show, wanted by every full-screen program and telling nothing else.
TERMINAL = ("TERM", "COLORTERM")


# What a box without a boundary keeps of the person's account.
ACCOUNT = ("USER", "LOGNAME", "PATH", "SHELL")


def wanted(policy: Policy, caller: Mapping[str, str], *, pty: bool, confined: bool) -> dict[str, str]:
    """What of ``caller`` can arrive in a session: a client sends this, and the keeper never has the rest."""
    names = (*(() if confined else ACCOUNT), *(TERMINAL if pty else ()))
    return {name: value for name, value in caller.items() if name in names or policy.env.passes(name)}


def compose(
    policy: Policy,
    caller: Mapping[str, str],
    proxy: Mapping[str, str] | None = None,
    /,
    *,
    box: str,
    home: str,
    shell: str,
    pty: bool,
    confined: bool,
) -> dict[str, str]:
    """The environment of one session. Of ``caller`` only names in the policy's pass-list arrive.

    ``proxy`` names the box's own, where there is no other way out: the caller's would lead nowhere.
    A box without a boundary keeps the person's own HOME, USER and PATH, since it is their account.
    """
    env = {
        "HOME": home,
        "USER": USER,
        "LOGNAME": USER,
        "PATH": PATH,
        "SHELL": shell,
        "LANG": "C.UTF-8",
    }
    if not confined:
        env.update((name, caller[name]) for name in ACCOUNT if name in caller)
    if pty:
        env["TERM"] = "xterm-256color"
        env.update((name, caller[name]) for name in TERMINAL if caller.get(name))
    env.update((name, value) for name, value in caller.items() if policy.env.passes(name))
    env.update(proxy or {})
    env.update(policy.env.set)
    env["CLOCHE_BOX"] = box
    return env
