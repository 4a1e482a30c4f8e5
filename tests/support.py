"""What tests share: commands, small repositories, waiting, and live processes told by identity."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests import repositories

ROOT = Path(__file__).resolve().parent.parent

GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@example.invalid",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.invalid",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}

SMALL_FILES: dict[str, bytes] = {
    "README.md": b"# sample\n\nA small repository.\n",
    "src/add.py": b"def add(a, b):\n    return a + b\n",
    "tests/test_add.py": b"from src.add import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "run.sh": b"#!/bin/sh\nexec python3 -m pytest\n",
}


Value = TypeVar("Value")


class Done(NamedTuple):
    """A finished command: exit code and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        return json.loads(self.out)


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 60.0,
) -> Done:
    """Run ``argv`` to its end with the current environment and ``env`` on top."""
    done = subprocess.run(
        list(argv),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return Done(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def cloche_argv(*args: str) -> list[str]:
    """The command line's entry point, independent of where its script is installed."""
    return [sys.executable, "-P", "-c", "import sys; from app.cli import main; sys.exit(main())", *args]


def git(cwd: Path, *args: str, stdin: bytes = b"") -> str:
    """Output of one git command in a repository that the test made itself."""
    done = run(["git", *args], cwd=cwd, env=GIT_ENV, stdin=stdin)
    if done.code != 0:
        raise AssertionError(f"git {' '.join(args)} gave {done.code}: {done.err}")
    return done.out.strip()


def write_files(root: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if name.endswith(".sh"):
            path.chmod(0o755)


def make_repo(path: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """A repository on branch ``main`` with one commit of ``files``."""
    wanted = SMALL_FILES if files is None else files
    key = tuple(sorted(wanted.items()))
    if (kept := _made.get(key)) is not None:
        repositories.write(path, kept)
        return path
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "config", "user.name", "Test")
    git(path, "config", "user.email", "test@example.invalid")
    write_files(path, wanted)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    if sum(map(len, wanted.values())) < 1 << 16 and len(_made) < 256:
        _made[key] = repositories.read(path)
    return path


_made: dict[tuple[tuple[str, bytes], ...], repositories.Copy] = {}


def make_big_repo(path: Path, count: int) -> Path:
    """A repository of ``count`` small files in a tree of folders, made through git fast-import."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    parts = [
        b"commit refs/heads/main\ncommitter Test <test@example.invalid> 1767323045 +0000\ndata 5\nfirst\n"
    ]
    for index in range(count):
        body = b"".join(b"line %d of file %d\n" % (line, index) for line in range(1 + index % 60))
        name = b"pkg%02d/mod%02d/file%05d.txt" % (index % 25, index // 25 % 20, index)
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(body), body))
    git(path, "fast-import", "--quiet", stdin=b"".join(parts))
    git(path, "reset", "-q", "--hard")
    return path


def descriptors() -> int:
    """How many descriptors we have open, once nothing that an earlier test dropped is left to be closed."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def children() -> set[int]:
    """Our own children that run or wait to be collected (proc_tid_children(5)), of every thread."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that ended meanwhile, whose children are ours
            found |= {int(word) for word in (task / "children").read_text().split()}
    return found


def settled(look: Callable[[], Value], seconds: float = 0.5) -> Value:
    """What ``look`` tells once it has told the same for ``seconds``: what was under way has ended."""
    seen, since = look(), time.monotonic()
    end = since + 60.0
    while time.monotonic() - since < seconds:
        time.sleep(0.02)
        if (now := look()) != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() > end:
            raise AssertionError(f"it does not settle, last at {seen}")
    return seen


def descriptors_of(pid: int) -> int:
    """How many descriptors a process has open, once that stays the same."""
    return settled(lambda: len(os.listdir(f"/proc/{pid}/fd")))


def wait_until(
    condition: Callable[[], bool], what: str, *, timeout: float = 60.0, step: float = 0.02
) -> None:
    """Poll until ``condition`` holds; the failure names what was waited for."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(step)


def start_time(pid: int) -> int | None:
    """Clock ticks after boot when ``pid`` started (proc_pid_stat(5), field 22); None: gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def is_alive(ident: Mapping[str, int]) -> bool:
    """Whether the process of that pid and start time still runs."""
    return start_time(ident["pid"]) == ident["start"]


def live_records(state_home: Path) -> Iterator[tuple[Path, tuple[dict[str, int], ...]]]:
    """Every box folder below ``$XDG_STATE_HOME`` with its keeper and init, as written at launch."""
    for path in sorted(state_home.glob("cloche/*/*/live.json")):
        value = json.loads(path.read_bytes())
        yield path.parent, (value["keeper"], value["init"])


def mounts_below(path: Path) -> list[str]:
    """Mount points of this mount namespace at or below ``path`` (proc_pid_mountinfo(5), field 5)."""
    prefix = str(path)
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point == prefix or point.startswith(prefix + "/")]
