"""What a change to a configuration file changes, as settings: ``net.mode: "deny" -> "host"``. Pure."""

from __future__ import annotations

import json
from typing import Any

MAX_SETTINGS = 20  # named one by one; the rest is counted
# https://docs.npmjs.com/cli/using-npm/scripts, "Life Cycle Scripts": run without being asked for.
LIFECYCLE = frozenset(
    (
        "preinstall",
        "install",
        "postinstall",
        "prepublish",
        "preprepare",
        "prepare",
        "postprepare",
        "dependencies",
    )
)


def changed_settings(name: str, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """One sentence for each setting that differs between two versions of a TOML or JSON file.

    ``None`` stands for no file. A version that does not parse is one sentence itself. Other files have none.
    """
    parse = _parser(name)
    if parse is None:
        return ()
    sides: list[dict[str, str]] = []
    for version, text in (("old", old), ("new", new)):
        try:
            sides.append(_flat(parse(text.decode("utf-8"))) if text is not None else {})
        except (ValueError, RecursionError):
            return (f"the {version} version cannot be read as {name.rsplit('.', 1)[-1].upper()}",)
    if name == "package.json":
        sides = [_scripts(side) for side in sides]
    before, after = sides
    said = [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    if len(said) > MAX_SETTINGS:
        said[MAX_SETTINGS:] = [f"and {len(said) - MAX_SETTINGS} more settings"]
    return tuple(said)


def _parser(name: str) -> Any:
    if name.endswith(".toml"):
        import tomllib

        return tomllib.loads
    return json.loads if name.endswith(".json") else None


def _scripts(settings: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if _is_lifecycle(key)}


def _is_lifecycle(key: str) -> bool:
    head, _, name = key.partition(".")
    if head == "scripts":
        return name in LIFECYCLE
    # The others name hooks, or packages whose own scripts are let run (bun, pnpm, yarn).
    return (
        head in ("simple-git-hooks", "husky", "trustedDependencies")
        or key.startswith("pnpm.onlyBuiltDependencies")
        or (head == "dependenciesMeta" and key.endswith(".built"))
    )


def _flat(value: object, prefix: str = "") -> dict[str, str]:
    if isinstance(value, dict) and value:
        out: dict[str, str] = {}
        for key, inner in value.items():
            out.update(_flat(inner, f"{prefix}.{key}" if prefix else str(key)))
        return out
    return {prefix: json.dumps(value, default=str, ensure_ascii=True)}
