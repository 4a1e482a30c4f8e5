"""The repository that is measured on: a Debian source package of thousands of files, else a generated one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "git"  # its source holds several thousand files in a small archive
GENERATED = 5000
LARGE = 50000
CHANGED = 5  # files of one more commit
QUIET = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
NOBODY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid")


class Subject(NamedTuple):
    """A repository to measure on, and what to call it in the table."""

    path: Path
    files: int
    text: str


def subject(cache: Path, work: Path) -> Subject:
    """Make the repository below ``work``; what was fetched once is kept in ``cache``."""
    path = work / "subject"
    archive = fetch(cache)
    if archive is None:
        found = generated(path, GENERATED)
        return found._replace(text=f"{found.text} (no Debian source could be fetched)")
    path.mkdir()
    with tarfile.open(archive) as opened:
        # The way that also works before Python 3.11.4; apt checked the archive against its signed index.
        opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        opened.extractall(path)
    text = f"Debian source package {archive.name.partition('.orig')[0]}"
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A", "-f")
    commit(path, "subject")
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


def generated(path: Path, files: int) -> Subject:
    """A repository of ``files`` small files in two levels of folders, checked out, with one commit."""
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=path,
        env={**os.environ, **QUIET},
        input=b"".join(_stream(files)),
        check=True,
        capture_output=True,
    )
    git(path, "reset", "-q", "--hard", "main")
    return Subject(path, files, f"generated repository, {files} files")


def _stream(files: int) -> Iterator[bytes]:
    """One commit as git-fast-import(1) reads it."""
    yield b"commit refs/heads/main\ncommitter Bench <bench@example.invalid> 1700000000 +0000\n"
    yield b"data 7\nsubject\n"
    for index in range(files):
        folder = index // 25 // 20
        text = "".join(f"line {line} of file {index}\n" for line in range(1 + index % 60)).encode()
        yield b"M 100644 inline part%03d/unit%02d/file%05d.txt\n" % (folder, index // 25 % 20, index)
        yield b"data %d\n%s\n" % (len(text), text)


def ahead(path: Path, number: int) -> None:
    """One more commit, of a few changed files."""
    names = git(path, "ls-files", "-z").split(b"\0")[:-1]
    for index in range(CHANGED):
        name = names[(number * CHANGED + index) * 97 % len(names)]
        file = path / os.fsdecode(name)
        if file.is_file() and not file.is_symlink():
            file.write_bytes(file.read_bytes() + b"change %d\n" % number)
    commit(path, f"change {number}")


def commit(path: Path, subject: str) -> None:
    """Commit what is tracked and changed, or added, in nobody's name."""
    git(path, *NOBODY, "commit", "-q", "-a", "-m", subject)


def git(path: Path, *words: str) -> bytes:
    """Git on the subject, without anybody's configuration."""
    return subprocess.run(
        ["git", *words], cwd=path, env={**os.environ, **QUIET}, check=True, capture_output=True
    ).stdout
