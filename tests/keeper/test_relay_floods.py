"""More connections than a relay takes: refused, counted, told once, and the keeper goes on."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from pathlib import Path

from backends.evidence.journal import Journal
from backends.keeper import relay_net
from backends.keeper.denials import Refusal
from tests.keeper.relays import (
    ADDRESS,
    LIMIT,
    Served,
    Server,
    echo,
    refused,
    served,
    turned_away,
)


def test_more_connections_than_the_cap_are_refused_and_counted_and_noted_once() -> None:
    with served(echo, cap=20) as (one, _):
        clients = [one.connect() for _ in range(20)]
        for client in clients:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        for _ in range(9):
            assert turned_away(one)
        one.settle(lambda: one.relay.counts().refused == 9)
        row = Refusal("limit", "connections", "at most 20 connections at a time", "keeper", "relay")
        assert one.refusals == [(row, 0, "", 1)] * 9
        assert len(one.log()) == 1
        for client in clients:
            client.close()
        one.settle(lambda: one.relay.counts().open == 0)
        with one.connect() as client:
            client.sendall(b"again")
            assert client.recv(100) == b"again"


def test_the_journal_opens_while_five_thousand_connections_come(tmp_path: Path) -> None:
    """Every descriptor that the relay may use is in use, and the rest of the keeper has enough left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    here = len(os.listdir("/proc/self/fd"))
    journal = Journal(tmp_path / "journal.jsonl")
    resource.setrlimit(resource.RLIMIT_NOFILE, (here + relay_net.RESERVE + 100, hard))
    try:
        with served(echo) as (one, _):
            floods = [_Flood(one.address, 2500) for _ in range(2)]

            def write() -> None:
                journal.append("note", {"open": one.relay.counts().open})

            for _ in range(20):
                one.call(write)
            for flood in floods:
                flood.wait()
            one.settle(lambda: one.relay.counts().accepted >= 5000)
            one.call(write)
            counts = one.relay.counts()
            assert counts.accepted == 5000
            assert counts.refused > 0
            assert sum(count for *_, count in one.refusals) == counts.refused
            assert len(one.log()) <= 8, "a line for each cause, and at powers of ten"
            for flood in floods:
                flood.close()
            one.settle(lambda: one.relay.counts().open == 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) == 21


def test_without_any_descriptor_left_a_connection_is_refused_and_later_ones_are_served() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with served(echo) as (one, _), contextlib.ExitStack() as stack:
        early = stack.enter_context(socket.socket())
        early.settimeout(LIMIT)
        highest = max(map(int, os.listdir("/proc/self/fd")))
        fillers: list[int] = []
        while not fillers or fillers[-1] < highest:
            fillers.append(os.open(os.devnull, os.O_RDONLY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1, hard))
        try:
            with contextlib.suppress(ConnectionResetError):
                early.connect(one.address)
                assert refused(early)
            one.settle(lambda: one.relay.counts().refused == 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        assert one.refusals[0][0].object == "descriptors"
        assert "could not be accepted: Too many open files" in one.log()[0]
        with one.connect() as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"


class _Flood:
    """A process that opens connections and keeps them; its descriptors are its own."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self._done, done = os.pipe()
        hold, self._hold = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._hold)
                _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
                kept = []
                for _ in range(count):
                    client = socket.socket()
                    kept.append(client)
                    with contextlib.suppress(ConnectionResetError):  # refused before we looked
                        client.connect(address)
                os.write(done, b"x")
                os.read(hold, 1)
                code = 0
            finally:
                os._exit(code)
        os.close(done)
        os.close(hold)

    def wait(self) -> None:
        assert os.read(self._done, 1) == b"x"

    def close(self) -> None:
        os.write(self._hold, b"x")
        os.close(self._done)
        os.close(self._hold)
        _, status = os.waitpid(self._pid, 0)
        assert status == 0


def test_close_ends_every_connection() -> None:
    server = Server(echo)
    before = len(os.listdir("/proc/self/fd"))
    one = Served((f"{ADDRESS}:7000",), (), (ADDRESS, 7000), server.address)
    client = one.connect()
    client.sendall(b"x")
    assert client.recv(1) == b"x"
    one.close()
    assert refused(client)
    client.close()
    server.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1
