"""A reviewed file in the person's editor: a read-only copy of the blob on the host, never the box's tree.

The copy lies in a private folder that holds nothing else, so no configuration that came with the file is
beside it. The editor is started without a shell, without modelines where it has them, restricted to reading
where it can be, and ``SHELL`` names a program that does nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from backends.errors import Refused

USUAL = ("vim", "vi", "nano", "less")
"""What is looked for when neither VISUAL nor EDITOR is set."""
NO_SHELL = "/bin/false"

_KEPT = re.compile(r"[^A-Za-z0-9._-]+")
_QUIET_EMACS = "(setq enable-local-variables nil enable-local-eval nil enable-dir-local-variables nil)"


def _vim(line: int) -> list[str]:
    return ["-Z", "-R", "-n", "--cmd", "set nomodeline noexrc", f"+{line}"]


def _nvim(line: int) -> list[str]:
    return ["-R", "-n", "-i", "NONE", "--cmd", "set nomodeline noexrc", f"+{line}"]


def _nano(line: int) -> list[str]:
    return ["-R", "-v", f"+{line}"]


def _emacs(line: int) -> list[str]:
    return ["--eval", _QUIET_EMACS, f"+{line}"]


def _less(line: int) -> list[str]:
    return ["-L", f"+{line}g"]


KNOWN: tuple[tuple[str, Callable[[int], list[str]]], ...] = (
    ("nvim", _nvim),
    ("vim", _vim),
    ("nano", _nano),
    ("emacs", _emacs),
    ("less", _less),
)
"""Options by the name of the program that is really started; others get the path alone."""


def editor_argv(environ: Mapping[str, str], path: Path, line: int = 1) -> list[str]:
    """The command line of the person's editor (environ(7): VISUAL, then EDITOR). ``Refused`` without one."""
    wanted = environ.get("VISUAL") or environ.get("EDITOR") or ""
    search = environ.get("PATH", os.defpath)
    try:
        words = shlex.split(wanted)
    except ValueError as error:
        raise Refused("no editor was started", f"EDITOR cannot be read: {error}", "set EDITOR") from error
    if not words:
        words = next(([name] for name in USUAL if shutil.which(name, path=search)), [])
    program = shutil.which(words[0], path=search) if words else None
    if program is None:
        said = f"{words[0]} is not on PATH" if words else "neither VISUAL nor EDITOR is set"
        raise Refused("no editor was started", said, "set EDITOR to a program, such as vim, nano or less")
    name = Path(program).resolve().name
    options = next((make(max(1, line)) for known, make in KNOWN if known in name), [])
    return [program, *words[1:], *options, str(path)]


def editor_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The person's environment without what would start further programs on the file."""
    env = {name: value for name, value in environ.items() if name not in ("LESSOPEN", "LESSCLOSE", "VIMINIT")}
    return {**env, "SHELL": NO_SHELL, "LESSSECURE": "1"}


class Copies:
    """Copies of blobs for programs of the person's own; gone when the review is left."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def put(self, oid: str, path: bytes, content: bytes) -> Path:
        """A read-only copy in a folder of its own, its name made of ``path``'s last part without what a
        program could read as an option, a pattern or a command."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="cloche-review-"))
        folder = self._folder / _KEPT.sub("_", oid)[:64]
        folder.mkdir(mode=0o700, exist_ok=True)
        name = (
            _KEPT.sub("_", path.rsplit(b"/", 1)[-1].decode("ascii", "replace"))[-80:].lstrip(".-") or "file"
        )
        file = folder / f"read-only-{name}"
        if not file.exists():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(file, flags, 0o400)
            with os.fdopen(fd, "wb") as copy:
                copy.write(content)
        return file

    def close(self) -> None:
        """Removes what was copied."""
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None


def edit(argv: list[str], environ: Mapping[str, str]) -> int:
    """Runs the editor on this terminal and waits for it; its exit status."""
    return subprocess.run(
        argv, cwd=Path(argv[-1]).parent, env=editor_environment(environ), check=False
    ).returncode
