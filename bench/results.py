"""A run's raw samples, on disk: every figure in a document can be traced to one such file."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

VERSION = 2
ROOT = Path(__file__).resolve().parents[1]


class Results(NamedTuple):
    """``samples`` in base units by row, ``absent`` the reason of each row that could not be measured."""

    facts: dict[str, Any]
    samples: dict[str, list[float]]
    absent: dict[str, str]


class Sampler:
    """Collects samples; a row that nobody declared is a mistake and ends the run."""

    def __init__(self, names: Iterable[str]) -> None:
        self.samples: dict[str, list[float]] = {name: [] for name in names}
        self.absent: dict[str, str] = {}

    def add(self, name: str, *values: float) -> None:
        self.samples[name].extend(values)

    def miss(self, name: str, reason: str) -> None:
        """``name`` is not measured in this run, and why."""
        if name not in self.samples:
            raise KeyError(name)
        self.absent[name] = " ".join(reason.split())[:200]

    def results(self, facts: dict[str, Any]) -> Results:
        return Results(facts, self.samples, self.absent)


def facts(subject: str, place: Path, versions: dict[str, str]) -> dict[str, Any]:
    """What must be known of the host to read the figures. ``place`` is where boxes lie."""
    return {
        "subject": subject,
        "when": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "filesystem": _filesystem(place),
        "python": platform.python_version(),
        "euid": os.geteuid(),
        "load_before": os.getloadavg()[0],
        "cloche": _commit(),
        "versions": versions,
    }


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def _filesystem(place: Path) -> str:
    """The type of the mount that ``place`` lies on (proc_pid_mounts(5))."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, found = line.split(" ")[:3]
        inside = point == "/" or f"{place.resolve()}/".startswith(f"{point}/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def _commit() -> str:
    if not shutil.which("git"):
        return "unknown"
    words = [
        "git",
        "-c",
        f"safe.directory={ROOT}",
        "-C",
        str(ROOT),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def save(folder: Path, results: Results) -> Path:
    """Write one file, named by the moment; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("%Y%m%dT%H%M%S.json")
    path.write_text(json.dumps({"version": VERSION, **results._asdict()}, indent=1) + "\n")
    return path


def load(path: Path) -> Results:
    """Read a saved run; ``SystemExit`` with the reason when it is none of this version's."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise SystemExit(f"{path} is not a run of this version of the benchmark; run make bench again")
    return Results(value["facts"], value["samples"], value["absent"])
