"""QEMU as a monitor: a small machine without any network card, driven over one virtio-serial port.

With KVM (``hardware``) or, only when asked for by name, with an emulated processor (``tcg``), which promises
no isolation. Folders are shared by virtio-9p with mapped attributes: what the guest makes are plain files and
folders on the host, whatever it calls them (security_model=mapped-xattr, qemu(1)). The monitor itself runs as
the box's user, under its own system call filter (``-sandbox``), without the right to fork or execute.
"""

from __future__ import annotations

import os
import platform
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from backends import trace
from backends.errors import Refused
from backends.microvm import client, confining, initrd, kernels, monitor
from backends.microvm.channel import Channel, connector
from backends.microvm.frames import Broken
from backends.microvm.monitor import Monitor
from backends.microvm.vmm import (
    HARDWARE,
    TCG,
    Command,
    GuestSpec,
    Limits,
    Observed,
    Proof,
    Session,
)
from backends.tiers.protocol import Refusal

PROGRAM = "qemu-system-x86_64"
MACHINE = "q35"  # "microvm" hung in a third of boots with an emulated processor
PATIENCE = {HARDWARE: 20.0, TCG: 90.0}  # seconds to boot, on a host that has other things to do
QUIT_PATIENCE = 2.5  # seconds that a guest gets to write back; see launching.END_PATIENCE
PROXY_PORT = 3128
_MIB = 1 << 20
_TRANSLATED = 96  # MiB of translated code that an emulated processor keeps
_SAID = 600  # characters of what the monitor or the guest's console said, in a refusal
_KVM = "/dev/kvm"


class Qemu:
    name = "qemu"
    accelerators: tuple[str, ...] = (HARDWARE, TCG)
    snapshots = False  # QEMU migrates no machine that has a folder shared by virtio-9p mounted

    def version(self) -> str:
        program = _program()
        if not program:
            return ""
        try:
            done = subprocess.run(
                [program, "--version"], capture_output=True, timeout=10, check=False, env={}, text=True
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.partition("\n")[0][:120]

    def obstacles(self, accelerator: str) -> tuple[Refusal, ...]:
        found = []
        if platform.machine() != "x86_64":
            found.append(Refusal("vmm", f"this version drives QEMU on x86_64, not {platform.machine()}", ""))
        if not _program():
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


class QemuGuest:
    def __init__(self, channel: Channel, started: Monitor, bound: str) -> None:
        self._channel = channel
        self.bound = bound
        self._monitor = started
        self.monitors: tuple[int, ...] = (started.pidfd,)
        self.observed = Observed("", "")
        self._stopped = False

    def wait(
        self, configured: Mapping[str, object], patience: float, death: int, log: Path, console: Path
    ) -> None:
        """Until the guest is ready. ``Refused`` with what is known of why it is not."""
        until = time.monotonic() + patience
        self._channel.configure(configured)
        why = f"the guest did not come up within {patience:.0f} seconds"
        while self._channel.observed is None:
            left = until - time.monotonic()
            ended = (self._monitor.pidfd, death)
            if left <= 0:
                break
            poll = select.poll()
            for fd, events in (*self._channel.watched().items(), *((fd, select.POLLIN) for fd in ended)):
                poll.register(fd, events)
            ready = dict(poll.poll(left * 1000))
            if death in ready:
                why = "the keeper is gone"
                break
            try:
                for fd, events in ready.items():
                    if fd not in ended:
                        self._channel.ready(fd, events)
            except (OSError, Broken) as error:
                why = f"its channel: {error}"
                break
            if self._monitor.pidfd in ready:
                why = "its monitor ended"
                break
            if self._channel.trouble:
                why = f"the guest says: {self._channel.trouble}"
                break
        else:
            self.observed = self._channel.observed
            return
        said = "; ".join(text for path in (log, console) if (text := _tail(path)))
        raise Refused(
            "the guest does not start",
            f"{why}" + (f" ({said})" if said else ""),
            "cloche probe says what this host can boot",
            code="guest-boot",
        )

    # ---- as backends.microvm.vmm.Guest has it

    def session(self, command: Command) -> Session:
        sock = self._channel.spawn(command)
        terminal = command.size is not None

        def run(report: int, kept: tuple[int, ...]) -> None:
            client.run(socket.socket(fileno=kept[0]), report, terminal=terminal)

        return Session(run, (sock.detach(),), lambda _status: self._channel.kill(command.id))

    @property
    def left(self) -> int:
        return self._channel.left

    def kill_left(self) -> None:
        self._channel.kill_left()

    def usage(self, number: int) -> tuple[float, float, int] | None:
        return self._channel.usage.pop(number, None)

    def watched(self) -> Mapping[int, int]:
        return {**self._channel.watched(), self._monitor.pidfd: select.POLLIN}

    def ready(self, fd: int, events: int) -> None:
        if fd == self._monitor.pidfd:
            raise ConnectionResetError("the guest's monitor ended")
        try:
            self._channel.ready(fd, events)
        except Broken as error:
            raise ConnectionResetError(f"the guest broke the rules of its channel: {error}") from error

    def freeze(self, done: Callable[[int], None]) -> None:
        """The guest stops and writes back; then its monitor is stopped, so that nobody need believe it."""

        def stopped(count: int) -> None:
            self._stopped = True
            monitor.send(self._monitor, signal.SIGSTOP)
            done(count)

        self._channel.freeze(stopped)

    def thaw(self, done: Callable[[int], None]) -> None:
        self._go_on()
        self._channel.thaw(done)

    def _go_on(self) -> None:
        if self._stopped:
            self._stopped = False
            monitor.send(self._monitor, signal.SIGCONT)

    def end(self) -> None:
        try:
            self._quit()
        except (OSError, Broken):
            self._channel.trouble = "lost"  # then there is nothing to write back either
        monitor.send(self._monitor, signal.SIGKILL)
        select.select([self._monitor.pidfd], [], [], 5)
        self._channel.close()

    def _quit(self) -> None:
        """Let the guest write its files back, for a moment."""
        if self._channel.observed is None:
            return
        self._go_on()
        self._channel.quit()
        until = time.monotonic() + QUIT_PATIENCE
        while not self._channel.bye and (left := until - time.monotonic()) > 0:
            poll = select.poll()
            for fd, events in self.watched().items():
                poll.register(fd, events)
            for fd, events in poll.poll(left * 1000):
                self.ready(fd, events)


def arguments(spec: GuestSpec) -> list[str]:
    """The command line. Files are given by the descriptors that :func:`monitor.start` leaves: 3 the port, 4
    the kernel, 5 the initramfs, then the image, the shares and the console."""
    numbers = iter(range(4, 64))
    kernel, ramdisk = next(numbers), next(numbers)
    emulated = spec.accelerator == TCG
    words = [
        _program() or PROGRAM,
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-monitor", "none", "-parallel", "none"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-name", f"cloche-{spec.name}"),
        *("-machine", f"{MACHINE},usb=off,graphics=off"),
        *("-accel", f"tcg,tb-size={_TRANSLATED}" if emulated else "kvm"),
        *("-cpu", "max" if emulated else "host,-vmx,-svm"),
        *("-smp", str(spec.cpus), "-m", str(spec.memory // _MIB)),
        *("-kernel", f"/dev/fd/{kernel}", "-initrd", f"/dev/fd/{ramdisk}"),
        *("-append", _command_line(emulated)),
        *("-device", "virtio-serial-pci,max_ports=2"),
        *("-chardev", "socket,id=port,fd=3", "-device", "virtserialport,chardev=port,name=cloche"),
        *("-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng"),
    ]
    if spec.image.rootfs != Path():
        # As a set, whose descriptor is used as it is: root's monitor could not open root's image again.
        drive = "file=/dev/fdset/1,if=none,id=root,format=raw,readonly=on,file.locking=off"
        words += ["-add-fd", f"fd={next(numbers)},set=1", "-drive", drive]
        words += ["-device", "virtio-blk-pci,drive=root"]
    for number, share in enumerate(spec.shares):
        path = f"/dev/fd/{next(numbers)}"
        only = "" if share.writable else ",readonly=on"
        words += [
            "-fsdev",
            f"local,id=share{number},path={path},security_model=mapped-xattr,multidevs=remap{only}",
            "-device",
            f"virtio-9p-pci,fsdev=share{number},mount_tag={share.tag}",
        ]
    return [*words, "-serial", f"file:/dev/fd/{next(numbers)}"]


def _command_line(emulated: bool) -> str:
    words = "console=ttyS0 quiet panic=-1 reboot=t audit=0 8250.nr_uarts=1 random.trust_cpu=on"
    words += " rcupdate.rcu_expedited=1"
    return f"{words} mitigations=off nokaslr no_timer_check" if emulated else words


def configuration(spec: GuestSpec, limits: Limits) -> dict[str, object]:
    """What the guest's first process is told (backends.microvm.guest.agent)."""
    return {
        "name": spec.name,
        "device": "vda" if spec.image.rootfs != Path() else "",
        "image_type": "ext4",
        "tmp": spec.tmp,
        "shm": spec.shm,
        "procs": spec.procs,
        "uid": spec.uid,
        "gid": spec.gid,
        "limits": [None, None, limits.cpu, limits.file_size, limits.files, None, None],
        "files": dict(spec.files),
        "shares": [[share.tag, share.target, share.writable] for share in spec.shares],
        "wall": limits.wall or 0,
        "proxy": PROXY_PORT if spec.proxy is not None else 0,
    }


_NO_KVM = 'or state accelerator = "tcg": emulated, about 13 times slower, no isolation promised'


def _program() -> str:
    return shutil.which(PROGRAM, path="/usr/local/bin:/usr/bin:/bin") or ""


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def _user() -> str:
    return str(os.geteuid())


def _tail(path: Path) -> str:
    """The end of a log, printable and short: the console is written by the guest."""
    try:
        data = path.read_bytes()[-4096:]
    except OSError:
        return ""
    text = " ".join(data.decode("utf-8", "replace").split())[-_SAID:]
    return "".join(one if one.isprintable() else "?" for one in text)


VMM = Qemu()
