"""The root that a guest's sessions have: the image read-only, the host's folders, file systems of its own."""

from __future__ import annotations

import os
from typing import Any

from backends.microvm.guest import kernel

ROOT = "/box"
GROUPS = "/groups"
_DEVICES = (
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
)
_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)
_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV
_S_IFCHR = 0o020000


def early() -> None:
    """What has to be there before anything else: proc, sys, the kernel's own devices."""
    for kind, target in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")):
        os.makedirs(target, exist_ok=True)
        kernel.mount(kind, target, kind)


def build(wanted: dict[str, Any]) -> None:
    """Mount everything that ``wanted``, the host's configuration, asks for."""
    for folder in ("/image", "/changes", ROOT, GROUPS):
        os.makedirs(folder, exist_ok=True)
    device = wanted["device"]
    lower = "/"
    if device:
        kernel.mount(f"/dev/{device}", "/image", wanted["image_type"], kernel.MS_RDONLY | _PLAIN)
        lower = "/image"
    kernel.mount("changes", "/changes", "tmpfs", _PLAIN, "size=16m,mode=0755")
    for part in ("upper", "work"):
        os.mkdir(f"/changes/{part}")
    kernel.mount(
        "root", ROOT, "overlay", _PLAIN, f"lowerdir={lower},upperdir=/changes/upper,workdir=/changes/work"
    )
    _devices(wanted["shm"])
    for folder, size, mode in (
        ("/tmp", wanted["tmp"], "1777"),  # noqa: S108 (the guest's own)
        ("/var/tmp", wanted["tmp"], "1777"),  # noqa: S108
        ("/run", 16 << 20, "0755"),
    ):
        os.makedirs(ROOT + folder, exist_ok=True)
        kernel.mount("tmpfs", ROOT + folder, "tmpfs", _PLAIN, f"size={size},mode={mode}")
    for kind, folder, flags in (
        ("proc", "/proc", kernel.MS_NOEXEC),
        ("sysfs", "/sys", kernel.MS_NOEXEC | kernel.MS_RDONLY),
    ):
        os.makedirs(ROOT + folder, exist_ok=True)
        kernel.mount(kind, ROOT + folder, kind, flags | _PLAIN)
    _files(wanted["files"])
    for tag, target, writable in wanted["shares"]:
        os.makedirs(ROOT + target, exist_ok=True)
        flags = _PLAIN | (0 if writable else kernel.MS_RDONLY)
        kernel.mount(tag, ROOT + target, "9p", flags, "trans=virtio,version=9p2000.L,msize=262144,cache=mmap")
    kernel.mount("root", ROOT, "overlay", kernel.MS_REMOUNT | kernel.MS_RDONLY | _PLAIN)
    _groups(wanted["procs"])


def found(shells: list[str]) -> dict[str, object]:
    """What the image has of that a box is used with; its links are followed inside it alone."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            os.chroot(ROOT)
            shell = next((path for path in shells if os.access(path, os.X_OK)), "")
            git = any(
                os.access(f"{folder}/git", os.X_OK) for folder in ("/usr/bin", "/bin", "/usr/local/bin")
            )
            os.write(writer, f"{shell} {int(git)}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 4096)
    os.close(reader)
    os.waitpid(child, 0)
    path, _, there = said.decode("utf-8", "replace").rpartition(" ")
    return {"shell": path, "git": there == "1"}


def _devices(shm: int) -> None:
    os.makedirs(ROOT + "/dev", exist_ok=True)
    kernel.mount("dev", ROOT + "/dev", "tmpfs", kernel.MS_NOSUID, "size=64k,mode=0755")
    old = os.umask(0)
    for name, major, minor in _DEVICES:
        os.mknod(f"{ROOT}/dev/{name}", _S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(old)
    for name, target in _LINKS:
        os.symlink(target, f"{ROOT}/dev/{name}")
    for folder in ("pts", "shm"):
        os.mkdir(f"{ROOT}/dev/{folder}")
    kernel.mount(
        "devpts", f"{ROOT}/dev/pts", "devpts", kernel.MS_NOSUID, "newinstance,ptmxmode=0666,mode=0620"
    )
    kernel.mount("shm", f"{ROOT}/dev/shm", "tmpfs", _PLAIN, f"size={shm},mode=1777")  # noqa: S108


def _files(files: dict[str, str]) -> None:
    for path, text in files.items():
        os.makedirs(os.path.dirname(ROOT + path), exist_ok=True)
        if os.path.islink(ROOT + path):
            os.unlink(ROOT + path)
        with open(ROOT + path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.chmod(ROOT + path, 0o644)


def _groups(procs: int | None) -> None:
    """One control group of the box, in which each session gets its own (cgroups(7), version 2)."""
    kernel.mount("cgroup2", GROUPS, "cgroup2", _PLAIN | kernel.MS_NOEXEC)
    _write(f"{GROUPS}/cgroup.subtree_control", "+pids")
    os.mkdir(f"{GROUPS}/box")
    if procs is not None:
        _write(f"{GROUPS}/box/pids.max", str(procs))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
