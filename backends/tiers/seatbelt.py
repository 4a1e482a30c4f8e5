"""A policy as a profile of macOS's Seatbelt (sandbox(7), ``sandbox-exec -p``): a pure compiler.

Nothing here is used by a launch, and nothing here was run on macOS: the text is held by tests that compare it
word for word, which proves the compiler and not the boundary. It is unproved until it is run there.

The language is Apple's SBPL, which has no public reference. What is relied on: ``(deny default)``; of several
rules that match, the last decides; ``literal`` and ``subpath`` compare with the path as the kernel resolved
it, in the file system's own spelling, so whoever calls this hands in resolved paths; ``remote ip`` knows only
the hosts ``*`` and ``localhost``. So no list of destinations can be held, and a policy with one is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from backends.errors import Refused
from backends.policy.model import Policy
from backends.record import NamedTuple

# Paths that are links on every macOS; the kernel compares what they lead to.
LINKS = (("/tmp", "/private/tmp"), ("/var", "/private/var"), ("/etc", "/private/etc"))  # noqa: S108

# What a program needs before its first instruction: the loader, its cache, and the system's libraries.
SYSTEM = (
    "/System/Library",
    "/System/Volumes/Preboot/Cryptexes",
    "/private/var/db/dyld",
    "/usr/lib",
    "/usr/share",
)
READ = "file-read* file-map-executable process-exec*"
"""The operations of a read grant: programs and libraries are read to be run."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
# What the C library asks the machine for; nothing of other processes (kern.proc*) is among them.
SYSCTLS = (
    "hw.activecpu",
    "hw.byteorder",
    "hw.cpufamily",
    "hw.cputype",
    "hw.logicalcpu",
    "hw.logicalcpu_max",
    "hw.machine",
    "hw.memsize",
    "hw.model",
    "hw.ncpu",
    "hw.pagesize",
    "hw.pagesize_compat",
    "hw.physicalcpu",
    "hw.physicalcpu_max",
    "kern.argmax",
    "kern.hostname",
    "kern.maxfilesperproc",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osversion",
    "kern.usrstack64",
    "kern.version",
    "vm.loadavg",
)
# Names and users of the system, and its log; keychain, pasteboard and window server are not among them.
SERVICES = (
    "com.apple.system.logger",
    "com.apple.system.notification_center",
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.system.opendirectoryd.membership",
)
NETWORK_SERVICES = (
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.SystemConfiguration.configd",
    "com.apple.trustd.agent",
)
RESOLVER = "/private/var/run/mDNSResponder"


class Places(NamedTuple):
    """The box's own folders on the host, resolved: at this tier they are not shown under other names."""

    tree: str
    home: str
    tmp: str
    repo: str  # the private Git directory, "" for none
    records: str  # Cloche's own state, hidden below every grant


class Missing(NamedTuple):
    """A value of the policy that a profile cannot hold, and what is there instead."""

    key: str
    why: str


class Profile(NamedTuple):
    """The profile's text, and what of the policy it does not hold."""

    text: str
    missing: tuple[Missing, ...]


def compile_profile(policy: Policy, places: Places) -> Profile:
    """The profile for ``policy``. ``Refused`` (code "seatbelt") for what would have to be left open.

    What would merely be narrower than asked is in ``missing``, and so are the limits, which no profile knows.
    """
    _refuse(policy)
    own = [path(one) for one in (places.tree, places.home, places.tmp, places.repo) if one]
    reads = [path(one) for one in policy.fs.read]
    writes = [path(one) for one in policy.fs.write]
    hidden = [path(one) for one in policy.fs.deny]
    records = path(places.records)
    parts = [
        ["(version 1)", "(deny default)"],
        _processes(policy.debug),
        _system(),
        _rule("allow", "file-read-metadata", _ancestors([*reads, *writes])),
        _rule("allow", READ, _below(reads)),
        _rule("allow", f"{READ} file-write*", _below(writes)),
        _rule("deny", f"{READ} file-write* network*", _below([*hidden, records])),
        # A mask is a path: moved with a folder above it, what it hides would be in sight.
        _rule("deny", "file-write-unlink", _above_masks(hidden, writes)),
        # After the records that are hidden: a box's own folders lie among them.
        _rule("allow", "file-read-metadata", _ancestors(own)),
        _rule("allow", f"{READ} file-write*", _below(own)),
        _rule("deny", "file-write*", _below([posixpath.join(own[0], ".git")])),
        ["(deny file-write-setugid)"],
        _network(policy, own),
    ]
    text = "\n\n".join("\n".join(part) for part in parts if part) + "\n"
    return Profile(text, _missing(policy))


def _refuse(policy: Policy) -> None:
    if policy.net.mode == "allow":
        raise _refused(
            "net.mode",
            "Seatbelt compares addresses with * and localhost only, so no list of destinations can be held",
            'state net.mode = "deny"',
        )
    for key, stated in (("image", policy.image), ("services", policy.services), ("secrets", policy.secrets)):
        if stated:
            raise _refused(key, f"a profile provides no {key}", f"leave out {key}")


def _refused(key: str, why: str, remedy: str) -> Refused:
    return Refused(f"no Seatbelt profile can take {key}", why, remedy, code="seatbelt")


def _processes(debug: bool) -> list[str]:
    """What processes may do to each other: inside the same sandbox, which every child inherits."""
    lines = [
        "(allow process-fork)",
        "(allow process-info* (target same-sandbox))",
        "(allow signal (target same-sandbox))",
        "(allow ipc-posix-sem)",
    ]
    return [*lines, "(allow mach-priv-task-port (target same-sandbox))"] if debug else lines


def _system() -> list[str]:
    return [
        # The loader reads the root folder itself before anything else.
        '(allow file-read* (literal "/"))',
        *_rule("allow", "file-read-metadata", [f"(literal {quoted(link)})" for link, _ in LINKS]),
        *_rule("allow", "file-read* file-map-executable", _below(SYSTEM)),
        *_rule("allow", "file-read* file-write-data", [f"(literal {quoted(one)})" for one in DEVICES]),
        # A session's terminal is inherited open; no other terminal of the user's can be opened.
        r'(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))',
        *_rule("allow", "sysctl-read", [f"(sysctl-name {quoted(one)})" for one in SYSCTLS]),
        *_rule("allow", "mach-lookup", [f"(global-name {quoted(one)})" for one in SERVICES]),
    ]


def _network(policy: Policy, own: list[str]) -> list[str]:
    lines: list[str] = []
    if policy.net.mode == "host":
        lines += [
            '(allow network-outbound (remote ip "*:*"))',
            '(allow network-inbound (local ip "*:*"))',
            '(allow network-bind (local ip "*:*"))',
            f"(allow network-outbound (literal {quoted(RESOLVER)}))",
            *_rule("allow", "mach-lookup", [f"(global-name {quoted(one)})" for one in NETWORK_SERVICES]),
        ]
    if policy.net.unix:
        lines += _rule("allow", "network-bind network-inbound network-outbound", _below(own))
    return lines


def _missing(policy: Policy) -> tuple[Missing, ...]:
    limits = policy.resources
    rows = []
    if policy.net.mode == "deny" and policy.net.loopback:
        why = "there is one loopback, the host's: it stays closed"
        rows.append(Missing("net.loopback", why))
    never = "not enforced: no profile and no limit of this system counts a box"
    rows += [
        Missing(f"resources.{key}", never)
        for key, value in (("mem", limits.mem), ("procs", limits.procs))
        if value is not None
    ]
    folder = "not enforced: it is a folder of the host's file system"
    rows += [
        Missing("resources.tmp", folder),
        Missing("resources.shm", "not there: shared memory is refused"),
    ]
    if policy.observe != "none":
        rows.append(Missing("observe", "not observed: the system logs a refusal, and tells no keeper"))
    return tuple(rows)


def path(name: str) -> str:
    """``name`` as the kernel compares it. ``Refused`` for one that cannot be written in a profile safely."""
    if not name.startswith("/") or posixpath.normpath(name) != name or name.startswith("//"):
        raise _refused("a path", f"{name!r} is not absolute and plain", "name it as realpath(1) does")
    if not name.isprintable():
        raise _refused("a path", f"{name!r} holds a character that no profile can hold", "rename it")
    for link, target in LINKS:
        if name == link or name.startswith(f"{link}/"):
            return target + name[len(link) :]
    return name


def quoted(text: str) -> str:
    """``text`` as a string of the language, which is Scheme's."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _below(paths: Iterable[str]) -> list[str]:
    """Filters for each path and whatever lies below it, each once, in order."""
    return [f"(subpath {quoted(one)})" for one in sorted(set(paths))]


def _above(paths: Iterable[str]) -> set[str]:
    above = set()
    for one in paths:
        while (one := posixpath.dirname(one)) != "/":
            above.add(one)
    return above


def _ancestors(paths: Iterable[str]) -> list[str]:
    """Filters for the folders above: to be asked about, not to be listed."""
    return [f"(literal {quoted(one)})" for one in sorted(_above(paths))]


def _above_masks(hidden: Iterable[str], writes: Iterable[str]) -> list[str]:
    """Filters for the folders of write grants that lie above a mask: they stay where they are."""
    grants = tuple(writes)
    kept = {one for one in _above(hidden) if any(one == g or one.startswith(f"{g}/") for g in grants)}
    return [f"(literal {quoted(one)})" for one in sorted(kept)]


def _rule(act: str, operations: str, filters: list[str]) -> list[str]:
    """One rule, each filter on a line of its own; none without filters, which would mean everything."""
    return (
        [f"({act} {operations}", *(f"  {one}" for one in filters[:-1]), f"  {filters[-1]})"]
        if filters
        else []
    )
