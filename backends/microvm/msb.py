"""microsandbox as a monitor: its ``msb`` boots a guest with libkrun and a kernel that it brings along.

Folders are shared with virtualized attributes (``stat-virt=strict``): what the guest makes are plain files
and folders on the host, whatever it calls them, and set-id bits never reach them (``host-perms=mirror``).
There is no emulation in it: without a hypervisor that boots, it boots nothing.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from backends.errors import Refused
from backends.microvm import monitor, msb_answers, msb_guest, msb_store, msb_words
from backends.microvm.monitor import Monitor
from backends.microvm.msb_guest import MsbGuest
from backends.microvm.msb_words import Bind, Held, Machine
from backends.microvm.vmm import HARDWARE, Guest, GuestSpec, Limits, Observed, Proof
from backends.tiers.protocol import Refusal

PATIENCE = 30.0  # seconds to boot; where none comes up, msb itself gives up after 8 to 20
_KVM = "/dev/kvm"
_READY = 256  # bytes of what a guest says of itself


class Microsandbox:
    name = "microsandbox"
    accelerators: tuple[str, ...] = (HARDWARE,)
    snapshots = False  # its own (``msb snapshot``) are not driven: none could be tried where none boots

    def version(self) -> str:
        return msb_store.version()

    def obstacles(self, accelerator: str) -> tuple[Refusal, ...]:
        if not msb_store.find():
            return (Refusal("vmm", "microsandbox is not installed", msb_store.REMEDY),)
        found = []
        if os.geteuid() == 0:
            found.append(
                Refusal(
                    "vmm",
                    "its monitor runs as whoever starts it: a guest that broke out of it would be root",
                    f"run cloche as a user who can open {_KVM}",
                )
            )
        if not os.access(_KVM, os.R_OK | os.W_OK):
            found.append(Refusal("accelerator", *self._kvm()))
        try:
            msb_store.home()
        except Refused as error:
            found.append(Refusal("vmm", error.why, error.next_step))
        return tuple(found)

    def _kvm(self) -> tuple[str, str]:
        """What msb's own doctor says of a host without KVM, in its words."""
        why = f"{_KVM} cannot be opened"
        try:
            health = msb_answers.health(msb_store.call(["doctor"]).said)
        except (OSError, Refused):
            return why, "msb doctor says more"
        if health.failed:
            why += f"; msb doctor: {'; '.join(health.failed)}"
        return why, f"adduser {os.environ.get('USER', 'USER')} kvm; or msb doctor --fix"

    def not_observed(self, spec: GuestSpec) -> tuple[tuple[str, str], ...]:
        inside = "refused by the guest's own kernel, whose word would be the box's"
        rows = [(kind, inside) for kind in ("fs-read", "fs-write", "exec", "socket", "syscall")]
        if spec.egress:
            why = "microsandbox holds the list of addresses itself and counts nothing that it refuses"
        else:
            why = "the guest's network card leads nowhere, and nobody counts what it sends"
        return (*rows, ("net", why), ("dns", why))

    def prove(self, accelerator: str, patience: float) -> Proof:
        from backends.microvm import proving

        return proving.prove(self, accelerator, patience)

    def boot(self, spec: GuestSpec, limits: Limits, death: int) -> Guest:
        folders = prepare(spec.folder)
        machine = asked(spec, msb_store.load(spec.image, spec.folder))
        nonce = os.urandom(8).hex()
        (folders[0] / "first").write_text(msb_words.first(nonce), encoding="ascii")
        log = spec.folder / "monitor.log"
        try:
            runner = monitor.start(
                [msb_store.find(), *msb_words.run(machine)], msb_store.environment(), os.fspath(log)
            )
        except OSError as error:
            raise Refused(
                "the guest does not start", f"msb: {error}", msb_store.REMEDY, code="guest-monitor"
            ) from error
        held = Held(spec.procs, limits.files, limits.file_size, limits.cpu)
        boot = _Boot(machine, runner, folders[1] / "ready", nonce, log)
        try:
            observed = boot.wait(death)
            boot.compare()
        except BaseException:
            boot.give_up()
            raise
        assert boot.fd is not None
        return MsbGuest(machine.name, spec.folder, (spec.uid, spec.gid), held, runner, boot.fd, observed)


class _Boot:
    """One attempt: until the guest has written that it runs."""

    def __init__(self, machine: Machine, runner: Monitor, ready: Path, nonce: str, log: Path) -> None:
        self._machine = machine
        self._runner = runner
        self._ready = ready
        self._nonce = nonce
        self._log = log
        self.fd: int | None = None

    def wait(self, death: int) -> Observed:
        until = time.monotonic() + PATIENCE
        poll = select.poll()
        poll.register(death, select.POLLIN)
        poll.register(self._runner.pidfd, select.POLLIN)
        while True:
            if self.fd is None:
                self.fd = msb_guest.machine_of(self._runner.pid, self._machine.name)
            observed = said(self._ready, self._nonce)
            if observed is not None and self.fd is not None:
                return observed
            gone = [fd for fd, _ in poll.poll(50)]
            if death in gone:
                raise self._failed("the keeper is gone")
            if gone:
                raise self._failed(self._complaint() or "msb ended")
            if time.monotonic() > until:
                raise self._failed(f"the guest did not come up within {PATIENCE:.0f} seconds")

    def _complaint(self) -> str:
        with self._log.open("rb") as file:
            return msb_answers.complaint(file.read(msb_answers.LARGEST).decode("utf-8", "replace"))

    def _failed(self, why: str) -> Refused:
        try:
            more = msb_answers.reasons(msb_store.call(msb_words.logs(self._machine.name)).out)
        except OSError as error:
            more = f"its log cannot be read: {error}"
        return Refused(
            "the guest does not start",
            f"{why}" + (f" ({more})" if more else ""),
            "cloche probe says what this host can boot",
            code="guest-boot",
        )

    def compare(self) -> None:
        """What msb says that it runs must be what it was asked for."""
        state = msb_answers.state(msb_store.call(msb_words.inspect(self._machine.name)).out)
        found = ("msb does not say",) if state is None else msb_answers.differences(self._machine, state)
        if found:
            raise Refused(
                "the guest is not what was asked for",
                "; ".join(found),
                'state vmm = "qemu"; this version knows microsandbox 0.7',
                code="guest-differs",
            )

    def give_up(self) -> None:
        """Nothing of it stays: neither a process nor its name in msb's store."""
        if self.fd is None:
            self.fd = msb_guest.machine_of(self._runner.pid, self._machine.name)
        fds = [self._runner.pidfd] if self.fd is None else [self._runner.pidfd, self.fd]
        for fd in fds:
            monitor.kill(Monitor(0, fd))
            select.select([fd], [], [], 5)
            os.close(fd)
        msb_store.call(msb_words.remove(self._machine.name))


def prepare(folder: Path) -> tuple[Path, Path]:
    """The folders of a launch through which host and guest speak: orders, and what the guest says."""
    made = folder / "orders", folder / "told"
    for one in made:
        one.mkdir(mode=0o700)
    return made


def asked(spec: GuestSpec, reference: str) -> Machine:
    """What msb is asked for. The name is the launch's own: boxes of two repositories may have one name."""
    folders = [
        Bind(os.fspath(spec.folder / "orders"), msb_words.ORDERS, False),
        Bind(os.fspath(spec.folder / "told"), msb_words.TOLD, True, (f"quota={msb_words.TOLD_QUOTA}",)),
        *(Bind(os.fspath(one.source), one.target, one.writable) for one in spec.shares),
    ]
    files = []
    for number, (path, text) in enumerate(spec.files):
        source = spec.folder / f"file-{number}"
        source.write_text(text, encoding="utf-8", errors="surrogateescape")
        files.append(Bind(os.fspath(source), path, False))
    return Machine(
        name=f"cloche-{spec.folder.name}-{spec.name}"[:128].rstrip("-._"),
        reference=reference,
        memory=spec.memory,
        cpus=spec.cpus,
        folders=tuple(folders),
        files=tuple(files),
        tmpfs=(("/tmp", spec.tmp), ("/dev/shm", spec.shm)),  # noqa: S108 (inside)
        egress=spec.egress,
        longest=None,
    )


def said(path: Path, nonce: str) -> Observed | None:
    """What the guest wrote of itself; None while it wrote nothing with this launch's ``nonce``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, _READY).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
    words = text.split()
    if not text.endswith("\n") or len(words) != 3 or words[0] != nonce:
        return None
    return Observed(msb_answers.printable(words[1]), msb_answers.printable(words[2]))


VMM = Microsandbox()
