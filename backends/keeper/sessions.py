"""All sessions of one live box: starting them through init, following them, ending them."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.errors import Busy, ClocheError, NoSuchBox, Refused, UsageError
from backends.keeper import census, tree
from backends.keeper.census import Census, Process
from backends.keeper.denials import Refusal
from backends.keeper.ends import End
from backends.keeper.init_protocol import Message
from backends.keeper.link import Full, Link
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.keeper.protocol import close_all
from backends.keeper.relay import InPump, OutPump
from backends.keeper.ring import Ring
from backends.keeper.session import Owner, Session, Usage
from backends.keeper.terminal import Terminal
from backends.keeper.words import redacted
from backends.values import ProcessId

MAX_LIVE = 512
# What a shell on a terminal says to it before each prompt (title, folder, marks of the prompt). Between the
# outputs of a box it would only be in the reader's way; the terminal's own record keeps it.
_TITLE = re.compile(rb"\x1b\](?:[0127]|133);[^\x07\x1b\n]{0,1024}(?:\x07|\x1b\\)")
MAX_EXITED = 200  # kept for "sessions" and their last output; the journal knows the rest
BOX_OUTPUT_BYTES = 64 * 1024
SPARED = 0.1  # seconds until a kill looks again at what may belong to a session that just starts
KILLED = 9  # wait status of a process that ended by SIGKILL
_NOT_FOUND = 127 << 8
_NOT_EXECUTABLE = 126 << 8
_ENOENT = 2
PIDFD_SIGNAL_PROCESS_GROUP = 4  # Linux 6.9, include/uapi/linux/pidfd.h

Answer = Callable[[dict[str, Any] | ClocheError], None]


class Sessions:
    """``record`` writes to the journal, ``deny`` counts a refusal, ``changed`` is called when a session
    began, printed or ended, ``ending`` before its end is journalled.
    """

    def __init__(
        self,
        loop: Loop,
        link: Link,
        log: Log,
        *,
        init: ProcessId,
        payload: tuple[int, int],
        wall: int | None,
        first: int,
        record: Callable[[str, Mapping[str, object]], None],
        deny: Callable[[Refusal, int, str], None],
        changed: Callable[[int], None],
        ending: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._link = link
        self._log = log
        self._init = init
        self._payload = payload
        self._wall = wall
        self._next = first
        self._record = record
        self._deny = deny
        self._changed = changed
        self._ending = ending
        self._answers: dict[int, Answer] = {}
        self._sockets: dict[int, socket.socket] = {}
        self.members = tree.Members()
        self.all: dict[int, Session] = {}
        self.output = Ring(BOX_OUTPUT_BYTES)

    @property
    def live(self) -> list[Session]:
        return [session for session in self.all.values() if session.live]

    # ------------------------------------------------------------ start

    def run(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: str,
        fds: Sequence[int],
        owner: Owner,
        answer: Answer,
    ) -> None:
        """Start a command between three pipes; ``fds`` are stdin, stdout, stderr of the client, now ours."""
        pairs: list[tuple[int, int]] = []
        try:
            for _ in fds:
                pairs.append(os.pipe2(os.O_CLOEXEC))
            box = (pairs[0][0], pairs[1][1], pairs[2][1])
            if self._payload[0] != os.geteuid():
                for fd in box:
                    os.fchown(fd, *self._payload)  # or nobody inside could open /dev/stdout again
            session = self._new(argv, pty=False)
        except BaseException:
            close_all([*fds, *(fd for pair in pairs for fd in pair)])
            raise
        session.input = InPump(self._loop, End(fds[0], writing=False), pairs[0][1])
        for fd, pair in zip(fds[1:], pairs[1:], strict=True):
            end = End(fd, writing=True)
            session.pumps.append(
                OutPump(self._loop, pair[0], end, self._keeper_of(session), session.broken, session.check)
            )
        self._start(session, argv, env, cwd, None, box, owner, answer)

    def shell(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: str,
        size: tuple[int, int],
        sock: socket.socket,
        owner: Owner,
        answer: Answer,
    ) -> None:
        """Start a command on a terminal of its own, shown on ``sock``."""
        try:
            session = self._new(argv, pty=True)
        except BaseException:
            sock.close()
            raise
        self._sockets[session.id] = sock
        self._start(session, argv, env, cwd, size, (), owner, answer)

    def _new(self, argv: Sequence[str], *, pty: bool) -> Session:
        if len(self.live) >= MAX_LIVE:
            raise Busy(
                "the session cannot start",
                f"{MAX_LIVE} sessions run in this box already",
                "wait for some to end: cloche ps",
                code="too-many-sessions",
            )
        session = Session(self._loop, self._next, redacted(argv), pty=pty, finished=self._session_ended)
        self._next += 1
        self.all[session.id] = session
        return session

    def _start(
        self,
        session: Session,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: str,
        size: tuple[int, int] | None,
        fds: Sequence[int],
        owner: Owner,
        answer: Answer,
    ) -> None:
        session.watchers.append(owner)
        self._answers[session.id] = answer
        self._record(
            "session-start",
            {
                "session": session.id, "argv": session.argv, "pty": session.pty, "cwd": cwd, "at": _now(),
            },
        )  # fmt: skip
        env = {**env, tree.VARIABLE: str(session.id)}
        request = {
            "op": "spawn",
            "id": session.id,
            "argv": list(argv),
            "env": env,
            "cwd": cwd,
            "pty": list(size) if size else None,
        }
        try:
            self._link.send(request, fds)
        except Full as error:
            self._give_up(session, str(error))

    def _give_up(self, session: Session, why: str) -> None:
        answer = self._answers.pop(session.id, None)
        if answer is not None:
            answer(Refused("the session did not start", why, "cloche stop, then try again", code="init-busy"))
        self._close_socket(session.id)
        session.leader_ended(KILLED, None)
        session.abandon()

    def _close_socket(self, number: int) -> None:
        sock = self._sockets.pop(number, None)
        if sock is not None:
            sock.close()

    def _keeper_of(self, session: Session) -> Callable[[bytes], None]:
        def keep(data: bytes) -> None:
            session.heard()
            session.output.add(data)
            self.output.add(_TITLE.sub(b"", data) if session.terminal is not None else data)
            self._changed(session.id)

        return keep

    # ------------------------------------------------------------ what init reports

    def spawned(self, message: Message, fds: list[int]) -> Session | None:
        """``{"ev": "spawned", "id", "pid"}`` with a pidfd, and the master of a terminal."""
        number = message.get("id")
        session = self.all.get(number) if isinstance(number, int) else None
        if session is None or session.state != "starting" or len(fds) != (2 if session.pty else 1):
            close_all(fds)
            self._log.note("init reported a session that nobody asked for")
            return None
        session.pidfd = fds[0]
        pid = pid_of(fds[0])
        found = census.read(pid) if pid > 0 else None
        if found is not None:
            session.ident = found.ident
            self.members.leads(found.ident, session.id)
        session.state = "running"
        if session.pty:
            session.terminal = Terminal(self._loop, fds[1], self._keeper_of(session), session.check)
            sock = self._sockets.pop(session.id, None)
            if sock is not None:
                session.terminal.attach(sock)
        if self._wall:
            self._loop.later(float(self._wall), lambda: self._timeout(session))
        answer = self._answers.pop(session.id, None)
        if answer is not None:
            answer({"session": session.id, "process": list(session.ident) if session.ident else None})
        self._changed(session.id)
        return session

    def failed(self, message: Message, fds: list[int]) -> None:
        """``{"ev": "failed", "id", "errno", "why"}``: told to the client the way a shell would."""
        close_all(fds)
        number, code = message.get("id"), message.get("errno")
        session = self.all.get(number) if isinstance(number, int) else None
        if session is None:
            return
        text = f"cloche: {session.argv[0] if session.argv else ''}: {message.get('why')}\n"
        data = text.encode("utf-8", "surrogateescape")
        sock = self._sockets.pop(session.id, None)
        if sock is not None:
            sock.setblocking(False)
            _tell(sock, data.replace(b"\n", b"\r\n"))
            sock.close()
        elif len(session.pumps) == 2:
            session.pumps[1].inject(data)
        self._keeper_of(session)(data)
        answer = self._answers.pop(session.id, None)
        if answer is not None:
            answer({"session": session.id, "process": None})
        session.leader_ended(_NOT_FOUND if code == _ENOENT else _NOT_EXECUTABLE, None)

    def exited(self, number: int, status: int, usage: Usage | None) -> None:
        """The first process of a session ended."""
        session = self.all.get(number)
        if session is not None:
            session.leader_ended(status, usage)
            if session.ident is not None:
                pid = session.ident.pid
                self._loop.later(0.0, lambda: self._settle(pid))

    def _settle(self, pid: int) -> None:
        left = census.take(self._init.pid) if census.children(self._init.pid) else Census({})
        self.members.ended(pid, left)

    def owners(self, seen: Census) -> dict[int, int | None]:
        """Pid to session, to be shown: one that is not proved is shown where it says it belongs."""
        found = self.members.update(seen)
        for pid, session in found.items():
            if session is None:
                said = tree.marked(pid)
                found[pid] = said if said in self.all else None
        return found

    def box_ended(self) -> None:
        """Init is gone, and with it every process: what still runs ended by SIGKILL."""
        for session in self.live:
            answer = self._answers.pop(session.id, None)
            if answer is not None:
                why = "the box ended meanwhile"
                answer(Refused("the session did not start", why, "cloche log", code="box-ended"))
            self._close_socket(session.id)
            session.leader_ended(KILLED, None)

    # ------------------------------------------------------------ while they run

    def get(self, number: object) -> Session:
        session = self.all.get(number) if isinstance(number, int) else None
        if session is None:
            raise NoSuchBox(
                f"there is no session {number}",
                "this launch of the box has not started it, or it ended long ago",
                "cloche ps, or cloche log for sessions that ended",
                code="no-such-session",
            )
        return session

    def attach(self, number: object, size: tuple[int, int], sock: socket.socket, owner: Owner) -> Session:
        """Show a terminal session on ``sock``: the last screen first, then what comes."""
        try:
            session = self.get(number)
            terminal = session.terminal
            if terminal is None or not session.live:
                why = "it has ended" if session.pty else "it was started without a terminal"
                raise UsageError(
                    f"cannot attach to session {session.id}", why, "cloche ps", code="no-terminal"
                )
            if terminal.full:
                raise Busy(
                    f"cannot attach to session {session.id}",
                    "too many look at it already",
                    "detach one of them",
                    code="too-many-viewers",
                )
        except ClocheError:
            sock.close()
            raise
        terminal.resize(*size)
        terminal.attach(sock)
        session.watchers.append(owner)
        return session

    def signal(self, number: object, value: int) -> None:
        """Send a signal to the session's process group."""
        session = self.get(number)
        if session.state != "running" or session.ident is None:
            raise NoSuchBox(
                f"session {session.id} has ended",
                "there is nothing left to signal",
                "cloche ps",
                code="no-such-process",
            )
        signal_group(session.pidfd, session.ident, value)

    def forget(self, owner: Owner) -> None:
        """A client went away: nobody waits for its sessions any more, they go on."""
        for session in self.live:
            if owner in session.watchers:
                session.watchers.remove(owner)

    # ------------------------------------------------------------ end

    def _timeout(self, session: Session) -> None:
        """The wall limit: also for what a session left running when its first process ended."""
        if session.state == "running":
            session.timed_out = True
        elif not any(self._left_by(session, census.take(self._init.pid))):
            return
        self._deny(
            Refusal(
                "limit",
                f"wall time of session {session.id}",
                f"resources.wall = {self._wall} s",
                "keeper",
                "SIGKILL to the session's processes",
            ),
            session.ident.pid if session.ident else 0,
            " ".join(session.argv)[:200],
        )
        self.kill(session)

    def _left_by(self, session: Session, seen: Census) -> tuple[list[Process], list[Process]]:
        """What is the session's, and what may be: proved to be no other's, and not begun before it."""
        own: list[Process] = []
        perhaps: list[Process] = []
        for pid, at in self.members.update(seen).items():
            process = seen.processes[pid]
            if at == session.id:
                own.append(process)
            elif at is None and process.start >= session.born:
                perhaps.append(process)
        return own, perhaps

    def kill(self, session: Session) -> None:
        """SIGKILL to every process of one session, whatever it left behind."""
        spared = False

        def choose(seen: Census) -> list[Process]:
            nonlocal spared
            own, perhaps = self._left_by(session, seen)
            # Of a session that is just starting nothing is proved yet.
            starting = min((one.born for one in self.live if one.state == "starting"), default=None)
            old = [one for one in perhaps if starting is None or one.start < starting]
            spared = len(old) < len(perhaps)
            return own + old

        def done(clean: bool) -> None:
            if not clean:
                self._log.note(f"session {session.id} outran its kill: every process of the box is ended")
                self.kill_everything()
            elif spared:
                self._loop.later(SPARED, lambda: self.kill(session))

        tree.Kill(self._loop, self._init.pid, choose, done)

    def kill_everything(self) -> None:
        """SIGKILL to every process of the box but init."""

        def done(clean: bool) -> None:
            if not clean:
                self._log.note("the box outran its kill: init is ended")
                census.send(self._init, signal.SIGKILL)

        tree.Kill(self._loop, self._init.pid, lambda seen: list(seen.processes.values()), done)

    def _session_ended(self, session: Session) -> None:
        self._ending()
        self._record(
            "session-exit",
            {
                "session": session.id,
                "at": _now(),
                "exit": session.exit,
                "status": session.status,
                "wall": session.wall_seconds,
                "cpu": session.usage.cpu if session.usage else None,
                "peak_rss": session.usage.peak_rss if session.usage else None,
            },
        )
        exited = [one.id for one in self.all.values() if not one.live]
        for number in exited[: max(0, len(exited) - MAX_EXITED)]:
            del self.all[number]
        self._changed(session.id)


def pid_of(pidfd: int) -> int:
    """The pid behind a pidfd as this pid namespace sees it, -1 when it was reaped (proc(5), fdinfo)."""
    with open(f"/proc/self/fdinfo/{pidfd}", "rb", buffering=0) as file:
        for line in file.read(4096).splitlines():
            if line.startswith(b"Pid:"):
                return int(line.split()[1])
    return -1


def signal_group(pidfd: int, leader: ProcessId, number: int) -> None:
    """Signal the process group that a session's first process leads."""
    try:
        signal.pidfd_send_signal(pidfd, number, None, PIDFD_SIGNAL_PROCESS_GROUP)
    except ProcessLookupError:
        return
    except OSError:
        # Before Linux 6.9. The leader was alive just now, so the number still means its group.
        if census.read(leader.pid) is not None:
            os.killpg(leader.pid, number)


def _tell(sock: socket.socket, data: bytes) -> None:
    try:
        sock.send(data, socket.MSG_NOSIGNAL)
    except OSError:
        return  # whoever asked has left


def _now() -> float:
    """The moment itself: a record's own time is that of its batch, in which a short session has no length."""
    return round(time.time(), 6)
