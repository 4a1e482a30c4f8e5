"""What every virtual machine monitor is to the ``microvm`` tier: it says what it lacks, proves, boots.

One module each (``qemu``, ``msb``) with an object of :class:`Vmm`; the table :data:`MODULES` maps the names
of the policy key ``vmm`` to them. The tier chooses; nothing else knows a monitor by name.

A box has one steward, a lean process of the host (:mod:`backends.microvm.steward`). It calls :meth:`Vmm.boot`
once and then serves the keeper. **A session is a child process of the steward**, which stands for one
command in the guest: the keeper signals it, counts it and reads its end as it does with a process of any
tier. :meth:`Guest.session` says what that child does, so a monitor that has a command line (``msb exec``)
executes it there, and one that has a channel speaks on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from backends.errors import UsageError
from backends.record import NamedTuple
from backends.tiers.protocol import Refusal

HARDWARE = "hardware"
TCG = "tcg"
TCG_LABEL = "emulated, about 13 times slower, no isolation promised"
AUTO = "auto"
SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")

# In the order in which ``vmm = "auto"`` tries them.
MODULES: dict[str, str] = {
    "microsandbox": "backends.microvm.msb",
    "qemu": "backends.microvm.qemu",
}


class Image(NamedTuple):
    """The box's root file system, pinned."""

    reference: str  # as the profile names it
    digest: str  # sha256:..., pinned at creation
    rootfs: Path  # what backends.container's export_rootfs made of it: an ext4 image, or a tar


class Share(NamedTuple):
    """One folder of the host that the guest sees."""

    tag: str  # at most 31 letters, digits, dashes; unique in a guest
    source: Path
    target: str  # inside, absolute
    writable: bool


class GuestSpec(NamedTuple):
    """All that a boot needs; resolved before. Sizes in bytes."""

    name: str  # unique among all boxes of this user: letters, digits, dashes
    folder: Path  # 0700, for sockets and logs of this launch; the tier removes it with all that is in it
    image: Image
    shares: tuple[Share, ...]
    accelerator: str  # HARDWARE or TCG
    memory: int  # of the whole guest
    cpus: int
    procs: int | None  # processes of all sessions together
    tmp: int  # size of /tmp inside
    shm: int
    uid: int  # that sessions run as, inside and (files of shares) outside
    gid: int
    home: str  # inside
    files: tuple[tuple[str, str], ...]  # path and text of files that the box has beside its image's
    proxy: Path | None  # unix stream socket of the keeper's CONNECT proxy; None: no way out at all
    egress: tuple[str, ...]  # the rules that proxy holds, for a monitor with a packet filter of its own


class Observed(NamedTuple):
    """What the guest said of itself when it was up. Hostile text: bounded and printable, nothing more."""

    kernel: str  # uname -r inside
    machine: str  # uname -m inside
    shell: str = SHELLS[-1]  # the image's, "" where it has none; this one where nobody looked
    git: bool = True  # whether the image has Git, as far as anybody looked


class Limits(NamedTuple):
    """Soft and hard values for each session; ``None``: the guest's own."""

    files: int | None
    file_size: int | None
    cpu: int | None
    wall: int | None = None  # seconds of a session, for what it left; the keeper ends the session itself


class Proof(NamedTuple):
    """What a boot that was tried now came to."""

    proved: bool
    evidence: str  # what was seen: both kernels and the command's output, or where and why it failed
    seconds: float
    observed: Observed | None  # None: it did not boot


class Command(NamedTuple):
    """One command to run in a guest."""

    id: int  # the keeper's number of the session
    argv: tuple[str, ...]
    env: Mapping[str, str]  # complete: nothing is added to it
    cwd: str  # inside
    size: tuple[int, int] | None  # rows and columns of its terminal; None: three pipes


class Session(NamedTuple):
    """How the child that stands for a command behaves.

    ``run(report, kept)`` is called in the forked child, in a session of its own. Its 0, 1, 2 are the streams
    of the command, or three times the slave of a terminal that is its controlling terminal, raw, and gets
    SIGWINCH. ``report`` is a pipe that closes on exec: closed (or the child executed something), the command
    runs; ``errno:word`` written into it, it never ran. ``kept`` are ``keep`` under their new numbers,
    inheritable; everything else is closed.

    It forwards SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, and SIGWINCH as the new size. It ends by
    exec or by ``os._exit``; its code is the command's: 126 cannot be executed, 127 not found, 128 + n ended
    by signal n. ``done`` is called in the steward when the child is gone, however it ended: whatever still
    runs in the guest of that command must end.
    """

    run: Callable[[int, tuple[int, ...]], None]
    keep: tuple[int, ...]  # the steward closes them after the fork
    done: Callable[[int], None]  # gets the wait status


class Guest(Protocol):
    """A booted guest, in the steward."""

    observed: Observed
    bound: str  # what holds the monitor's process, in words
    monitors: tuple[int, ...]  # pidfds of the monitor's processes on the host: with them the guest ends

    @property
    def left(self) -> int:
        """How many ended commands left processes that run on, as far as the guest tells."""
        ...

    def session(self, command: Command) -> Session:
        """Prepare one command. ``OSError``: the guest takes none now."""
        ...

    def watched(self) -> Mapping[int, int]:
        """Descriptors to poll(2) and for what, asked before every poll."""
        ...

    def ready(self, fd: int, events: int) -> None:
        """One of :meth:`watched` is ready. ``OSError``: the guest is lost, the box ends."""
        ...

    def usage(self, number: int) -> tuple[float, float, int] | None:
        """User and system seconds and peak bytes of an ended command, as the guest says; None: untold."""
        ...

    def kill_left(self) -> None:
        """End what ended commands left."""
        ...

    def freeze(self, done: Callable[[int], None]) -> None:
        """Stop every process of every session and write its files back; then ``done`` with their number."""
        ...

    def thaw(self, done: Callable[[int], None]) -> None: ...

    def end(self) -> None:
        """Kill the guest and wait until its monitor is gone. Never raises for one that is gone already."""
        ...


class Vmm(Protocol):
    """One virtual machine monitor."""

    name: str  # as in the policy key ``vmm``
    accelerators: tuple[str, ...]  # HARDWARE, TCG
    snapshots: bool  # whether cloche checkpoint and restore are had

    def version(self) -> str:
        """One line for status, receipt and matrix; "" where the program is absent."""
        ...

    def obstacles(self, accelerator: str) -> tuple[Refusal, ...]:
        """What this host lacks, as far as it tells without a boot, each with its remedy."""
        ...

    def prove(self, accelerator: str, patience: float) -> Proof:
        """Boot a small guest now, run one command in it, end it; at most ``patience`` seconds."""
        ...

    def not_observed(self, spec: GuestSpec) -> tuple[tuple[str, str], ...]:
        """(kind, reason) of the denials that nobody can count with this monitor."""
        ...

    def boot(self, spec: GuestSpec, limits: Limits, death: int) -> Guest:
        """In the steward: start the monitor and return when the guest takes commands.

        ``death`` becomes readable when the keeper goes: give up then. ``Refused``: it did not boot, with what
        the monitor said; nothing of it is left then. Start the monitor by
        :func:`backends.microvm.monitor.start`: it is then no child of the steward (whose children are the
        box's sessions, and nothing else) but of the keeper, and does not outlive it.
        """
        ...


def get(name: str) -> Vmm:
    """The monitor of that name; ``UsageError`` where this version drives none."""
    module = MODULES.get(name)
    if module is None:
        raise UsageError(
            f"there is no vmm {name}",
            f"this version drives {', '.join(MODULES)}",
            'state vmm = "auto"',
            code="no-such-vmm",
        )
    vmm: Vmm = import_module(module).VMM
    return vmm
