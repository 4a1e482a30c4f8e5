"""One live box: its init, its sessions, its gate and its clients, from ready to the last survivor's end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from backends import trace
from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError
from backends.evidence.journal import Journal
from backends.keeper import census, init_protocol, watches
from backends.keeper.budget import Budget
from backends.keeper.denials import INTERVAL, Denials
from backends.keeper.exits import Exits
from backends.keeper.gate import Gate
from backends.keeper.init_protocol import Message
from backends.keeper.limits import Actions, Limits, described, holds_memory
from backends.keeper.link import Full, Link
from backends.keeper.lists import listed
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop, Timer
from backends.keeper.moves import Moves
from backends.keeper.network import Network
from backends.keeper.pulse import Pulse
from backends.keeper.reach import Reach
from backends.keeper.recorder import Recorder
from backends.keeper.session import Usage
from backends.keeper.sessions import Sessions
from backends.keeper.state import Live, State
from backends.kernel import cgroups
from backends.kernel.seccomp import FilterSpec
from backends.tiers.protocol import LaunchSpec, LiveBox
from backends.values import Claim, NotObserved, ProcessId

if TYPE_CHECKING:
    import socket

    from backends.keeper.audited import Audited

END_PATIENCE = 1.0  # seconds that init gets to end the tree itself before it is killed
CENSUS_LIFE = 0.25  # seconds; a scan of /proc costs with every process of the host, and every pane asks
MONITOR = "conmon"  # a container's, which forks twice and leaves a zombie to us
SETTLED = 1.0  # seconds after a box is ready until whatever started it has ended
SWEEPS = 200  # rounds of looking for survivors
FLUSH_PATIENCE = 1.0  # seconds that clients get to take their last replies


class Keeper:
    """Owns everything of one launch. ``ready`` is called once: with init's proofs, or None and a reason."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        spec: LaunchSpec,
        box: LiveBox,
        filter_spec: FilterSpec | None,
        state: Callable[[Recorder], State],
        *,
        confined: bool,
        linger: float,
        disk_base: int | None,
        ready: Callable[[tuple[Claim, ...] | None, str], None],
    ) -> None:
        self.loop = loop
        self.log = log
        self.spec = spec
        self.box = watches.told(box._replace(enforcement=described(box.enforcement, spec.policy.resources)))
        self.confined = confined
        self.changes = 0
        self.recorder = Recorder(loop, Journal(spec.paths.journal, patience=0.2), log)
        self.recorder.read_back()
        self.denials = Denials(self.recorder.note)
        self.deny = self.denials.add
        self._exits = Budget("exits", self.recorder.note)
        self.state = state(self.recorder)
        self.live = Live(spec.paths)
        self.ended: list[Callable[[], None]] = []  # called when nothing of the box is left
        self.on_change: list[Callable[[int | None], None]] = []
        self.on_frozen: list[Callable[[Message], None]] = []
        self.stopping = False
        self._linger = linger
        self._linger_timer: Timer | None = None
        self._ready: Callable[[tuple[Claim, ...] | None, str], None] | None = ready
        self._why = ""
        self._told = ""  # what init said is wrong with the box
        self._census: tuple[float, census.Census] | None = None
        self._over = False
        self.gate: Gate | None = None
        census.beside(ident.pid for ident in box.beside)
        self.link = Link(loop, box.control, self._hear, self._link_lost, log.failure)
        self.egress = listed(loop, log, spec, box, self.deny, self.recorder.note)
        loop.add(box.pidfd, READ, self._init_ended)
        if box.notify is not None and filter_spec is not None:
            self.gate = Gate(
                loop,
                box.notify,
                filter_spec,
                box.init.pid,
                log,
                deny=self.deny,
                record=self.recorder.note,
                touched=self._touched,
                moves=self._moves(box.notify) if filter_spec.renames else None,
            )
        self.audited = self._audited(box.audit) if box.audit is not None else None
        self.sessions = Sessions(
            loop,
            self.link,
            log,
            init=box.init,
            payload=(spec.payload_uid, spec.payload_gid),
            wall=spec.policy.resources.wall,
            first=self.recorder.last_session + 1,
            record=self.recorder.note,
            deny=self.deny,
            changed=self._session_changed,
            ending=self.count_up,
        )
        actions = Actions(
            self.deny,
            _end,
            self.sessions.kill_everything,
            lambda: self.busy and not self.stopping,
        )
        self.exits = Exits(
            loop,
            log,
            spec.policy.resources,
            box.init.pid,
            box.pid_namespace,
            actions,
            self.gate.execs.recent if self.gate is not None else {},
        )
        self.limits = Limits(
            loop,
            log,
            spec.policy.resources,
            box.init,
            tuple(os.fspath(folder) for folder in _growing(spec)),
            box.cgroups,
            actions,
            memory_held=holds_memory(box.enforcement),
            base=disk_base,
        )

    @property
    def paths(self) -> BoxPaths:
        return self.spec.paths

    @property
    def denied(self) -> int:
        """Refusals so far, also those that no record tells yet."""
        return self.recorder.projection.total + self.recorder.denied_waiting + self.denials.waiting

    # ------------------------------------------------------------ life

    def begin(self, person: str) -> None:
        """Init has proved its claims: count, and take sessions from now on."""
        policy = self.spec.policy
        reach = Reach(policy, self.box.inside_tree, self.box.inside_home, person)
        if self.gate is not None:
            self.gate.begin(reach, Network(policy, self.egress.asked if self.egress else None))
        if self.egress is not None:
            self.egress.begin()
        if self.audited is not None:
            self.audited.begin(lambda path, want: reach.judge(path, want).allowed)
        self.exits.begin()
        if self.box.beside:
            self.loop.later(SETTLED, lambda: census.collect(MONITOR))
        due = self.egress.due if self.egress is not None else None
        Pulse(self.loop, INTERVAL, self._tick, self._restless, due).beat()
        self._look()

    def _tick(self) -> None:
        self.denials.flush(everything=False)
        self._exits.tick()
        if self.gate is not None:
            self.gate.tick()
        if self.egress is not None:
            self.egress.tick()
        if self.audited is not None:
            self.audited.tick()
        if self.recorder.subscribers:
            self.recorder.read_back()
        if not self.stopping and self.state.now == "running":
            self._look()

    def _restless(self) -> bool:
        """Whether something is to be looked at that no descriptor tells of."""
        moving = self.gate is not None and self.gate.waiting
        counting = self.egress is not None and self.state.now == "running"  # and host addresses change
        return bool(moving or counting or self.recorder.subscribers or self.denials.waiting)

    def count_up(self) -> None:
        """Make records of all that was counted, for who asks between two ticks."""
        if self.gate is not None:
            self.gate.count_up()
        if self.egress is not None:
            self.egress.count_up()
        if self.audited is not None:
            self.audited.count_up()
        self.exits.count_up()
        self.limits.count_up()
        self.denials.flush()

    def _audited(self, sock: socket.socket) -> Audited:
        from backends.keeper.audited import Audited  # only where root reads the host's audit

        return Audited(
            self.loop,
            self.log,
            sock,
            self.box.init.pid,
            self.spec.policy.observe,
            deny=self.deny,
            record=self.recorder.note,
        )

    def _moves(self, notify: int) -> Moves:
        return Moves(notify, self.box.inside_tree, self.link.send)

    def _touched(self) -> None:
        self.changes += 1
        for listener in self.on_change:
            listener(None)

    def _session_changed(self, number: int) -> None:
        self.changes += 1
        for listener in self.on_change:
            listener(number)
        session = self.sessions.all.get(number)
        if session is not None and not session.live:
            self._look()

    def starting(self) -> None:
        """A session is about to start."""
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        self.exits.wake()
        self.limits.wake()

    def started(self) -> None:
        """Init was asked for it, or could not be: what this means is written down while it forks."""
        if self.sessions.live:
            self.state.running("first process")
        self._look()

    def census(self) -> census.Census:
        """The box's processes, at most a moment old; exact when there are none."""
        now = time.monotonic()
        if not census.children(self.box.init.pid):
            return census.Census({})
        if self._census is None or now > self._census[0] + CENSUS_LIFE:
            self._census = (now, census.glance(self.box.init.pid))
        return self._census[1]

    @property
    def busy(self) -> bool:
        """Whether the box has a session or any process beside init."""
        return bool(self.sessions.live) or census.children(self.box.init.pid)

    def _look(self) -> None:
        """Idle when no process is left; then the keeper lingers for a while."""
        if self.stopping or self.busy:
            return
        self.state.idle("no process is left")
        self.exits.rest()
        if self._linger_timer is None:
            self._linger_timer = self.loop.later(self._linger, self._linger_over)

    def _linger_over(self) -> None:
        self._linger_timer = None
        if not self.busy:
            self.stop("nothing ran for a while", "keeper")

    # ------------------------------------------------------------ what init says

    def _hear(self, message: Message, fds: list[int]) -> None:
        event = message.get("ev")
        if trace.on():
            told = message.get("trace")
            trace.carry(told if isinstance(told, list) else ())
            trace.point(f"keeper: heard {event if str(event).isalpha() else repr(event)}")
        if event == "spawned":
            session = self.sessions.spawned(message, fds)
            if self.gate is not None and session is not None:
                inside = message.get("pid")
                if session.ident is not None:
                    self.gate.execs.executed(session.ident, session.argv)
                elif isinstance(inside, int):
                    self.gate.execs.ended(inside, session.argv)
            return
        init_protocol.close(fds)
        if event == "exit":
            self._exited(message)
        elif event == "failed":
            self.sessions.failed(message, [])
        elif event in ("frozen", "thawed"):
            for listener in list(self.on_frozen):
                listener(message)
        elif event == "ready":
            self._proved(message)
        elif event == "movable":
            if self.gate is not None:
                self.gate.moved(message.get("id"))
        elif event == "error":
            self._told = f"{message.get('what')}: {message.get('why')}"[:300]
            self._answer_ready(None, self._told)
        else:
            self.log.note(f"init said something unknown: {event!r}")

    def _proved(self, message: Message) -> None:
        proofs = message.get("proofs")
        claims = tuple(Claim(*row) for row in proofs) if isinstance(proofs, list) else ()
        failed = [claim for claim in claims if claim.result == "failed"]
        if self.audited is not None and not self.audited.known():
            self.audited.close()
            self.audited = None
            silent = NotObserved("landlock", "no audit record came of a refusal that init provoked")
            self.box = self.box._replace(not_observed=(*self.box.not_observed, silent))
        if failed:
            self._answer_ready(None, f"the proof that {failed[0].text} failed: {failed[0].evidence}")
        else:
            self._answer_ready(claims, "")

    def _answer_ready(self, claims: tuple[Claim, ...] | None, why: str) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            ready(claims, why)

    def _exited(self, message: Message) -> None:
        number, status, pid = message.get("id"), message.get("status"), message.get("pid")
        if not isinstance(status, int):
            return
        usage = _usage(message)
        known = self.gate.execs.inside_pids.pop(pid, 0) if self.gate and isinstance(pid, int) else 0
        session = self.sessions.all.get(number) if isinstance(number, int) else None
        if session is not None and session.ident is not None:
            known = session.ident.pid
        self.exits.reaped(known, status)
        if self._exits.take():
            self.recorder.note(
                "exit",
                {
                    "pid": known,
                    "inside": pid,
                    "status": status,
                    "cpu": usage.cpu if usage else None,
                    "peak_rss": usage.peak_rss if usage else None,
                },
            )
        if isinstance(number, int):
            self.sessions.exited(number, status, usage)
        self._look()

    def _link_lost(self, why: str) -> None:
        if not self.stopping:
            self.log.note(f"init no longer answers: {why}")
            census.send(self.box.init, signal.SIGKILL)

    # ------------------------------------------------------------ end

    def stop(self, why: str, who: str) -> None:
        """End every process of the box and then the keeper; ``ended`` is called after no survivor is left."""
        if self.stopping:
            return
        self.stopping = True
        self._why = why
        self.recorder.note("stop", {"who": who, "why": why})
        try:
            self.link.send({"op": "end"})
        except Full:
            self._kill_init()
            return
        self.loop.later(self.box.end_patience or END_PATIENCE, self._kill_init)

    def _kill_init(self) -> None:
        if not self._over:
            census.send(self.box.init, signal.SIGKILL)

    def _init_ended(self, _events: int) -> None:
        """The pidfd of init became readable: with pid 1 of a pid namespace, everything in it is gone."""
        self.loop.remove(self.box.pidfd)
        os.close(self.box.pidfd)
        self._over = True
        self._answer_ready(None, "init ended before the box was ready")
        if not self.stopping:
            self.stopping = True
            self._why = self._told or "init ended"
            self.recorder.note("stop", {"who": "keeper", "why": self._why})
        os.close(self.box.death)
        self.link.close()
        if self.egress is not None:
            self.egress.close()  # before the sweep, which ends whatever child is left
        self._sweep(SWEEPS, time.monotonic() + self.box.end_patience)

    def _sweep(self, rounds: int, patience: float) -> None:
        """What a box without a pid namespace leaves is handed to us (child subreaper): end it too.

        Until ``patience`` (monotonic) it may end by itself: what a steward leaves is at work to remove a box.
        """
        left = _reap_and_list()
        if left and time.monotonic() < patience:
            self.loop.later(0.01, lambda: self._sweep(rounds, patience))
            return
        for process in left:
            census.send(process.ident, signal.SIGKILL)
        if left and rounds > 0:
            self.loop.later(0.01, lambda: self._sweep(rounds - 1, patience))
            return
        if left:
            self.log.note(f"{len(left)} processes do not end")
        self.sessions.box_ended()
        self._drain(time.monotonic() + FLUSH_PATIENCE)

    def _drain(self, until: float) -> None:
        if self.sessions.live and time.monotonic() < until:
            self.loop.later(0.01, lambda: self._drain(until))
            return
        for session in self.sessions.live:
            session.abandon()
        self.finish()

    def finish(self) -> None:
        """Write the last records; nothing of the box is left. A full disk must not keep us here."""
        for step in (self._count_up, self._remove_groups, self._last_records):
            try:
                step()
            except (OSError, ClocheError) as error:
                self.log.failure(f"end {step.__name__}", error)
        for call in self.ended:
            call()

    def _count_up(self) -> None:
        if self.gate is not None:
            self.gate.tick()
            self.gate.close()
        if self.audited is not None:
            self.audited.close()
        self._exits.tick()
        self.exits.close()
        self.limits.close()
        self.denials.flush()

    def _remove_groups(self) -> None:
        left = cgroups.remove(self.box.cgroups)
        if left:
            self.log.note(f"control groups could not be removed: {left}")

    def _last_records(self) -> None:
        self.state.idle(self._why)
        self.recorder.flush(sync=True)
        self.live.end(self._why)
        if self.live.facts:
            self.state.save()


def _growing(spec: LaunchSpec) -> Iterator[Path]:
    """What grows on the host's disk with what the box does: also its journal, which has every exec."""
    yield _changed(spec)
    yield spec.paths.home
    spec.paths.journal.touch(0o600)  # a box that was never told of has none yet
    yield spec.paths.journal
    if spec.paths.repo.is_dir():
        yield spec.paths.repo


def _changed(spec: LaunchSpec) -> Path:
    """The folder that grows with what the box writes into its tree."""
    return spec.paths.upper if spec.tree_provider == "overlay" else spec.paths.tree


def _usage(message: Mapping[str, object]) -> Usage | None:
    utime, stime, peak = message.get("utime"), message.get("stime"), message.get("maxrss")
    if not isinstance(utime, int | float) or not isinstance(stime, int | float):
        return None
    return Usage(round(utime + stime, 6), peak if isinstance(peak, int) else None)


def _reap_and_list() -> list[census.Process]:
    """Collect ended children of ours, and list what still runs below us."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
    return list(census.take(os.getpid()).processes.values())


def _end(ident: ProcessId) -> None:
    census.send(ident, signal.SIGKILL)
