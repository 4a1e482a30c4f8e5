"""Which files of this host an image needs so that some of its programs run there: followed, never guessed.

What is taken is what a distribution installed for everybody: below the folders of ``ROOTS``, owned by root,
readable by everybody, writable by root alone. So nothing that is secret on this host can be in an image, and
root makes the same image as anybody else. Set-id bits do not go along.

Libraries are those that the dynamic linker of this host names (ldd(1)).
"""

from __future__ import annotations

import os
import posixpath
import stat
import subprocess
from collections.abc import Callable, Iterable

from backends.container.images_entries import Entry, folder, link
from backends.errors import Refused

ROOTS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/ssl/certs",
    "/etc/alternatives",
)
SEARCH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
MOST_FILES = 100_000
MOST_BYTES = 4 << 30
_LINKS = 40  # as many as the kernel follows (path_resolution(7))
_PATIENCE = 60.0  # seconds for ldd on some files
_AT_ONCE = 100  # files for one ldd
_CLEAN = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


class Collection:
    """The files of an image in the making. ``left``: what was not taken, and why."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.left: dict[str, str] = {}
        self.bytes = 0
        self._dynamic: list[str] = []  # whose libraries are still to be looked for

    def put(self, path: str, entry: Entry) -> None:
        """Have ``entry`` at ``path``, where nothing is yet; folders above it are made."""
        if path in self.entries:
            return
        parent = posixpath.dirname(path)
        if parent != "/":
            above = self.entries.get(parent)
            if above is None:
                self.put(parent, folder())
        self.entries[path] = entry
        self.bytes += entry.size
        if len(self.entries) > MOST_FILES or self.bytes > MOST_BYTES:
            raise Refused(
                "the image is not made",
                f"it would have more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB",
                "name fewer programs",
                code="image-bounds",
            )

    def add(self, path: str) -> str | None:
        """Take the file or folder (not what is in it) at ``path`` and every link on the way to it.

        Returns where it really is; None when it is not taken, and ``left`` says why.
        """
        done = ""
        rest = [part for part in path.split("/") if part]
        links = 0
        while rest:
            here = f"{done}/{rest[0]}"
            try:
                status = os.lstat(here)
            except OSError as error:
                return self._leave(path, error.strerror or "cannot be looked at")
            if not _below(here):
                return self._leave(path, "it is in none of the folders that an image is made from")
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _LINKS:
                    return self._leave(path, "it is a circle of links")
                target = os.readlink(here)
                self.put(here, link(target))
                base = [] if target.startswith("/") else [part for part in done.split("/") if part]
                rest = _normal([*base, *target.split("/")]) + rest[1:]
                done = ""
                continue
            if why := _unfit(status):
                return self._leave(path, why)
            if stat.S_ISDIR(status.st_mode):
                self.put(here, folder())
            elif stat.S_ISREG(status.st_mode):
                if here not in self.entries:
                    mode = 0o755 if status.st_mode & 0o111 else 0o644
                    self.put(here, Entry("file", mode, here, status.st_size, int(status.st_mtime)))
                    if _elf(here):
                        self._dynamic.append(here)
            else:
                return self._leave(path, "it is neither a file nor a folder")
            done, rest = here, rest[1:]
        return done or "/"

    def add_tree(self, path: str, skip: Callable[[str, str], bool]) -> None:
        """Take all below ``path`` except where ``skip(folder, name)``."""
        real = self.add(path)
        if real is None:
            return
        try:
            names = sorted(os.listdir(real))
        except OSError as error:
            self._leave(path, error.strerror or "cannot be read")
            return
        for name in names:
            if skip(real, name):
                continue
            below = f"{real}/{name}"
            if stat.S_ISDIR(os.lstat(below).st_mode):
                self.add_tree(below, skip)
            else:
                self.add(below)

    def add_libraries(self) -> None:
        """Take the libraries of all that was taken; at the end nothing of it lacks one that this host has."""
        while self._dynamic:
            some, self._dynamic = self._dynamic[:_AT_ONCE], self._dynamic[_AT_ONCE:]
            for library in libraries(some):
                self.add(library)

    def _leave(self, path: str, why: str) -> str | None:
        self.left[path] = why
        return None


def _below(path: str) -> bool:
    return any(path == root or path.startswith(root + "/") or root.startswith(path + "/") for root in ROOTS)


def _normal(parts: Iterable[str]) -> list[str]:
    """Without ``.`` and ``..``; right where no part is a link, which holds for what was walked already."""
    made: list[str] = []
    for part in parts:
        if part == "..":
            if made:
                made.pop()
        elif part not in ("", "."):
            made.append(part)
    return made


def _unfit(status: os.stat_result) -> str:
    if status.st_uid != 0:
        return f"it belongs to user {status.st_uid}, not to root"
    by_group = status.st_mode & 0o020 and status.st_gid not in (0, 50)  # 50: Debian's staff, of /usr/local
    if status.st_mode & 0o002 or by_group:
        return "others than root may write to it"
    if not status.st_mode & 0o004:
        return "not everybody may read it"
    return ""


def _elf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(paths: list[str]) -> list[str]:
    """The shared objects that the programs and libraries ``paths`` need, as the dynamic linker finds them.

    ldd(1) has the linker load each file, which is why only files that root owns get here.
    """
    if not paths:
        return []
    try:
        done = subprocess.run(
            ["/usr/bin/ldd", *paths],
            env=_CLEAN,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(
            "the image is not made",
            f"ldd, which tells the libraries of a program, failed: {error}",
            "install it: it comes with the C library (package libc-bin)",
            code="ldd",
        ) from error
    found: dict[str, None] = {}
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        if not line.startswith("\t"):
            continue  # the name of the file that follows
        name, arrow, rest = line.strip().partition(" => ")
        path = (rest if arrow else name).partition(" (")[0]
        if path.startswith("/"):
            found[path] = None
    return list(found)


def which(name: str) -> str | None:
    """Where the program ``name`` is in the system's own folders; a person's PATH has no say."""
    if "/" in name:
        return name if name.startswith("/") and _below(name) and os.access(name, os.X_OK) else None
    for place in SEARCH:
        path = f"{place}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def ask(*words: str) -> str:
    """What a program of this host prints, with an empty environment; "" when it fails."""
    try:
        done = subprocess.run(
            words, env=_CLEAN, stdin=subprocess.DEVNULL, capture_output=True, timeout=10.0, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
