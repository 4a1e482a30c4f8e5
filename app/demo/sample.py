"""The sample repository: ``$XDG_DATA_HOME/cloche/demo/greenhouse``, made from the files beside this module.

The two releases of its one npm dependency are packed here, the same bytes each time, so that a lock file
can name them and nothing has to be fetched.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from backends.errors import ClocheError, Refused

SOURCE = Path(__file__).resolve().parent / "sample"
MARK = "cloche-demo"  # a file in .git that says: this folder was made by us and may be removed
RELEASES = ("1.0.0", "1.1.0")
IDENTITY = ("-c", "user.name=Greenhouse", "-c", "user.email=greenhouse@example.invalid")


def folder() -> Path:
    """Where the sample repository lies (XDG Base Directory Specification), not created here."""
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "share"
    return root / "cloche" / "demo" / "greenhouse"


def result(place: Path) -> Path:
    """Where the story exports to, beside the sample repository."""
    return place.parent / "result"


def is_ours(place: Path) -> bool:
    """Whether ``place`` is a sample repository that we made."""
    return (place / ".git" / MARK).is_file()


def make(place: Path) -> None:
    """Make the sample repository with two commits on ``main``; ``Refused`` where something else lies."""
    if place.exists():
        raise Refused(
            f"the sample repository cannot be made in {place}",
            "something lies there that the demonstration did not make, or did not finish",
            f"move it away: mv {place} {place}.old",
            code="demo-folder",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(
        SOURCE,
        place,
        ignore=shutil.ignore_patterns("label-*", "__pycache__"),
        symlinks=True,
        copy_function=_copy,
    )
    (place / "gitignore").rename(place / ".gitignore")
    vendor = place / "vendor"
    vendor.mkdir()
    for release in RELEASES:
        (vendor / f"plant-label-{release}.tgz").write_bytes(pack(release))
    (place / "package-lock.json").write_text(lock_file(pack(RELEASES[0])))
    _git(place, "init", "-q", "-b", "main")
    (place / ".git" / MARK).write_text("made by cloche demo\n")
    _git(place, "add", "-A", "--", ".", ":!web", ":!package.json", ":!package-lock.json", ":!vendor")
    _git(place, *IDENTITY, "commit", "-q", "-m", "Water the beds")
    _git(place, "add", "-A")
    _git(place, *IDENTITY, "commit", "-q", "-m", "Show the beds on a page")


def remove(place: Path) -> bool:
    """Delete the sample repository; False when there was none. ``Refused`` when it is not ours."""
    if not place.exists():
        return False
    if place.is_symlink() or not is_ours(place):
        raise Refused(
            f"{place} is not removed",
            "the demonstration did not make it",
            f"look at it yourself: ls -la {place}",
            code="demo-folder",
        )
    shutil.rmtree(place)
    if (result(place) / "receipt.json").is_file():
        shutil.rmtree(result(place))
    for folder in (place.parent, place.parent.parent):
        if any(folder.iterdir()):
            break
        folder.rmdir()
    return True


def pack(release: str) -> bytes:
    """The npm package of one release as ``npm pack`` lays it out, with fixed times, owners and order."""
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted((SOURCE / f"label-{release}").iterdir()):
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"package/{path.name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(tar_bytes.getvalue(), mtime=0)


def lock_file(archive: bytes) -> str:
    """``package-lock.json`` (version 3) for the first release, as npm itself would write it."""
    spec = f"file:vendor/plant-label-{RELEASES[0]}.tgz"
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    root = {"name": "greenhouse", "version": "0.3.0", "dependencies": {"plant-label": spec}}
    package = {"version": RELEASES[0], "resolved": spec, "integrity": f"sha512-{digest}", "license": "MIT"}
    value = {
        "name": "greenhouse",
        "version": "0.3.0",
        "lockfileVersion": 3,
        "requires": True,
        "packages": {"": root, "node_modules/plant-label": package},
    }
    return json.dumps(value, indent=2) + "\n"


def _copy(source: str, target: str) -> str:
    """Contents and the executable bit only: an installed package may be read-only or owned by root."""
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if source.endswith(".sh") else 0o644)
    return target


def _git(place: Path, *words: str) -> None:
    """Git on the sample repository, which is the person's own, without asking their configuration."""
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    done = subprocess.run(["git", *words], cwd=place, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClocheError(
            "the sample repository cannot be made",
            f"git {words[0]}: {done.stderr.strip()}",
            "apt install git",
        )
