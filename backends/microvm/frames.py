"""The frames between steward, session and guest: many streams over one ordered channel, each with credit.

A frame is a header (kind, stream, channel, length) and at most :data:`MOST` bytes. A channel is one session
or one connection; its streams are numbered like descriptors. Whoever sends DATA spends credit of that stream,
which its receiver gives back as it gets rid of the bytes (CREDIT), so nobody has to keep more than
:data:`WINDOW` bytes of a stream and a slow reader delays only itself.

The guest's side is written by the box: its numbers are checked, and what breaks the rules ends the box.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from backends.record import NamedTuple

HEADER = struct.Struct("=BBHII")  # kind, stream, 0, channel, length
MOST = 32 << 10  # bytes of one frame
WINDOW = 256 << 10  # bytes of a stream under way
RETURN = 64 << 10  # bytes after which credit goes back
CONFIGURATION = 1 << 20  # bytes that CONFIGURE may have, sent in parts

# Host to guest. JSON where not said otherwise.
CONFIGURE = 1  # part of the configuration; an empty one ends it
SPAWN = 2  # part of {argv, env, cwd, pty}; an empty one ends it
SIGNAL = 3  # to the channel's process group; one byte
RESIZE = 4  # rows and columns, SIZE
KILL = 5  # every process of the channel; of channel 0: all that ended commands left
FREEZE = 6
THAW = 7
QUIT = 8  # end every process, write back, answer with BYE

# Both ways.
DATA = 16
END = 17  # the stream has no more
CREDIT = 18  # bytes of the stream that may be sent further, COUNT

# Guest to host.
READY = 32  # {kernel, machine}
TROUBLE = 33  # text: what kept the guest from becoming ready
SPAWNED = 34
FAILED = 35  # {errno, why}
EXIT = 36  # EXITED
FROZEN = 37  # COUNT
THAWED = 38  # COUNT
BYE = 39
LEFT = 41  # how many ended commands left processes that run on, COUNT
OPEN = 40  # a connection to the proxy begins; answered with CREDIT or END

SIZE = struct.Struct("=HH")
COUNT = struct.Struct("=I")
EXITED = struct.Struct("=IddQ")  # wait status, user and system seconds, peak resident bytes

CONNECTIONS = 1 << 31  # channels from here on are connections, which the guest numbers


class Broken(Exception):
    """The other side sent what is no frame, or more than it may."""


class Frame(NamedTuple):
    kind: int
    stream: int
    channel: int
    data: bytes


def pack(kind: int, channel: int = 0, data: bytes = b"", stream: int = 0) -> bytes:
    return HEADER.pack(kind, stream, 0, channel, len(data)) + data


def parts(kind: int, channel: int, data: bytes) -> bytes:
    """``data`` of any length as frames of ``kind``, an empty one at the end."""
    pieces = [pack(kind, channel, data[at : at + MOST]) for at in range(0, len(data), MOST)]
    return b"".join((*pieces, pack(kind, channel)))


class Reader:
    """Cuts what arrives into frames. ``Broken`` when a header cannot be one."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= HEADER.size:
                kind, stream, zero, channel, length = HEADER.unpack_from(self._buffer, at)
                if zero or length > MOST:
                    raise Broken(f"a frame of kind {kind} and {length} bytes")
                end = at + HEADER.size + length
                if len(self._buffer) < end:
                    break
                yield Frame(kind, stream, channel, bytes(self._buffer[at + HEADER.size : end]))
                at = end
        finally:
            del self._buffer[:at]


class Credit:
    """What may still be sent of one stream, and what of it was received and not given back."""

    __slots__ = ("left", "taken")

    def __init__(self) -> None:
        self.left = WINDOW
        self.taken = 0

    def spend(self, size: int) -> None:
        self.left -= size

    def give(self, data: bytes) -> None:
        """A CREDIT frame came. ``Broken`` when it gives more than was spent."""
        if len(data) != COUNT.size:
            raise Broken("credit of a wrong size")
        self.left += COUNT.unpack(data)[0]
        if self.left > WINDOW:
            raise Broken("more credit than was spent")

    def took(self, size: int) -> int:
        """``size`` bytes are out of our hands: how much credit to give back now, 0 to wait for more."""
        self.taken += size
        if self.taken < RETURN:
            return 0
        back, self.taken = self.taken, 0
        return back
