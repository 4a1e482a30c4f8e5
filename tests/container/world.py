"""Folders, a store with images, a repository and the command line, for all tests of one module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from backends.container import podman, userns
from tests import conftest, support

ROOTFUL = os.geteuid() == 0
PROFILE = "contained"


def missing() -> str:
    """Why no container can be had here, "" when one can."""
    if podman.find() is None:
        return "no podman is installed"
    if not Path("/bin/busybox").exists():
        return "no static busybox is installed"
    if not ROOTFUL and not userns.subordinate():
        return "this user has no subordinate ids"
    return ""


class World:
    """``cloche`` runs the command line with folders of this world's own, in its repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {
            "XDG_STATE_HOME": str(root / "s"),
            "XDG_CONFIG_HOME": str(root / "c"),
            "XDG_CACHE_HOME": str(root / "k"),
            "XDG_RUNTIME_DIR": str(root / "r"),
            "HOME": str(root / "h"),
            "CLOCHE_LINGER": "120",
            "PYTHONPATH": str(support.ROOT),
        }
        for name in ("s", "c", "k", "r", "h"):
            (root / name).mkdir(mode=0o700)
        (root / "c" / "cloche").mkdir()
        self.profile(PROFILE, "")
        self.repo = support.make_repo(root / "repo")

    def profile(self, name: str, text: str) -> None:
        """One more profile of the person's; root's containers are rootful, which must be stated."""
        rootful = "rootful = true\n" if ROOTFUL else ""
        with (self.root / "c" / "cloche" / "config.toml").open("a") as file:
            file.write(f'[profiles.{name}]\nextends = "default"\n{rootful}{text}\n')

    def cloche(self, *args: str, stdin: bytes = b"", timeout: float = 90.0) -> support.Done:
        return support.run(
            support.cloche_argv(*args), cwd=self.repo, env=self.env, stdin=stdin, timeout=timeout
        )

    def new(self, name: str, *more: str, image: str = "box", profile: str = PROFILE) -> Path:
        """Make a box of the tier; its folder."""
        done = self.cloche("new", name, "--tier", "container", "--image", image, "--profile", profile, *more)
        assert done.code == 0, done.err
        return next((self.root / "s" / "cloche").glob(f"*/{name}"))

    def python(self, box: str, code: str, timeout: float = 90.0) -> Any:
        """What Python code prints as JSON inside."""
        done = self.cloche("run", box, "--", "python3", "-c", code, timeout=timeout)
        assert done.code == 0, done.err
        return json.loads(done.out)

    def live(self, box: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((box / "live.json").read_text())
        return found

    def close(self) -> None:
        left = conftest.end_boxes(self.root / "s")
        left += self.left()
        if points := support.mounts_below(self.root):
            left.append(f"mounts {points}")
        else:
            conftest.remove(self.root)
        assert not left, left

    def left(self) -> list[str]:
        """Containers and files of launches that are still there."""
        found = [str(path) for path in (self.root / "r").glob("cloche/podman-*/b/*")]
        store = self.root / "s" / "cloche" / ".podman" / "images" / "overlay-containers"
        return found + [str(path) for path in store.glob("?" * 64)]


@contextmanager
def world(*, python: bool = False) -> Iterator[World]:
    """A world with the image ``box``: of busybox alone, or with Python and Git."""
    made = World(Path(tempfile.mkdtemp(prefix="cc-", dir="/tmp")))
    try:
        done = made.cloche("image", "import", str(archive(python=python)), "--name", "box")
        assert done.code == 0, done.err
        yield made
    finally:
        made.close()


@cache
def archive(*, python: bool) -> Path:
    """An image in a file, made once for all worlds of this run of tests."""
    folder = Path(tempfile.mkdtemp(prefix="cc-image-", dir="/tmp"))
    _folders.append(folder)
    out = folder / "root.tar"
    if not python:
        _busybox(folder / "root")
        subprocess.run(["tar", "-C", str(folder / "root"), "-cf", str(out), "."], check=True)
        return out
    builder = World(Path(tempfile.mkdtemp(prefix="cc-", dir="/tmp")))
    try:
        done = builder.cloche("image", "build", "--from-host", "python3", "git", "--name", "box")
        assert done.code == 0, done.err
        done = support.run(
            [
                "python3", "-c",
                "import subprocess, sys; from backends.container import podman; p = podman.prepare();"
                f"sys.exit(subprocess.call(p.outside('save', '-o', {str(out)!r}, 'localhost/box:latest'),"
                " env=p.environment(), cwd='/'))",
            ],
            env=builder.env,
        )  # fmt: skip
        assert done.code == 0, done.err
    finally:
        builder.close()
    return out


def _busybox(root: Path) -> None:
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "run", "usr/bin"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy("/bin/busybox", root / "bin" / "busybox")
    applets = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True)
    for name in applets.stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")


_folders: list[Path] = []


def forget() -> None:
    """Remove the images in files."""
    for folder in _folders:
        shutil.rmtree(folder)
    _folders.clear()
    archive.cache_clear()
