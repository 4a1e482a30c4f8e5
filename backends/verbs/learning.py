"""What a box used, read from its journal, against what its policy granted; see ``Engine.learn``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from backends.boxes import generations, liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import load
from backends.errors import UsageError
from backends.policy import learned, schema, values
from backends.policy.explain import value_of
from backends.policy.files import is_profile_name
from backends.policy.model import Policy
from backends.policy.remedy import destination
from backends.snapshots import GrantUse, JournalRecord, Learned, LimitUse
from backends.verbs import records

MOST_PROGRAMS = 2000  # distinct programs whose interpreters are looked up
HEAD = 4096  # bytes of a program that name its interpreter


class _Seen(NamedTuple):
    places: dict[tuple[str, str], set[str]]
    programs: set[str]
    traffic: list[tuple[str, int, str]]  # address, port, and the name that was said
    pins: dict[str, set[str]]  # address to names
    peaks: dict[str, float]
    lost: dict[str, int]


def learn(paths: BoxPaths, name: str) -> Learned:
    """``UsageError`` for a name that no profile may have."""
    if not is_profile_name(name):
        raise UsageError(
            f"no profile can be called {name!r}",
            "a name is up to 64 letters, digits, - and _",
            "choose another: cloche learn BOX --name NAME",
            code="bad-name",
        )
    manifest = load(paths)
    policy = generations.standing(paths, manifest).policy
    seen = _read(records.read(paths))
    live = liveness.read(paths).kind == "live"
    listed = policy.net.mode == "allow"
    rows = learned.uses(
        policy,
        seen.places,
        seen.programs | set(_interpreters(seen.programs)),
        _destinations(paths, policy, seen, live=live) if listed else None,
        learned.Host(os.path.exists, os.path.realpath),
    )
    unseen = _unseen(policy, manifest.tier, seen, launched=bool(liveness.read(paths).facts))
    about = "\n".join(
        [f"Drafted by cloche learn from the box {paths.key}.", "Not observed, and so kept as granted:", *(
            f"  {one}" for one in unseen
        )]
    )  # fmt: skip
    return Learned(
        learned.profile(name, policy, rows, _plain(about)),
        tuple(GrantUse(*row) for row in rows),
        _peaks(policy, seen.peaks),
        unseen,
    )


def _plain(text: str) -> str:
    """A comment of TOML holds no control characters (toml.io, Comment)."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _read(found: Iterable[JournalRecord]) -> _Seen:
    seen = _Seen({}, set(), [], {}, {}, {})
    for record in found:
        data = record.data
        if record.kind == "used":
            rows = data.get("rows")
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, list) and len(row) == 3:
                    key, grant, place = map(str, row)
                    seen.places.setdefault((key, grant), set()).add(place)
        elif record.kind == "exec" and len(seen.programs) < MOST_PROGRAMS:
            seen.programs.add(str(data.get("path", "")))
        elif record.kind == "traffic" and data.get("connections"):
            port = data.get("port")
            seen.traffic.append(
                (str(data.get("address", "")), port if type(port) is int else 0, str(data.get("name", "")))
            )
        elif record.kind == "pins":
            pins = data.get("pins")
            for pin in pins if isinstance(pins, list) else ():
                for address in pin.get("addresses", ()):
                    seen.pins.setdefault(str(address), set()).add(str(pin.get("name", "")))
        elif record.kind == "lost":
            what, count = str(data.get("what", "")), data.get("count", 1)
            seen.lost[what] = seen.lost.get(what, 0) + (count if type(count) is int else 1)
        elif record.kind == "session-exit":
            for name in ("wall", "cpu", "peak_rss"):
                value = data.get(name)
                if isinstance(value, (int, float)):
                    seen.peaks[name] = max(seen.peaks.get(name, 0.0), float(value))
    return seen


def _destinations(paths: BoxPaths, policy: Policy, seen: _Seen, *, live: bool) -> dict[str, set[str]]:
    """The rules that let connections out, each with the narrowest rules that would have."""
    found = learned.destinations(policy.net.egress, seen.traffic, seen.pins)
    if live:
        # The keeper journals what went through once a minute, and tells it when asked.
        from backends.verbs import egress

        for row in egress.rows(paths):
            if row.connections:
                wild = row.rule.startswith("*.") and row.name
                enough = destination(row.name, row.port) if wild else row.rule
                found.setdefault(row.rule, set()).add(enough)
    return found


def _unseen(policy: Policy, tier: str, seen: _Seen, *, launched: bool) -> tuple[str, ...]:
    """What nobody looked at, in the words of a person who is about to trust the draft."""
    rows = []
    if not launched:
        rows.append("anything: the box never ran")
    if policy.observe != "all":
        rows.append(f'reads: observe = "{policy.observe}" counts no opens for reading')
    if policy.observe == "none" and policy.fs.write:
        rows.append('writes: observe = "none" counts no opens')
    rows.append("look-ups without an open (stat, access, readlink), which a narrower grant can still break")
    rows.append("which variables of env.pass, and which sockets of net.unix and net.loopback, were used")
    if policy.net.mode == "host":
        rows.append('destinations: with net.mode = "host" the kernel lets all of them out uncounted')
    if tier == "workspace":
        rows.append("everything: the tier workspace confines nothing, and watches nothing")
    rows += [f"{count} {what} that happened and could not be looked at" for what, count in seen.lost.items()]
    return tuple(rows)


def _peaks(policy: Policy, peaks: Mapping[str, float]) -> tuple[LimitUse, ...]:
    said: dict[str, tuple[str, Callable[[float], str]]] = {
        "resources.mem": ("peak_rss", lambda n: f"{values.show_size(int(n))} in one process"),
        "resources.wall": ("wall", lambda n: f"{n:.1f} s in one session"),
        "resources.cpu": ("cpu", lambda n: f"{n:.1f} s in one session"),
    }
    rows = []
    for path in (key.path for key in schema.KEYS if key.path.startswith("resources.")):
        name, shown = said.get(path, ("", str))
        peak = shown(peaks[name]) if name in peaks else ""
        rows.append(LimitUse(path, values.show(schema.BY_PATH[path], value_of(policy, path)), peak))
    return tuple(rows)


def _interpreters(programs: set[str]) -> Iterable[str]:
    """What the kernel opened to start the programs, which no notification tells: loaders and #! lines."""
    for path in programs:
        if not path.startswith("/"):
            continue
        try:
            with open(path, "rb") as file:
                head = file.read(HEAD)
        except OSError:
            continue  # a program of the box's own, or gone
        found = interpreter(head)
        if found:
            yield os.fsdecode(found)


def interpreter(head: bytes) -> bytes:
    """The interpreter that the beginning of a program names: PT_INTERP (elf(5)), or a #! line (execve(2))."""
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n", 1)[0].split()
        return words[0] if words and words[0].startswith(b"/") else b""
    if not head.startswith(b"\x7fELF\x02\x01"):
        return b""
    import struct

    try:
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for index in range(min(count, 64)):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, table + index * size)
            if kind == 3:  # PT_INTERP
                return head[offset : offset + length].rstrip(b"\0")
    except (struct.error, OverflowError):
        return b""
    return b""
