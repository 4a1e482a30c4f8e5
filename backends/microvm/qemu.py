"""QEMU as a monitor: a small machine without any network card, driven over one virtio-serial port.

With KVM (``hardware``) or, only when asked for by name, with an emulated processor (``tcg``), which promises
no isolation. Folders are shared by virtio-9p with mapped attributes: what the guest makes are plain files and
folders on the host, whatever it calls them (security_model=mapped-xattr, qemu(1)). The monitor itself runs as
the box's user, under its own system call filter (``-sandbox``), without the right to fork or execute.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from pathlib import Path

from backends import trace
from backends.errors import Refused
from backends.microvm import confining, initrd, kernels, monitor
from backends.microvm.channel import Channel, connector
from backends.microvm.qemu_guest import QemuGuest
from backends.microvm.qemu_words import PROGRAM, configuration, program
from backends.microvm.qemu_words import arguments as arguments
from backends.microvm.vmm import HARDWARE, TCG, GuestSpec, Limits, Proof
from backends.tiers.protocol import Refusal

PATIENCE = {HARDWARE: 20.0, TCG: 90.0}  # seconds to boot, on a host that has other things to do
_KVM = "/dev/kvm"


class Qemu:
    name = "qemu"
    accelerators: tuple[str, ...] = (HARDWARE, TCG)
    snapshots = False  # QEMU migrates no machine that has a folder shared by virtio-9p mounted

    def version(self) -> str:
        found = program()
        if not found:
            return ""
        try:
            done = subprocess.run(
                [found, "--version"], capture_output=True, timeout=10, check=False, env={}, text=True
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.partition("\n")[0][:120]

    def obstacles(self, accelerator: str) -> tuple[Refusal, ...]:
        found = []
        if platform.machine() != "x86_64":
            found.append(Refusal("vmm", f"this version drives QEMU on x86_64, not {platform.machine()}", ""))
        if not program():
            found.append(Refusal("vmm", f"{PROGRAM} is not installed", "apt install qemu-system-x86"))
        if accelerator == HARDWARE:
            if not os.path.exists(_KVM):
                found.append(Refusal("accelerator", f"there is no {_KVM}", _NO_KVM))
            elif not os.access(_KVM, os.R_OK | os.W_OK):
                found.append(
                    Refusal(
                        "accelerator", f"{_KVM} is closed to this user", f"adduser {_user()} kvm; {_NO_KVM}"
                    )
                )
        try:
            kernels.find()
        except kernels.NoKernel as error:
            found.append(Refusal("vmm", f"no kernel for a guest: {error}", kernels.remedy()))
        return tuple(found)

    def not_observed(self, spec: GuestSpec) -> tuple[tuple[str, str], ...]:
        inside = "refused by the guest's own kernel, whose word would be the box's"
        kinds = ["fs-read", "fs-write", "exec", "socket", "syscall"]
        rows = [(kind, inside) for kind in kinds]
        if spec.proxy is None:
            rows.append(
                ("net", "the guest has no network card and no proxy: nothing leaves it to be counted")
            )
        else:
            rows.append(("net", "beside the proxy: the guest has no network card, its own kernel refuses"))
        rows.append(("dns", "the guest has no resolver: names are looked up by the proxy"))
        return tuple(rows)

    def prove(self, accelerator: str, patience: float) -> Proof:
        from backends.microvm import proving

        try:
            initrd.prepare(kernels.find())  # which is no part of what is proved, and takes its time
        except (kernels.NoKernel, Refused) as error:
            return Proof(False, str(error), 0.0, None)
        return proving.prove(self, accelerator, patience)

    def boot(self, spec: GuestSpec, limits: Limits, death: int) -> QemuGuest:
        try:
            files = initrd.prepare(kernels.find())
        except kernels.NoKernel as error:
            raise Refused(
                "the guest does not start", f"no kernel for it: {error}", kernels.remedy(), code="no-kernel"
            ) from error
        trace.point("steward: boot files")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        log = spec.folder / "monitor.log"
        console = spec.folder / "console.log"
        owner = (spec.uid, spec.gid) if os.geteuid() == 0 else None
        # Opened by us: the monitor's user need not reach the folders that they lie in.
        given = _Given(spec, files, console, owner)
        bound = confining.plan(given.readable, given.writable)
        try:
            started = monitor.start(
                arguments(spec),
                _environment(),
                os.fspath(log),
                owner=owner,
                keep=(theirs.fileno(), *given.all),
                confine=bound.enter,
            )
        except OSError as error:
            ours.close()
            raise Refused(
                "the guest does not start",
                f"{PROGRAM}: {error}",
                "apt install qemu-system-x86",
                code="guest-monitor",
            ) from error
        finally:
            theirs.close()
            given.close()
        trace.point("steward: monitor started")
        connect = connector(os.fspath(spec.proxy)) if spec.proxy is not None else None
        guest = QemuGuest(Channel(ours, connect), started, f"its own filter, {bound.words}")
        try:
            guest.wait(configuration(spec, limits), PATIENCE[spec.accelerator], death, log, console)
        except BaseException:
            guest.end()
            raise
        return guest


class _Given:
    """What a monitor is given open, in the order in which :func:`arguments` names it."""

    def __init__(
        self, spec: GuestSpec, files: initrd.Boot, console: Path, owner: tuple[int, int] | None
    ) -> None:
        self.readable: list[int] = []
        self.writable: list[int] = []
        self.all: list[int] = []
        try:
            for path in (files.kernel, files.initrd):
                self._add(self.readable, path, os.O_RDONLY)
            if spec.image.rootfs != Path():
                self._add(self.readable, spec.image.rootfs, os.O_RDONLY)
            for share in spec.shares:
                of = self.writable if share.writable else self.readable
                self._add(of, share.source, os.O_RDONLY | os.O_DIRECTORY)
            self._add(self.writable, console, os.O_WRONLY | os.O_CREAT)
            if owner is not None:
                os.fchown(self.all[-1], *owner)
        except BaseException:
            self.close()
            raise

    def _add(self, of: list[int], path: Path, flags: int) -> None:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        of.append(fd)
        self.all.append(fd)

    def close(self) -> None:
        for fd in self.all:
            os.close(fd)


_NO_KVM = 'or state accelerator = "tcg": emulated, about 13 times slower, no isolation promised'


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def _user() -> str:
    return str(os.geteuid())


VMM = Qemu()
