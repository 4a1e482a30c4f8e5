"""Builds a box's file tree inside its fresh namespaces and makes it the root.

The root is an empty tmpfs, so what no step shows is absent. Runs in a child of the box's init, with all
capabilities of the first user namespace; afterwards a second one locks every mount made here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial

from backends import injected, trace
from backends.kernel import mounts, namespaces, shares
from backends.kernel.mounts import MOUNT_ATTR_NODEV, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY
from backends.kernel.shares import Share
from backends.policy.identity import describe
from backends.record import NamedTuple
from backends.tiers import etc
from backends.tiers.grants import FILE, FOLDER, HIDE, Empty, File, Folder, Layer, Link, Mask, Overlay, Plan

_HANDLE_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_FLAGS = _HANDLE_FLAGS | os.O_DIRECTORY
_ROOT_SIZE = 32 << 20
_RUN_SIZE = 16 << 20
_READ_ONLY = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
_READ_WRITE = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
_LAYERS = "/.layers"

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
)

# What the OCI runtime specification's implementations hide of /proc, or keep from writing.
PROC_MASKED = (
    "acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "kpagecount",
    "kpageflags", "latency_stats", "modules", "sched_debug", "scsi", "slabinfo", "timer_list", "timer_stats",
    "vmallocinfo",
)  # fmt: skip
PROC_READ_ONLY = ("bus", "fs", "irq", "pressure", "sys", "sysrq-trigger")

# Where a box writes; the rest of its tree is read-only.
WRITABLE = (etc.TREE, etc.HOME, "/tmp", "/run", "/var/tmp", "/dev/shm")  # noqa: S108
OWN_FOLDERS = (etc.TREE, etc.HOME, "/tmp", "/run", "/var/tmp", "/proc", "/dev")  # noqa: S108


class RootPlan(NamedTuple):
    """All that :func:`build` needs; host paths, frozen before the launch."""

    mount: str  # the empty folder on which the root is mounted
    tree: str
    repo: str  # "" without a private repository
    home: str
    objects: tuple[tuple[str, str], ...]  # (host folder, path inside) of borrowed git objects
    grants: Plan
    files: tuple[tuple[str, bytes], ...]  # of the box's own, by path
    tmp: int  # bytes
    shm: int
    owner: tuple[int, int]  # uid and gid of the payload, as this user namespace names them
    shares: tuple[Share, ...]
    lowers: tuple[str, ...] = ()  # layers of the tree, the topmost first; () where it is one folder
    upper: str = ""  # what the box changes of them
    work: str = ""
    repo_lower: str = ""  # what is shared under the repository; "" where the repository is one folder
    repo_work: str = ""

    @property
    def shared(self) -> tuple[str, ...]:
        """Every folder that other boxes have in common with this one."""
        return (*self.lowers, self.repo_lower) if self.repo_lower else self.lowers

    def shown(self, places: tuple[str, ...]) -> RootPlan:
        """The plan with what is ``shared`` at other places."""
        if self.repo_lower:
            return self._replace(lowers=places[:-1], repo_lower=places[-1])
        return self._replace(lowers=places)


class BuildError(Exception):
    """A step failed. ``what`` names it; ``stage`` is the key of its remedy."""

    def __init__(self, stage: str, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {error.strerror or error}")
        self.stage = stage
        self.what = what
        self.error = error


_LOWERS_SIZE = 1 << 20


def places(tree: str, count: int) -> tuple[str, ...]:
    """Where :func:`map_lowers` shows so many layers."""
    return tuple(f"{tree}/{number}" for number in range(count))


def map_lowers(tree: str, lowers: tuple[str, ...], uid: int, gid: int) -> None:
    """Shows the layers, which belong to the host's root, as the payload's own, in a mount namespace of ours.

    For the host's root before it leaves the host's user namespace, but not its mount namespace: an overlay
    keeps the owner of what it copies up, and the box's processes would be refused at every file that is
    root's. The folder ``tree``, empty on disk, takes the mounts, at its :func:`places`.
    """
    mounts.make_private()
    mounts.tmpfs(tree, _LOWERS_SIZE, 0o700)
    namespace = namespaces.mapping(((0, uid, 1),), ((0, gid, 1),))
    try:
        for lower, place in zip(lowers, places(tree, len(lowers)), strict=True):
            os.mkdir(place)
            with _Folder(lower) as source:
                mounts.bind_as(source, place, namespace)
    finally:
        os.close(namespace)


def build(plan: RootPlan) -> tuple[str, ...]:
    """Mounts everything and pivots; returns the shares that could not be set. Raises :class:`BuildError`."""
    builder = _Builder(plan)
    builder.run("mounts", "the box's empty root", builder.base)
    # Outer folders first, so that nothing is mounted over what another step has mounted already.
    for _, kind, name, step in sorted(builder.steps(), key=lambda one: one[0].count("/")):
        builder.run(kind, name, step)
    builder.run("mounts", "the box's root, complete", builder.finish)
    builder.run("mounts", "the finished root", lambda: mounts.enter_root(plan.mount))
    return builder.unset


_Step = tuple[str, str, str, Callable[[], None]]  # place inside, stage, name, act


class _Builder:
    def __init__(self, plan: RootPlan) -> None:
        self.plan = plan
        self.root = plan.mount
        self.layers = 0
        self.unset: tuple[str, ...] = ()

    def steps(self) -> Iterator[_Step]:
        yield "/proc", "proc", "a fresh /proc", self.proc
        yield "/dev", "mounts", "the box's devices", self.devices
        yield "/dev/shm", "mounts", "a private /dev/shm", self.shared_memory  # noqa: S108
        yield "/dev/pts", "devpts", "the box's own terminals (devpts)", self.terminals
        yield "/tmp", "mounts", "a private /tmp", self.temporary  # noqa: S108
        yield "/var/tmp", "mounts", "a private /var/tmp", self.temporary_again  # noqa: S108
        yield "/run", "mounts", "a private /run", self.run_folder
        for step in self.plan.grants.steps:
            stage = "overlay" if isinstance(step, Overlay) else "grant"
            yield step.path, stage, f"the grant {step.path}", partial(self.grant, step)
        for source, inside in self.plan.objects:
            yield inside, "overlay", f"the borrowed objects {source}", partial(self.objects, source, inside)
        yield etc.HOME, "tree", "the box's home", partial(self.own_folder, self.plan.home, etc.HOME)
        if self.plan.lowers:
            yield etc.TREE, "layers", "the box's changes over the shared layers", self.layered_tree
        else:
            yield etc.TREE, "tree", "the box's tree", partial(self.own_folder, self.plan.tree, etc.TREE)
        yield f"{etc.TREE}/.git", "tree", "the box's repository", self.repository

    @staticmethod
    def run(stage: str, what: str, step: Callable[[], None]) -> None:
        try:
            injected.strike(stage)
            step()
        except OSError as error:
            raise BuildError(stage, what, error) from error
        trace.point(f"root: {what}")

    def at(self, path: str) -> str:
        return self.root + path

    def folder(self, path: str, mode: int = 0o755) -> str:
        """Makes a folder and those above it in the box's root; returns where it lies now."""
        place = self.at(path)
        os.makedirs(place, mode, exist_ok=True)
        return place

    def base(self) -> None:
        os.umask(0o022)
        mounts.make_private()
        mounts.tmpfs(self.root, _ROOT_SIZE, 0o755)
        mounts.tmpfs(self.folder(_LAYERS), _ROOT_SIZE, 0o755)
        os.mkdir(self.at(f"{_LAYERS}/none"))
        _write(self.at(f"{_LAYERS}/nothing"), b"", 0o000)
        for path, data in self.plan.files:
            self.folder(os.path.dirname(path))
            _write(self.at(path), data, 0o444)

    def proc(self) -> None:
        place = self.folder("/proc", 0o555)
        mounts.proc(place)
        # namespaces(7): a bound of this user namespace alone. The second one is the last: below it even a
        # process that got past the filter makes none.
        _put(f"{place}/sys/user/max_user_namespaces", b"1")
        self.unset = shares.take(place, self.plan.shares)
        for name in PROC_MASKED:
            if os.path.lexists(f"{place}/{name}"):
                self.mask(f"{place}/{name}", os.lstat(f"{place}/{name}").st_mode)
        for name in PROC_READ_ONLY:
            if os.path.exists(f"{place}/{name}"):
                mounts.bind(f"{place}/{name}", f"{place}/{name}", _READ_ONLY | mounts.MOUNT_ATTR_NOEXEC)

    def mask(self, place: str | int, mode: int) -> None:
        """Lays something empty and unreadable over what is there."""
        empty = "none" if stat.S_ISDIR(mode) else "nothing"
        mounts.bind(self.at(f"{_LAYERS}/{empty}"), place, _READ_ONLY)

    def devices(self) -> None:
        place = self.folder("/dev")
        for name in DEVICES:
            _write(f"{place}/{name}", b"", 0o666)
            mounts.mount(f"/dev/{name}", f"{place}/{name}", "", mounts.MS_BIND)
            mounts.set_attributes(f"{place}/{name}", MOUNT_ATTR_NOSUID | mounts.MOUNT_ATTR_NOEXEC)
        for name, text in _DEVICE_LINKS:
            os.symlink(text, f"{place}/{name}")

    def shared_memory(self) -> None:
        mounts.tmpfs(self.folder("/dev/shm"), self.plan.shm, 0o1777)  # noqa: S108

    def terminals(self) -> None:
        mounts.devpts(self.folder("/dev/pts"))

    def temporary(self) -> None:
        mounts.tmpfs(self.folder("/tmp"), self.plan.tmp, 0o1777)  # noqa: S108

    def temporary_again(self) -> None:
        # One bounded file system for both, so that /var/tmp does not double what was granted.
        mounts.bind(self.at("/tmp"), self.folder("/var/tmp"), _READ_WRITE)  # noqa: S108

    def run_folder(self) -> None:
        mounts.tmpfs(self.folder("/run"), _RUN_SIZE, 0o755, owner=self.plan.owner)
        self.folder("/var")
        if not os.path.lexists(self.at("/var/run")):
            os.symlink("/run", self.at("/var/run"))

    def grant(self, step: object) -> None:
        if isinstance(step, Overlay):
            with _Way("/", step.path) as source, _Way(self.root, step.path, make=True) as place:
                self.overlay(source, place, step.layers)
        elif isinstance(step, File):
            self.file(step)
        elif isinstance(step, Link):
            folder, name = os.path.split(step.path)
            with _Way(self.root, folder, make=True) as place:
                os.symlink(step.text, name, dir_fd=place)
        elif isinstance(step, Folder):
            with _Way("/", step.path) as source, _Way(self.root, step.path, make=True) as place:
                mounts.bind(source, place, _READ_WRITE)
        elif isinstance(step, Empty):
            with _Way(self.root, step.path, make=True):
                pass
        elif isinstance(step, Mask):
            self.hide(step)

    def file(self, step: File) -> None:
        folder, name = os.path.split(step.path)
        with _Way("/", step.path, flags=_HANDLE_FLAGS) as source:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise OSError(errno.EINVAL, "it is no longer a file")
            with _Way(self.root, folder, make=True) as place:
                with contextlib.suppress(FileExistsError):
                    _write(name, b"", 0o444, dir_fd=place)
                target = os.open(name, _HANDLE_FLAGS, dir_fd=place)
            try:
                if not stat.S_ISREG(os.fstat(target).st_mode):
                    raise OSError(errno.EINVAL, "its place is taken by something else")
                mounts.bind(source, target, _READ_WRITE if step.writable else _READ_ONLY)
            finally:
                os.close(target)

    def hide(self, step: Mask) -> None:
        """A box decides what has which name below a write grant: only what was denied may be taken for it."""
        with _Way(self.root, step.path, flags=_HANDLE_FLAGS) as place, _Way(self.root, step.grant) as grant:
            found = os.fstat(place)
            if describe(found, os.fstat(grant)) != step.identity:
                raise OSError(errno.ESTALE, f"{step.path} is not what fs.deny hid when the box was made")
            self.mask(place, found.st_mode)

    def overlay(self, source: int, place: str | int, layers: tuple[Layer, ...]) -> None:
        top = self.at(f"{_LAYERS}/none")
        if layers:
            self.layers += 1
            top = self.at(f"{_LAYERS}/{self.layers}")
            os.mkdir(top)
            os.chmod(top, os.fstat(source).st_mode & 0o777)
            for layer in layers:
                self.layer(top, layer)
        with _Folder(top) as upper:
            mounts.overlay(upper, source, place)

    @staticmethod
    def layer(top: str, layer: Layer) -> None:
        place = f"{top}/{layer.path}"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if layer.kind == HIDE:
            mounts.whiteout(place)
        elif layer.kind == FOLDER:
            os.makedirs(place, exist_ok=True)
        elif layer.kind == FILE:
            _write(place, layer.data, 0o444)

    def objects(self, source: str, inside: str) -> None:
        with _Folder(source) as fd:
            self.overlay(fd, self.folder(inside), ())

    def own_folder(self, source: str, inside: str) -> None:
        with _Folder(source) as fd:
            mounts.bind(fd, self.folder(inside), _READ_WRITE)

    def repository(self) -> None:
        """The private repository lies over the tree's inert ``.git``; without one, what stays empty does."""
        source = self.plan.repo or self.at(f"{_LAYERS}/none")
        # The tree is hostile once the box ran: a link in place of .git must not lead this mount elsewhere.
        with _Folder(self.at(etc.TREE)) as tree, _Folder(source) as repo:
            point = os.open(".git", _FOLDER_FLAGS, dir_fd=tree)
            try:
                if self.plan.repo_lower:
                    with _Folder(self.plan.repo_lower) as lower, _Folder(self.plan.repo_work) as work:
                        mounts.overlay_writable([lower], repo, work, point)
                else:
                    mounts.bind(repo, point, _READ_WRITE if self.plan.repo else _READ_ONLY)
            finally:
                os.close(point)

    def layered_tree(self) -> None:
        with contextlib.ExitStack() as stack:
            lowers = [stack.enter_context(_Folder(lower)) for lower in self.plan.lowers]
            upper, work = (stack.enter_context(_Folder(path)) for path in (self.plan.upper, self.plan.work))
            mounts.overlay_writable(lowers, upper, work, self.folder(etc.TREE))

    def finish(self) -> None:
        mounts.unmount(self.at(_LAYERS))
        os.rmdir(self.at(_LAYERS))
        mounts.set_attributes(self.root, MOUNT_ATTR_RDONLY)


class _Folder:
    """A folder by descriptor, opened without following a link in its last part."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1

    def __enter__(self) -> int:
        self.fd = os.open(self.path, _FOLDER_FLAGS)
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class _Way:
    """What ``path`` (absolute) means below the folder ``top``, by descriptor, through no link at all.

    Grants are real paths since the box was made. A link on the way was put there by a box that may write
    there; so each part is opened from the one before. ``make`` makes the folders that are missing.
    """

    def __init__(self, top: str, path: str, *, make: bool = False, flags: int = _FOLDER_FLAGS) -> None:
        self.top = top
        self.parts = [part for part in path.split("/") if part]
        self.make = make
        self.flags = flags
        self.fd = -1

    def __enter__(self) -> int:
        self.fd = os.open(self.top, _FOLDER_FLAGS)
        try:
            for number, part in enumerate(self.parts, 1):
                below = self._below(part, self.flags if number == len(self.parts) else _FOLDER_FLAGS)
                os.close(self.fd)
                self.fd = below
        except BaseException:
            os.close(self.fd)
            raise
        return self.fd

    def _below(self, part: str, flags: int) -> int:
        try:
            return os.open(part, flags, dir_fd=self.fd)
        except FileNotFoundError:
            if not self.make:
                raise
            os.mkdir(part, 0o755, dir_fd=self.fd)
            return os.open(part, flags, dir_fd=self.fd)

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def _put(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def _write(path: str, data: bytes, mode: int, *, dir_fd: int | None = None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600, dir_fd=dir_fd)
    try:
        os.write(fd, data)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
