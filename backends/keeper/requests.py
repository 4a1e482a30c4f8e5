"""What clients ask of a keeper, one method for each operation of the protocol."""

from __future__ import annotations

import binascii
import os
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from backends import trace
from backends.errors import Busy, ClocheError, NoSuchBox, Refused, UsageError
from backends.keeper import census, environment
from backends.keeper.fields import Fields
from backends.keeper.init_protocol import Message
from backends.keeper.keeper import Keeper
from backends.keeper.link import Full
from backends.keeper.loop import Timer
from backends.keeper.protocol import close_all
from backends.keeper.server import Client, Request
from backends.keeper.sessions import Answer
from backends.policy.model import Policy
from backends.values import JournalRecord, ProcessId

if TYPE_CHECKING:
    from backends.keeper.listed import Listed

QUIET = 0.1  # seconds between two notices of the same kind to one subscriber
DEFAULT_OUTPUT = 65536
MOST_TYPED = 8192  # bytes
TRAFFIC_PAUSE = 10.0  # seconds between two records of what one box's connections carried, while it is busy

Handler = Callable[[Client, Fields, list[int]], dict[str, Any] | None]


class Requests:
    """Answers requests. A handler returns the reply's fields, or None when it replies later."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._stops: list[tuple[Client, object]] = []
        self._watched: set[Client] = set()
        self._freezer = _Freezer(keeper)
        self._shell_path = keeper.box.shell or _best_shell(keeper.spec.policy)
        self._operations: dict[str, tuple[Handler, int]] = {
            "hello": (self._hello, 0),
            "run": (self._run, 3),
            "shell": (self._shell, 1),
            "attach": (self._attach, 1),
            "resize": (self._resize, 0),
            "type": (self._type, 0),
            "signal": (self._signal, 0),
            "sessions": (self._sessions, 0),
            "processes": (self._processes, 0),
            "output": (self._output, 0),
            "stat": (self._stat, 0),
            "tally": (self._tally, 0),
            "flush": (self._flush, 0),
            "egress": (self._egress, 0),
            "allow": (self._allow, 0),
            "repin": (self._repin, 0),
            "kill": (self._kill, 0),
            "freeze": (self._freeze, 0),
            "thaw": (self._thaw, 0),
            "subscribe": (self._subscribe, 0),
            "stop": (self._stop, 0),
        }

    def handle(self, client: Client, request: Request, fds: list[int]) -> None:
        """One request; its descriptors are closed here unless an operation took them."""
        name, number = request.get("op"), request.get("id")
        known = self._operations.get(name) if isinstance(name, str) else None
        if known is None:
            close_all(fds)
            raise UsageError(
                f"the keeper does not know {name!r}",
                "it was started by another version of cloche",
                "end the box and start it again: cloche stop",
                code="unknown-operation",
            )
        handler, wanted = known
        if len(fds) != wanted:
            close_all(fds)
            raise UsageError(
                f"{name} came with {len(fds)} descriptors",
                f"it needs {wanted}",
                "this is a fault of the client",
                code="descriptors",
            )
        trace.point(f"keeper: asked to {name}")
        fields = Fields(request, number)
        try:
            reply = handler(client, fields, fds)
        finally:
            close_all(fds)
        if reply is not None:
            client.reply(number, reply)

    # ------------------------------------------------------------ facts

    def _hello(self, _client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        facts = self._keeper.live.facts
        return {
            "box": self._keeper.paths.key,
            "keeper": os.getpid(),
            "init": facts["init"],
            "ready": True,
            "since": facts["started"],
        }

    def _sessions(self, _client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        return {"sessions": [session.row() for session in self._keeper.sessions.all.values()]}

    def _processes(self, _client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        """Every process with the session it belongs to, also after a double fork."""
        seen = census.glance(self._keeper.box.init.pid, self._keeper.sessions.members.known)
        owners = self._keeper.sessions.owners(seen)
        rows = [
            {"pid": one.pid, "start": one.start, "parent": one.parent, "session": owners.get(one.pid)}
            for one in seen.processes.values()
        ]
        return {"processes": rows}

    def _output(self, _client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        limit = fields.whole("limit", DEFAULT_OUTPUT)
        if fields.value("session") is None:
            ring = self._keeper.sessions.output
        else:
            session = self._keeper.sessions.get(fields.value("session"))
            ring = session.terminal.screen if session.terminal else session.output
        return {"data": binascii.b2a_base64(ring.tail(limit), newline=False).decode("ascii")}

    def _stat(self, _client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        keeper = self._keeper
        line = keeper.sessions.output.last_line()
        # Whoever lists many boxes counts the processes of all of them in one look of its own.
        counted = {} if fields.value("count") is False else {"processes": len(keeper.census())}
        return {
            "state": keeper.state.now,
            **counted,
            "sessions": len(keeper.sessions.live),
            "denied": keeper.recorder.projection.total
            + keeper.denials.waiting
            + keeper.recorder.denied_waiting,
            "last_line": line.decode("utf-8", "surrogateescape"),
            "dirty": keeper.changes,
        }

    def _flush(self, _client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        """Everything counted so far is in the journal, for who reads it there."""
        self._keeper.count_up()
        if self._keeper.egress is not None:
            # A screen asks each second: while the box works, a record for each of them would be too many.
            self._keeper.egress.tell(TRAFFIC_PAUSE if self._keeper.busy else 0.0)
        self._keeper.recorder.flush()
        return {}

    def _tally(self, _client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        keeper = self._keeper
        keeper.count_up()
        keeper.recorder.flush()
        tally = keeper.recorder.projection.tally(keeper.box.not_observed)
        return {
            "rows": [row._asdict() for row in tally.rows],
            "total": tally.total,
            "others": tally.others,
            "not_observed": [list(row) for row in tally.not_observed],
            "lost": dict(tally.lost),
            "name_cache_asked": keeper.gate.name_cache_asked if keeper.gate else 0,
        }

    # ------------------------------------------------------------ the network

    def _listed(self) -> Listed:
        if self._keeper.egress is None:
            raise Refused(
                "the box has no list of destinations",
                f"the {self._keeper.spec.policy.tier} tier holds none",
                'take --tier supervised with net.mode = "allow"',
                code="no-egress",
            )
        return self._keeper.egress

    def _egress(self, _client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        return {"rows": [list(row) for row in self._listed().rows()]}

    def _allow(self, client: Client, fields: Fields, _fds: list[int]) -> None:
        done = self._later(client, fields.number)
        self._listed().allow(fields.text("rule", ""), _person(fields), done)

    def _repin(self, client: Client, fields: Fields, _fds: list[int]) -> None:
        self._listed().repin(_person(fields), self._later(client, fields.number))

    def _later(self, client: Client, number: object) -> Answer:
        """A reply that may come after the host was asked; what was journalled is on disk before it."""

        def answer(value: dict[str, Any] | ClocheError) -> None:
            self._keeper.recorder.flush(sync=True)
            if isinstance(value, ClocheError):
                client.refuse(number, value)
            else:
                client.reply(number, value)

        return answer

    # ------------------------------------------------------------ sessions

    def _run(self, client: Client, fields: Fields, fds: list[int]) -> None:
        argv = fields.words("argv")
        if not argv:
            raise UsageError(
                "nothing to run", "the command is empty", "cloche run BOX -- CMD", code="no-command"
            )
        env, cwd = self._place(fields, pty=False)
        self._keeper.starting()
        taken, fds[:] = list(fds), []
        try:
            self._keeper.sessions.run(argv, env, cwd, taken, client, self._answer(client, fields.number))
        finally:
            self._keeper.started()

    def _shell(self, client: Client, fields: Fields, fds: list[int]) -> None:
        env, cwd = self._place(fields, pty=True)
        argv = fields.words("argv") or [env["SHELL"]]
        size = fields.size()
        sock = _stream(fds)
        self._keeper.starting()
        answer = self._answer(client, fields.number)
        try:
            self._keeper.sessions.shell(argv, env, cwd, size, sock, client, answer)
        finally:
            self._keeper.started()

    def _place(self, fields: Fields, *, pty: bool) -> tuple[dict[str, str], str]:
        """Environment and working folder of a session; refused while the box may not start one."""
        keeper = self._keeper
        if keeper.stopping:
            raise Busy("the box is ending", "somebody stopped it", "start it again", code="stopping")
        if self._freezer.held:
            raise Busy(
                "the box is frozen",
                "a snapshot is being taken",
                "try again in a moment",
                code="frozen",
            )
        env = environment.compose(
            keeper.spec.policy,
            fields.texts("env"),
            keeper.egress.variables if keeper.egress is not None else None,
            box=keeper.paths.key,
            home=keeper.box.inside_home,
            shell=self._shell_path,
            pty=pty,
            confined=keeper.confined,
        )
        cwd = os.path.join(keeper.box.inside_tree, fields.text("cwd", ""))
        return env, cwd.rstrip("/") or "/"

    def _answer(self, client: Client, number: object) -> Answer:
        def answer(value: dict[str, Any] | ClocheError) -> None:
            if isinstance(value, ClocheError):
                client.refuse(number, value)
            else:
                client.reply(number, value)

        self._watch(client)
        return answer

    def _watch(self, client: Client) -> None:
        """Let go of a client's sessions when its connection ends; once, however many it starts."""
        if client not in self._watched:
            self._watched.add(client)
            client.subscriptions.append(lambda: self._forget(client))

    def _forget(self, client: Client) -> None:
        self._watched.discard(client)
        self._keeper.sessions.forget(client)

    def _attach(self, client: Client, fields: Fields, fds: list[int]) -> dict[str, Any]:
        size = fields.size()
        sock = _stream(fds)
        session = self._keeper.sessions.attach(fields.value("session"), size, sock, client)
        self._watch(client)
        return {"session": session.id}

    def _resize(self, _client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        session = self._keeper.sessions.get(fields.value("session"))
        if session.terminal is not None:
            session.terminal.resize(*fields.size())
        return {}

    def _type(self, _client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        """Type into a session's terminal beside whoever looks at it; its window stays as it is."""
        session = self._keeper.sessions.get(fields.value("session"))
        if session.terminal is None or not session.live:
            why = "it has ended" if session.pty else "it was started without a terminal"
            raise UsageError(
                f"nothing can be typed to session {session.id}", why, "cloche ps", code="no-terminal"
            )
        try:
            data = binascii.a2b_base64(fields.text("data", ""), strict_mode=True)
        except ValueError:
            data = b""
        if not 0 < len(data) <= MOST_TYPED:
            raise UsageError(
                "nothing was typed",
                f"1 to {MOST_TYPED} bytes can be typed at once",
                "this is a fault of the client",
                code="bad-request",
            )
        if session.terminal.typing_waits:
            raise Busy(
                f"nothing was typed to session {session.id}",
                "it has not read what was typed before",
                "look at it: cloche attach",
                code="not-reading",
            )
        session.terminal.type(data)
        return {}

    def _signal(self, _client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        self._keeper.sessions.signal(fields.value("session"), _number(fields))
        return {}

    def _kill(self, _client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        """Signal one process by identity, if it is one of the box's."""
        ident = ProcessId(fields.whole("pid"), fields.whole("start"))
        number = _number(fields)
        seen = census.take(self._keeper.box.init.pid)
        found = seen.processes.get(ident.pid)
        if found is None or found.ident != ident or not census.send(ident, number):
            raise NoSuchBox(
                f"process {ident.pid} is gone",
                "no process of this box has that pid and start time",
                "cloche ps",
                code="no-such-process",
            )
        return {}

    # ------------------------------------------------------------ the whole box

    def _freeze(self, client: Client, fields: Fields, _fds: list[int]) -> None:
        self._freezer.freeze(client, fields.number)

    def _thaw(self, client: Client, fields: Fields, _fds: list[int]) -> dict[str, Any]:
        self._freezer.release(client)
        return {}

    def _subscribe(self, client: Client, _fields: Fields, _fds: list[int]) -> dict[str, Any]:
        subscription = _Subscription(self._keeper, client)
        client.subscriptions.append(subscription.end)
        return {}

    def _stop(self, client: Client, fields: Fields, _fds: list[int]) -> None:
        self._stops.append((client, fields.number))
        self._freezer.drop()
        self._keeper.stop(fields.text("why", "asked to"), fields.text("who", "") or f"uid {os.geteuid()}")

    def stopped(self) -> None:
        """Nothing is left: tell those who asked for it."""
        for client, number in self._stops:
            client.reply(number, {})


def _best_shell(policy: Policy) -> str:
    """bash where the host has it and the policy shows it, else sh."""
    shown = {"/bin", "/bin/bash", "/usr", "/usr/bin", "/usr/bin/bash"} & set(policy.fs.read)
    return "/bin/bash" if shown and os.access("/bin/bash", os.X_OK) else "/bin/sh"


def _stream(fds: list[int]) -> socket.socket:
    """The one descriptor of a request as a stream socket; taken over."""
    fd = fds.pop()
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        os.close(fd)
        raise UsageError(
            "a terminal needs a socket", str(error), "this is a fault of the client", code="descriptors"
        ) from error
    if sock.type != socket.SOCK_STREAM:
        sock.close()
        raise UsageError(
            "a terminal needs a stream socket", "this is another kind", "this is a fault of the client"
        )
    return sock


def _person(fields: Fields) -> str:
    """Who asks for a change, as the client says; never nobody."""
    return fields.text("who", "") or f"uid {os.geteuid()}"


def _number(fields: Fields) -> int:
    number = fields.whole("signal", signal.SIGTERM)
    if not 0 < number < signal.NSIG:
        raise UsageError(f"there is no signal {number}", "see signal(7)", "kill -l", code="no-such-signal")
    return number


class _Freezer:
    """Stops all processes of the box while at least one connection asks for it."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._holders: set[Client] = set()
        self._waiting: list[tuple[Client, object]] = []
        self._frozen: int | None = None
        keeper.on_frozen.append(self._heard)

    @property
    def held(self) -> bool:
        return bool(self._holders)

    def freeze(self, client: Client, number: object) -> None:
        if client not in self._holders:
            client.subscriptions.append(lambda: self.release(client))
        first = not self._holders
        self._holders.add(client)
        if self._frozen is not None:
            client.reply(number, {"count": self._frozen})
            return
        self._waiting.append((client, number))
        if first:
            self._tell("freeze")

    def release(self, client: Client) -> None:
        """This connection needs it no longer, or is gone."""
        if client not in self._holders:
            return
        self._holders.remove(client)
        self._waiting = [one for one in self._waiting if one[0] is not client]
        if not self._holders:
            self._frozen = None
            self._tell("thaw")

    def drop(self) -> None:
        for client in list(self._holders):
            self.release(client)

    def _tell(self, operation: str) -> None:
        try:
            self._keeper.link.send({"op": operation})
        except Full as error:
            if not self._keeper.stopping:
                raise Refused(
                    f"the box cannot {operation}", str(error), "cloche stop", code="init-busy"
                ) from error

    def _heard(self, message: Message) -> None:
        count = message.get("count")
        if message.get("ev") != "frozen" or not isinstance(count, int) or not self._holders:
            return
        self._frozen = count
        waiting, self._waiting = self._waiting, []
        for client, number in waiting:
            client.reply(number, {"count": count})


class _Subscription:
    """Events to one client: every record as it is written, output and changes as notices."""

    def __init__(self, keeper: Keeper, client: Client) -> None:
        self._keeper = keeper
        self._client = client
        self._sessions: set[int] = set()
        self._changed = False
        self._timer: Timer | None = None
        keeper.recorder.flush()
        keeper.recorder.read_back()
        keeper.recorder.subscribers.append(self._record)
        keeper.on_change.append(self._change)

    def end(self) -> None:
        self._keeper.recorder.subscribers.remove(self._record)
        self._keeper.on_change.remove(self._change)
        if self._timer is not None:
            self._timer.cancel()

    def _record(self, record: JournalRecord) -> None:
        self._client.event({"event": "record", "record": record._asdict()})

    def _change(self, session: int | None) -> None:
        self._changed = True
        if session is not None:
            self._sessions.add(session)
        if self._timer is None:
            self._timer = self._keeper.loop.later(QUIET, self._tell)

    def _tell(self) -> None:
        self._timer = None
        for number in self._sessions:
            self._client.event({"event": "output", "session": number})
        if self._changed:
            self._client.event({"event": "changed"})
        self._sessions.clear()
        self._changed = False
