"""Packets between keeper and init: sizes, descriptors, bytes that are not text."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from backends.keeper import init_protocol
from backends.keeper.init_protocol import ProtocolError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_packets_keep_their_bounds_and_order(pair: Pair) -> None:
    for number in range(3):
        init_protocol.send(pair[0], {"op": "end", "n": number})
    assert [init_protocol.recv(pair[1])[0] for _ in range(3)] == [{"op": "end", "n": n} for n in range(3)]


def test_bytes_that_are_no_utf_8_come_back(pair: Pair) -> None:
    text = b"\xff\xfe /\xc3".decode("utf-8", "surrogateescape")
    init_protocol.send(pair[0], {"argv": [text]})
    message, _ = init_protocol.recv(pair[1])
    assert message == {"argv": [text]}


def test_a_large_object_travels_in_a_file_beside_other_descriptors(pair: Pair) -> None:
    reader, writer = os.pipe()
    init_protocol.send(pair[0], {"env": "x" * 1_000_000}, [writer])
    os.close(writer)
    message, fds = init_protocol.recv(pair[1])
    assert message == {"env": "x" * 1_000_000}
    assert len(fds) == 1
    os.write(fds[0], b"through")
    assert os.read(reader, 10) == b"through"
    init_protocol.close([*fds, reader])


def test_received_descriptors_do_not_survive_an_exec(pair: Pair) -> None:
    init_protocol.send(pair[0], {"op": "x"}, [0])
    _, fds = init_protocol.recv(pair[1])
    assert not os.get_inheritable(fds[0])
    init_protocol.close(fds)


def test_an_object_without_bounds_is_not_sent(pair: Pair) -> None:
    with pytest.raises(ProtocolError):
        init_protocol.send(pair[0], {"env": "x" * (init_protocol.MESSAGE_LIMIT + 1)})


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"in-file": 10}', b'{"in-file": -1}', b"\xff"])
def test_what_is_no_packet_is_refused_and_its_descriptors_closed(pair: Pair, data: bytes) -> None:
    pair[0].send(data)
    with pytest.raises(ProtocolError):
        init_protocol.recv(pair[1])


def test_the_end_of_the_stream_is_told(pair: Pair) -> None:
    pair[0].close()
    assert init_protocol.recv(pair[1]) == (None, [])
