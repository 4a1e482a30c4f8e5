"""Learns at once that a box's tree changed, so a tree in which nothing changes is not read again.

Each tree is watched on a thread of its own: one in which files are made without end delays no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from app.engine import EngineLike, TreeWatchLike
from backends.errors import ClocheError

STEP = 1.0
"""Seconds after which a thread looks whether its tree is still wanted."""

Touched = Callable[[str, bool], None]


class Watching:
    """Calls ``touched(key, told)`` from a thread when the tree of box ``key`` may have changed; without
    ``told``, not all of its changes can be told (no watches left, no tree): it has to be read at times."""

    def __init__(self, engine: EngineLike, touched: Touched) -> None:
        self._engine = engine
        self._touched = touched
        self._lock = threading.Lock()
        self._wanted: frozenset[str] = frozenset()
        self._running: set[str] = set()

    def want(self, keys: Iterable[str]) -> None:
        """Sets whose trees are watched."""
        with self._lock:
            self._wanted = frozenset(keys)
            fresh = self._wanted - self._running
            self._running |= fresh
        for key in fresh:
            threading.Thread(target=self._watch, args=(key,), name=f"watch {key}", daemon=True).start()

    def _goes_on(self, key: str) -> bool:
        with self._lock:
            if key in self._wanted:
                return True
            self._running.discard(key)
            return False

    def _watch(self, key: str) -> None:
        try:
            watch: TreeWatchLike = self._engine.watch_tree(key)
        except (ClocheError, OSError):
            self._unwatched(key)
            return
        try:
            self._touched(key, watch.complete)  # what changed before the first watch was not told
            while self._goes_on(key):
                if watch.wait(STEP):
                    self._touched(key, watch.complete)
        except OSError:
            self._unwatched(key)
        finally:
            watch.close()

    def _unwatched(self, key: str) -> None:
        """Said once; whoever wants the box anew tries again."""
        self._touched(key, False)
        idle = threading.Event()
        while self._goes_on(key):
            idle.wait(STEP)
