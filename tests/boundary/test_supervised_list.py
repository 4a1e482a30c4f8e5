"""The listed destinations of a supervised box: how they are reached, changed and told apart from the rest."""

from __future__ import annotations

import os
import select
import socket
import struct

import pytest

from backends.kernel import nftables
from backends.kernel.nftables import Destination, Tallies, entry
from backends.tiers import supervised
from tests.boundary import harness
from tests.boundary.harness import Box
from tests.boundary.networked import CONNECT, TCP, UDP, Seen, listed

SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h


def original(sock: socket.socket) -> tuple[str, int]:
    if sock.family == socket.AF_INET:
        raw = sock.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), struct.unpack_from("!H", raw, 2)[0]
    raw = sock.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, 28)
    return socket.inet_ntop(socket.AF_INET6, raw[8:24]), struct.unpack_from("!H", raw, 2)[0]


@pytest.mark.parametrize(
    ("word", "six", "wanted"),
    [
        ("203.0.114.5/443", False, ("203.0.114.5", 443)),
        ("::ffff:203.0.114.5/443", False, ("203.0.114.5", 443)),
        ("198.51.101.0/8080", False, ("198.51.101.0", 8080)),
        ("198.51.101.255/8080", False, ("198.51.101.255", 8080)),
        ("2001:db9::5/443", True, ("2001:db9::5", 443)),
        ("2a00:1:ffff::9/8443", True, ("2a00:1:ffff::9", 8443)),
    ],
)
def test_what_is_listed_arrives_at_the_relay_with_its_destination(
    supervised_box: Box, seen: Seen, word: str, six: bool, wanted: tuple[str, int]
) -> None:
    network = supervised_box.live.network
    assert network is not None
    assert supervised_box.python(CONNECT, word).out == f"{word} 0\n"
    listener = network.relay6 if six else network.relay4
    listener.settimeout(5)
    client, _ = listener.accept()
    with client:
        assert original(client) == wanted
    assert seen.packets == {}


def test_a_network_that_covers_loopback_leaves_the_boxs_own_servers_alone() -> None:
    with listed("0.0.0.0/0:8080", "::/0:8080") as box:
        result = box.python(
            """
import socket, threading
def serve(s):
    s.accept()[0].sendall(b"inside")
for host in ("127.0.0.1", "::1"):
    s = socket.create_server((host, 8080), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    threading.Thread(target=serve, args=(s,)).start()
    print(socket.create_connection((host, 8080), 5).recv(10).decode())
"""
        )
        assert result.out.split() == ["inside"] * 2, result.err
        assert box.python(CONNECT, "8.8.8.8/8080", "2606:4700::1/8080", "8.8.8.8/80").out.split()[1::2] == [
            "0", "0", "111",
        ]  # fmt: skip


def test_the_ports_of_relay_and_name_server_are_taken(supervised_box: Box) -> None:
    result = supervised_box.python(
        f"""
import errno, socket
for kind, port in ((1, {nftables.RELAY_PORT}), (1, 53), (2, 53)):
    for host in ("127.0.0.1", "0.0.0.0", "203.0.114.5", "::1", "::"):
        for reuse in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
            if reuse:
                s.setsockopt(socket.SOL_SOCKET, reuse, 1)
            try:
                s.bind((host, port))
                if kind == 1:
                    s.listen()
                print("BOUND", kind, host, port, reuse)
            except OSError as error:
                assert error.errno in (errno.EADDRINUSE, errno.EACCES), error
"""
    )
    # An address that is not loopback is free to be bound at the relay's port: nothing is led there.
    bound = {tuple(line.split()[1:4]) for line in result.out.splitlines()}
    assert bound <= {("1", "203.0.114.5", str(nftables.RELAY_PORT))}, result.err


def test_names_are_asked_of_the_keeper_at_any_loopback_address(supervised_box: Box, seen: Seen) -> None:
    network = supervised_box.live.network
    assert network is not None
    udp, udp6, tcp, tcp6 = network.dns
    assert "nameserver 127.0.0.1\n" in supervised_box.sh("cat /etc/resolv.conf").out
    result = supervised_box.python(
        """
import socket
for address in ("127.0.0.1", "127.0.0.53", "::1", "0.0.0.0"):
    u = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    u.sendto(b"question", (address, 53))
for address in ("127.0.0.1", "127.0.0.53", "::1"):
    socket.create_connection((address, 53), 5)
"""
    )
    assert (result.exit, result.err) == (0, "")
    for sock, count in ((udp, 3), (udp6, 1)):
        for _ in range(count):
            assert sock.recv(100, socket.MSG_DONTWAIT) == b"question"
    for sock, count in ((tcp, 2), (tcp6, 1)):
        for _ in range(count):
            sock.accept()[0].close()
    assert seen.packets == {}


def test_a_destination_can_be_added_and_taken_away_while_the_box_runs(
    supervised_box: Box, seen: Seen
) -> None:
    network = supervised_box.live.network
    assert network is not None
    more = network.entries | {entry("9.9.9.9", 853), entry("45.0.0.0/8", 22)}
    words = ("9.9.9.9/853", "45.1.2.3/22", "203.0.114.5/443")
    held = nftables.change(network.nft, network.entries, more)
    assert [line.split()[1] for line in supervised_box.python(CONNECT, *words).out.splitlines()] == ["0"] * 3
    held = nftables.change(network.nft, held, network.entries)
    assert held == network.entries
    result = supervised_box.python(CONNECT, *words)
    assert [line.split()[1] for line in result.out.splitlines()] == ["111", "111", "0"]
    network.relay4.settimeout(5)
    arrived = []
    for _ in range(4):
        client, _ = network.relay4.accept()
        arrived.append(original(client))
        client.close()
    assert arrived == [("9.9.9.9", 853), ("45.1.2.3", 22), ("203.0.114.5", 443), ("203.0.114.5", 443)]
    assert seen.packets == {Destination("9.9.9.9", TCP, 853): 1, Destination("45.1.2.3", TCP, 22): 1}


def test_tallies_are_read_after_the_box_has_ended() -> None:
    with listed() as box:
        seen = Seen(box)
        box.python(CONNECT, "8.8.8.8/443", "8.8.8.8/443")
        box.end()
        assert seen.packets == {Destination("8.8.8.8", TCP, 443): 2}


def test_a_flood_of_destinations_is_counted_to_the_last_packet() -> None:
    """S11: the rows have a bound, the total has none, and the difference is exact."""
    with listed() as box:
        assert box.live.network is not None
        tallies = Tallies()
        tallies.begin(box.live.network.nft)
        result = box.python(
            """
import socket
four, six = socket.socket(2, 2), socket.socket(10, 2)
sent = 0
def send(s, address, port):
    global sent
    try:
        s.sendto(b"x", (address, port))
    except PermissionError:
        sent += 1
for n in range(5000):
    send(four, f"9.{n >> 16}.{n >> 8 & 255}.{n & 255}", 7)
    send(six, f"2a01::{n:x}", 7)
for _ in range(3):
    send(four, "9.0.0.1", 7)
send(four, "8.8.8.8", 9)
print(sent, socket.socket().connect_ex(("8.8.8.8", 443)))
"""
        )
        assert result.out == "10004 111\n", result.err
        rows, total = tallies.read(box.live.network.nft)
        assert total == 10005 == nftables.counter(box.live.network.nft, nftables.TOTAL) - 4  # init's proofs
        # The proofs took two rows of each set.
        assert len(rows) == 2 * (4096 - 2)
        assert rows[Destination("9.0.0.1", UDP, 7)] == 4
        assert total - sum(rows.values()) == 10005 - 2 * 4094 - 3
        assert nftables.counter(box.live.network.nft, nftables.OTHERS) == total - sum(rows.values())


def test_counters_that_are_read_while_packets_are_refused_end_exact() -> None:
    with listed() as box:
        assert box.live.network is not None
        nft = box.live.network.nft
        tallies = Tallies()
        tallies.begin(nft)
        script = """
import os, socket
for worker in range(3):
    if os.fork() == 0:
        s = socket.socket(2, 2)
        for n in range(4000):
            try:
                s.sendto(b"x", (f"9.{worker % 2}.{n >> 8}.{n & 255}", 7))
            except PermissionError:
                pass
        os._exit(0)
for worker in range(3):
    os.wait()
"""
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        number, _, fds = box.start([harness.PYTHON, "-I", "-S", "-c", script], fds=(null, null, null))
        os.close(null)
        before: dict[Destination, int] = {}
        total = 0
        while not select.select([box.live.control], [], [], 0)[0]:
            rows, now = tallies.read(nft)
            assert all(packets <= rows[where] for where, packets in before.items())
            assert total <= now and sum(rows.values()) <= now
            before, total = rows, now
        assert box.wait(number)["status"] == 0
        for fd in fds:
            os.close(fd)
        rows, total = tallies.read(nft)
        assert total == 12000 == nftables.counter(nft, nftables.TOTAL) - 4
        assert total - sum(rows.values()) == nftables.counter(nft, nftables.OTHERS)


def test_pinned_names_are_in_a_hosts_file_that_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.egress.pins import Pin, Pins
    from backends.tiers import networking

    pins = Pins(
        [Pin("api.example", ("203.0.114.9", "2001:db9::9"), 1.0), Pin("gone.example", (), 1.0, (), "no")]
    )
    monkeypatch.setattr(networking, "resolved", lambda matcher: pins)
    with listed("api.example", "gone.example:80") as box:
        assert box.live.network is not None
        assert box.live.network.pins is pins
        assert box.live.network.entries == {entry("203.0.114.9", 443), entry("2001:db9::9", 443)}
        script = "import socket; print(*{found[4][0] for found in socket.getaddrinfo('api.example', 443)})"
        assert set(box.python(script).out.split()) == {"203.0.114.9", "2001:db9::9"}
        assert box.sh("echo x >> /etc/hosts; chmod u+w /etc/hosts; rm -f /etc/hosts").exit != 0
        assert "203.0.114.9 api.example\n2001:db9::9 api.example\n" in box.sh("cat /etc/hosts").out
        row = next(row for row in box.live.enforcement if row.key == "net.egress")
        assert (row.requested, row.enforced) == ("2 rules", "2 addresses of 2 names, 0 networks")
        assert row.missing == "gone.example: no"


def test_without_a_list_nothing_is_reached_and_everything_is_counted() -> None:
    with harness.box(harness.policy(tier="supervised"), tier=supervised.TIER) as box:
        seen = Seen(box)
        assert box.python(CONNECT, "8.8.8.8/443").out == "8.8.8.8/443 111\n"
        assert seen.packets == {Destination("8.8.8.8", TCP, 443): 1}
        rows = {row.key: row.enforced for row in box.live.enforcement}
        assert rows["net.mode"] == "no destination; refusals are counted"
        assert "dns" not in {row.kind for row in box.live.not_observed}


def test_a_box_of_the_process_tier_has_no_such_network() -> None:
    with harness.box() as box:
        assert box.live.network is None


def test_traffic_on_loopback_takes_no_room_in_the_table_of_connections() -> None:
    """The kernel drops what finds no room there before a rule counts it: a box could try unseen."""
    with listed("203.0.114.5:443", "[2001:db9::5]:443") as box:
        assert box.live.network is not None
        seen = Seen(box)
        result = box.python(
            """
import socket
def held():
    return int(open("/proc/sys/net/netfilter/nf_conntrack_count").read())
before = held()
for family, any, to in ((2, "0.0.0.0", "127.{}.{}.9"), (10, "::", "::1")):
    with socket.socket(family, 2) as server, socket.create_server((any, 7000), family=family) as listener:
        server.bind((any, 7000))
        for n in range(300):
            where = to.format(n >> 8, n & 255)
            with socket.socket(family, 2) as s:
                s.sendto(b"x", (where, 7000))
            data, sender = server.recvfrom(9)
            server.sendto(data, sender)
            with socket.create_connection((where, 7000), 5) as s:
                listener.accept()[0].close()
                assert s.recv(1) == b""
print(held() - before)
# Only the relay has its port on its address; at others of loopback it makes no difference.
for n in range(20):
    s = socket.socket()
    s.setsockopt(1, 2, 1)
    s.bind(("127.0.0.2", 61999))
    s.connect_ex((f"127.0.1.{n}", 9))
print(held() - before)
print(open("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait").read())
"""
        )
        assert result.out.split() == ["0", "0", "5"], (result.out, result.err)
        assert box.python(CONNECT, "203.0.114.5/443", "2001:db9::5/443").out.count(" 0\n") == 2
        for listener, wanted in (
            (box.live.network.relay4, ("203.0.114.5", 443)),
            (box.live.network.relay6, ("2001:db9::5", 443)),
        ):
            listener.settimeout(5)
            client, _ = listener.accept()
            with client:
                assert original(client) == wanted
        assert seen.packets == {}
