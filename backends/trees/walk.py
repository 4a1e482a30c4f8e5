"""Walking a box's files by descriptors, and saying what they are against the base (rules S1, S2).

Used by the confined process of :mod:`backends.trees.walker`. Every folder is opened from its parent's
descriptor with ``O_NOFOLLOW``, every file is opened with ``O_NONBLOCK`` and judged by ``fstat`` after the
open, so swapping names under it gains nothing. ``.git`` folders are never read: at the root it is the inert
mount point, elsewhere it is a finding.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from typing import Any

from backends.trees import ignore, names, statcache
from backends.trees.stream import Import, Tracked

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CHUNK = 1 << 20
WHOLE = 16 << 20  # bytes; larger files are streamed, and must not shrink meanwhile
RULES_SHARE = 6  # the rules of .gitignore files get one part in so many of the walk's time
KEPT = 1000  # skipped paths and findings that are kept by name; further ones are counted
IGNORED_NAMES, IGNORED_BYTES = 100, 8192  # names of what rules ignore that are kept; further ones are counted

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class Stop(Exception):
    """The tree is not read to its end: a limit was met, or it changed in a way that cannot be carried."""

    def __init__(self, code: str, path: bytes, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.path = path
        self.why = why


class Walk:
    """One walk over one folder. ``tracked`` gives the base's mode, type and id of a path (git-ls-tree(1))."""

    def __init__(
        self, limits: dict[str, Any], tracked: Tracked, cache: dict[bytes, bytes], out: Import
    ) -> None:
        self.limits = limits
        self.settle = int(limits["settle"] * 1e9)
        self.tracked = tracked
        self.cache = cache
        self.out = out
        self.deadline = time.monotonic() + limits["seconds"]
        self.patience = ignore.Patience(limits["seconds"] / RULES_SHARE)
        self.ruled = True  # until the rules have used up their time
        self.records: list[tuple[bytes, bytes]] = []
        self.skipped: list[tuple[bytes, str]] = []
        self.findings: list[tuple[str, bytes, str]] = []
        self.unlisted = 0
        self.ignored = 0
        self.ignored_names: list[bytes] = []
        self.ignored_room = IGNORED_BYTES
        self.entries = 0
        self.read = 0
        self.device = 0
        self.apart = b""
        """What lies at the root under this name and is not tracked is left out, whatever rules say of it."""

    def holds_tracked(self, folder: bytes) -> bool:
        """Whether the base has anything below ``folder``."""
        raise NotImplementedError

    # -- results --------------------------------------------------------------------------------------

    def leave_out(self, path: bytes, is_folder: bool) -> None:
        """Rules ignore ``path``: it is counted, and named while there is room."""
        self.ignored += 1
        if len(self.ignored_names) < IGNORED_NAMES and self.ignored_room >= len(path):
            self.ignored_room -= len(path)
            self.ignored_names.append(path + b"/" if is_folder else path)

    def skip(self, path: bytes, why: str) -> None:
        if len(self.skipped) < KEPT:
            self.skipped.append((path, why))
        else:
            self.unlisted += 1

    def find(self, kind: str, path: bytes, text: str) -> None:
        if len(self.findings) < KEPT:
            self.findings.append((kind, path, text))
        else:
            self.unlisted += 1

    # -- limits ---------------------------------------------------------------------------------------

    def count(self, path: bytes) -> None:
        self.entries += 1
        if self.entries > self.limits["entries"]:
            raise Stop("too-many-entries", path, f"the tree has more than {self.limits['entries']} entries")
        if not self.entries & 0xFF:
            self.watch_clock(path)

    def watch_clock(self, path: bytes) -> None:
        if time.monotonic() > self.deadline:
            raise Stop("too-slow", path, f"reading took longer than {self.limits['seconds']:g} seconds")

    # -- the walk -------------------------------------------------------------------------------------

    def root(self, fd: int) -> None:
        self.device = os.fstat(fd).st_dev
        self.folder(fd, b"", ignore.NO_RULES, False, 0)

    def folder(self, fd: int, prefix: bytes, rules: ignore.Rules, ignored: bool, depth: int) -> None:
        """Everything in the folder open on ``fd``; ``ignored``: its untracked entries are left out."""
        entries: list[tuple[bytes, os.DirEntry[str]]] = []
        telling: list[bytes] = []
        with os.scandir(fd) as listing:
            for entry in listing:
                name = os.fsencode(entry.name)
                self.count(prefix + name)
                if name.lower() in names.EMBEDDED_NAMES:
                    telling.append(name.lower())
                entries.append((name, entry))
        if not ignored:
            rules = self.rules_of(fd, prefix, rules, any(name == b".gitignore" for name, _ in entries))
        if telling:
            telling += self.telling_below(prefix)
        if names.is_embedded(telling):
            self.find(
                "embedded-repository",
                prefix.rstrip(b"/") or b".",
                "Git reads this folder as a repository"
                # At the root the inert .git comes first, until the files are somewhere else.
                + (
                    "; one that you or your prompt start in it obeys it"
                    if prefix
                    else " where it has no .git"
                ),
            )
        for name, entry in entries:
            path = prefix + name
            if name == b".git" and not prefix:
                continue
            if names.is_dotgit(name):
                self.find(
                    "nested-repository",
                    path,
                    "this name is .git to Git or to a file system; it was not read, but a Git that you or"
                    " your prompt start beside it obeys it",
                )
                continue
            if len(path) > names.LONGEST_PATH:
                raise Stop("path-too-long", path, f"the path is longer than {names.LONGEST_PATH} bytes")
            try:
                status = entry.stat(follow_symlinks=False)
                self.entry(fd, name, path, status, rules, ignored, depth)
            except OSError as error:
                self.unreadable(path, error)

    def rules_of(self, fd: int, prefix: bytes, rules: ignore.Rules, present: bool) -> ignore.Rules:
        """The rules of a folder and those above it; ``present``: it has an entry ``.gitignore``."""
        return self.ignore_file(fd, prefix, rules) if present else rules

    def telling_below(self, prefix: bytes) -> list[bytes]:
        """Names of :data:`backends.trees.names.EMBEDDED_NAMES` that the folder has beside its own entries."""
        return []

    def unreadable(self, path: bytes, error: OSError) -> None:
        if error.errno == errno.ENOENT:
            return  # gone since the folder was listed
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EINVAL):
            self.skip(path, "it became something else while it was read")
        else:
            self.skip(path, f"it cannot be read: {os.strerror(error.errno or 0)}")
        self.out.keep_as_base(path)

    def entry(
        self,
        fd: int,
        name: bytes,
        path: bytes,
        status: os.stat_result,
        rules: ignore.Rules,
        ignored: bool,
        depth: int,
    ) -> None:
        is_folder = stat.S_ISDIR(status.st_mode)
        base = self.tracked.get(path)
        if path == self.apart and base is None and not (is_folder and self.holds_tracked(path)):
            self.ignored += 1
            return
        if base is None and (ignored or rules.levels) and (ignored or self.ignores(rules, path, is_folder)):
            if not is_folder or not self.holds_tracked(path):
                self.leave_out(path, is_folder)
                return
            ignored = True
        if is_folder:
            if base is not None and base.startswith(b"160000"):
                self.submodule(fd, name, path)
            else:
                self.subfolder(fd, name, path, rules, ignored, depth)
        elif stat.S_ISREG(status.st_mode):
            self.file(fd, name, path, status)
        elif stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=fd)
            self.spend(path, len(target))
            self.out.place(path, b"120000", self.out.blob(target))
        else:
            self.skip(path, f"it is {KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}")

    def subfolder(
        self, fd: int, name: bytes, path: bytes, rules: ignore.Rules, ignored: bool, depth: int
    ) -> None:
        if depth >= self.limits["depth"]:
            raise Stop("too-deep", path, f"folders lie deeper than {self.limits['depth']}")
        self.watch_clock(path)
        below = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        try:
            if os.fstat(below).st_dev != self.device:
                self.skip(path, "another file system is mounted there")
                self.out.keep_as_base(path)
                return
            self.folder(below, path + b"/", rules, ignored, depth + 1)
        finally:
            os.close(below)

    def submodule(self, fd: int, name: bytes, path: bytes) -> None:
        """A gitlink of the base stays as it is: its commit is not among the objects that can be carried."""
        self.out.keep_as_base(path)
        below = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        try:
            with os.scandir(below) as listing:
                if any(True for _ in listing):
                    self.find("submodule", path, "what lies in a submodule's folder is not carried")
        finally:
            os.close(below)

    def ignore_file(self, fd: int, prefix: bytes, rules: ignore.Rules) -> ignore.Rules:
        path = prefix + b".gitignore"
        if not self.ruled:
            return rules
        try:
            opened = os.open(b".gitignore", FILE_FLAGS, dir_fd=fd)
        except OSError:
            return (
                rules  # a symbolic link counts as no file, as in Git; what else is wrong shows at its entry
            )
        try:
            status = os.fstat(opened)
            if not self.plain(opened, status):
                return rules
            if status.st_size > ignore.LARGEST:
                self.find("ignore-rules", path, f"larger than {ignore.LARGEST} bytes: its rules are not used")
                return rules
            added = ignore.add(rules, prefix, b"".join(chunks(opened, ignore.LARGEST)), self.patience)
        except ignore.TooSlow:
            self.end_rules(path)
            return rules
        finally:
            os.close(opened)
        for line in added.bad:
            self.find("ignore-rules", path, f"not a pattern: {text(line[:200])}")
        return added

    def plain(self, fd: int, status: os.stat_result) -> bool:
        """Whether what is open on ``fd`` is a regular file."""
        return stat.S_ISREG(status.st_mode)

    def ignores(self, rules: ignore.Rules, path: bytes, is_folder: bool) -> bool:
        if not self.ruled:
            return False
        try:
            return rules.ignores(path, is_folder, self.patience)
        except ignore.TooSlow:
            self.end_rules(path)
            return False

    def end_rules(self, path: bytes) -> None:
        """From here on all that is untracked is carried: more to look at, and nothing hidden."""
        self.ruled = False
        seconds = self.limits["seconds"] / RULES_SHARE
        self.find(
            "ignore-rules", path, f"rules took more than {seconds:g} seconds: from here on none is used"
        )

    # -- contents -------------------------------------------------------------------------------------

    def file(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        cached = self.cache.get(path)
        oid = statcache.known(cached, status, self.settle)
        if oid is not None and cached is not None:
            self.records.append((path, cached))
            self.out.place(path, mode_of(status), oid)
            return
        opened = os.open(name, FILE_FLAGS, dir_fd=fd)
        try:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                self.skip(path, "it was no longer a regular file when it was opened")
                return
            read_at = time.time_ns()
            oid = self.regular(opened, path, status)
        finally:
            os.close(opened)
        self.out.place(path, mode_of(status), oid)
        self.records.append((path, statcache.value(oid, read_at, status)))

    def regular(self, fd: int, path: bytes, status: os.stat_result) -> bytes:
        limit = self.limits["file_size"]
        if status.st_size > limit:
            raise Stop("file-too-large", path, f"it has {status.st_size} bytes, the limit is {limit}")
        if status.st_size <= WHOLE:
            data = b"".join(chunks(fd, limit + 1))
            if len(data) > limit:
                raise Stop("file-too-large", path, f"it grew beyond {limit} bytes while it was read")
            self.spend(path, len(data))
            return self.out.blob(data)
        self.spend(path, status.st_size)
        oid = self.out.large_blob(status.st_size, self.timed(path, chunks(fd, status.st_size)))
        if oid is None:
            raise Stop("tree-changed", path, "it shrank while it was read")
        return oid

    def timed(self, path: bytes, parts: Iterator[bytes]) -> Iterator[bytes]:
        for part in parts:
            self.watch_clock(path)
            yield part

    def spend(self, path: bytes, size: int) -> None:
        self.read += size
        if self.read > self.limits["total_size"]:
            raise Stop("tree-too-large", path, f"more than {self.limits['total_size']} bytes had to be read")


class WholeWalk(Walk):
    """The walk over a tree that holds all its files: what it does not meet is gone."""

    def __init__(
        self, limits: dict[str, Any], tracked: dict[bytes, bytes], cache: dict[bytes, bytes], out: Import
    ) -> None:
        super().__init__(limits, tracked, cache, out)
        self.folders_with_tracked: set[bytes] = set()
        for path in tracked:
            while (cut := path.rfind(b"/")) > 0:
                path = path[:cut]
                if path in self.folders_with_tracked:
                    break
                self.folders_with_tracked.add(path)

    def holds_tracked(self, folder: bytes) -> bool:
        return folder in self.folders_with_tracked


def mode_of(status: os.stat_result) -> bytes:
    return b"100755" if status.st_mode & stat.S_IXUSR else b"100644"


def chunks(fd: int, limit: int) -> Iterator[bytes]:
    """At most ``limit`` bytes of an open file, up to its end."""
    while limit > 0 and (data := os.read(fd, min(CHUNK, limit))):
        limit -= len(data)
        yield data


def text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
