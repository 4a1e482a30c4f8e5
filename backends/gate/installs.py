"""Packages that a lock file lets run a program while they are installed. Pure."""

from __future__ import annotations

import json
from typing import NamedTuple

# npm writes hasInstallScript (docs.npmjs.com, package-lock.json), pnpm up to lock version 8 requiresBuild.
NPM_LOCKS = frozenset(("package-lock.json", "npm-shrinkwrap.json"))
LINE_LOCKS = frozenset(("pnpm-lock.yaml", "yarn.lock"))
LINE_SIGNS = ("requiresBuild", "hasInstallScript")
MAX_PACKAGES = 20  # named one by one; the rest is counted


class _Package(NamedTuple):
    sign: str
    version: str  # what tells one release from another


def is_lock(name: str) -> bool:
    """Whether a lock file of this name (lower case) says which packages run programs."""
    return name in NPM_LOCKS or name in LINE_LOCKS


def new_scripts(name: str, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """One sentence for each package that gained an install script, or whose release with one is another.

    ``None`` stands for no file. An old version that does not parse counts as none: everything is new then.
    """
    read = _npm if name in NPM_LOCKS else _lines
    try:
        after = read(new or b"")
    except (ValueError, RecursionError):
        return ("cannot be read, so install scripts of its packages are not known",)
    try:
        before = read(old or b"")
    except (ValueError, RecursionError):
        before = {}
    said = [
        f"{package} runs a program when it is installed ({found.sign})"
        + (", from another release than before" if package in before else "")
        for package, found in sorted(after.items())
        if before.get(package) != found
    ]
    if len(said) > MAX_PACKAGES:
        said[MAX_PACKAGES:] = [f"and {len(said) - MAX_PACKAGES} more packages that run programs"]
    return tuple(said)


def _npm(text: bytes) -> dict[str, _Package]:
    value = json.loads(text.decode("utf-8")) if text.strip() else {}
    packages = value.get("packages") if isinstance(value, dict) else None
    if not isinstance(packages, dict):
        return {}
    return {
        path or "the project itself": _Package(
            "hasInstallScript", json.dumps([entry.get(key) for key in ("version", "resolved", "integrity")])
        )
        for path, entry in packages.items()
        if isinstance(entry, dict) and entry.get("hasInstallScript")
    }


def _lines(text: bytes) -> dict[str, _Package]:
    """By lines, as Python's library reads no YAML: a sign belongs to the key that it is indented below."""
    found: dict[str, _Package] = {}
    above: list[tuple[int, str]] = []  # the keys that a line lies below, outermost first
    for raw in text.decode("utf-8", "replace").splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        indent = len(raw) - len(raw.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        key, _, value = line.partition(": ")
        said = value.partition("#")[0].strip(" '\"").lower()
        if above and key in LINE_SIGNS and said in ("true", "yes"):
            package = above[-1][1].strip("'\"")
            found[package] = _Package(key, package)
        if line.endswith(":"):
            above.append((indent, line[:-1]))
    return found
