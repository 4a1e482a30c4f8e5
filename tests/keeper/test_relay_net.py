"""The relay: what goes through it arrives whole, what may not go is refused, and nothing is left open."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.evidence.journal import Journal
from backends.keeper import relay_connection, relay_flow, relay_net
from backends.keeper.denials import Refusal
from tests.keeper.relays import ADDRESS, LIMIT, Served, Server, client_hello, read_all, served

NAMED = ("good.example.com",)
WHERE = f"{ADDRESS}:443"
OTHER = "it says a name that did not lead to this address"


def echo(client: socket.socket) -> None:
    while data := client.recv(1 << 16):
        client.sendall(data)


def keep(got: list[bytes], answer: bytes = b"") -> Callable[[socket.socket], None]:
    """A server that reads to the end and then answers."""

    def serve(client: socket.socket) -> None:
        got.append(read_all(client))
        client.sendall(answer)

    return serve


def refused(client: socket.socket) -> bool:
    """Whether a connection ends by a reset before anything comes."""
    try:
        return client.recv(1) == b"never"
    except ConnectionResetError:
        return True


def turned_away(one: Served, first: bytes = b"") -> bool:
    """Whether a new connection is reset, at once or after ``first``; the reset may be there before connect(2)
    returns.
    """
    try:
        with one.connect() as client:
            client.sendall(first)
            return refused(client)
    except ConnectionResetError:
        return True


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
        time.sleep(0.5)
        turns = [0]
        step = one.loop.step

        def counted(limit: float = 60.0) -> None:
            turns[0] += 1
            step(limit)

        one.call(lambda: monkeypatch.setattr(one.loop, "step", counted))
        before = turns[0]
        time.sleep(0.5)
        spent = turns[0] - before
        go.set()
        # Waiting for the other half to go on looks once a second.
        assert spent < 20


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
            _until_still(sent)
            assert sent[0] < size
            held: list[int] = []
            one.call(lambda: held.append(one.relay.scratch.held))
            assert held[0] <= relay_flow.BLOCK
            data = read_all(client)
        assert len(data) == sent[0]
        assert data == (block * (size // len(block) + 1))[: len(data)]
        one.settle(lambda: one.relay.scratch.held == 0)


def _until_still(count: list[int]) -> None:
    until = time.monotonic() + LIMIT
    before = -1
    while before != count[0] and time.monotonic() < until:
        before = count[0]
        time.sleep(0.3)


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


# ---------------------------------------------------------------- what is said


def test_a_tls_hello_with_a_name_of_the_address_goes_through_unchanged() -> None:
    got: list[bytes] = []
    hello = client_hello("good.example.com")
    with served(keep(got, b"hi"), NAMED, NAMED, port=443) as (one, server), one.connect() as client:
        client.sendall(hello[:50])
        time.sleep(0.05)
        assert one.dialled == [], "nothing is sent before the name is known"
        client.sendall(hello[50:] + b"more")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"hi"
        server.wait()
        assert got == [hello + b"more"]
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.rows() == ((ADDRESS, 443, "good.example.com", 1, 0, 0, len(hello) + 4, 2),)


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        (client_hello("evil.example"), "SNI evil.example"),
        (client_hello("GOOD.example.com.evil.example"), "SNI good.example.com.evil.example"),
        (b"GET / HTTP/1.1\r\nHost: good.example.com\r\n\r\n", "no name"),
        (b"SSH-2.0-OpenSSH_9\r\n", "no name"),
    ],
)
def test_another_name_or_none_is_refused_and_counted_and_never_dialled(first: bytes, shown: str) -> None:
    with served(echo, NAMED, NAMED, port=443) as (one, server):
        assert turned_away(one, first)
        one.settle(lambda: one.relay.counts().open == 0)
        assert len(one.refusals) == 1
        refusal, *caller = one.refusals[0]
        assert refusal._replace(rule="") == Refusal("net", f"{WHERE} ({shown})", "", "keeper", "relay")
        assert refusal.rule == OTHER if shown != "no name" else "TLS" in refusal.rule
        assert caller == [7, "curl", 1]
        assert one.dialled == []
        assert server.accepted == 0
        assert one.relay.rows() == ((ADDRESS, 443, "", 0, 0, 1, 0, 0),)


def test_a_name_that_only_a_rule_for_another_port_allows_is_refused() -> None:
    rules = ("good.example.com", "other.example.com:8443")
    names = ("good.example.com", "other.example.com")  # both led to this address
    with served(echo, rules, names, port=443) as (one, _), one.connect() as client:
        client.sendall(client_hello("other.example.com"))
        assert refused(client)
        one.settle(lambda: len(one.refusals) == 1)
        assert one.refusals[0][0].object == f"{WHERE} (SNI other.example.com)"
        assert one.refusals[0][0].rule == "other.example.com is allowed on port 8443 only"


def test_a_destination_on_no_list_is_refused_whatever_it_says() -> None:
    with served(echo, NAMED, (), port=443) as (one, _):
        assert turned_away(one, client_hello("good.example.com"))
        one.settle(lambda: len(one.refusals) == 1)
        assert one.refusals[0][0].object == WHERE
        assert one.relay.rows() == (), "a box must not fill the rows with what it makes up"


def test_silence_is_refused_when_a_name_has_to_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_connection, "SNIFF_PATIENCE", 0.0)
    with served(echo, NAMED, NAMED, port=443) as (one, _), one.connect() as client:
        assert refused(client)
        one.settle(lambda: len(one.refusals) == 1)
        assert one.refusals[0][0].rule == "it said no name; only a raw: rule asks for none"


def test_who_leaves_before_saying_anything_is_no_refusal() -> None:
    with served(echo, NAMED, NAMED, port=443) as (one, _):
        with one.connect() as client:
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b""
        one.settle(lambda: one.relay.counts() == (1, 0, 0, 0))
        assert one.refusals == []


def test_a_server_may_speak_first_where_a_raw_rule_says_so() -> None:
    def serve(client: socket.socket) -> None:
        client.sendall(b"SSH-2.0-server\r\n")
        read_all(client)

    rules = ("raw:good.example.com:2222",)
    with served(serve, rules, NAMED, port=2222) as (one, _), one.connect() as client:
        assert client.recv(100) == b"SSH-2.0-server\r\n"


# ---------------------------------------------------------------- HTTP


def _request(host: str, path: str = "/", rest: str = "", body: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n".encode() + body


GOOD80 = ("good.example.com:80",)


def test_every_request_of_a_connection_must_name_an_allowed_host() -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        while data := client.recv(1 << 16):
            got.append(data)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with served(serve, GOOD80, NAMED, port=80) as (one, server), one.connect() as client:
        for _ in range(2):
            client.sendall(_request("good.example.com"))
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        client.sendall(_request("evil.example"))
        assert refused(client)
        one.settle(lambda: one.relay.counts().open == 0)
        server.wait()
        assert got == [_request("good.example.com")] * 2
        assert one.refusals[0][0] == Refusal(
            "net", f"{ADDRESS}:80 (Host evil.example)", OTHER, "keeper", "relay"
        )


def test_connect_is_refused() -> None:
    with served(echo, GOOD80, NAMED, port=80) as (one, server), one.connect() as client:
        client.sendall(b"CONNECT good.example.com:443 HTTP/1.1\r\nHost: good.example.com\r\n\r\n")
        assert refused(client)
        one.settle(lambda: len(one.refusals) == 1)
        assert "CONNECT" in one.refusals[0][0].rule
        assert server.accepted == 0


def test_an_upgraded_connection_is_passed_as_it_is() -> None:
    def serve(client: socket.socket) -> None:
        assert client.recv(1 << 16).startswith(b"GET ")
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        echo(client)

    with served(serve, GOOD80, NAMED, port=80) as (one, _), one.connect() as client:
        early = b"\x81\x05early"
        client.sendall(
            _request("good.example.com", rest="Connection: Upgrade\r\nUpgrade: websocket\r\n") + early
        )
        answer = b""
        while early not in answer:
            answer += client.recv(1000)
        client.sendall(b"\x00\xff any bytes")
        assert client.recv(1000) == b"\x00\xff any bytes"
        assert one.refusals == []


def test_a_server_that_does_not_upgrade_leaves_the_checks_in_place() -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        got.append(client.recv(1 << 16))
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            got.append(read_all(client))

    first = _request("good.example.com", rest="Connection: Upgrade\r\nUpgrade: websocket\r\n")
    with served(serve, GOOD80, NAMED, port=80) as (one, server), one.connect() as client:
        client.sendall(first + _request("evil.example"))
        with contextlib.suppress(ConnectionResetError):
            read_all(client)
        one.settle(lambda: len(one.refusals) == 1)
        server.wait()
        assert b"".join(got) == first
        assert one.refusals[0][0].object == f"{ADDRESS}:80 (Host evil.example)"


# ---------------------------------------------------------------- floods


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
            flood = _Flood(one.address, 5000)

            def write() -> None:
                journal.append("note", {"open": one.relay.counts().open})

            for _ in range(20):
                one.call(write)
            flood.wait()
            one.settle(lambda: one.relay.counts().accepted >= 5000)
            one.call(write)
            counts = one.relay.counts()
            assert counts.accepted == 5000
            assert counts.refused > 0
            assert sum(count for *_, count in one.refusals) == counts.refused
            assert len(one.log()) <= 8, "a line for each cause, and at powers of ten"
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
