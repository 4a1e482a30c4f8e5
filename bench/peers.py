"""Every peer of the table, each tried once before it counts as present.

Nothing is installed on the host: packages from PyPI and npm go below the benchmark's own cache, images into a
storage of this run.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from bench import peer_sandlock, rows
from bench.peer import INSTALL_LIMIT, NOT_INSTALLED, TRUE, Absent, Command, Unavailable, call, found, program
from bench.peer_podman import Podman
from bench.peer_sandlock import Sandlock

SRT_PACKAGE = "@anthropic-ai/sandbox-runtime"
SRT_NEEDS = ("bwrap", "socat", "rg")


def bwrap() -> Command:
    """Every namespace, the host's files read-only."""
    path = program("bwrap", "bubblewrap")
    argv = (path, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", TRUE)
    return Command(argv, {}, call([path, "--version"]))


def srt(cache: Path, *, install: bool) -> Command:
    """The sandbox runtime of npm with an empty list of domains and of writable folders."""
    missing = [name for name in SRT_NEEDS if shutil.which(name) is None]
    if missing:
        raise Unavailable(f"it needs {', '.join(missing)} (Debian: apt-get install bubblewrap socat ripgrep)")
    folder = cache / "srt"
    script = folder / "node_modules" / ".bin" / "srt"
    if not script.exists():
        if not install:
            raise Unavailable(NOT_INSTALLED)
        folder.mkdir(parents=True, exist_ok=True)
        npm = program("npm", "npm")
        call(
            [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), SRT_PACKAGE],
            limit=INSTALL_LIMIT,
        )
    settings = folder / "settings.json"
    closed: dict[str, dict[str, list[str]]] = {
        "network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []},
    }
    settings.write_text(json.dumps(closed) + "\n")
    version = json.loads((folder / "node_modules" / SRT_PACKAGE / "package.json").read_text())["version"]
    return Command((str(script), "--settings", str(settings), "true"), dict(os.environ), f"srt {version}")


class Peers:
    """Every peer of the table. ``absent`` holds the reason for each row that cannot be measured."""

    def __init__(self, cache: Path, work: Path, *, install: bool) -> None:
        self.commands: dict[str, Command] = {}
        self.absent: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.sandlock: Sandlock | None = None
        self.podman: Podman | None = None
        self._keep(rows.BWRAP, found(bwrap))
        self._keep(rows.SRT, found(lambda: srt(cache, install=install)))
        self._sandlock(cache, install=install)
        self._podman(work)

    def _keep(self, row: str, peer: Command | Absent) -> None:
        if isinstance(peer, Absent):
            self.absent[row] = peer.reason
            return
        self.commands[row] = peer
        if peer.version:
            self.versions[row.split(" ")[0]] = peer.version

    def _sandlock(self, cache: Path, *, install: bool) -> None:
        names = (rows.SANDLOCK, rows.SANDLOCK_COLD)
        try:
            python = peer_sandlock.interpreter(cache, install=install)
            self.sandlock = Sandlock(python)
        except Unavailable as error:
            self.absent.update(dict.fromkeys(names, str(error)))
            return
        self.versions["sandlock"] = self.sandlock.version
        self._keep(names[1], found(lambda: peer_sandlock.cold(python)))

    def _podman(self, work: Path) -> None:
        names = (rows.PODMAN, rows.PODMAN_EXEC)
        try:
            self.podman = podman = Podman(work)
        except Unavailable as error:
            self.absent.update(dict.fromkeys(names, str(error)))
            return
        self._keep(names[0], found(podman.run))
        self._keep(names[1], found(podman.exec))

    def once(self) -> dict[str, float]:
        """Seconds of each peer that is here, one after another."""
        out = {}
        for row, command in self.commands.items():
            begin = time.perf_counter()
            pid = os.posix_spawn(command.argv[0], list(command.argv), command.env, file_actions=_QUIET)
            _, status = os.waitpid(pid, 0)
            spent = time.perf_counter() - begin
            if status != 0:
                raise SystemExit(f"{row} ended with {os.waitstatus_to_exitcode(status)}")
            out[row] = spent
        if self.sandlock is not None:
            out[rows.SANDLOCK] = self.sandlock.once()
        return out

    def close(self) -> None:
        """End what was started and remove what was made, the cache aside."""
        if self.sandlock is not None:
            self.sandlock.close()
        if self.podman is not None:
            self.podman.close()


_QUIET = tuple((os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3))
