"""Why a refusal happened, by the policy's own words, and the narrowest change that would allow it. Pure.

What a refusal names came out of a box: a program may ask for anything to have it proposed. So nothing is
proposed that holds credentials, that gives them out, or whose name a person cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from backends.errors import ClocheError
from backends.policy import danger, fit, schema, values
from backends.policy.explain import value_of
from backends.policy.model import FsPolicy, Policy

ABSENT = "built-in rule: what no entry of fs.read or fs.write covers is absent"
NOT_WRITABLE = "built-in rule: what no entry of fs.write covers is not writable"
NOT_RECORDED = "not recorded"

# Names that hold secrets by convention, wherever they lie; danger.py has the places.
SECRET_NAMES = (
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "*.keystore",
    ".env", ".env.*", "credentials", "credentials.*", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd",
    ".git-credentials", "*token*", "*secret*", "*password*",
)  # fmt: skip


class Change(NamedTuple):
    """One element that a list of the profile gains, or one value that a key takes, as a profile spells it."""

    key: str
    value: str


class Remedy(NamedTuple):
    """``where`` and ``reason`` say what refused; ``change`` what would allow it, else ``why_not``."""

    where: str
    reason: str
    change: Change | None
    why_not: str


class Refused(NamedTuple):
    """One refusal, and the policy that it happened under. ``home`` is the person's, absolute and real."""

    kind: str
    object: str
    rule: str
    policy: Policy
    sources: Mapping[str, str]
    home: str


def remedy(refused: Refused) -> Remedy:
    """Explain one refusal."""
    explain = _KINDS.get(refused.kind)
    if explain is None:
        where = "built-in rule"
        return _none(where, f"{refused.rule}: no key of a profile decides about it", "nothing would allow it")
    return explain(refused)


def forbidden(change: Change, policy: Policy, home: str) -> str:
    """Why a change is never made by accepting a refusal, "" when it may be: secrets, and ways to them."""
    if not change.value.isprintable():
        return "its name has characters that a person cannot see"
    if change.key in ("fs.read", "fs.write"):
        return _secret(change, policy, home)
    if change.key == "net.egress":
        return _destination(change.value, policy)
    if change.key in ("net.unix", "debug") or change.key.startswith("resources."):
        return ""
    return f"{change.key} is decided in the profile alone"


# -------------------------------------------------------------------- files


def _file(refused: Refused) -> Remedy:
    key = "fs.write" if refused.kind == "fs-write" else "fs.read"
    path = refused.object
    mask = refused.rule.partition("fs.deny = ")[2]
    if refused.rule.startswith("no "):
        # Landlock grants what the mounts show: it alone refuses kinds of files, and some of /dev and /proc.
        right = refused.rule.removeprefix("no ").removesuffix(" granted")
        where = f"built-in rule: Landlock grants no {right} there"
        return _none(where, f"{path}: {refused.rule}, to no box", "no key of a profile grants it")
    if mask:
        where = _source(refused, f"fs.deny[{mask}]")
        there = refused.home + path[1:] if path.startswith("~") else path
        if where.startswith("built-in rule"):
            why = "it decides about boxes, and no box is shown it"
        elif _secret(Change(key, there), refused.policy._replace(fs=FsPolicy((), (), ())), refused.home):
            why = "it holds credentials, which are never proposed"
        else:
            why = (
                f"fs.deny hides it on purpose: take {mask} off that list yourself if this profile should not"
            )
        return _none(where, f"fs.deny hides {mask}, also where a grant covers it", why)
    act = {"fs-read": "be read", "fs-write": "be written", "exec": "be executed"}[refused.kind]
    listed = "fs.write" if key == "fs.write" else "fs.read or fs.write"
    where = NOT_WRITABLE if key == "fs.write" else ABSENT
    reason = f"no entry of {listed} of the profile {refused.policy.profile} covers {path}: it cannot {act}"
    if not path.startswith("/"):
        return _none(where, reason, "only an absolute path can be granted")
    return _propose(refused, where, reason, Change(key, path))


def _secret(change: Change, policy: Policy, home: str) -> str:
    path = change.value
    name = path.rpartition("/")[2].lower()
    if any(fnmatchcase(name, pattern) for pattern in SECRET_NAMES):
        return "its name says that it holds credentials, which are never proposed"
    grant = (path,)
    fs = policy.fs._replace(read=grant, write=()) if change.key == "fs.read" else policy.fs._replace(
        read=(), write=grant
    )  # fmt: skip
    for warning in danger.warnings(policy._replace(fs=fs), home):
        if warning.key == change.key:
            return f"it {warning.text}, which is never proposed".replace("it the box", "the box")
    return ""


# -------------------------------------------------------------------- network

_METADATA_NAMES = frozenset(
    (
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data",
        "instance-data.ec2.internal", "metadata.azure.internal", "metadata.azure.com",
    )
)  # fmt: skip
# Addresses that mean the box or the host itself, or everybody on its wire.
_NOWHERE = ("loopback", "the unspecified address", "link-local", "multicast", "broadcast", "this network")


def _net(refused: Refused) -> Remedy:
    policy = refused.policy
    where = _source(refused, "net.mode")
    if policy.net.mode != "allow":
        reason = f'net.mode = "{policy.net.mode}": the box has no network'
        return _none(where, reason, _closed(policy))
    target, _, note = refused.object.partition(" (")
    reason = f"no rule of net.egress of the profile {policy.profile} allows {refused.object}"
    if refused.rule and not refused.rule.startswith("no rule"):
        reason += f": {refused.rule}"
    claimed = note.rstrip(")").partition(" ")
    host, port = split_destination(target)
    if note.startswith("name server"):
        return _none(
            where, reason, "names are answered by the box's own resolver alone; no rule opens port 53"
        )
    if "/" in port:
        protocol = port.partition("/")[2]
        return _none(where, reason, f"rules are for TCP, and this was {protocol}: no rule lets it out")
    if not (port.isascii() and port.isdigit() and len(port) < 6):
        return _none(where, reason, "it names no host and port")
    if note.startswith("no name"):
        why = (
            "the connection said no name to hold it to; where its protocol has none, write "
            "raw:HOST:PORT yourself, which lets it reach every site behind the address"
        )
        return _none(where, reason, why)
    if claimed[0] in ("SNI", "Host") and claimed[2]:
        host = claimed[2]
    return _propose(refused, where, reason, Change("net.egress", destination(host, int(port))))


def _dns(refused: Refused) -> Remedy:
    policy = refused.policy
    where = _source(refused, "net.mode")
    name = refused.object.rstrip(".").lower()
    if policy.net.mode != "allow":
        return _none(where, f'net.mode = "{policy.net.mode}": no name is resolved', _closed(policy))
    reason = f"no rule of net.egress of the profile {policy.profile} names {name}: the resolver refuses it"
    return _propose(refused, where, reason, Change("net.egress", name))


def _closed(policy: Policy) -> str:
    """A profile that denies all network is never widened by what a box asks for."""
    able = policy.tier in fit.EGRESS_TIERS
    return (
        "a profile that denies the network is never widened by a refusal; decide it yourself: "
        'net.mode = "allow" with net.egress'
        + ("" if able else f", which the {policy.tier} tier cannot hold a box to: take supervised")
    )


def destination(host: str, port: int) -> str:
    """A destination as a profile spells it: no port where it is 443."""
    text = f"[{host}]" if ":" in host else host
    return text if port == 443 else f"{text}:{port}"


def split_destination(text: str) -> tuple[str, str]:
    """Host and port of ``host:port``, ``[v6]:port``; the port may carry ``/udp``."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _destination(text: str, policy: Policy) -> str:
    from backends.egress import addresses, rules

    if policy.net.mode != "allow":
        return _closed(policy)
    if policy.tier not in fit.EGRESS_TIERS:
        return f"the {policy.tier} tier cannot hold a box to a list of destinations"
    try:
        rule = rules.parse(text)
    except ClocheError as error:
        return f"no rule can say it: {error.why}"
    if rule.host in _METADATA_NAMES:
        return f"{rule.host} is {addresses.METADATA}, which gives out credentials: never proposed"
    if rule.network is None or not rule.network.is_address:
        return ""
    verdict = addresses.classify(str(rule.network))
    if addresses.METADATA in verdict.reason:
        return f"{rule.network} is {verdict.reason}, which gives out credentials: never proposed"
    if any(word in verdict.reason for word in _NOWHERE):
        return f"{rule.network} is {verdict.reason}: it means this host or its own wire"
    return ""


# -------------------------------------------------------------------- sockets, calls, limits


def _socket(refused: Refused) -> Remedy:
    if refused.object.startswith("unix:"):
        where = "built-in rule: sockets of the host are not granted"
        why = "whoever answers on a socket of the host acts outside of the box: no key opens one"
        return _none(where, f"{refused.object[5:]} is a socket of the host", why)
    if refused.object.startswith("AF_UNIX") and not refused.policy.net.unix:
        reason = "net.unix = false: no unix socket can be made"
        return _propose(refused, _source(refused, "net.unix"), reason, Change("net.unix", "true"))
    where = "built-in rule: the socket gate"
    reason = f"{refused.object}: only TCP, UDP, unix sockets and netlink for routes can be made"
    return _none(where, reason, "other families reach parts of the kernel that nothing here confines")


def _syscall(refused: Refused) -> Remedy:
    from backends.kernel import denied

    name = refused.object.partition(" ")[0]
    row = denied.BY_NAME.get(name)
    where = "built-in rule: the table of refused system calls"
    if row is not None and row.debug:
        reason = f"{name} is {row.reason}; debug = false"
        return _propose(refused, _source(refused, "debug"), reason, Change("debug", "true"))
    if row is not None:
        return _none(where, f"{name} {row.reason}", "no key allows it, at any tier")
    argued = next((one for one in denied.ARGUED if name in one.names), None)
    said = f"{refused.object}: refused is {argued.refused}" if argued else f"{refused.object}: refused"
    return _none(where, said, "no key allows it, at any tier")


def _limit(refused: Refused) -> Remedy:
    path = refused.rule.partition(" ")[0]
    key = schema.BY_PATH.get(path)
    if key is None or not path.startswith("resources."):
        return _none("built-in rule", f"{refused.object}: {refused.rule}", "no key of a profile holds it")
    where = _source(refused, path)
    value = value_of(refused.policy, path)
    if not isinstance(value, int):
        return _none(where, f"{path} was met", f"{path} has no limit now")
    reason = f"{path} = {values.show(key, value)} was met: {refused.object}"
    raised = values.show(key, larger(key, value))
    return _propose(refused, where, reason, Change(path, raised))


def larger(key: schema.Key, value: int) -> int:
    """The next sensible value of a limit: twice as much, for sizes a power of two."""
    return min(1 << value.bit_length() if key.kind == "size" else value * 2, values.LARGEST)


# -------------------------------------------------------------------- common


def _source(refused: Refused, key: str) -> str:
    return refused.sources.get(key, NOT_RECORDED)


def _none(where: str, reason: str, why_not: str) -> Remedy:
    return Remedy(where, reason, None, why_not)


def _propose(refused: Refused, where: str, reason: str, change: Change) -> Remedy:
    why_not = forbidden(change, refused.policy, refused.home)
    if not why_not and change.key == "net.egress":
        change = change._replace(value=values.entry(schema.BY_PATH[change.key], change.value))
    return Remedy(where, reason, None if why_not else change, why_not)


_KINDS: dict[str, Callable[[Refused], Remedy]] = {
    "fs-read": _file,
    "fs-write": _file,
    "exec": _file,
    "net": _net,
    "dns": _dns,
    "socket": _socket,
    "syscall": _syscall,
    "limit": _limit,
}
