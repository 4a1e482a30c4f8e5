"""The checks of the gate by name, and the rows that they leave. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable

from backends.digest import sha256
from backends.snapshots import CheckRow

REFUSED = "refuse"
WARNED = "warn"
PASSED = "pass"
MAX_ROWS = 100  # of one check; the rest is counted in a last row

# Every check with what it means that it found nothing, in the order in which a reviewer reads them.
CHECKS: dict[str, str] = {
    "name": "no path is absolute, steps out of its folder or reads as .git to any file system",
    "tree": "the tree holds plain files, folders and links only, each path once, none below a link",
    "symlink": "no new or changed symbolic link leads out of the tree",
    "submodule": "no submodule pointer was added, moved or removed",
    "repository": "no folder of the tree is a repository to Git",
    "special-file": "no device, pipe or socket was left in the tree",
    "unread": "everything in the tree could be read",
    "box-finding": "nothing was found in the box's own repository that could run on the host",
    "policy": "Cloche's policy file was not touched",
    "agent-config": "no file that instructs coding agents or names their tools was touched",
    "hooks": "no hook was touched",
    "ci": "no file that continuous integration runs was touched",
    "runs-by-itself": "no file that starts programs by itself was touched",
    "package-script": "no install script of a package was touched",
    "lock-file": "no lock file was touched",
    "secret": "no added line holds what looks like a secret",
    "executable": "no executable bit was changed",
    "large": "no changed file is large",
    "lfs": "no pointer of Git LFS was touched",
    "binary": "no changed file is binary",
    "conflict-mark": "no added line is a mark of a conflict that was not solved",
    "invisible-name": "no changed name holds invisible or reordering characters",
    "invisible-text": "no added line holds invisible, reordering or control characters",
}


class Rows:
    """Rows by check; a check never holds more than its share of a flood.

    ``about`` names the content that a row is about by its path (``None``: no one path): a warning's key tells
    it, so that what was acknowledged does not stand for other content.
    """

    def __init__(self, about: Callable[[bytes | None], str] = lambda path: "") -> None:
        self._about = about
        self._found: dict[str, list[CheckRow]] = {check: [] for check in CHECKS}
        self._more: dict[str, int] = {}

    def add(self, check: str, verdict: str, reason: str, path: bytes | None) -> None:
        """Note what a check found; ``path`` is ``None`` where it is about no one path."""
        rows = self._found[check]
        if len(rows) < MAX_ROWS:
            rows.append(CheckRow(check, verdict, reason, path))
            return
        self._more[check] = self._more.get(check, 0) + 1
        if verdict == REFUSED and rows[-1].verdict != REFUSED:
            rows[-1] = CheckRow(check, verdict, reason, path)

    def finish(self) -> tuple[CheckRow, ...]:
        """All rows in the order of ``CHECKS``; a check that found nothing says so."""
        out: list[CheckRow] = []
        for check, sentence in CHECKS.items():
            rows = self._found[check]
            out += rows or [CheckRow(check, PASSED, sentence, None)]
            if check in self._more:
                out.append(CheckRow(check, rows[-1].verdict, f"and {self._more[check]} more", None))
        return tuple(row._replace(key=self._key(row)) if row.verdict == WARNED else row for row in out)

    def _key(self, row: CheckRow) -> str:
        path = None if row.path is None else row.path.decode("utf-8", "surrogateescape")
        said = json.dumps([row.id, path, row.reason, self._about(row.path)], ensure_ascii=True)
        return sha256(said.encode("ascii")).hexdigest()[:32]
