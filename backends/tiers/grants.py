"""From a policy's paths to the steps that build a box's file tree. Reads the host, changes nothing.

A folder becomes a read-only overlay, a file a bind, a link a link, a write grant a bind. What a policy hides
becomes a whiteout in the overlay's upper layer, so that the name is absent even if the host makes it later.
Paths are those that the policy settled at creation: real, with the links on the way listed beside them. A
path that leads through a link by now is left out, since nobody granted what it leads to today.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence

from backends.kernel.mounts import MountPoint
from backends.policy.identity import identify
from backends.record import NamedTuple

# Folders of the box's own: a host folder of that name, or in or around it, cannot be shown there.
OWN = ("/work", "/home/box", "/proc", "/sys", "/dev")
# Private folders: host paths may be shown below them, not instead of them.
PRIVATE = ("/tmp", "/run", "/var/tmp")  # noqa: S108

HIDE, FOLDER, FILE = "hide", "folder", "file"
# Kernel views and automatic mount points: nothing that a grant of a folder around them means to show.
_NOT_SHOWN = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs",
    "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs",
    "sysfs", "tracefs",
))  # fmt: skip
_EXPAND_LIMIT = 4096


class Layer(NamedTuple):
    """One entry of an overlay's upper layer: ``path`` relative to the grant, HIDE, FOLDER or FILE."""

    path: str
    kind: str
    data: bytes = b""


class Overlay(NamedTuple):
    path: str
    layers: tuple[Layer, ...] = ()


class File(NamedTuple):
    path: str
    writable: bool


class Link(NamedTuple):
    path: str
    text: str


class Folder(NamedTuple):
    """A real folder of the host, readable and writable."""

    path: str


class Empty(NamedTuple):
    """A folder whose entries are steps of their own, because a file system is mounted further down."""

    path: str


class Mask(NamedTuple):
    """Something hidden below a write grant, known by what it was when the box was made."""

    path: str
    grant: str
    identity: str  # see backends.policy.identity


Step = Overlay | File | Link | Folder | Empty | Mask


class Plan(NamedTuple):
    steps: tuple[Step, ...]
    left_out: tuple[tuple[str, str], ...]  # (path, why)


def covers(outer: str, inner: str) -> bool:
    return outer == "/" or inner == outer or inner.startswith(outer + "/")


def collisions(paths: Iterable[str], *, writable: bool = False) -> tuple[tuple[str, str], ...]:
    """The grants that would stand where the box has something of its own, as (path, why)."""
    found = []
    for path in paths:
        if writable:
            # The box's own would have to be mounted onto folders made in the host's.
            around = next((own for own in (*OWN, *PRIVATE) if covers(path, own) and path != own), None)
            if around:
                found.append((path, f"a box has its own {around} below it"))
        for own in OWN:
            if covers(own, path):
                found.append((path, f"a box has its own {own}"))
        if path == "/" or path in PRIVATE:
            found.append((path, f"a box has its own {path}"))
    return tuple(found)


def plan(
    read: Sequence[str],
    write: Sequence[str],
    deny: Sequence[str],
    mounts: Sequence[MountPoint],
    files: Mapping[str, bytes],
    folders: Iterable[str],
    hidden: Mapping[str, str] | None = None,
) -> Plan:
    """The steps, in the order in which they have to be done.

    ``files`` (path and content) and ``folders`` are what the box has of its own and must also be there where
    a granted folder covers their place. ``hidden`` tells what each mask below a write grant was when the box
    was made; ``Refused`` when one is another thing now.
    """
    planner = _Planner(tuple(deny), tuple(write), mounts, files, tuple(folders), hidden or {})
    for path in sorted(set(read), key=lambda one: (one.count("/"), one)):
        planner.read(path)
    for path in sorted(set(write), key=lambda one: (one.count("/"), one)):
        planner.write(path)
    return Plan(tuple(planner.steps), tuple(planner.left_out))


class _Planner:
    def __init__(
        self,
        deny: tuple[str, ...],
        writes: tuple[str, ...],
        mounts: Sequence[MountPoint],
        files: Mapping[str, bytes],
        folders: tuple[str, ...],
        hidden: Mapping[str, str],
    ) -> None:
        # What the box replaces by a file of its own needs no hiding.
        self.deny = tuple(path for path in deny if path not in files)
        self.writes = writes
        self.mounts = {os.fsdecode(point.target): point.kind for point in mounts}
        self.files = files
        self.folders = folders
        self.hidden = hidden
        self.steps: list[Step] = []
        self.left_out: list[tuple[str, str]] = []
        self.shown: list[str] = []  # folders whose whole content is in the box by now

    def read(self, path: str) -> None:
        if path in self.files or any(covers(outer, path) for outer in self.shown):
            return
        if any(covers(hidden, path) for hidden in self.deny):
            self.left_out.append((path, "fs.deny hides it"))
            return
        mode = self._mode(path)
        if mode is None:
            return
        if not stat.S_ISDIR(mode) and any(covers(outer, path) for outer in self.writes):
            return  # it is there with the write grant, and nothing may be made in the host's folder
        if stat.S_ISLNK(mode):
            self.steps.append(Link(path, os.readlink(path)))
        elif stat.S_ISREG(mode):
            self.steps.append(File(path, writable=False))
        elif stat.S_ISDIR(mode):
            self._folder(path)
        else:
            self.left_out.append((path, "neither a file, a folder nor a link"))

    def _mode(self, path: str) -> int | None:
        parent = os.path.dirname(path)
        if os.path.realpath(parent) != parent:
            self.left_out.append((path, "a folder above it has become a link since the box was made"))
            return None
        try:
            return os.lstat(path).st_mode
        except OSError as error:
            self.left_out.append((path, os.strerror(error.errno or 0)))
            return None

    def _folder(self, path: str) -> None:
        below = [point for point in self.mounts if point != path and covers(path, point)]
        if below:
            self._expand(path)
        else:
            self.steps.append(Overlay(path, self._layers(path)))
        self.shown.append(path)

    def _expand(self, path: str) -> None:
        """An overlay shows no mount below its source, and the kernel refuses one that would uncover what such
        a mount hides: so each entry of the folder is shown by itself."""
        self.steps.append(Empty(path))
        entries = sorted(os.listdir(path))
        if len(entries) > _EXPAND_LIMIT:
            self.left_out.append((path, f"more than {_EXPAND_LIMIT} entries beside a mount point"))
            return
        for name in entries:
            entry = f"{path}/{name}"
            kind = self.mounts.get(entry)
            if kind in _NOT_SHOWN:
                self.left_out.append((entry, f"a {kind} mount"))
            elif not self._reserved(entry):
                self.read(entry)

    def _reserved(self, path: str) -> bool:
        return path in self.folders or bool(collisions([path]))

    def _layers(self, path: str) -> tuple[Layer, ...]:
        hides = {
            self._first_missing(path, hidden)
            for hidden in self.deny
            # What the box has of its own at that place hides it as well.
            if covers(path, hidden) and hidden != path and hidden not in self.folders
        }
        # One whiteout hides all that is below it, and nothing can be laid into one.
        layers = [
            Layer(name, HIDE)
            for name in sorted(hides)
            if not any(covers(outer, name) and outer != name for outer in hides)
        ]
        layers += [
            Layer(os.path.relpath(name, path), FILE, data)
            for name, data in self.files.items()
            if covers(path, name)
        ]
        layers += [Layer(os.path.relpath(name, path), FOLDER) for name in self.folders if covers(path, name)]
        return tuple(layers)

    @staticmethod
    def _first_missing(path: str, hidden: str) -> str:
        """The part to hide: below a folder that does not exist there is nothing to lay a whiteout into."""
        parts = os.path.relpath(hidden, path).split("/")
        for count in range(1, len(parts)):
            if not os.path.isdir("/".join([path, *parts[:count]])):
                return "/".join(parts[:count])
        return "/".join(parts)

    def write(self, path: str) -> None:
        mode = self._mode(path)
        if mode is None:
            return
        if stat.S_ISREG(mode):
            self.steps.append(File(path, writable=True))
        elif stat.S_ISDIR(mode):
            self.steps.append(Folder(path))
            self.steps += [mask for hidden in self.deny if (mask := self._mask(path, hidden))]
        else:
            self.left_out.append((path, "neither a file nor a folder"))

    def _mask(self, grant: str, hidden: str) -> Mask | None:
        from backends.errors import (
            Refused,
        )  # what becomes a box's init has this module, and does without that

        if not covers(grant, hidden) or any(
            (isinstance(step, Overlay) and covers(grant, step.path) and covers(step.path, hidden))
            or (isinstance(step, Mask) and step.path == hidden)
            for step in self.steps
        ):
            return None
        try:
            now = identify(grant, hidden)
        except OSError as error:
            raise Refused(
                f"the write grant {grant} cannot be given",
                f"fs.deny hides {hidden}, which does not exist, and below a write grant only what exists can"
                " be hidden",
                f"make {hidden}, or grant a smaller folder",
                code="deny-missing",
            ) from error
        if self.hidden.get(hidden) != now:
            raise Refused(
                f"the write grant {grant} cannot be given",
                f"{hidden} is not what fs.deny hid when the box was made, which may have another name now",
                f"look for it in {grant} and move it back, or make the box anew",
                code="deny-moved",
            )
        return Mask(hidden, grant, now)


def listening_below(folders: Iterable[str], table: str = "/proc/net/unix") -> tuple[str, ...]:
    """Paths of sockets below ``folders`` that some process has bound (unix(7), ``/proc/net/unix``)."""
    found = set()
    watched = tuple(folders)
    if not watched:
        return ()
    with open(table, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 7)
            path = fields[-1] if len(fields) == 8 else ""
            if path.startswith("/") and any(covers(folder, os.path.realpath(path)) for folder in watched):
                found.add(path)
    return tuple(sorted(found))
