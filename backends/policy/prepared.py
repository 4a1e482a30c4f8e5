"""The built-in profiles as they were read from TOML: a command that makes a box starts without the parser.

Found by the digest of a profile's file, so one that was changed since is read from the file itself.
``python -m backends.policy.prepared > backends/policy/profiles/built-in.json`` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from backends.digest import sha256

FILE = "built-in.json"


class Read(NamedTuple):
    """What one file says, and the line of each key and list element (see :mod:`backends.policy.lines`)."""

    document: dict[str, Any]
    lines: dict[tuple[str | int, ...], int]


def digest(data: bytes) -> str:
    """The name under which what ``data`` says is found."""
    return sha256(data).hexdigest()


def load(folder: Path) -> dict[str, Read]:
    """Everything prepared in ``folder``, by digest; empty where nothing is."""
    try:
        found = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return {
        name: Read(document, {tuple(path): line for path, line in lines})
        for name, (document, lines) in found.items()
    }


def render(folder: Path) -> str:
    """The text of the file for all profiles of ``folder``."""
    import tomllib

    from backends.policy import lines

    found = {}
    for path in sorted(folder.glob("*.toml")):
        data = path.read_bytes()
        text = data.decode("utf-8")
        places = [[list(place), line] for place, line in lines.locate(text).items()]
        found[digest(data)] = [tomllib.loads(text), places]
    return json.dumps(found, indent=None, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    print(render(Path(__file__).parent / "profiles"), end="")
