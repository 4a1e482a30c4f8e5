"""Which provider a new box gets, and why: ``tree = "auto"`` takes ``overlay`` where it was shown to work.

Shown by doing it, with the folders' own file systems (:mod:`backends.trees.overlay_probe`), once for each
boot, kernel, user and pair of file systems. The sentence goes into the manifest, the journal and
``cloche status``: nobody gets the dearer provider without being told.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from backends.boxes.layout import BoxPaths, cache_dir
from backends.errors import Refused
from backends.record import NamedTuple
from backends.trees.remove import remove

CHECKOUT, OVERLAY, AUTO = "checkout", "overlay", "auto"
VERDICT = "overlay-probe.json"  # in the cache folder
VERSION = 2
PATIENCE = 20.0  # seconds of one probe
RETRY = 600.0  # seconds after which a host that could not is asked again
PROBE = Path(__file__).with_name("overlay_probe.py")

# Tiers that show a box one folder, whatever this host can do.
_WITHOUT = {
    "workspace": "the workspace tier has no mounts of its own",
    "container": "a container is shown the box's files as one folder",
    "microvm": "a guest sees the box's files as one folder",
}


class Choice(NamedTuple):
    """The provider and one sentence that says why this one."""

    provider: str
    why: str


class Verdict(NamedTuple):
    """What the probe showed."""

    works: bool
    evidence: str
    told: bool = False  # a watch on the upper folder is told of writes through the overlay


def choose(wanted: str, tier: str, paths: BoxPaths) -> Choice:
    """The provider of the box at ``paths``, whose folder exists, for ``wanted`` (the policy's ``tree``).

    ``Refused`` when ``overlay`` was asked for and cannot be had.
    """
    if wanted == CHECKOUT:
        return Choice(CHECKOUT, 'tree = "checkout" in the policy')
    verdict = Verdict(False, _WITHOUT[tier]) if tier in _WITHOUT else None
    verdict = verdict or probe(paths)
    if verdict.works:
        return Choice(OVERLAY, verdict.evidence)
    if wanted == OVERLAY:
        raise Refused(
            "the overlay tree provider cannot be had for this box",
            verdict.evidence,
            'state tree = "auto" or tree = "checkout" in the profile',
            code="tree-overlay",
        )
    return Choice(CHECKOUT, f"an overlay cannot be had: {verdict.evidence}")


def probe(paths: BoxPaths) -> Verdict:
    """Whether an overlay works between the cache and the box's folder; tried once and remembered."""
    layers = cache_dir() / "layers"
    try:
        place = (os.fspath(layers), *(os.stat(folder).st_dev for folder in (layers, paths.root)))
    except FileNotFoundError:
        place = ()
    if place in _worked:
        return _worked[place]
    verdict = _remembered(layers, paths)
    if verdict.works and place:
        _worked[place] = verdict
    return verdict


_worked: dict[tuple[object, ...], Verdict] = {}  # what this process has seen to work


def _remembered(layers: Path, paths: BoxPaths) -> Verdict:
    layers.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _key(layers, paths.root)
    kept = cache_dir() / VERDICT
    known = _known(kept, key)
    if known is not None:
        return known
    verdict = _try(layers, paths.root)
    fresh = kept.with_name(f"{VERDICT}.{os.getpid()}")
    fresh.write_text(json.dumps({"key": key, "time": time.time(), **verdict._asdict()}) + "\n")
    fresh.rename(kept)
    return verdict


def _known(kept: Path, key: list[str]) -> Verdict | None:
    try:
        value = json.loads(kept.read_bytes())
        if value["key"] == key and (value["works"] or time.time() < value["time"] + RETRY):
            return Verdict(bool(value["works"]), str(value["evidence"]), bool(value["told"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # never tried, or by another version
    return None


def _key(lower: Path, upper: Path) -> list[str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    devices = (str(os.stat(folder).st_dev) for folder in (lower, upper))
    return [str(VERSION), boot, os.uname().release, str(os.geteuid()), *devices]


def _try(layers: Path, box: Path) -> Verdict:
    import subprocess

    lower, upper = layers / f".probe-{os.urandom(4).hex()}", box / "probe"
    try:
        for folder in (lower, upper):
            folder.mkdir(mode=0o700)
        job = json.dumps({"lower": str(lower), "upper": str(upper)})
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(PROBE), job, str(Path(__file__).parents[2])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            env={"LC_ALL": "C.UTF-8"},
            check=False,
        )
        try:
            said = json.loads(done.stdout)
            return Verdict(bool(said["works"]), str(said["evidence"]), bool(said["told"]))
        except (ValueError, KeyError, TypeError):
            return Verdict(False, f"the probe ended with status {done.returncode} and no word")
    except subprocess.TimeoutExpired:
        return Verdict(False, f"the probe did not end within {PATIENCE:.0f} seconds")
    finally:
        remove(lower)
        remove(upper)
