"""The process that keepers are forked from: it has loaded what a launch needs, and nothing else.

One for each user and for each kind of surroundings (:mod:`backends.keeper.surroundings`). It holds no secret
and no box, and serves one kind of request: fork a keeper for this folder. Between requests it compares the
shared layers that were used with their seals and has the kernel tell when one changes, so that not every
launch has to (:mod:`backends.trees.intact`). It ends when nobody asked for a while, when its socket is
removed or the files it was loaded from have changed; a starter that finds none starts its keeper itself.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from backends import injected, trace
from backends.boxes.layout import BoxPaths
from backends.keeper import address, holes, peer, protocol, surroundings
from backends.keeper.log import Log
from backends.keeper.seed import Seed, raise_limits
from backends.keeper.spare import HIGH, Forker, Spare
from backends.kernel import inotify, seccomp, title
from backends.kernel.seccomp import FilterSpec
from backends.kernel.syscalls import close_from
from backends.tiers.builder import Builder
from backends.trees.intact import Intact

IDLE = 600.0  # seconds without a request
QUIET = 1.0  # seconds after the last request in which no layer is compared
PAUSE = 0.2  # seconds after the last request in which no spare is forked: a box is being started
REQUEST_LIMIT = 65536  # bytes
REQUEST_PATIENCE = 5.0  # seconds that a client gets to send its request, which it has ready
SETTLED = 1.0  # seconds that a file of this program must have been as it is when we begin to load it
FDS = 2  # with a request: the box's log, and where the keeper says that it is ready
READY = 3  # the descriptor of a keeper's first word


def load() -> None:
    """Import what a keeper needs until its box is ready, and what its first request takes."""
    import encodings.ascii

    from backends.keeper import keeper, main, requests, server, state, words
    from backends.tiers import networking, process, starting, supervised, workspace
    from backends.trees import verification

    words.load()
    for opens in ("writes", "all", "none"):
        for renames in (True, False):
            seccomp.build(FilterSpec(opens=opens, connects=opens != "none", renames=renames))
    del encodings, keeper, main, requests, server, state, verification
    del networking, process, starting, supervised, workspace


def main(name: str, listening: int, seed: Seed, began: int) -> NoReturn:
    """Serve ``listening``, bound to ``name``, until there is a reason to end; ``began`` as for the loop."""
    zygote = _Zygote(socket.socket(fileno=listening), name)
    load()
    gc.collect()
    holes.fill()
    gc.freeze()  # what is here by now is shared with every keeper
    gc.enable()
    raise_limits()  # of the keepers
    zygote.run(began, Forker(FDS, _become, seed))


class _Zygote:
    def __init__(self, listener: socket.socket, name: str) -> None:
        self._listener = listener
        self._name = name
        self._bound = _identity(name)
        self._surroundings = surroundings.of()
        self._loaded: tuple[tuple[str, int, int, int], ...] = ()
        self._layers = Intact()
        self._spare: Spare | None = None
        self._served = False
        listener.setblocking(False)
        listener.listen(address.BACKLOG)  # again, so that who connects is told our pid (unix(7), SO_PEERCRED)
        # Children are nobody's to wait for; they wait for theirs.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def run(self, began: int, forker: Forker) -> NoReturn:
        """The loop; without requests the process sleeps in poll(2).

        ``began``: when loading began, in ns since the epoch. What changed about then may be half in memory.
        """
        self._forker = forker
        self._loaded = loaded(began - int(SETTLED * 1e9))
        watch = inotify.create()
        # Removing a bound socket's name changes its count of links: the socket itself is still open.
        events = inotify.IN_ATTRIB | inotify.IN_DELETE_SELF | inotify.IN_MOVE_SELF
        inotify.add(watch, os.fsencode(self._name), events)
        poller = select.poll()
        poller.register(self._listener.fileno(), select.POLLIN)
        poller.register(watch, select.POLLIN)
        ends = forker.fileno(), forker.seed.fileno()  # which say nothing: their end
        for fd in ends:
            poller.register(fd, select.POLLIN)
        going = True
        while going:
            ready = [fd for fd, _ in poller.poll(self._patience() * 1000)]
            if not ready and self._served and self._spare is None:
                self._spare = forker.spare()
                continue
            if not ready and self._layers.due:
                compared = self._layers.begin()
                if compared is not None:
                    poller.register(compared, select.POLLIN)
                continue
            going = bool(ready) and not set(ends) & set(ready)
            for fd in ready:
                if fd not in (watch, self._listener.fileno(), *ends):
                    poller.unregister(fd)
                    self._layers.finish(fd)
            if watch in ready:
                os.read(watch, 1 << 16)
                going = self._named() and going
            if self._listener.fileno() in ready:
                going = self._accept() and going
        if self._named():
            # The lock's file stays: who has it open already must not hold another lock than who comes later.
            os.unlink(self._name)
        self._accept()  # whoever came while the name still led to us
        os._exit(0)

    def _patience(self) -> float:
        """Seconds without a request after which there is something to do: the spare first."""
        if self._served and self._spare is None:
            return PAUSE
        return QUIET if self._layers.due else IDLE

    def _named(self) -> bool:
        """Whether the socket's name still leads to the socket that we listen on."""
        return self._bound is not None and _identity(self._name) == self._bound

    def _accept(self) -> bool:
        """Serve everybody who waits; False when this process should not serve again."""
        while True:
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return True
            except OSError as error:
                Log().failure("zygote", error)
                return False
            with client:
                try:
                    fresh = self._answer(client)
                except (OSError, ValueError, protocol.ProtocolError, peer.Foreign) as error:
                    Log().failure("zygote", error)
                    continue
            if not fresh:
                return False

    def _answer(self, client: socket.socket) -> bool:
        """One request: fork, or say why not. False when the code on disk is no longer the one in memory."""
        client.settimeout(REQUEST_PATIENCE)
        who = peer.identify(client)
        if surroundings.of(who.pid) != self._surroundings:
            client.sendall(protocol.encode({"ok": False, "why": "other surroundings"}))
            return True
        if loaded() != self._loaded:
            with suppress(OSError):  # it gave up meanwhile: that is no reason to go on with what is no more
                client.sendall(protocol.encode({"ok": False, "why": "the program has changed"}))
            return False
        data, fds = protocol.receive(client, REQUEST_LIMIT, FDS)
        try:
            if len(fds) != FDS:
                raise ValueError(f"{len(fds)} descriptors came with a request")
            if _hung_up(client):
                raise ValueError("nobody waits for this request any more")
            request = next(protocol.Decoder(REQUEST_LIMIT).feed(data), {})
            root, environment = request.get("root"), request.get("env")
            if not isinstance(root, str) or not isinstance(environment, dict):
                raise ValueError("a request names no box")
            # Where layers lie is in it, and the keeper takes it over; it names folders and holds no secret.
            os.environ.clear()
            os.environ.update((str(name), str(value)) for name, value in environment.items())
            intact = self._layers.among(BoxPaths(Path(root)))
            trace.begin(os.environ.get(trace.VARIABLE, ""))
            spare, self._spare, self._served = self._spare, None, True
            # One that was forked before goes on where it stands; of its end before that nobody told us.
            for one in (spare, None):
                one = one or self._forker.spare()
                if one.take(root, os.environ, intact, fds):
                    break
            else:
                raise ValueError("no keeper could be forked")
            client.sendall(protocol.encode({"ok": True}))
        finally:
            protocol.close_all(fds)
        return True


def _become(
    root: str, environment: Mapping[str, str], intact: frozenset[str], fds: list[int], begun: Builder
) -> NoReturn:
    """Be the keeper of ``root`` from here on, as one that was started by itself."""
    try:
        os.environ.clear()
        os.environ.update(environment)
        trace.begin(os.environ.get(trace.VARIABLE, ""))
        injected.begin(os.environ.get(injected.VARIABLE, ""))
        from backends.keeper.main import serve, shown

        log, ready = fds
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        beyond = begun.move(HIGH)
        sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (null, log, log, ready)]
        for target, source in enumerate(sources):
            os.dup2(source, target, inheritable=target != READY)
        os.closerange(READY + 1, HIGH)
        close_from(beyond)
        os.setpgid(0, 0)  # in our session, which has no terminal; as its leader it could get one
        title.replace(*shown(root))
        serve(root, READY, intact, begun)
    finally:
        os._exit(70)  # EX_SOFTWARE: only when the keeper could not even report


def _hung_up(client: socket.socket) -> bool:
    """Whether the client gave up meanwhile: its keeper started by itself, and may have been stopped since."""
    poller = select.poll()
    poller.register(client.fileno(), select.POLLRDHUP)
    return bool(poller.poll(0))


def _identity(name: str) -> tuple[int, int] | None:
    try:
        there = os.lstat(name)
    except FileNotFoundError:
        return None
    return there.st_dev, there.st_ino


def loaded(before: int | None = None) -> tuple[tuple[str, int, int, int], ...]:
    """Every file of this program that is in memory, and the interpreter: path, inode, change time, size.

    Not the modification time, which an installer sets: two releases may have the same. What changed after
    ``before`` (ns since the epoch) is given as no file, and so is never found to be the same again.
    """
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [sys.executable, os.__file__]
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.startswith(here + "/backends/"):
            paths.append(path)
    found = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found.append((path, 0, 0, 0))
        else:
            known = before is None or status.st_ctime_ns <= before
            found.append((path, status.st_ino if known else -1, status.st_ctime_ns, status.st_size))
    return tuple(sorted(found))
