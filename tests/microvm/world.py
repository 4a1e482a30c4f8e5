"""Folders, an image, a kernel and the command line, for all tests of one module that boot guests.

Guests run on an emulated processor, which any host can do. What is the same for all worlds (boot files, the
proof that a guest boots) is made once for a run of tests.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.kernel import procfs
from backends.microvm import qemu
from tests import support
from tests.container import world as containers
from tests.container.world import World

PROFILE = "emulated"
SHARED = ("guests", "guest-proof-qemu-tcg.json")


def missing() -> str:
    """Why no guest can be had here, "" when one can."""
    lacking = qemu.VMM.obstacles("tcg")
    return containers.missing() or (lacking[0].why if lacking else "")


class Guests(World):
    """A world whose boxes are virtual machines."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.profile(PROFILE, "")

    def profile(self, name: str, text: str) -> None:
        with (self.root / "c" / "cloche" / "config.toml").open("a") as file:
            file.write(
                f'[profiles.{name}]\nextends = "default"\naccelerator = "tcg"\nvmm = "qemu"\nimage = "box"\n'
                f"{text}\n"
            )

    def new(self, name: str, *more: str, image: str = "box", profile: str = PROFILE) -> Path:
        done = self.cloche("new", name, "--tier", "microvm", "--image", image, "--profile", profile, *more)
        assert done.code == 0, done.err
        return next((self.root / "s" / "cloche").glob(f"*/{name}"))

    def run(self, box: str, script: str, *, stdin: bytes = b"", timeout: float = 120.0) -> support.Done:
        """A shell's script inside."""
        return self.cloche("run", box, "--", "sh", "-c", script, stdin=stdin, timeout=timeout)

    def left(self) -> list[str]:
        """Folders of launches and monitors that are still there."""
        found = [str(path) for path in (self.root / "r").glob("cloche/guests/*")]
        return super().left() + found + [f"monitor {pid}" for pid in monitors(self.root)]


def monitors(root: Path) -> list[int]:
    """Pids of the monitors that have a file below ``root`` open."""
    found = []
    for stat in procfs.scan().stats.values():
        with contextlib.suppress(OSError):
            if b"qemu" in Path(f"/proc/{stat.pid}/cmdline").read_bytes()[:64]:
                opened = (os.readlink(one) for one in Path(f"/proc/{stat.pid}/fd").iterdir())
                if any(path.startswith(str(root)) for path in opened):
                    found.append(stat.pid)
    return found


@contextmanager
def guests(*, python: bool = False) -> Iterator[Guests]:
    """A world with the image ``box``."""
    made = Guests(Path(tempfile.mkdtemp(prefix="cv-", dir="/tmp")))
    cache = made.root / "k" / "cloche"
    cache.mkdir()
    (cache / "guests").symlink_to(_common() / "guests")
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(_common() / SHARED[1], cache)
    try:
        done = made.cloche("image", "import", str(containers.archive(python=python)), "--name", "box")
        assert done.code == 0, done.err
        yield made
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(cache / SHARED[1], _common())
    finally:
        made.close()


_folders: list[Path] = []


def _common() -> Path:
    if not _folders:
        _folders.append(Path(tempfile.mkdtemp(prefix="cv-common-", dir="/tmp")))
        (_folders[0] / "guests").mkdir()
    return _folders[0]


def forget() -> None:
    """Remove what the worlds of this run shared."""
    for folder in _folders:
        shutil.rmtree(folder)
    _folders.clear()
    containers.forget()
