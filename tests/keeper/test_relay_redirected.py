"""The relay behind a real packet filter: it knows where a program meant to go, and serves no one else."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.egress import artefact
from backends.kernel import namespaces
from backends.kernel.nftables import RELAY_PORT, entry, planned
from backends.tiers import netns
from tests.keeper.relays import ADDRESS, LIMIT, Served, Server, client_hello, read_all

pytestmark = pytest.mark.real

ADDRESS6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
NAME = "good.example.com"
SOCKET_PAIR_LIMIT = 1 << 16


class Inside:
    """A process in a network namespace whose packet filter leads listed destinations to a relay."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        found = artefact.load()
        entries = frozenset(entry(address, port) for address in (ADDRESS, ADDRESS6) for port in (443, 7000))
        plan = netns.NetworkPlan(found.batch, found.labels, *planned((), entries))
        uid, gid = os.getuid(), os.getgid()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                self._ours.close()
                namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET)
                namespaces.map_ids(None, ((uid, uid, 1),), ((gid, gid, 1),), setgroups=False)
                namespaces.loopback_up()
                made = netns.build(plan)
                socket.send_fds(theirs, [b"ready"], [one.fileno() for one in made[:2]])
                for one in made[:2]:
                    one.close()
                _serve(theirs)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self._ours.settimeout(LIMIT)
        said, received, _, _ = socket.recv_fds(self._ours, 64, 2)
        assert said == b"ready", "the namespace could not be made"
        self.listeners = [socket.socket(fileno=fd) for fd in received]

    def connect(self, address: str, port: int, say: bytes = b"") -> str:
        """What a program inside gets from a destination, or how it was turned away."""
        self._ours.send(json.dumps([address, port, say.decode("latin-1")]).encode())
        return self._ours.recv(SOCKET_PAIR_LIMIT).decode()

    def close(self) -> None:
        self._ours.close()
        _, status = os.waitpid(self._pid, 0)
        assert status == 0


def _serve(asked: socket.socket) -> None:
    while request := asked.recv(SOCKET_PAIR_LIMIT):
        address, port, say = json.loads(request)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family) as client:
                client.settimeout(LIMIT)
                client.connect((address, port))
                client.sendall(say.encode("latin-1"))
                client.shutdown(socket.SHUT_WR)
                answer = read_all(client).decode()
        except ConnectionRefusedError:
            answer = "refused"
        except OSError as error:
            # Which of them depends on when the reset is there.
            reset = error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
            answer = "reset" if reset else type(error).__name__
        asked.send(answer.encode())


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = Inside()
    yield one
    one.close()


@pytest.fixture
def reached(inside: Inside) -> Iterator[Served]:
    """The relay of that namespace. What it dials is a server of ours, which answers how much it was sent."""

    def serve(client: socket.socket) -> None:
        client.sendall(b"got %d" % len(read_all(client)))

    server = Server(serve)
    rules = (f"raw:{NAME}:7000", NAME)
    one = Served(rules, (NAME,), ("", 0), server.address, redirected=inside.listeners)
    yield one
    one.close()
    server.close()


def test_the_destination_that_a_program_meant_is_dialled_whatever_the_kind_of_its_socket(
    inside: Inside, reached: Served
) -> None:
    assert inside.connect(ADDRESS, 7000, b"four") == "got 4"
    assert inside.connect(f"::ffff:{ADDRESS}", 7000, b"mapped") == "got 6"
    assert inside.connect(ADDRESS6, 7000, b"sixteen") == "got 7"
    assert reached.dialled == [(ADDRESS, 7000), (ADDRESS, 7000), (ADDRESS6, 7000)]
    assert reached.refusals == []


def test_a_pinned_address_is_reached_by_its_own_names_only(inside: Inside, reached: Served) -> None:
    good, evil = client_hello(NAME), client_hello("evil.example")
    assert inside.connect(ADDRESS, 443, good) == f"got {len(good)}"
    assert inside.connect(ADDRESS6, 443, evil) == "reset"
    assert reached.dialled == [(ADDRESS, 443)]
    reached.settle(lambda: len(reached.refusals) == 1)
    assert [refusal.object for refusal, *_ in reached.refusals] == [f"[{ADDRESS6}]:443 (SNI evil.example)"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"])
def test_who_connects_to_the_relay_itself_is_refused(inside: Inside, reached: Served, address: str) -> None:
    assert inside.connect(address, RELAY_PORT, client_hello(NAME)) == "reset"
    reached.settle(lambda: len(reached.refusals) == 1)
    assert reached.refusals[0][0].rule == "the relay is reached by redirection only"
    assert reached.dialled == []


def test_what_is_not_listed_does_not_come_to_the_relay(inside: Inside, reached: Served) -> None:
    assert inside.connect("93.184.215.15", 443, client_hello(NAME)) == "refused"
    assert inside.connect(ADDRESS, 80) == "refused"
    assert reached.relay.counts().accepted == 0
