"""Changing a box: its lock, its state, and the journal record of every transition."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backends.boxes import generations, liveness, store
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import IDLE, RUNNING, legal, require
from backends.boxes.manifest import Manifest, load, save, write_atomically
from backends.errors import Busy, ClocheError, NoSuchBox
from backends.evidence.journal import Journal, head

if TYPE_CHECKING:
    from backends.keeper.client import KeeperClient

LAST_BREATH = 0.5  # seconds
LEAVING = 10.0  # seconds that a keeper takes at most from its box's end to its own, however busy the host
AFTER_DEATH = 2.0  # seconds within which init follows its keeper (death pipe)
AFTER_STEWARD = 15.0  # seconds that a steward gets for the same, which has an engine remove the box


def person() -> str:
    """Who acts, for the journal: the login name of the real user, else the uid."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


class Held:
    """A box whose lock this process holds. The only way in which the engine writes a manifest."""

    def __init__(self, paths: BoxPaths) -> None:
        self.paths = paths
        self.manifest = load(paths)
        self._journal = Journal(paths.journal)

    def record(self, kind: str, data: dict[str, Any]) -> None:
        """Append one record; it is on disk when this returns."""
        self._journal.append(kind, data, sync=True)

    def change(self, **fields: Any) -> Manifest:
        """Save the manifest with ``fields`` changed, and the journal's present end as its anchor."""
        count, last = head(self.paths.journal)
        self.manifest = self.manifest._replace(journal={"count": count, "head": last}, **fields)
        save(self.paths, self.manifest)
        return self.manifest

    def move(self, target: str, why: str, who: str = "", **fields: Any) -> None:
        """Journal the transition to ``target``, then save it. The caller asked ``require`` before."""
        source = self.manifest.state
        if not legal(source, target):
            raise ClocheError(
                f"box {self.paths.name} cannot become {target}",
                f"it is {source}",
                f"cloche status {self.paths.name}",
                code="wrong-state",
            )
        self.record("transition", {"from": source, "to": target, "who": who or person(), "why": why})
        self.change(state=target, **fields)


@contextmanager
def holding(paths: BoxPaths, verb: str, *, end_idle: bool = False) -> Iterator[Held]:
    """Hold the lock of a box for ``verb``. A box whose keeper died is settled to idle first.

    With ``end_idle`` a keeper that only lingers, with no process left in the box, is ended for it.
    """
    if end_idle:
        _end_idle_keeper(paths, verb)
    lock = _lock(paths, verb)
    try:
        held = Held(paths)
        settle(held)
        held.manifest = generations.take_up(paths, held.manifest)
        if held.manifest.pending is not None:
            from backends.verbs import rebasing

            rebasing.settle(held)
        yield held
    finally:
        os.close(lock)


def _lock(paths: BoxPaths, verb: str) -> int:
    """The box's lock; a keeper that has written its end holds it for the moment until it is gone."""
    try:
        return store.take(paths, verb)
    except Busy:
        live = liveness.read(paths)
        if live.kind != "" or live.keeper is None:
            raise
        liveness.wait_gone(live.keeper, LEAVING)
        return store.take(paths, verb)


def _end_idle_keeper(paths: BoxPaths, verb: str) -> None:
    if liveness.read(paths).kind != "live":
        return
    from backends.keeper import client

    try:
        with client.connect(paths) as keeper:
            _ask_to_end(keeper, paths, verb)
    except (NoSuchBox, Busy) as error:
        if not went(paths, error):
            raise
    wait_for_end(paths)


def _ask_to_end(keeper: KeeperClient, paths: BoxPaths, verb: str) -> None:
    # Right after `cloche run` returned, the last children of its command may still be ending.
    until = time.monotonic() + LAST_BREATH
    while (count := keeper.call("stat").get("processes", 0)) and time.monotonic() < until:
        time.sleep(0.02)
    if count:
        require(paths.name, load(paths).state, verb)
        raise Busy(
            f"cannot {verb} box {paths.name}",
            f"{count} of its processes run",
            f"let them end, or end them: cloche stop {paths.name}",
            code="running",
        )
    keeper.call("stop")


def went(paths: BoxPaths, error: ClocheError) -> bool:
    """Whether ``error`` is that the keeper went by itself, which it may at any time while nothing runs.

    Its box ends with it, however it went, and is waited for.
    """
    if error.code not in ("not-live", "keeper-gone"):
        return False
    live = liveness.read(paths)
    for process in (live.init, live.keeper):
        if process is not None:
            liveness.wait_gone(process, LEAVING)
    return True


def wait_for_end(paths: BoxPaths) -> None:
    """Wait until a keeper that was told to stop has gone, and with it its hold on the lock."""
    live = liveness.read(paths)
    if live.keeper is not None:
        liveness.wait_gone(live.keeper, LEAVING)


def settle(held: Held) -> None:
    """Make a box idle whose keeper died without saying so; the caller holds its lock.

    Init follows its keeper by the death pipe within a second; one that does not is killed by identity.
    """
    paths = held.paths
    live = liveness.read(paths)
    if live.kind != "lost":
        if held.manifest.state == RUNNING and live.kind == "":
            # The keeper wrote its end but not the state: it was killed between the two.
            held.move(IDLE, "no process is left", "engine")
        return
    followed = True
    patience = AFTER_STEWARD if live.beside else AFTER_DEATH
    if live.init is not None and not liveness.wait_gone(live.init, patience):
        followed = False
        if not liveness.end(live.init):
            raise Busy(
                f"box {paths.name} cannot be settled",
                f"its keeper died and its init (pid {live.init.pid}) does not end",
                f"look at that process: cat /proc/{live.init.pid}/stack",
                code="init-stuck",
            )
    held.record("keeper-lost", {"keeper": list(live.keeper or ()), "init_followed": followed})
    import json

    from backends.kernel import cgroups

    # At tier workspace the agent can write live.json: nothing but an empty control group is ever removed.
    named = (str(folder) for folder in live.facts.get("cgroups", ()))
    cgroups.remove(tuple(one for one in named if one.startswith("/sys/fs/cgroup/") and "/.." not in one))
    facts = {**live.facts, "ended": time.time()}
    write_atomically(paths.live, json.dumps(facts, sort_keys=True).encode())
    if held.manifest.state == RUNNING:
        held.move(IDLE, "keeper lost", "engine")
