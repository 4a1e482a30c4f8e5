"""What is said to QEMU on its command line, and to the guest when its port is there."""

from __future__ import annotations

import shutil
from pathlib import Path

from backends.microvm.vmm import SHELLS, TCG, GuestSpec, Limits

PROGRAM = "qemu-system-x86_64"
MACHINE = "q35"  # "microvm" hung in a third of boots with an emulated processor
PROXY_PORT = 3128
_MIB = 1 << 20
_TRANSLATED = 96  # MiB of translated code that an emulated processor keeps


def program() -> str:
    """Where QEMU is, "" where it is not."""
    return shutil.which(PROGRAM, path="/usr/local/bin:/usr/bin:/bin") or ""


def arguments(spec: GuestSpec) -> list[str]:
    """The command line. Files are given by the descriptors that ``monitor.start`` leaves: 3 the port, 4 the
    kernel, 5 the initramfs, then the image, the shares and the console."""
    numbers = iter(range(4, 64))
    kernel, ramdisk = next(numbers), next(numbers)
    emulated = spec.accelerator == TCG
    words = [
        program() or PROGRAM,
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
        "shells": list(SHELLS),
        "proxy": PROXY_PORT if spec.proxy is not None else 0,
    }
