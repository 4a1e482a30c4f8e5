"""The built-in profiles as they were read from TOML: a command that makes a box starts without the parser.

Found by the digest of a profile's file, so one that was changed since is read from the file itself.
``python -m backends.policy.prepared > backends/policy/profiles/built-in.json`` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from backends.digest import sha256
from backends.policy.stated import ProfileText, Stated

FILE = "built-in.json"


def digest(data: bytes) -> str:
    """The name under which what ``data`` says is found."""
    return sha256(data).hexdigest()


def load(folder: Path) -> dict[str, dict[str, ProfileText]]:
    """The profiles of every file that was prepared in ``folder``, by its digest; empty where none was."""
    try:
        found = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return {
        name: {
            profile: ProfileText(
                profile, where, Stated(*extends) if extends else None, tuple(Stated(*one) for one in stated)
            )
            for profile, where, extends, stated in profiles
        }
        for name, profiles in found.items()
    }


def render(folder: Path) -> str:
    """The text of the file for all profiles of ``folder``."""
    from backends.policy import files

    found = {}
    for path in sorted(folder.glob("*.toml")):
        data = path.read_bytes()
        found[digest(data)] = list(files.parse_built_in(path, data).profiles.values())
    return json.dumps(found, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    print(render(Path(__file__).parent / "profiles"), end="")
