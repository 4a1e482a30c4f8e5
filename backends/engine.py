"""The one door: every verb of the command line and every action of the workbench goes through here.

All calls are synchronous and may come from any thread; none draws, prints or asks. What a verb does is in
:mod:`backends.verbs`, imported when it is first used, because ``import backends.engine`` is on the path of
every command. A box is named by ``ref``: its name, or ``<repository key>/<name>``.

Every call may raise a :class:`backends.errors.ClocheError`; ``NoSuchBox`` and an ambiguous name
(``UsageError``) are common to all that take a ``ref`` and are not repeated below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from backends.boxes import store
from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError
from backends.verbs.checkpointing import Checkpointing
from backends.verbs.doctors import Doctors
from backends.verbs.explains import Explains
from backends.verbs.gates import Gates
from backends.verbs.imaging import Imaging
from backends.verbs.values import NewBox, RunResult, SessionHandle, Streams, Terminal

if TYPE_CHECKING:
    from backends.snapshots import (
        BoxRow,
        BoxStatus,
        BoxView,
        Claim,
        Diff,
        EgressRow,
        Finding,
        JournalRecord,
        ProcessId,
        ProcessRow,
        RemovalOutcome,
        Repinned,
        SessionRow,
        Tally,
    )
    from backends.snapshots_choice import Reasoning
    from backends.snapshots_host import Fact, HostReport
    from backends.trees.values import Source
    from backends.trees.watch import TreeWatch
    from backends.verbs.listing import Lister

__all__ = ["Engine", "NewBox", "RunResult", "SessionHandle", "Streams", "Terminal"]


class Engine(Explains, Gates, Doctors, Imaging, Checkpointing):
    """The engine as seen from one folder, which decides the repository that bare names belong to."""

    def __init__(self, cwd: Path | None = None, patience: float | None = None) -> None:
        """``patience``: seconds that keepers are given to tell of their boxes. Without it it is as short as a
        screen wants that looks again soon; who looks once sees no slow keeper where the host is just busy.
        """
        self.cwd = (cwd or Path.cwd()).absolute()
        self._patience = patience
        self._place: Source | None = None
        self._located = False
        self._lister: Lister | None = None

    # ---------------------------------------------------------------- where

    @property
    def place(self) -> Source | None:
        """The source repository that ``cwd`` lies in, None outside any."""
        if not self._located:
            from backends.boxes.place import locate

            self._place = locate(self.cwd)
            self._located = True
        return self._place

    @property
    def repository_key(self) -> str | None:
        """The key under which this repository's boxes lie, None outside any repository."""
        if self.place is None:
            return None
        from backends.boxes.place import key_of

        return key_of(self.place)

    def find(self, ref: str) -> BoxPaths:
        """Where the box lies on disk."""
        return store.find(ref, self.repository_key if "/" not in ref else None)

    # ---------------------------------------------------------------- see

    def _list(self) -> Lister:
        if self._lister is None:
            from backends.verbs.listing import Lister

            self._lister = Lister(self._patience)
        return self._lister

    def _acted(self) -> None:
        """Processes were started or ended just now: the next look is a new one."""
        if self._lister is not None:
            self._lister.forget()

    def boxes(self, everywhere: bool = False) -> tuple[BoxRow, ...]:
        """The boxes of this repository (outside any, or with ``everywhere``: of all), by age.

        Keepers are asked in parallel and given 0.4 s together, or the engine's patience: a slow one shows as
        such and delays no other.
        """
        return self._list().rows(None if everywhere else self.repository_key)

    def view(self, ref: str, lines: int = 200) -> BoxView:
        """Everything a pane shows; ``lines`` bounds the tail of output. CPU is since the view before."""
        return self._list().view(self.find(ref), lines)

    def status(self, ref: str) -> BoxStatus:
        """What the box received: each value as requested, enforced, missing, by what, on what proof."""
        from backends.verbs import status

        paths = self.find(ref)
        return status.status(paths, self._list().row(paths))

    def processes(self, ref: str) -> tuple[ProcessRow, ...]:
        """The whole process tree, depth first; empty for a box that is not live."""
        return self._list().processes(self.find(ref))

    def tally(self, ref: str) -> Tally:
        """Denials, projected from the journal."""
        from backends.verbs import records

        return records.tally(self.find(ref))

    def egress(self, ref: str) -> tuple[EgressRow, ...]:
        """Where packets of a live supervised box may go: each rule and name, its pins, what went through.

        ``NoSuchBox`` code "not-live" when nothing of it runs, ``Refused`` where its tier holds no list.
        """
        from backends.verbs import egress

        return egress.rows(self.find(ref))

    def repin(self, ref: str, who: str) -> Repinned:
        """Have the host look the names of a live supervised box up again, journalled with ``who``.

        Live connections go on; a name without an answer keeps its pin. Raises as ``egress``, and ``Refused``
        for a caller inside a box.
        """
        from backends.verbs import egress

        return egress.repin(self.find(ref), who)

    def journal(self, ref: str) -> Iterator[JournalRecord]:
        """The records of the box so far, oldest first."""
        from backends.verbs import records

        return records.read(self.find(ref))

    def follow(self, ref: str, stop: Callable[[], bool] | None = None) -> Iterator[JournalRecord]:
        """New records as they are written, until the box is removed or ``stop`` (asked 5 times a second)."""
        from backends.verbs import records

        return records.follow(self.find(ref), stop)

    def sessions(self, ref: str) -> tuple[SessionRow, ...]:
        """Every session the journal knows, oldest first."""
        from backends.verbs import records

        return records.sessions(self.find(ref))

    def output(self, ref: str, session: int | None = None, limit: int = 65536) -> bytes:
        """The tail of what one session, or all, printed, raw; b"" for a box that is not live."""
        from backends.verbs import sessions

        return sessions.output(self.find(ref), session, limit)

    def snapshot_diff(self, ref: str, *, still: bool = True) -> Diff:
        """What the box changed so far against its base: a snapshot of this moment, not a proposal.

        ``still``: the box stands while it is read; without, it runs on (for panes that look again and again).
        """
        from backends.verbs import proposal

        diff = proposal.live_diff(self.find(ref), still=still)
        self._list().remember(self.find(ref), diff)
        return diff

    def watch_tree(self, ref: str) -> TreeWatch:
        """Tells, without reading it, that the box's tree changed; for one thread, which closes it.

        ``OSError`` when there is no tree or the user has no inotify instance left.
        """
        from backends.trees.watch import TreeWatch

        paths = self.find(ref)
        watch = TreeWatch(paths.written)
        if paths.layers.exists():
            from backends.trees import choice

            watch.complete = watch.complete and choice.probe(paths).told
        return watch

    # ---------------------------------------------------------------- make and use

    def warm(self) -> None:
        """Have the process load that keepers are forked from, while the caller does something else.

        What keeps it from loading is told by the first command of a box.
        """
        from backends.keeper import start

        with suppress(ClocheError, OSError):
            start.warm()

    def create(self, request: NewBox) -> BoxRow:
        """Make a box: base pinned, policy resolved, digested and written before anything writable exists.

        ``Refused``: unborn HEAD, a tier that cannot be had, a key that the tier cannot enforce. ``Busy``: the
        name is taken. ``UsageError``: name, revision, profile. A failure at any step leaves nothing behind.
        """
        from backends.verbs import creation

        return self._list().row(creation.create(request, self.cwd))

    def reasoning(self, request: NewBox) -> Reasoning:
        """Each tier beside the profile of ``request`` on this host, and which of them auto takes, and why.

        Runs the host's proofs where no kept answer holds. ``UsageError`` for a profile written wrongly.
        """
        from backends.verbs import reasoning

        return reasoning.reason(request, self.cwd)

    def make(self, request: NewBox) -> BoxPaths:
        """As :meth:`create`, for who needs no row of it."""
        from backends.verbs import creation

        return creation.create(request, self.cwd)

    def run(
        self,
        ref: str,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        streams: Streams = Streams(),  # noqa: B008 (a frozen value)
        on_session: Callable[[SessionHandle], None] | None = None,
        cwd: str = "",
        on_request: Callable[[], None] | None = None,
    ) -> RunResult:
        """Run a command in the box, starting its keeper when needed, and wait for it.

        ``env`` is the caller's environment (default: this process's); the policy's pass-list decides what of
        it arrives. ``cwd`` is relative to the tree. The command goes on if the caller dies. It may
        have begun as soon as ``on_request`` was called, and has when ``on_session`` is. While the box is
        frozen it is asked again, and ``on_request`` called again; what that raises, the caller gets.
        """
        from backends.verbs import sessions

        try:
            return sessions.run(self.find(ref), list(argv), env, streams, on_session, cwd, on_request)
        finally:
            self._acted()

    def open_shell(
        self,
        ref: str,
        argv: Sequence[str] = (),
        rows: int = 24,
        cols: int = 80,
        env: Mapping[str, str] | None = None,
    ) -> Terminal:
        """Open a session on a pseudo-terminal of its own; no ``argv`` means the box's shell."""
        from backends.verbs import sessions

        return sessions.shell(self.find(ref), list(argv), rows, cols, env)

    def attach(self, ref: str, session: int | None = None, rows: int = 24, cols: int = 80) -> Terminal:
        """Attach to a live pty session (default: the newest): its last screen first, then live."""
        from backends.verbs import sessions

        return sessions.attach(self.find(ref), session, rows, cols)

    def kill(self, ref: str, process: ProcessId, signal: int) -> None:
        """Signal one process of the box by identity; ``NoSuchBox`` code "no-such-process" when it is gone."""
        from backends.verbs import sessions

        sessions.kill(self.find(ref), process, signal)
        self._acted()

    def stop(self, ref: str) -> bool:
        """End every process of the box; returns after none survives. False when it was not live."""
        from backends.verbs import sessions

        try:
            return sessions.stop(self.find(ref))
        finally:
            self._acted()

    # ---------------------------------------------------------------- end

    def abort(self, ref: str, why: str = "") -> None:
        """Give the box up: end its processes, keep its evidence until it is removed."""
        from backends.verbs import removal

        removal.abort(self.find(ref), why)
        self._acted()

    def remove(self, ref: str, force: bool = False) -> None:
        """Delete the box. ``Busy`` while it is live; ``force`` ends it first, but never overrides the lock
        of another operation."""
        from backends.verbs import removal

        removal.remove(self.find(ref), force)
        self._acted()

    def remove_many(self, refs: Sequence[str], force: bool = False) -> tuple[RemovalOutcome, ...]:
        """``remove`` each, going on after one fails."""
        from backends.verbs import removal

        return removal.remove_many(refs, self.find, force)

    def gc(self, everywhere: bool = True) -> tuple[RemovalOutcome, ...]:
        """Remove applied and aborted boxes, and what a killed ``new``, ``rm`` or probe left; nothing else."""
        from backends.verbs import removal

        return removal.collect(None if everywhere else self.repository_key)

    # ---------------------------------------------------------------- policy and host

    def policy_check(self, path: Path | None = None) -> tuple[Finding, ...]:
        """Check ``cloche.toml`` and the user's configuration against the schema."""
        from backends.verbs import policies

        return policies.check(self.cwd, path)

    def policy_show(self, ref: str | None = None, profile: str = "default") -> str:
        """The policy of a box, or the one a profile would give here, as canonical JSON."""
        from backends.verbs import policies

        return policies.show(self.find(ref) if ref else None, self.cwd, profile)

    def policy_explain(
        self, ref: str | None = None, profile: str = "default"
    ) -> tuple[tuple[str, str, str], ...]:
        """Each key with its value and the file and line (or built-in profile) that it came from."""
        from backends.verbs import policies

        return policies.explain(self.find(ref) if ref else None, self.cwd, profile)

    def policy_digest(self, ref: str | None = None, profile: str = "default") -> str:
        """SHA-256 of the policy's canonical JSON, in hexadecimal; without a box, of one made here now."""
        from backends.verbs import policies

        return policies.digest(self.find(ref) if ref else None, self.cwd, profile)

    def host(self, *, fresh: bool = False, progress: Callable[[str], None] | None = None) -> HostReport:
        """Everything known of this host: facts, proofs, obstacles, and how old the answer is.

        The answer of an earlier run is given while nothing changed that it depends on; ``fresh`` runs every
        proof now. ``progress`` is told in a few words what is being tried.
        """
        from backends.verbs import host

        return host.report(fresh=fresh, progress=progress)

    def probe(self, fresh: bool = False) -> tuple[Claim, ...]:
        """The claims of :meth:`host`: each tier's verdict (its id is the tier's name), then its proofs."""
        from backends.verbs import host

        return host.probe(fresh=fresh)

    def facts(self) -> tuple[Fact, ...]:
        """What was seen of this host without trying anything. A fact is no proof."""
        from backends.verbs import host

        return host.facts()
