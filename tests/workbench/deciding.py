"""The gate with a desk of its own, for tests that decide in it by keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.widgets import TextArea

from app.screens.review import ReviewScreen
from app.screens.writing import WriteScreen
from backends.gate.decisions import Review
from backends.gate.patch import Marks
from backends.snapshots import Diff, FileChange
from tests.workbench import frozen
from tests.workbench.frozen_desk import FrozenDesk
from tests.workbench.stage import Play, play
from tests.workbench.test_screens import to_gate
from widgets.diff_view import DiffView
from widgets.file_list import FileList

TS, YML, LOCK = (change.path for change in frozen.CHANGES)
TAIL = 1 << 165
"""The only line of the second hunk."""
FIRST = Marks(frozenset(), 0b11 << 116 | 1 << 122, 0b1111 << 116 | 1 << 124)
"""The lines of the first."""

MOVED_PATCH = b"""diff --git a/a b/a
deleted file mode 100644
index 1111111..0000000
--- a/a
+++ /dev/null
@@ -1 +0,0 @@
-one
diff --git a/a/b b/a/b
new file mode 100755
index 0000000..2222222
--- /dev/null
+++ b/a/b
@@ -0,0 +1 @@
+two
diff --git a/logo.png b/logo.png
index 3333333..4444444 100644
GIT binary patch
literal 3
zab

literal 3
zcd

diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
index 5555555..6666666
--- a/run.sh
+++ b/run.sh
@@ -1,2 +1,2 @@
 a
-b
+B
"""
MOVED = Diff(
    "3f2a9c1d" + "0" * 32,
    "9c1d" * 10,
    (
        FileChange(b"a", None, "D", 0o100644, 0, "1" * 40, "0" * 40, 0, 1),
        FileChange(b"a/b", None, "A", 0, 0o100755, "0" * 40, "2" * 40, 1, 0),
        FileChange(b"logo.png", None, "M", 0o100644, 0o100644, "3" * 40, "4" * 40, None, None),
        FileChange(b"run.sh", None, "M", 0o100644, 0o100755, "5" * 40, "6" * 40, 1, 1),
    ),
    MOVED_PATCH,
    (),
)
"""A folder takes the name of a file, an image changes, and a file gets a mode and a line."""


class Gate:
    """The review screen of a frozen engine, with what its desk has on disk."""

    def __init__(self, stage: Play, engine: frozen.FrozenEngine, screen: ReviewScreen) -> None:
        self.stage = stage
        self.engine = engine
        self.screen = screen
        self.press = stage.press

    @property
    def diff(self) -> DiffView:
        return self.screen.query_one(DiffView)

    @property
    def files(self) -> FileList:
        return self.screen.query_one(FileList)

    @property
    def kept(self) -> Review:
        """What whoever comes next finds."""
        return FrozenDesk(self.engine, "next").review

    async def settled(self) -> None:
        """Every act that was asked for is painted."""
        sitting = self.screen._sitting
        assert sitting is not None
        await self.stage.until(lambda: sitting.idle and not self.screen._looking)
        await self.stage.pilot.pause()

    async def act(self, *keys: str) -> Review:
        """Presses keys; what is painted then, which must be what is on disk."""
        await self.press(*keys)
        await self.settled()
        decided = self.screen.decided
        assert decided is not None
        assert decided == self.kept
        return decided

    def marks(self, path: bytes = TS) -> tuple[Marks, Marks]:
        assert self.screen.decided is not None
        return self.screen.decided.history.now.of(path)


@asynccontextmanager
async def gate(
    size: tuple[int, int] = (120, 40), diff: Diff | None = None, engine: Any = None
) -> AsyncIterator[Gate]:
    made = engine or frozen.FrozenEngine()
    if diff is not None:
        made.diff = diff
    if b"logo.png" in [change.path for change in made.diff.changes]:
        made.blobs = {"3" * 40: b"old", "4" * 40: b"new"}
    async with play(made, size) as stage:
        screen = await to_gate(stage)
        await stage.until(lambda: screen.decided is not None)
        found = Gate(stage, made, screen)
        await found.settled()
        yield found


async def write(found: Gate, text: str, *keys: str) -> None:
    await found.stage.until(lambda: isinstance(found.stage.app.screen, WriteScreen))
    found.stage.app.screen.query_one(TextArea).insert(text)
    await found.press(*keys)
