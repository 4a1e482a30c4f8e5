"""The command lines of microsandbox's ``msb``: values of words, which tests have the real one parse.

Nothing secret is among them, because every user of the host can read a command line (proc(5), ``cmdline``):
a command and its environment go through a file in a folder that is shared with the guest read-only.

Source: ``msb COMMAND --help`` of microsandbox 0.7.11.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from backends.egress import rules
from backends.egress.networks import Network
from backends.errors import Refused
from backends.record import NamedTuple

ORDERS = "/.cloche-orders"  # inside: what is asked for, read-only
TOLD = "/.cloche-told"  # inside: what the guest says back
TOLD_QUOTA = "1M"
_MIB = 1 << 20
_CLOSED = frozenset(",:=")  # what no path of a mount may have: msb takes them for its own


class Bind(NamedTuple):
    """A folder or file of the host in the guest."""

    source: str
    target: str
    writable: bool
    options: tuple[str, ...] = ()


class Machine(NamedTuple):
    """All that ``msb run`` is told. Sizes in bytes."""

    name: str
    reference: str  # of an image in msb's own store
    memory: int
    cpus: int
    folders: tuple[Bind, ...]
    files: tuple[Bind, ...]
    tmpfs: tuple[tuple[str, int], ...]  # path inside and size
    egress: tuple[str, ...]  # rules of the policy; empty: no network
    longest: int | None  # seconds after which msb itself ends it; None: the keeper does


class Held(NamedTuple):
    """What every process of a command is held to; None: the guest's own."""

    procs: int | None
    files: int | None
    file_size: int | None
    cpu: int | None


def run(machine: Machine) -> list[str]:
    """The words after ``msb``: boot, and run the first command, which never ends by itself.

    ``run`` and not ``create``: what ``run`` boots ends with its caller ("creator process exited; stopping
    attached sandbox"), what ``create`` boots outlives everybody.
    """
    words = ["run", "--name", machine.name, "--quiet", "--no-stdin", "--no-tty", "--pull", "never"]
    words += ["--security", "restricted", "--cpus", str(machine.cpus)]
    words += ["--memory", f"{max(machine.memory // _MIB, 1)}M", "--root-disk", "tmpfs:64M"]
    words += network(machine.egress)
    if machine.longest is not None:
        words += ["--max-duration", f"{machine.longest}s"]
    for one in machine.folders:
        words += ["--mount-dir", _bind(one, ("stat-virt=strict", "host-perms=mirror", "nosuid", "nodev"))]
    for one in machine.files:
        words += ["--mount-file", _bind(one, ())]
    for path, size in machine.tmpfs:
        words += ["--tmpfs", f"{path}:{max(size // _MIB, 1)}M"]
    return [*words, machine.reference, "--", "/bin/sh", f"{ORDERS}/first"]


def network(egress: Iterable[str]) -> list[str]:
    """What may leave the guest: addresses alone. ``Refused`` for a rule that names a host.

    A guest that looks names up needs msb's own name server opened (``allow@dns``), and that one looks up
    every name, so that what a box asks for is a way out for whatever it knows.
    """
    words = ["--net-default", "deny"]
    for text in egress:
        rule = rules.parse(text)
        if rule.network is None:
            raise Refused(
                f"microsandbox cannot hold the destination {text}",
                "a guest that looks up names needs its name server, which looks up every name for it",
                'state vmm = "qemu", or --tier supervised, or addresses instead of names',
                code="msb-rule",
            )
        words += ["--net-rule", f"allow:egress@{_address(rule.network)}:tcp:{rule.port}"]
    return words


def _address(network: Network) -> str:
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    text = socket.inet_ntop(family, network.packed)
    if not network.is_address:
        text += f"/{network.bits}"
    return text if network.version == 4 else f"[{text}]"


def _bind(one: Bind, more: tuple[str, ...]) -> str:
    for path in (one.source, one.target):
        if _CLOSED & set(path):
            raise Refused(
                f"microsandbox cannot share {path}",
                "its command line has no way to write a path with a comma, a colon or an equals sign",
                'keep boxes in a folder without them, or state vmm = "qemu"',
                code="msb-path",
            )
    options = ("rw" if one.writable else "ro", *more, *one.options)
    return f"{one.source}:{one.target}:{','.join(options)}"


def execute(name: str, number: int, owner: tuple[int, int], held: Held, *, terminal: bool) -> list[str]:
    """Run the order ``number`` in the guest, on our own three descriptors."""
    words = ["exec", "--quiet", *(("--tty",) if terminal else ("--no-tty", "--stream"))]
    for limit, value in (
        ("nproc", held.procs),
        ("nofile", held.files),
        ("fsize", held.file_size),
        ("cpu", held.cpu),
    ):
        if value is not None:
            words += ["--rlimit", f"{limit}={value}"]
    words += ["--user", f"{owner[0]}:{owner[1]}", "--workdir", "/", name]
    return [*words, "--", "/bin/sh", f"{ORDERS}/{number}"]


def kill(name: str, process: int) -> list[str]:
    """End what is left of a command: the group of the shell that ran it, of which it is the first process."""
    text = 'kill -9 "-$1" 2>/dev/null || kill -9 "$1"'  # "--" is none of every shell's
    own = ["exec", "--quiet", "--no-tty", "--no-stdin", "--user", "0:0", name]
    return [*own, "--", "/bin/sh", "-c", text, "sh", str(process)]


def pause(name: str) -> list[str]:
    """Stop the whole guest, its files written back."""
    return ["pause", "--quiet", "--guest-flush", "required", name]


def resume(name: str) -> list[str]:
    return ["resume", "--quiet", name]


def remove(name: str) -> list[str]:
    """Forget the guest, so that no later ``exec`` boots it again."""
    return ["rm", "--force", "--quiet", name]


def inspect(name: str) -> list[str]:
    return ["inspect", "--format", "json", name]


def logs(name: str) -> list[str]:
    """What the runtime and the guest's kernel said, one JSON object a line."""
    return ["logs", "--source", "system", "--json", "--tail", "200", name]


def load(archive: str, reference: str) -> list[str]:
    return ["load", "--quiet", "--input", archive, "--tag", reference]


def image(reference: str) -> list[str]:
    return ["image", "inspect", "--format", "json", reference]


def quoted(text: str) -> str:
    """``text`` as one word of sh(1)."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def first(nonce: str) -> str:
    """The program of the guest's first command: it says that it runs, and where, and waits.

    What it says goes into a file and not to its output, where msb's own errors are.
    """
    return (
        f"umask 022\nread -r release < /proc/sys/kernel/osrelease\n"
        f"read -r machine < /proc/sys/kernel/arch 2>/dev/null || machine=$(uname -m)\n"
        f'printf \'%s %s %s\\n\' {quoted(nonce)} "$release" "$machine" > {TOLD}/ready\n'
        "while sleep 3600; do :; done\n"
    )


def order(number: int, argv: tuple[str, ...], env: Iterable[tuple[str, str]], cwd: str) -> str:
    """The program that is one command: its shell tells its own number, then stands above it until its end.

    env(1) ``-i`` gives it exactly ``env``; a command that ends by signal n is 128 + n to sh(1).
    """
    words = ["env", "-i", *(f"{name}={value}" for name, value in env), *argv]
    return (
        f"echo $$ > {TOLD}/{number}\ncd -- {quoted(cwd)} || exit 126\n"
        f"{' '.join(quoted(word) for word in words)}\nexit $?\n"
    )
