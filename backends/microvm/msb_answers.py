"""What ``msb`` answers, read as what a program wrote that a box may have written to: typed, bounded.

Its exit code says nothing (1 stands for a failed boot, an absent image, an absent sandbox and a rule that is
none), so nothing here is decided by it: a boot by what the guest wrote, a state by ``inspect``.

Source: recorded answers of microsandbox 0.7.11, tests/microvm/recorded/msb.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from backends.microvm.msb_words import Machine
from backends.record import NamedTuple

LARGEST = 1 << 20  # bytes of an answer that are read
_SAID = 400  # characters of a reason
_NOISE = re.compile(r"^(INFO|DEBUG|WARN|note:|--- )")
_PLACE = re.compile(r"^(thread '[^']*' \(\d+\) panicked at .*|ERROR [\w:]+: )")


class State(NamedTuple):
    """A sandbox as ``msb inspect`` shows it."""

    status: str  # Starting, Running, Stopped, ...
    paused: bool
    digest: str  # of the image's manifest, in msb's own store
    memory: int  # bytes
    cpus: int
    denied: bool  # whatever no rule allows, in both directions
    rules: int
    security: str
    folders: tuple[tuple[str, str, bool, str], ...]  # source, target, read-only, stat virtualization


def state(text: str) -> State | None:
    """None unless ``text`` is what ``msb inspect --format json`` prints."""
    try:
        value = json.loads(text[:LARGEST])
        config = value["config"]
        net = config["network"]
        policy = net["policy"]
        return State(
            status=str(value["status"])[:40],
            paused=value["pause"] is not None,
            digest=str(config["manifest_digest"])[:80],
            memory=int(config["resources"]["memory_mib"]) << 20,
            cpus=int(config["resources"]["cpus"]),
            denied=policy["default_egress"] == "deny" and policy["default_ingress"] == "deny",
            rules=len(policy["rules"]),
            security=str(config["security_profile"])[:40],
            folders=tuple(_folder(one) for one in config["mounts"] if one["type"] == "Bind"),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _folder(one: dict[str, Any]) -> tuple[str, str, bool, str]:
    options = one["options"]
    return (str(one["host"]), str(one["guest"]), options["readonly"] is True, str(one["stat_virtualization"]))


def differences(asked: Machine, got: State) -> tuple[str, ...]:
    """Where msb holds a sandbox to less than it was asked to; empty: it is what was asked for."""
    found = []
    if not got.denied or got.rules != len(asked.egress):
        found.append(f"network: {got.rules} rules, {'denied' if got.denied else 'allowed'} otherwise")
    if got.memory > max(asked.memory, 1 << 20):
        found.append(f"memory: {got.memory >> 20} MiB")
    if got.security != "restricted":
        found.append(f"security profile: {got.security}")
    wanted = {(one.source, one.target): not one.writable for one in asked.folders}
    for source, target, readonly, kind in got.folders:
        only = wanted.pop((source, target), None)
        if only is None:
            if any((source, target) == (one.source, one.target) for one in asked.files):
                continue
            found.append(f"a folder that was not asked for: {source}")
        elif kind != "strict" or (only and not readonly):
            found.append(f"folder {target}: {kind}, {'read-only' if readonly else 'writable'}")
    return (*found, *(f"folder {target}: not shared" for _, target in wanted))


def diffs(text: str) -> tuple[str, ...]:
    """The digests of an image's layers, as ``msb image inspect --format json`` shows them; empty: none."""
    try:
        layers = json.loads(text[:LARGEST])["layers"]
        return tuple(str(one["diff_id"]) for one in layers)
    except (ValueError, KeyError, TypeError):
        return ()


def reasons(log: str) -> str:
    """Why a guest did not boot, out of what ``msb logs --json`` prints: errors and panics, each once."""
    found: dict[str, None] = {}
    for line in log[-LARGEST:].splitlines():
        try:
            text = str(json.loads(line)["d"])
        except (ValueError, KeyError, TypeError):
            continue
        text = text.strip()
        if not text or _NOISE.match(text):
            continue
        text = _PLACE.sub("", text).strip()
        if text:
            found[text] = None
    return printable("; ".join(found))


def complaint(text: str) -> str:
    """The words of msb's own error: ``error: WHAT`` and lines that begin with an arrow."""
    return printable("; ".join(_lines(text)))


def _lines(text: str) -> Iterable[str]:
    for line in text[-4096:].splitlines():
        line = line.strip().removeprefix("→").strip()
        if line and not line.startswith("run `msb"):
            yield line.removeprefix("error:").strip()


def printable(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))[:_SAID]


class Health(NamedTuple):
    """What ``msb doctor`` found: lines with a cross, and what it advises."""

    failed: tuple[str, ...]
    advice: tuple[str, ...]


def health(text: str) -> Health:
    """Read the two lists of ``msb doctor``; it has no format for programs."""
    failed, advice = [], []
    for line in text[-LARGEST:].splitlines():
        line = line.strip()
        if line.startswith("✗"):
            failed.append(printable(line.removeprefix("✗")))
        elif line.startswith("→"):
            advice.append(printable(line.removeprefix("→")))
    return Health(tuple(failed), tuple(advice))
