"""The repository that is measured on: a Debian source package of thousands of files, else a generated one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import NamedTuple

PACKAGE = "git"  # its source holds several thousand files in a small archive
GENERATED = 5000
QUIET = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


class Subject(NamedTuple):
    """A repository to measure on, and what to call it in the table."""

    path: Path
    files: int
    text: str


def subject(cache: Path, work: Path) -> Subject:
    """Make the repository below ``work``; what was fetched once is kept in ``cache``."""
    path = work / "subject"
    path.mkdir()
    archive = fetch(cache)
    if archive is None:
        generate(path)
        text = "generated repository (no Debian source could be fetched)"
    else:
        with tarfile.open(archive) as opened:
            # The way that also works before Python 3.11.4; apt checked the archive against its signed index.
            opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            opened.extractall(path)
        text = f"Debian source package {archive.name.partition('.orig')[0]}"
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A", "-f")
    git(
        path,
        "-c",
        "user.name=Bench",
        "-c",
        "user.email=bench@example.invalid",
        "commit",
        "-q",
        "-m",
        "subject",
    )
    files = len(git(path, "ls-files", "-z").split(b"\0")) - 1
    return Subject(path, files, f"{text}, {files} files")


def fetch(cache: Path) -> Path | None:
    """The source archive, by this host's own apt sources read as source entries; None when it cannot be had.

    apt works in folders of its own here: no root is needed and no state of the host's packages changes.
    """
    if archive := fetched(cache):
        return archive
    apt = cache / "apt"
    for name in ("etc/sources.d", "state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    write_sources(apt / "etc/sources.d")
    options = [
        *("-o", f"Dir::Etc::SourceList={os.devnull}", "-o", f"Dir::Etc::SourceParts={apt}/etc/sources.d"),
        *("-o", f"Dir::State={apt}/state", "-o", f"Dir::Cache={apt}/cache", "-o", "APT::Sandbox::User="),
    ]
    for words in (["update"], ["source", "--download-only", "--only-source", PACKAGE]):
        try:
            done = subprocess.run(
                ["apt-get", "-q", *options, *words], cwd=cache, capture_output=True, text=True, timeout=300
            )
        except (FileNotFoundError, subprocess.TimeoutExpired) as error:
            print(f"no Debian source: {error}")
            return None
        if done.returncode != 0:
            print(f"no Debian source: apt-get {words[0]}: {done.stderr.strip().splitlines()[-1:]}")
            return None
    shutil.rmtree(apt)
    return fetched(cache)


def fetched(cache: Path) -> Path | None:
    """The archive of an earlier run, without its detached signature."""
    found = sorted(cache.glob(f"{PACKAGE}_*.orig.tar.*"))
    return next((path for path in found if path.suffix != ".asc"), None)


def write_sources(folder: Path) -> None:
    """The host's Debian entries as source entries (sources.list(5), both formats)."""
    root = Path("/etc/apt")
    for path in [root / "sources.list", *sorted(root.glob("sources.list.d/*"))]:
        if not path.is_file() or "debian" not in path.read_text(errors="replace"):
            continue
        lines = path.read_text(errors="replace").splitlines()
        if path.suffix == ".sources":
            lines = ["Types: deb-src" if line.lower().startswith("types:") else line for line in lines]
        else:
            lines = ["deb-src" + line[3:] for line in lines if line.startswith("deb ")]
        (folder / path.name).write_text("\n".join(lines) + "\n")


def generate(path: Path) -> None:
    """Small text files in two levels of folders."""
    for index in range(GENERATED):
        file = path / f"part{index % 25:02}" / f"unit{index // 25 % 20:02}" / f"file{index:05}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"line {line} of file {index}\n" for line in range(1 + index % 60)))


def git(path: Path, *words: str) -> bytes:
    """Git on the subject, without anybody's configuration."""
    return subprocess.run(
        ["git", *words], cwd=path, env={**os.environ, **QUIET}, check=True, capture_output=True
    ).stdout
