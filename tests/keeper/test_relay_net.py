"""The relay: what goes through it arrives whole, and nothing is left open or held."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

import pytest

from backends.keeper import relay_connection, relay_flow, relay_net
from tests.keeper.relays import (
    ADDRESS,
    LIMIT,
    Served,
    echo,
    read_all,
    served,
    turned_away,
)
from tests.support import settled, wait_until


def test_destinations_beyond_the_bound_share_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_net, "MAX_ROWS", 3)
    with served(echo, (f"{ADDRESS.rpartition('.')[0]}.0/24:7000",)) as (one, _):
        for last in range(5):
            one.destination = (f"{ADDRESS.rpartition('.')[0]}.{last}", 7000)
            with one.connect() as client:
                client.sendall(b"ab")
                assert client.recv(2) == b"ab"
        one.settle(lambda: one.relay.counts().open == 0)
        rows = one.relay.rows()
        assert [row.connections for row in rows] == [1, 1, 1, 2]
        assert rows[-1] == ("", 0, "", 2, 0, 0, 4, 4)


def test_bytes_go_both_ways_and_are_counted_for_the_destination() -> None:
    with served(echo) as (one, _), one.connect() as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b""
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.rows() == ((ADDRESS, 7000, "", 1, 0, 0, 5, 5),)
        assert one.dialled == [(ADDRESS, 7000)]
        assert one.refusals == []


def test_the_box_may_end_its_direction_first_and_still_be_answered() -> None:
    def serve(client: socket.socket) -> None:
        client.sendall(b"got %d" % len(read_all(client)))

    with served(serve) as (one, _), one.connect() as client:
        client.sendall(b"x" * 3_000_000)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"got 3000000"


def test_the_destination_may_end_its_direction_first_and_still_be_sent_to() -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        client.sendall(b"only this")
        client.shutdown(socket.SHUT_WR)
        got.append(read_all(client))

    with served(serve) as (one, server), one.connect() as client:
        assert read_all(client) == b"only this"
        client.sendall(b"y" * 3_000_000)
        client.shutdown(socket.SHUT_WR)
        one.settle(lambda: one.relay.counts().open == 0)
        server.wait()
        assert got == [b"y" * 3_000_000]


def test_what_waits_costs_no_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle, half-closed both ways round, reset behind a slow reader: each is an event once."""
    go = threading.Event()

    def serve(client: socket.socket) -> None:
        what = client.recv(1)
        if what == b"r":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.send(bytes(1 << 16))
            relay_connection.reset(client)
            return
        if what == b"s":
            client.shutdown(socket.SHUT_WR)
        go.wait(LIMIT)

    with served(serve) as (one, _), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(one.connect()) for _ in range(4)]
        for client, what in zip(clients, b"isch", strict=True):
            client.sendall(b"r" if what == ord("h") else bytes([what]))
        clients[2].shutdown(socket.SHUT_WR)
        turns = [0]
        step = one.loop.step

        def counted(limit: float = 60.0) -> None:
            turns[0] += 1
            step(limit)

        one.call(lambda: monkeypatch.setattr(one.loop, "step", counted))

        def rests() -> bool:
            """Waiting for the other half to go on looks once a second."""
            before = turns[0]
            time.sleep(0.5)
            return turns[0] - before < 20

        try:
            wait_until(rests, "once all of it is under way, the relay rests")
        finally:
            go.set()


def test_a_slow_reader_makes_the_sender_wait_and_loses_nothing() -> None:
    size = 64 << 20
    sent = [0]
    block = os.urandom(1 << 16)

    def serve(client: socket.socket) -> None:
        while sent[0] < size:
            sent[0] += client.send(block)

    with served(serve) as (one, _):
        # Without a bound of its own the kernel would hold the whole of it.
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            client.settimeout(LIMIT)
            client.connect(one.address)
            settled(lambda: sent[0])
            assert sent[0] < size
            held: list[int] = []
            one.call(lambda: held.append(one.relay.scratch.held))
            assert held[0] <= relay_flow.BLOCK
            data = read_all(client)
        assert len(data) == sent[0]
        assert data == (block * (size // len(block) + 1))[: len(data)]
        one.settle(lambda: one.relay.scratch.held == 0)


def test_many_slow_readers_hold_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_flow, "MAX_HELD", 2 * relay_flow.BLOCK)
    size = 8 << 20

    def serve(client: socket.socket) -> None:
        client.sendall(b"z" * size)

    with served(serve) as (one, _):
        clients = [one.connect() for _ in range(12)]
        one.settle(lambda: one.relay.counts().open == 12)
        time.sleep(0.5)
        held: list[int] = []
        one.call(lambda: held.append(one.relay.scratch.held))
        assert held[0] <= 2 * relay_flow.BLOCK
        for client in clients:
            with client:
                assert len(read_all(client)) == size
        one.settle(lambda: one.relay.scratch.held == 0)


def test_five_hundred_connections_at_a_time() -> None:
    with served(echo) as (one, server):
        clients = [one.connect() for _ in range(500)]
        for number, client in enumerate(clients):
            client.sendall(b"%03d" % number)
        for number, client in enumerate(clients):
            assert client.recv(3) == b"%03d" % number
        assert server.accepted == 500
        for client in clients:
            client.close()
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.rows()[0].connections == 500


def test_a_reset_of_the_destination_is_one_for_the_box_after_what_it_sent() -> None:
    def serve(client: socket.socket) -> None:
        client.sendall(b"part")
        client.recv(2)
        relay_connection.reset(client)

    with served(serve) as (one, _), one.connect() as client:
        assert client.recv(100) == b"part"
        client.sendall(b"ok")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        one.settle(lambda: one.relay.counts().open == 0)


def test_a_reset_of_the_box_ends_the_connection_to_the_destination() -> None:
    ended = threading.Event()

    def serve(client: socket.socket) -> None:
        client.sendall(b"x")
        try:
            read_all(client)
        finally:
            ended.set()

    with served(serve) as (one, _):
        client = one.connect()
        assert client.recv(1) == b"x"
        relay_connection.reset(client)
        assert ended.wait(LIMIT)
        one.settle(lambda: one.relay.counts().open == 0)


def test_a_destination_that_takes_nobody_is_a_reset_and_one_line_of_the_log() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = free.getsockname()[:2]
    one = Served((f"{ADDRESS}:7000",), (), (ADDRESS, 7000), nowhere)
    try:
        for _ in range(5):
            assert turned_away(one)
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.counts().failed == 5
        assert one.relay.rows() == ((ADDRESS, 7000, "", 0, 5, 0, 0, 0),)
        lines = one.log()
        assert len(lines) == 1
        assert f"{ADDRESS}:7000 could not be reached: Connection refused" in lines[0]
        assert one.refusals == [], "nobody refused it"
    finally:
        one.close()


def test_a_destination_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_connection, "DIAL_PATIENCE", 0.0)
    # A full backlog answers no SYN.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        one = Served((f"{ADDRESS}:7000",), (), (ADDRESS, 7000), full.getsockname()[:2])
        try:
            assert turned_away(one)
            one.settle(lambda: one.relay.counts() == (1, 0, 1, 0))
            assert "no answer within" in one.log()[0]
        finally:
            one.close()
            for filler in fillers:
                filler.close()
