"""What a caller hands to the engine, and the live terminal that it hands back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from backends.record import NamedTuple

if TYPE_CHECKING:
    import socket


class NewBox(NamedTuple):
    """A request for a box. Empty texts mean "the profile's" or "the default"."""

    name: str = ""  # "": a random readable name
    rev: str = "HEAD"  # any revision that names a commit
    tier: str = ""  # auto or a tier; "": the profile's, then auto
    profile: str = ""  # "": the one that the configuration names
    clone: str = ""  # URL to clone instead of the repository one stands in
    empty: bool = False  # begin with no files and no source repository
    image: str = ""
    purpose: str = ""
    expires: float | None = None  # seconds since the epoch


class Applying(TypedDict, total=False):
    """How a proposal is to be applied; what is left out is as the comments say."""

    squash: bool  # one commit instead of a merge; False
    as_name: str | None  # the script that acts; None: a person
    expect: str | None  # the snapshot that was reviewed; None: any
    onto: str  # a branch to make at the base; "": the recorded one
    message: str  # of the commit; "": made from the box's purpose
    keep_commits: bool  # take the box's own commits as they are; False: one commit that the gate writes


class Streams(NamedTuple):
    """The three descriptors of a command that runs in a box; they stay the caller's.

    A screen, where there is one, is given each piece of output and returns what may be written: front ends
    set it where the descriptor is a person's terminal.
    """

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2
    screen_stdout: Callable[[bytes], bytes] | None = None
    screen_stderr: Callable[[bytes], bytes] | None = None


class RunResult(NamedTuple):
    """How a command in a box ended: ``exit`` is its code, 128 + signal, or 124 on the wall limit."""

    session: int
    exit: int
    wall: float  # seconds
    cpu: float | None  # seconds of user and system time
    peak_rss: int | None


class SessionHandle(Protocol):
    """A running session of ``Engine.run``, given to ``on_session`` so that a caller can signal it."""

    id: int

    def signal(self, number: int) -> None:
        """Send a signal to the session's process group inside the box; nothing once the session ended."""
        ...


class Channel(Protocol):
    """What a terminal needs of the keeper's client."""

    def call(self, op: str, fds: tuple[int, ...] = (), **fields: Any) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Terminal:
    """One end of a session's pseudo-terminal: ``fd`` carries raw bytes both ways.

    Reading gives what the box prints (hostile: never write it to a real terminal unfiltered), writing types.
    Closing detaches and leaves the session running.
    """

    def __init__(
        self, session: int, stream: socket.socket, channel: Channel, wait: Callable[[], RunResult]
    ) -> None:
        self.session = session
        self._stream = stream
        self._channel = channel
        self._wait = wait

    @property
    def fd(self) -> int:
        """The stream's descriptor, for selectors and event loops; it stays this object's."""
        return self._stream.fileno()

    def read(self, limit: int = 65536) -> bytes:
        """Up to ``limit`` bytes of output; b"" once the session ended or was detached."""
        try:
            return self._stream.recv(limit)
        except ConnectionResetError:
            return b""

    def write(self, data: bytes) -> None:
        """Type ``data`` into the session; blocks while the session does not read."""
        self._stream.sendall(data)

    def resize(self, rows: int, cols: int) -> None:
        """Tell the session the size of the window that shows it."""
        self._channel.call("resize", session=self.session, rows=rows, cols=cols)

    def wait(self) -> RunResult:
        """Wait for the end of the session. To be called once, after the output ended."""
        return self._wait()

    def close(self) -> None:
        """Detach: the session goes on. May be called again."""
        self._stream.close()
        self._channel.close()
