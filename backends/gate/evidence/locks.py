"""Lock files of package managers: which packages in which versions, and what a change of one means. Pure.

The text is hostile. Whoever calls this bounds memory and time from outside
(:mod:`backends.gate.evidence.examiner`); here is what a text can say.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

from backends.digest import sha256

Packages = dict[str, dict[str, str]]
"""Name to its versions, each with a mark that tells where it comes from and what it has to hash to."""

MOST_ROWS = 200
_LONGEST = 300  # characters of a name or version


class Unread(ValueError):
    """The text is no lock file of its kind; the message says why."""


def reader(name: str) -> Callable[[bytes], Packages] | None:
    """What reads a lock file of this name (without folders, any case), ``None`` for what is none."""
    name = name.lower()
    if re.fullmatch(r"(?:requirements|constraints)[\w.-]*\.(?:txt|lock)", name):
        return _requirements
    return _READERS.get(name)


def compare(before: Packages, after: Packages) -> list[list[str]]:
    """What is otherwise, as rows of name, change, old and new versions; rewritten ones first."""
    rows = []
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        kind = "added" if old is None else "removed" if new is None else "changed"
        if old is not None and new is not None and any(old[v] != new[v] for v in old.keys() & new.keys()):
            kind = "rewritten"
        rows.append([name, kind, ", ".join(sorted(old or ())), ", ".join(sorted(new or ()))])
    order = {"rewritten": 0, "added": 1, "changed": 2, "removed": 3}
    return sorted(rows, key=lambda row: (order[row[1]], row[0]))


def change(name: str, old: bytes | None, new: bytes | None) -> dict[str, Any]:
    """What a change of the lock file ``name`` means, as JSON values; ``None`` stands for no file.

    An old version that cannot be read counts as none: everything is new then, and the note says so.
    """
    read = reader(name)
    if read is None:
        raise ValueError(f"{name} is no lock file")
    note = ""
    sides: list[Packages] = []
    for what, text in (("base", old), ("proposal", new)):
        try:
            sides.append(read(text) if text is not None and text.strip() else {})
        except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
            said = "it is nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
            note = f"the one of the {what} cannot be read: {said or 'it has another form'}"
            sides.append({})
    if note.startswith("the one of the proposal"):
        return {"counts": {}, "rows": [], "note": note}
    rows = compare(*sides)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[1]] = counts.get(row[1], 0) + 1
    cut = [[text[:_LONGEST] for text in row] for row in rows[:MOST_ROWS]]
    return {"counts": counts, "rows": cut, "note": note}


def _mark(*facts: object) -> str:
    """Names where a version comes from; equal facts have equal marks."""
    return sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _add(found: Packages, name: str, version: str, *facts: object) -> None:
    versions = found.setdefault(name, {})
    marks = {versions[version]} if version in versions else set()
    versions[version] = "+".join(sorted(marks | {_mark(*facts)}))


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unread("a key is there twice, and readers differ in which one counts")
    return found


def _json(data: bytes) -> dict[str, Any]:
    value = json.loads(_text(data), object_pairs_hook=_unique)
    if not isinstance(value, dict):
        raise Unread("it is no object")
    return value


def _npm(data: bytes) -> Packages:
    """``packages`` of lock version 2 and 3, ``dependencies`` of version 1 (docs.npmjs.com)."""
    value, found = _json(data), Packages()
    packages = value.get("packages")
    if isinstance(packages, dict):
        for path, entry in packages.items():
            if path and isinstance(entry, dict) and not entry.get("link"):
                name = str(entry.get("name") or path.rpartition("node_modules/")[2])
                facts = [entry.get(key) for key in ("resolved", "integrity")]
                _add(found, name, str(entry.get("version", "")), *facts)
        return found
    pending = [value.get("dependencies")]
    while pending:
        below = pending.pop()
        for name, entry in below.items() if isinstance(below, dict) else ():
            if isinstance(entry, dict):
                _add(
                    found, name, str(entry.get("version", "")), entry.get("resolved"), entry.get("integrity")
                )
                pending.append(entry.get("dependencies"))
    return found


def _toml(data: bytes) -> Packages:
    """``[[package]]`` of Cargo.lock, poetry.lock, uv.lock and pdm.lock."""
    found = Packages()
    packages = tomllib.loads(_text(data)).get("package", [])
    if not isinstance(packages, list):
        raise Unread("package is no list")
    for entry in packages:
        facts = [entry.get(key) for key in ("source", "checksum", "files", "sdist", "wheels", "url", "git")]
        _add(found, str(entry["name"]), str(entry.get("version", "")), *facts)
    return found


def _pipenv(data: bytes) -> Packages:
    found = Packages()
    for section, packages in _json(data).items():
        for name, entry in packages.items() if section != "_meta" else ():
            facts = [entry.get(key) for key in ("hashes", "git", "ref", "index", "file")]
            _add(found, name, str(entry.get("version", "")).removeprefix("=="), *facts)
    return found


def _composer(data: bytes) -> Packages:
    found, value = Packages(), _json(data)
    for entry in [*value.get("packages", []), *value.get("packages-dev", [])]:
        _add(found, str(entry["name"]), str(entry.get("version", "")), entry.get("source"), entry.get("dist"))
    return found


def _yarn(data: bytes) -> Packages:
    """Blocks of a line with descriptors and indented lines, of Yarn 1 and of Berry."""
    found = Packages()
    name = version = ""
    facts: list[str] = []
    for raw in [*_text(data).splitlines(), "end:"]:
        if not raw.strip() or raw.startswith("#"):
            continue
        if not raw[0].isspace():
            if name and version:
                _add(found, name, version, facts)
            first = raw.strip().rstrip(":").split(",")[0].strip().strip('"')
            name, version, facts = first[:1] + first[1:].partition("@")[0], "", []
            if name == "__metadata":
                name = ""
            continue
        key, _, said = raw.strip().replace(": ", " ", 1).partition(" ")
        if key == "version" and raw.startswith("  ") and not raw.startswith("   "):
            version = said.strip().strip('"')
        elif key in ("resolved", "integrity", "resolution", "checksum"):
            facts.append(said)
    return found


_PNPM_KEY = re.compile(r"  ['\"]?/?((?:@[^/@\s]+/)?[^/@\s]+)[@/]([^\s:'\"()]+)[^\s]*:\s*(?:\{\})?\Z")


def _pnpm(data: bytes) -> Packages:
    """Keys of two spaces below ``packages:``, ``/name/1.0`` up to lock version 5, ``name@1.0`` after it."""
    found = Packages()
    inside = False
    name = version = ""
    facts: list[str] = []
    for raw in [*_text(data).splitlines(), "end:"]:
        key = _PNPM_KEY.match(raw) if inside and len(raw) < 2 * _LONGEST else None
        if (key or (raw and not raw[0].isspace())) and name:
            _add(found, name, version, facts)
            name = ""
        if raw and not raw[0].isspace() and not raw.startswith("#"):
            inside = raw.rstrip() == "packages:"
        elif key:
            name, version, facts = key[1], key[2], []
        elif name and ("resolution:" in raw or "integrity:" in raw or "tarball:" in raw):
            facts.append(raw.strip())
    return found


def _go(data: bytes) -> Packages:
    """``module version hash`` (go.dev/ref/mod, go.sum files); the hash of a go.mod alone is no package."""
    found = Packages()
    for line in _text(data).splitlines():
        words = line.split()
        if len(words) == 3 and not words[1].endswith("/go.mod"):
            _add(found, words[0], words[1], words[2])
        elif words and len(words) != 3:
            raise Unread(f"a line has {len(words)} words instead of 3")
    return found


def _requirements(data: bytes) -> Packages:
    """``name==version`` with ``--hash`` options (pip, requirements file format); other lines pin nothing."""
    found = Packages()
    for line in _text(data).replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        line = re.sub(r"(?:\A|\s)#.*", "", line).strip()
        pinned = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*===?\s*([^\s;,#]+)", line)
        direct = re.match(r"([A-Za-z0-9._-]+)\s*@\s*(\S+)", line)
        if pinned:
            hashes = sorted(re.findall(r"--hash[= ](\S+)", line))
            _add(found, re.sub(r"[-_.]+", "-", pinned[1]).lower(), pinned[2], hashes)
        elif direct:
            _add(found, re.sub(r"[-_.]+", "-", direct[1]).lower(), direct[2])
        elif line.startswith(("--index", "-i ", "--extra-index", "--find-links", "-f ", "--trusted")):
            _add(found, line.split("=")[0].split()[0], "", line)
    return found


def _gems(data: bytes) -> Packages:
    """Lines of four spaces below ``specs:``, and the remote above them."""
    found = Packages()
    remote = ""
    for line in _text(data).splitlines():
        if line.startswith("  remote: "):
            remote = line[10:]
        spec = re.fullmatch(r" {4}([^\s(]+) \(([^)]+)\)", line[: 2 * _LONGEST])
        if spec:
            _add(found, spec[1], spec[2], remote)
    return found


def names() -> Iterable[str]:
    """The names of lock files that can be read, beside those of requirements."""
    return _READERS


_READERS: dict[str, Callable[[bytes], Packages]] = {
    "package-lock.json": _npm,
    "npm-shrinkwrap.json": _npm,
    "yarn.lock": _yarn,
    "pnpm-lock.yaml": _pnpm,
    "poetry.lock": _toml,
    "uv.lock": _toml,
    "pdm.lock": _toml,
    "cargo.lock": _toml,
    "pipfile.lock": _pipenv,
    "composer.lock": _composer,
    "go.sum": _go,
    "gemfile.lock": _gems,
}
