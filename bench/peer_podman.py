"""podman with runc: a storage of this run, and one image made offline."""

from __future__ import annotations

import os
import resource
import shutil
import tarfile
from pathlib import Path

from bench.peer import TRUE, Command, call, program

SLEEP = "/usr/bin/sleep"
IMAGE = "localhost/cloche-bench"


class Podman:
    """A storage of this run with one image, made offline of ``true``, ``sleep`` and their libraries."""

    def __init__(self, work: Path) -> None:
        path, runtime = program("podman", "podman"), program("runc", "runc")
        self.work = work / "podman"
        (self.work / "run").mkdir(parents=True, mode=0o700)
        self.base = (
            *(path, "--root", str(self.work / "storage"), "--runroot", str(self.work / "run")),
            *("--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", runtime),
        )
        self.version = f"{call([path, '--version'])}, {call([runtime, '--version']).splitlines()[0]}"
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.work / "run")}
        archive = self.work / "image.tar"
        write_image(archive)
        self._call("import", str(archive), IMAGE)
        self.running = ""

    def _call(self, *words: str) -> str:
        return call([*self.base, *words], self.env)

    def run(self) -> Command:
        """Make a container, run ``true`` in it, remove it."""
        return Command((*self.base, "run", "--rm", *self._options(), IMAGE, TRUE), self.env, self.version)

    def exec(self) -> Command:
        """Run ``true`` in a container that lives."""
        if not self.running:
            self.running = self._call("run", "--detach", *self._options(), IMAGE, SLEEP, "3600")
        return Command((*self.base, "exec", self.running, TRUE), self.env, self.version)

    def _options(self) -> tuple[str, ...]:
        """podman asks for more than an ordinary user may have; ours is what we have."""
        limits = [("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)]
        held = [
            f"{name}={min(4096, soft) if soft > 0 else 4096}" for name, kind in limits for soft in _soft(kind)
        ]
        return (
            "--network",
            "none",
            "--pull",
            "never",
            *(word for value in held for word in ("--ulimit", value)),
        )

    def close(self) -> None:
        """Remove the containers, the image and the storage."""
        self._call("rm", "--all", "--force", "--time", "0")
        self._call("rmi", "--all", "--force")
        storage = self.work / "storage"
        if os.geteuid() == 0:
            mounts = Path("/proc/self/mounts").read_text().splitlines()
            for point in [line.split()[1] for line in mounts if line.split()[1].startswith(f"{storage}/")]:
                call(["umount", point])
        else:  # what other ids own only their user namespace may remove
            call([*self.base, "unshare", "rm", "-rf", str(storage)], self.env)
        shutil.rmtree(self.work)


def _soft(kind: int) -> tuple[int]:
    return (resource.getrlimit(kind)[0],)


def write_image(archive: Path) -> None:
    """A root file system of two programs and the libraries that ldd(1) names for them."""
    names = {TRUE, SLEEP}
    for name in (TRUE, SLEEP):
        for line in call(["ldd", name]).splitlines():
            names.update(word for word in line.split() if word.startswith("/"))
    with tarfile.open(archive, "w") as image:
        for name in sorted(names):
            image.add(os.path.realpath(name), arcname=name.lstrip("/"))
