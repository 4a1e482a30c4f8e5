"""Talking to a box's keeper, and starting it where none lives."""

from __future__ import annotations

import errno
import itertools
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from backends.boxes import store
from backends.boxes.layout import BoxPaths
from backends.errors import Busy, NoSuchBox, from_dict
from backends.keeper import address, protocol
from backends.keeper import start as starting
from backends.keeper.protocol import Decoder, ProtocolError

TIMEOUT = 10.0  # seconds for one reply
RACE_PATIENCE = 5.0  # seconds for whoever else holds the box
LAUNCH_PATIENCE = 30.0  # the same, where it is another starter's keeper, which is not ready yet


class KeeperClient:
    """One connection. Calls wait for their reply; events that come meanwhile are kept for ``events``.

    Not for several threads at once. Raises ``ClocheError`` as the keeper reported it, and ``Busy`` with code
    "keeper-slow" or "keeper-gone" when it did not answer or hung up.
    """

    def __init__(self, path: Path | str, timeout: float = TIMEOUT, box: str = "BOX") -> None:
        self.timeout = timeout
        self._box = box  # as the commands that an error proposes name it
        self._numbers = itertools.count(1)
        self._decoder = Decoder()
        self._replies: dict[int, dict[str, Any]] = {}
        self._events: deque[dict[str, Any]] = deque()
        self._closed = False
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._sock.settimeout(timeout)
            address.connect(self._sock, path)
        except OSError:
            self._sock.close()
            raise

    def __enter__(self) -> KeeperClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, for whoever waits for events beside other things."""
        return self._sock.fileno()

    def call(
        self, op: str, fds: Sequence[int] = (), *, timeout: float | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Ask for one operation and return the reply's fields; ``fds`` stay the caller's."""
        number = self.send(op, fds, **fields)
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        while number not in self._replies:
            self._receive(until)
        reply = self._replies.pop(number)
        if not reply.get("ok"):
            error = reply.get("error")
            raise from_dict(error if isinstance(error, dict) else {})
        return {key: value for key, value in reply.items() if key not in ("id", "ok")}

    def send(self, op: str, fds: Sequence[int] = (), **fields: Any) -> int:
        """Send a request without waiting for its reply. A signal's handler may do so amid another call."""
        number = next(self._numbers)
        data = protocol.encode({"v": protocol.VERSION, "id": number, "op": op, "fds": len(fds), **fields})
        try:
            self._sock.settimeout(self.timeout)
            sent = self._pass(data, fds)
            if sent < len(data):  # sending nothing fails where the answer is there and who gave it has gone
                self._sock.sendall(data[sent:])
        except TimeoutError as error:
            raise _slow(op, self.timeout, self._box) from error
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise _crowded() from error
            raise _gone(error.strerror or "it hung up", self._box) from error
        return number

    def _pass(self, data: bytes, fds: Sequence[int]) -> int:
        """Send with descriptors. Those that wait in sockets count for the whole user, against our soft limit
        of open files (unix(7), ETOOMANYREFS): a box that fills sockets must not shut us out.
        """
        try:
            return self._sock.sendmsg([data], protocol.rights(fds))
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            return self._sock.sendmsg([data], protocol.rights(fds))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def events(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """Events as they come; ends when the keeper hangs up, or nothing came for ``timeout`` seconds."""
        while True:
            if self._events:
                yield self._events.popleft()
                continue
            try:
                self._receive(None if timeout is None else time.monotonic() + timeout)
            except Busy as error:
                if error.code in ("keeper-gone", "keeper-slow"):
                    return
                raise

    def wait_event(self, event: str, timeout: float | None = None, **match: Any) -> dict[str, Any]:
        """The next event of that name whose fields match; others are kept. ``Busy`` as for calls."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            for found in self._events:
                if found.get("event") == event and all(found.get(k) == v for k, v in match.items()):
                    self._events.remove(found)
                    return found
            self._receive(until)

    def _receive(self, until: float | None) -> None:
        left = None if until is None else max(0.0, until - time.monotonic())
        # poll(2), because a process of many descriptors is beyond select(2)'s reach.
        poller = select.poll()
        poller.register(self._sock.fileno(), select.POLLIN)
        if not poller.poll(None if left is None else left * 1000):
            raise _slow("the request", self.timeout, self._box)
        try:
            data = self._sock.recv(1 << 18)
        except OSError as error:
            raise _gone(error.strerror or "the connection broke", self._box) from error
        if not data:
            raise _gone("it hung up", self._box)
        try:
            for value in self._decoder.feed(data):
                if "event" in value:
                    self._events.append(value)
                else:
                    self._replies[value.get("id", 0)] = value
        except ProtocolError as error:
            raise _gone(str(error), self._box) from error

    def close(self) -> None:
        """Hang up. Sessions that were started here go on."""
        if not self._closed:
            self._closed = True
            self._sock.close()


def _slow(what: str, limit: float, box: str) -> Busy:
    return Busy(
        "the box's keeper does not answer",
        f"{what} got no reply within {limit:.0f} seconds",
        f"try again, or end the box: cloche stop {box}",
        code="keeper-slow",
    )


def _crowded() -> Busy:
    return Busy(
        "the box's keeper cannot be handed the streams",
        "too many descriptors of yours wait in sockets, of a box or of another program",
        "end the boxes that you do not trust: cloche ls --all, then cloche stop BOX",
        code="descriptors",
    )


def _gone(why: str, box: str) -> Busy:
    return Busy("the box's keeper is gone", why, f"cloche status {box}", code="keeper-gone")


def connect(paths: BoxPaths, timeout: float = TIMEOUT) -> KeeperClient:
    """Connect to the live keeper of a box; ``NoSuchBox`` with code "not-live" when there is none."""
    try:
        return KeeperClient(address.of(paths), timeout, paths.name)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoSuchBox(
            f"box {paths.name} is not live",
            "no keeper of it listens",
            f"cloche run {paths.name} -- CMD starts it",
            code="not-live",
        ) from error
    except OSError as error:
        raise _slow(f"the connection ({error.strerror or error})", timeout, paths.name) from error


def start(paths: BoxPaths, timeout: float = TIMEOUT) -> KeeperClient:
    """Connect to the box's keeper, starting it where none lives. Raises what kept the box from starting."""
    began = time.monotonic()
    while True:
        try:
            return connect(paths, timeout)
        except NoSuchBox as error:
            if error.code != "not-live":
                raise
        try:
            starting.launch(paths)
        except Busy as busy:
            # Somebody else starts it, or the keeper before is just leaving: its lock says so.
            patience = LAUNCH_PATIENCE if store.verb_of(paths) == "keeper" else RACE_PATIENCE
            if busy.code != "locked" or time.monotonic() > began + patience:
                raise
            time.sleep(0.02)
