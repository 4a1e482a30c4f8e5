"""Walking the upper folder of an overlay: what a box changed, read against the base's listing.

What the marks mean is the kernel's (``Documentation/filesystems/overlayfs.rst``, as mounted with
``userxattr``): a character device 0:0, or an empty file with ``user.overlay.whiteout``, is a whiteout;
``user.overlay.opaque`` = ``y`` on a folder hides what lies below it in the base; and anything that is no
folder hides a folder of the base. Redirects and metadata-only copies are neither made nor followed by such a
mount: inside, the kernel refuses an entry that has one, and here the attribute means nothing. A box cannot
set marks of its own: inside, ``user.overlay.*`` is stored under another name.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from backends.trees import ignore, names
from backends.trees.listing import Listing
from backends.trees.stream import Import
from backends.trees.walk import FILE_FLAGS, Walk

WHITEOUT = "user.overlay.whiteout"
OPAQUE = "user.overlay.opaque"
GITLINK = b"160000"


def parse_rules(data: bytes) -> dict[bytes, bytes]:
    """The base's ``.gitignore`` files: path to content (see :func:`backends.trees.layering.rules`)."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        size = data.index(b"\0", end + 1)
        begin = size + 1
        stop = begin + int(data[end + 1 : size])
        found[data[at:end]] = data[begin:stop]
        at = stop
    return found


class UpperWalk(Walk):
    """The walk over an upper folder: what it does not meet is as in the base."""

    def __init__(
        self,
        limits: dict[str, Any],
        base: Listing,
        rules: dict[bytes, bytes],
        cache: dict[bytes, bytes],
        out: Import,
        compared: Listing | None = None,
    ) -> None:
        """``compared``: what counts as tracked, where that is not the base that shows through."""
        self.compared = base if compared is None else compared
        super().__init__(limits, self.compared, cache, out)
        self.base = base
        self.base_rules = rules
        self.merged = True
        """Whether the base shows through in the folder that is being read."""

    def holds_tracked(self, folder: bytes) -> bool:
        return self.compared.holds(folder)

    def folder(self, fd: int, prefix: bytes, rules: ignore.Rules, ignored: bool, depth: int) -> None:
        above = self.merged
        path = prefix[:-1]
        if path:  # the kernel asks for no mark of the root
            if above and opaque(fd):
                self.hide(path)
                self.merged = False
            elif not self.base.holds(path):
                self.merged = False
        try:
            super().folder(fd, prefix, rules, ignored, depth)
        finally:
            self.merged = above

    def rules_of(self, fd: int, prefix: bytes, rules: ignore.Rules, present: bool) -> ignore.Rules:
        content = self.base_rules.get(prefix + b".gitignore") if self.merged and not present else None
        if content is None:
            return super().rules_of(fd, prefix, rules, present)
        if len(content) > ignore.LARGEST or not self.ruled:
            return rules
        try:
            return ignore.add(rules, prefix, content, self.patience)
        except ignore.TooSlow:
            self.end_rules(prefix + b".gitignore")
            return rules

    def telling_below(self, prefix: bytes) -> list[bytes]:
        if not self.merged:
            return []
        return [
            name
            for name in names.EMBEDDED_NAMES
            for spelt in (name, name.upper())
            if self.base.get(prefix + spelt) is not None or self.base.holds(prefix + spelt)
        ]

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
        if is_whiteout(fd, name, status):
            if self.merged:
                self.hide(path)
            return
        if self.merged:
            if not stat.S_ISDIR(status.st_mode):
                self.hide(path)
            else:
                meta = self.base.get(path)
                if meta is not None and not meta.startswith(GITLINK):
                    self.out.missing.add(path)
        super().entry(fd, name, path, status, rules, ignored, depth)

    def hide(self, path: bytes) -> None:
        """What the base has at ``path`` and below is gone, unless it is met in the upper folder."""
        if self.base.get(path) is not None:
            self.out.missing.add(path)
        self.out.missing.update(below for below, _ in self.base.below(path))


def is_whiteout(folder: int, name: bytes, status: os.stat_result) -> bool:
    """Whether an entry hides its name: the device, or an empty file that bears the attribute."""
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev == 0
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        return False
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=folder)
    except OSError:
        return False  # what it is is told when it is read
    try:
        os.getxattr(fd, WHITEOUT)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def opaque(fd: int) -> bool:
    """Whether a folder hides what lies below it."""
    try:
        return os.getxattr(fd, OPAQUE) == b"y"
    except OSError:
        return False
