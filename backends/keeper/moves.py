"""Renames of folders in an overlay tree: the call waits while init makes the folder one that can be moved.

An overlay refuses with EXDEV to move a folder that exists in a lower layer. Init makes such a folder one of
the box's own (:mod:`backends.keeper.init_moves`), then the call goes on in the kernel, which decides. This is
for convenience and binds nobody: whatever goes wrong, or is changed meanwhile, ends in the kernel's answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from backends.keeper.callernames import AT_FDCWD
from backends.keeper.init_moves import PREFIX
from backends.keeper.inside import Inside
from backends.keeper.link import Full
from backends.kernel import notify
from backends.kernel.notify import Memory, Notification

MOST = 64  # calls that may wait at one time; further ones get the kernel's answer at once
PATIENCE = 120.0  # seconds that one call waits
RENAME_EXCHANGE = 2


class Moves:
    """The waiting calls of one notify descriptor, and the talk with init about them."""

    def __init__(self, fd: int, tree: str, send: Callable[[Mapping[str, object]], None]) -> None:
        self._fd = fd
        self._tree = os.fsencode(tree)
        self._send = send
        self._waiting: dict[int, float] = {}  # notification: until when
        self._device = 0

    def paths(
        self, note: Notification, call: str, absolute: Callable[[Notification, int, bytes], bytes | None]
    ) -> list[bytes]:
        """The names, absolute and inside the tree, that a call moves; empty when it is none of ours."""
        if call == "rename":
            pairs, flags = [(AT_FDCWD, note.args[0]), (AT_FDCWD, note.args[1])], 0
        else:
            pairs = [(note.args[0], note.args[1]), (note.args[2], note.args[3])]
            flags = note.args[4] if call == "renameat2" else 0
        with Memory(note.pid) as memory:
            given = [(dirfd, memory.string(pointer).rstrip(b"/")) for dirfd, pointer in pairs]
        names: list[bytes] = []
        for dirfd, name in given:
            if not name or name.rpartition(b"/")[2].startswith(PREFIX):
                return []  # init's own, or nothing
            path = absolute(note, dirfd, name)
            if path is None or not path.startswith(self._tree + b"/"):
                return []
            names.append(path)
        return names if flags & RENAME_EXCHANGE else names[:1]

    def ask(self, note: Notification, names: list[bytes], inside: Inside) -> bool:
        """Let the call wait while init looks at the folders among ``names``; ``False``: it need not wait."""
        folders = [name for name in names if self._is_folder(inside, name)]
        if not folders or len(self._waiting) >= MOST:
            return False
        texts = [name.decode("utf-8", "surrogateescape") for name in folders]
        try:
            self._send({"op": "movable", "id": note.id, "paths": texts})
        except Full:
            return False
        self._waiting[note.id] = time.monotonic() + PATIENCE
        return True

    def _is_folder(self, inside: Inside, name: bytes) -> bool:
        if not self._device:
            self._device = inside.folder(self._tree)
        return bool(self._device) and inside.folder(name) == self._device

    def answer(self, ident: object) -> None:
        """Init is done with a call: it goes on."""
        if isinstance(ident, int) and self._waiting.pop(ident, None) is not None:
            notify.proceed(self._fd, ident)

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._waiting)

    def tick(self) -> None:
        """Calls that waited too long go on as they are."""
        now = time.monotonic()
        for ident in [ident for ident, until in self._waiting.items() if now > until]:
            self.answer(ident)
