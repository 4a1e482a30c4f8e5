"""The one publisher: asks the engine for what is on screen, twice a second, and posts what changed. A tree is
read when it is told to have changed.

Each box is asked on a thread of its own and never twice at once, so a keeper that does not answer delays its
own pane and nothing else. Values are frozen; only handlers on the UI loop change what is shown.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial

from textual.message import Message

from app.engine import EngineLike
from app.workers.watching import Watching
from backends.errors import ClocheError
from backends.snapshots import BoxRow, BoxView, Diff
from widgets import units

PERIOD = 0.5
"""Seconds between two rounds."""

CALM = 2.0
"""Seconds between two looks at one of several boxes in which nothing moves; its row in the list, which is
read in every round, tells when something does."""

PATIENCE = 1.5
"""Seconds after which a box that has not answered is said not to answer."""

SETTLE = 0.02
"""Seconds between a change in a tree and its reading: one write is several events."""

STAT_SETTLE = 1.0
"""The same, when only the figures of a tree's diff are on screen."""

DIFF_PERIOD = 3.0
"""Seconds between two readings at least of a tree that cannot be watched."""

STAT_PERIOD = 20.0
"""The same, when only its figures are on screen; and the wait after a reading that failed."""

READERS = 2
"""Trees read at the same time."""

DIFF_SHARE = 4
"""Readings take at most one part in this many of a box's time, however large its tree is."""

STAT_SHARE = 10
"""The same, when only its figures are on screen."""

CREDIT = 0.25
"""Seconds of reading that a tree at rest saves up: the first changes after it are shown at once, a box that
writes without end falls back to its share."""


class BoxesRead(Message):
    """The list of boxes, changed since the list before."""

    def __init__(self, rows: tuple[BoxRow, ...]) -> None:
        super().__init__()
        self.rows = rows


class BoxesFailed(Message):
    """The list could not be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class BoxRead(Message):
    """One box's view, changed since the view before."""

    def __init__(self, view: BoxView) -> None:
        super().__init__()
        self.view = view


class BoxFailed(Message):
    """One box could not be asked; ``why`` is a sentence for its pane."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__()
        self.key = key
        self.why = why


class DiffRead(Message):
    """What one box changed so far."""

    def __init__(self, key: str, diff: Diff) -> None:
        super().__init__()
        self.key = key
        self.diff = diff


Post = Callable[[Message], object]


class _Tree:
    """When one box's tree is read next: ``due`` by what is known of changes, never before ``earliest``."""

    def __init__(self) -> None:
        self.due = 0.0
        self.earliest = 0.0
        self.touched = 0.0  # when the last change was told
        self.told = False  # whether all changes are told
        self.credit = CREDIT
        self.settled = time.monotonic()  # when the credit was counted last

    @property
    def next(self) -> float:
        return max(self.due, self.earliest)

    def was_read(self, began: float, now: float, share: int) -> None:
        """A reading took from ``began`` to ``now``: another one may begin once it is paid for."""
        saved = min(CREDIT, self.credit + (began - self.settled) / share)
        self.credit, self.settled = saved - (now - began), now
        self.earliest = now + share * max(0.0, -self.credit)


class _Asked:
    """One question in flight."""

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.told = False


def shown(view: BoxView) -> object:
    """What two views have in common when they look the same: ages and shares as far as they are drawn."""
    processes = tuple(
        (
            one.ident,
            one.depth,
            one.state,
            one.command,
            one.session,
            units.percent(one.cpu),
            units.size(one.rss),
            units.span(one.age),
        )
        for one in view.processes
    )
    return view._replace(row=coarse(view.row), processes=()), processes


def coarse(row: BoxRow) -> BoxRow:
    """The row as far as a difference in it is drawn."""
    return row._replace(cpu=round(row.cpu), rss=row.rss >> 20)


def still(view: BoxView) -> object:
    """What stays the same while nothing happens in a box: all but the ages of its processes."""
    return view._replace(
        row=coarse(view.row),
        processes=tuple(one._replace(age=0.0, cpu=round(one.cpu)) for one in view.processes),
    )


class Publisher:
    """Runs on its own thread from :meth:`start` to :meth:`stop`; ``post`` must be safe to call from there."""

    def __init__(self, engine: EngineLike, post: Post) -> None:
        self._engine = engine
        self._post = post
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._views: tuple[str, ...] = ()
        self._diffs: tuple[str, ...] = ()
        self._stats: tuple[str, ...] = ()
        self._reading = threading.Semaphore(READERS)
        self._everywhere = False
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._posted: dict[tuple[str, str], object] = {}
        self._trees: dict[str, _Tree] = {}
        self._calm: dict[str, tuple[float, object]] = {}  # when the box is looked at again, what it was like
        self._rows: dict[str, BoxRow] = {}
        self._round = 0.0  # when list and views are asked for next
        self._watching = Watching(engine, self._touched)
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------ from the UI loop

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._watching.want(())
        self._wake.set()

    def want(
        self,
        views: tuple[str, ...],
        diffs: tuple[str, ...],
        everywhere: bool,
        stats: tuple[str, ...] = (),
    ) -> None:
        """Sets what is on screen: boxes whose view, whose diff, and whose figures of a diff are looked at."""
        with self._lock:
            now_wanted = (views, diffs, everywhere, stats)
            changed = now_wanted != (self._views, self._diffs, self._everywhere, self._stats)
            for key in set(diffs) - set(self._diffs):  # whoever asks anew has not seen it
                self._posted.pop(("diff", key), None)
                self._due_now(key)
            for key in set(views) - set(self._views):
                self._calm.pop(key, None)
            self._views, self._diffs, self._everywhere, self._stats = now_wanted
        if changed and not self._over.is_set():
            self._watching.want({*diffs, *stats})
            self._ask_soon()

    def refresh(self, key: str = "") -> None:
        """Asks at once, and posts even what did not change: something was just done to ``key``, or to all."""
        with self._lock:
            for known in [known for known in self._posted if not key or known[1] in ("", key)]:
                del self._posted[known]
            self._calm.clear()
            if key:
                self._due_now(key)
        self._ask_soon()

    def _due_now(self, key: str) -> None:
        tree = self._trees.get(key)
        if tree is not None:
            tree.due = tree.earliest = 0.0

    def _ask_soon(self) -> None:
        self._round = 0.0
        self._wake.set()

    # ------------------------------------------------------------ on threads

    def _run(self) -> None:
        while not self._over.is_set():
            with self._lock:
                views, diffs, everywhere = self._views, self._diffs, self._everywhere
                stats = [key for key in self._stats if key not in diffs]
            now = time.monotonic()
            if now >= self._round:
                self._round = now + PERIOD
                self._ask("list", "", partial(self._list, everywhere))
                for key in views:
                    if len(views) == 1 or self._moves(key, now):
                        self._ask("view", key, partial(self._view, key))
            wait = self._round - now
            for key in (*diffs, *stats):
                with self._lock:
                    due = self._trees.setdefault(key, _Tree()).next
                    reading = ("diff", key) in self._asked
                if due <= now:
                    self._ask("diff", key, partial(self._diff, key))
                elif not reading:
                    wait = min(wait, due - now)
            self._wake.wait(max(0.01, wait))
            self._wake.clear()

    def _moves(self, key: str, now: float) -> bool:
        """Whether a box is to be looked at in this round."""
        with self._lock:
            return ("view", key) in self._asked or self._calm.get(key, (0.0, None))[0] <= now

    def _touched(self, key: str, told: bool) -> None:
        """The tree of box ``key`` changed, or cannot tell its changes; from the thread that watches it."""
        now = time.monotonic()
        with self._lock:
            tree = self._trees.setdefault(key, _Tree())
            tree.touched, tree.told = now, told
            settle = SETTLE if key in self._diffs else STAT_SETTLE
            tree.due = min(tree.due, now + settle)
        self._wake.set()

    def _ask(self, kind: str, key: str, work: Callable[[], None]) -> None:
        with self._lock:
            asked = self._asked.get((kind, key))
            if asked is None:
                self._asked[kind, key] = _Asked()
        if asked is None:
            threading.Thread(
                target=self._answer, args=(kind, key, work), name=f"{kind} {key}", daemon=True
            ).start()
        elif kind == "view" and not asked.told and time.monotonic() - asked.since > PATIENCE:
            asked.told = True
            self._posted.pop((kind, key), None)
            self._send(BoxFailed(key, "the keeper has not answered yet; still asking"))

    def _answer(self, kind: str, key: str, work: Callable[[], None]) -> None:
        try:
            work()
        except ClocheError as error:
            self._failed(kind, key, error, f"{error.what}: {error.why}")
        except Exception as error:  # noqa: BLE001 (one question failed: its pane says so, the others go on)
            self._failed(kind, key, error, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._asked.pop((kind, key), None)
            if kind == "diff":
                self._wake.set()  # only now: while it counts as under way the next one is not planned

    def _failed(self, kind: str, key: str, error: Exception, why: str) -> None:
        if kind == "list":
            self._changed("list", "", why, BoxesFailed(error))
        elif kind == "view":
            self._changed("view", key, why, BoxFailed(key, why))
        else:
            with self._lock:
                tree = self._trees.setdefault(key, _Tree())
                tree.due = tree.earliest = time.monotonic() + STAT_PERIOD
            self._changed("diff", key, why, BoxFailed(key, why))

    def _list(self, everywhere: bool) -> None:
        rows = self._engine.boxes(everywhere)
        self._changed("list", "", tuple(map(coarse, rows)), BoxesRead(rows))
        with self._lock:
            before, self._rows = self._rows, {row.key: coarse(row) for row in rows}
            moved = [key for key in self._views if self._rows.get(key) != before.get(key)]
        for key in moved:
            self._ask("view", key, partial(self._view, key))

    def _view(self, key: str) -> None:
        view = self._engine.view(key)
        state = still(view)
        with self._lock:
            calm = key in self._calm and self._calm[key][1] == state
            # A little less than a whole number of rounds, so that it is not missed by a moment.
            self._calm[key] = (time.monotonic() + (CALM - PERIOD / 2 if calm else 0.0), state)
        self._changed("view", key, shown(view), BoxRead(view))

    def _diff(self, key: str) -> None:
        with self._reading:
            began = time.monotonic()
            diff = self._engine.snapshot_diff(key, still=False)
            now = time.monotonic()
        with self._lock:
            tree = self._trees.setdefault(key, _Tree())
            looked_at = key in self._diffs  # now: the screen may have changed meanwhile
            tree.was_read(began, now, DIFF_SHARE if looked_at else STAT_SHARE)
            if tree.touched >= began:  # it may have been read before that change
                tree.due = now + (SETTLE if looked_at else STAT_SETTLE)
            else:
                tree.due = math.inf if tree.told else now + (DIFF_PERIOD if looked_at else STAT_PERIOD)
        self._changed("diff", key, (diff.base, diff.tree, diff.skipped), DiffRead(key, diff))

    def _changed(self, kind: str, key: str, value: object, message: Message) -> None:
        with self._lock:
            same = (kind, key) in self._posted and self._posted[kind, key] == value
            if not same:
                self._posted[kind, key] = value
        if not same:
            self._send(message)

    def _send(self, message: Message) -> None:
        if not self._over.is_set():
            self._post(message)
