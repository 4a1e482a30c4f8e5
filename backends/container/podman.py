"""Where Podman keeps what is Cloche's, and how it is called: a store of our own, files of our own, no daemon.

Images lie below the state folder. Everything else (locks, the table of containers, sockets) lies below the
runtime folder under a name made of the boot, so that a reboot leaves no container that only seems to run, and
of the state folder, so that two of them know nothing of each other.
Nothing of the person's own Podman is read or written: neither its store nor its configuration.

Lean: a steward imports it.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends import injected
from backends.boxes.layout import runtime_dir, state_dir
from backends.container import userns
from backends.digest import sha256
from backends.errors import Refused
from backends.record import NamedTuple
from backends.trees.remove import remove

SEARCH = "/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin"
_LONGEST = 50  # bytes of --runroot: podman refuses longer ones, since sockets lie below it (unix(7))

_CONTAINERS = """\
[containers]
log_driver = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
static_dir = "{run}/d"
tmp_dir = "{run}/t"
volume_path = "{run}/v"
image_copy_tmp_dir = "{store}/tmp"
"""
_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{store}/images"
runroot = "{run}/r"
"""
_REGISTRIES = (
    'unqualified-search-registries = []\nshort-name-mode = "disabled"\n'  # no name is ever looked up
)
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'  # what is imported is named by its digest


class Podman(NamedTuple):
    """One way to call Podman. Made by :func:`prepare`."""

    program: str
    store: Path  # images; stays
    run: Path  # everything else; of this boot

    def argv(self, *words: str) -> list[str]:
        """The command line for who is root of the right user namespace already (a steward; root)."""
        store, run = _seen(self.store, self.run)
        own = ["--root", f"{store}/images", "--runroot", f"{run}/r", "--storage-driver", "overlay"]
        return [self.program, *own, "--cgroup-manager", "cgroupfs", "--events-backend", "none", *words]

    def outside(self, *words: str) -> list[str]:
        """The command line for anybody else: it brings namespaces of its own, which end with it."""
        return [*self.around(), *self.argv(*words)]

    def around(self) -> list[str]:
        """What stands before a command line that needs the same namespaces."""
        shelter = [] if os.geteuid() else [userns.SHELTER, str(self.store), str(self.run)]
        return [*launcher(), *shelter]

    def environment(self) -> dict[str, str]:
        """The whole environment of any call."""
        return {
            "PATH": SEARCH,
            "HOME": str(self.run),
            "LC_ALL": "C",
            "XDG_RUNTIME_DIR": str(self.run),
            "XDG_CONFIG_HOME": f"{self.run}/c",
            "XDG_DATA_HOME": f"{self.run}/c",
            "TMPDIR": f"{self.store}/tmp",  # noqa: S108 (a folder of ours)
            "CONTAINERS_CONF": f"{self.run}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{self.run}/storage.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{self.run}/registries.conf",
            **(userns.names() if os.geteuid() else {}),
        }


def _seen(store: Path, run: Path) -> tuple[str, str]:
    """Where Podman sees the two folders: root's has them elsewhere (:func:`userns.shelter`)."""
    return (str(store), str(run)) if os.geteuid() else (userns.STORE, userns.RUN)


def launcher() -> list[str]:
    """What runs a command line in namespaces of its own (:mod:`backends.container.userns`)."""
    import sys

    return [sys.executable, "-I", "-S", userns.__file__]


def find() -> str | None:
    """Where podman(1) is, None when this host has none. Never Docker, whatever answers to its name."""
    if injected.how("podman") == "absent":
        return None
    for folder in SEARCH.split(":"):
        path = f"{folder}/podman"
        if os.access(path, os.X_OK):
            return path
    return None


def store_dir() -> Path:
    """Where the images lie; no name of a repository's boxes can be the same, it begins with a point."""
    return state_dir() / ".podman"


def prepare() -> Podman:
    """Podman with its folders and configuration written. ``Refused`` where it cannot work at all."""
    program = find()
    if program is None:
        mark = injected.MARK if injected.how("podman") else ""
        raise Refused(
            "there is no Podman",
            f"images and the container tier are Podman's, and no podman is in {SEARCH}{mark}",
            "as root: apt-get install podman runc uidmap",
            code="podman-absent",
        )
    if os.geteuid() and not userns.subordinate():
        raise Refused(
            "Podman cannot be used",
            "you have no ids in /etc/subuid and /etc/subgid, and an image has files of many users",
            "as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER",
            code="no-subordinate-ids",
        )
    made = Podman(program, store_dir(), runtime_dir() / f"podman-{_generation()}")
    if len(os.fsencode(made.run)) + 2 > _LONGEST:
        raise Refused(
            "Podman cannot be used",
            f"{made.run} is longer than the {_LONGEST - 2} bytes that it allows",
            "set XDG_RUNTIME_DIR to a shorter folder of yours, of mode 0700",
            code="runtime-dir",
        )
    _write(made)
    return made


def state_mark() -> str:
    """8 digits of the state folder: one runtime folder may serve several."""
    return sha256(os.fsencode(os.path.realpath(state_dir()))).hexdigest()[:8]


def _generation() -> str:
    """12 digits of this boot and this state folder."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return sha256(f"{file.read()} {state_mark()}".encode()).hexdigest()[:12]


def _table(made: Podman) -> None:
    """Have Podman's table of containers lie in the runtime folder, whatever its ``--root`` says.

    Beside the images it would outlive the boot, and Podman refuses a table that was made for another runtime
    folder ("database configuration mismatch"). Root's has the same path at every boot (:mod:`userns`).
    """
    table, link = made.run / "libpod", made.store / "images" / "libpod"
    table.mkdir(mode=0o700, exist_ok=True)
    if link.is_symlink() and os.readlink(link) == str(table):
        return
    if link.is_dir() and not link.is_symlink():
        remove(link)
    fresh = link.with_name(f".libpod.{os.getpid()}")
    fresh.symlink_to(table)
    fresh.rename(link)


def _write(made: Podman) -> None:
    for folder in (made.store / "images", made.store / "tmp", made.run / "c" / "containers", made.run / "r"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid():
        _table(made)
    store, run = _seen(made.store, made.run)
    texts = {
        "containers.conf": _CONTAINERS.format(run=run, store=store),
        "storage.conf": _STORAGE.format(run=run, store=store),
        "registries.conf": _REGISTRIES,
        "c/containers/policy.json": _POLICY,
    }
    for name, text in texts.items():
        path = made.run / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(path)  # another call may be reading it
