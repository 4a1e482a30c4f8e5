"""The words of a refused packet, the memory of callers, the rows of a list, the bounds of what is pinned."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper import egress, egress_rows, packets
from backends.keeper.callers import Caller
from backends.keeper.egress import Egress
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.keeper.packets import NOBODY, Asked
from backends.keeper.relay_net import Row
from backends.kernel import netlink, nftables
from backends.kernel.nftables import Destination, Entry
from backends.kernel.notify import Address
from backends.tiers.protocol import BoxNetwork
from tests.keeper import internet

TCP, UDP, ICMP = socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMP
PINS = Pins([Pin("b.test", ("45.0.0.1", "2a00::1"), 1.0), Pin("a.test", ("45.0.0.1",), 1.0)])
MATCHER = Matcher(rules.parse_all(["a.test", "b.test:8080"]))


@pytest.mark.parametrize(
    ("where", "shown", "rule"),
    [
        (("45.0.0.1", TCP, 80), "a.test:80", "a.test is allowed on port 443 only"),
        (("2a00::1", TCP, 443), "b.test:443", "b.test is allowed on port 8080 only"),
        (("45.0.0.1", TCP, 443), "a.test:443", packets.NO_RULE),
        (("45.0.0.2", TCP, 80), "45.0.0.2:80", "no rule allows it"),
        (("2a00::2", TCP, 80), "[2a00::2]:80", "no rule allows it"),
        (("45.0.0.2", UDP, 80), "45.0.0.2:80/udp", packets.ONLY_TCP),
        (("2a00::2", UDP, 53), "[2a00::2]:53/udp (name server)", packets.ONLY_TCP),
        (("45.0.0.2", ICMP, 0), "45.0.0.2/icmp", packets.ONLY_TCP),
        (("2a00::2", 58, 0), "[2a00::2]/icmpv6", packets.ONLY_TCP),
        (("45.0.0.2", 47, 0), "45.0.0.2/protocol 47", packets.ONLY_TCP),
        (("169.254.169.254", TCP, 80), "169.254.169.254:80 (a cloud's metadata service)",
         "a cloud's metadata service"),
        (("10.0.0.1", TCP, 80), "10.0.0.1:80", "a private network"),
    ],
)  # fmt: skip
def test_a_refused_packet_is_named_by_its_destination(
    where: tuple[str, int, int], shown: str, rule: str
) -> None:
    found = packets.refusal(Destination(*where), "allow", MATCHER, PINS)
    assert found == ("net", shown, rule, "kernel", "nftables")


def test_a_profile_that_denies_all_is_the_rule_for_every_packet() -> None:
    found = packets.refusal(Destination("45.0.0.1", UDP, 9), "deny", Matcher(()), Pins())
    assert (found.object, found.rule) == ("45.0.0.1:9/udp", "net.mode = deny")


def caller(pid: int) -> Caller:
    return Caller(pid, 1, pid, "x", f"command {pid}")


def address(text: str, port: int) -> Address:
    return Address(socket.AF_INET6 if ":" in text else socket.AF_INET, text, port)


def test_the_last_caller_of_a_destination_is_remembered_in_the_kernels_spelling() -> None:
    asked = Asked()
    asked.remember(address("::ffff:45.0.0.1", 80), caller(1))
    asked.remember(address("45.0.0.1", 80), caller(2))
    asked.remember(address("2A00:0::1", 80), caller(3))
    assert asked.who("45.0.0.1", 80) == (2, "command 2")
    assert asked.who("2a00::1", 80) == (3, "command 3")
    assert asked.who("45.0.0.1", 81) == NOBODY
    assert asked.names == NOBODY
    asked.remember(address("127.0.0.53", 53), caller(4))
    assert (asked.names.pid, asked.who("127.0.0.53", 53)) == (4, NOBODY)


def test_the_memory_of_callers_is_bounded_and_forgets_the_oldest() -> None:
    asked = Asked()
    for number in range(packets.REMEMBERED + 10):
        asked.remember(address(f"45.0.{number >> 8}.{number & 255}", 80), caller(number))
        asked.remember(address("46.0.0.1", 80), caller(7))  # comes again and again
    assert asked.who("45.0.0.0", 80) == NOBODY
    assert asked.who("45.0.0.255", 80).pid == 255
    assert asked.who("46.0.0.1", 80).pid == 7


def test_each_rule_has_a_row_for_each_name_with_what_went_through() -> None:
    texts = ["a.test", "raw:a.test:22", "*.w.test", "*.none.test", "10.0.0.0/8:22", "u.test", "p.test"]
    pins = Pins(
        [
            Pin("a.test", ("45.0.0.1",), 1.0),
            Pin("x.w.test", ("45.0.0.2",), 1.0),
            Pin("u.test", (), 1.0, (), "the host knows no such name"),
            Pin("p.test", (), 1.0, (("10.0.0.9", "a private network"),), "every address is refused"),
        ]
    )
    traffic = [
        Row("45.0.0.1", 443, "a.test", 2, 0, 0, 10, 20),
        Row("45.0.0.9", 443, "a.test", 1, 0, 0, 1, 2),  # an address of before a re-pin
        Row("45.0.0.1", 443, "", 0, 0, 3, 0, 0),  # refused for another name
        Row("45.0.0.1", 22, "", 1, 0, 0, 5, 6),
        Row("45.0.0.2", 443, "x.w.test", 1, 0, 0, 7, 8),
        Row("10.1.1.1", 22, "", 1, 1, 0, 3, 4),
        Row("", 0, "", 9, 9, 9, 9, 9),
    ]
    found = egress_rows.lines(Matcher(rules.parse_all(texts)), pins, traffic)
    assert [tuple(line) for line in found] == [
        ("a.test", "a.test", ("45.0.0.1",), 443, 3, 11, 22, 3, "pinned"),
        ("raw:a.test:22", "a.test", ("45.0.0.1",), 22, 1, 5, 6, 0, "pinned"),
        ("*.w.test", "x.w.test", ("45.0.0.2",), 443, 1, 7, 8, 0, "pinned"),
        ("*.none.test", "", (), 443, 0, 0, 0, 0, "open: nothing below it was looked up yet"),
        ("10.0.0.0/8:22", "", ("10.0.0.0/8",), 22, 1, 3, 4, 0, "open"),
        ("u.test", "u.test", (), 443, 0, 0, 0, 0, "unresolved: the host knows no such name"),
        ("p.test", "p.test", (), 443, 0, 0, 0, 0, "refused: 10.0.0.9 is a private network"),
    ]


class World:
    """An Egress whose packet filter is a set of entries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *listed: str) -> None:
        self.filter: frozenset[Entry] = frozenset()
        self.full = False
        self.told: list[tuple[str, Any]] = []
        monkeypatch.setattr(nftables, "change", self._change)
        sockets = [socket.socket() for _ in range(4)]
        hosts = os.open(tmp_path / "hosts", os.O_RDWR | os.O_CREAT)
        network = BoxNetwork(
            sockets[0], sockets[1], (sockets[2],), sockets[3], Pins(), frozenset(), (), hosts
        )
        log = Log(os.open(os.devnull, os.O_WRONLY))
        self.egress = Egress(
            Loop(log.failure),
            log,
            internet.policy(*listed),
            network,
            lambda *_: None,
            lambda kind, data: self.told.append((kind, data)),
            box="b",
        )

    def _change(self, _sock: object, before: Any, after: Any) -> frozenset[Entry]:
        if self.full:
            raise OSError(28, "No space left on device")
        self.filter = self.filter - (set(before) - set(after)) | set(after)
        return frozenset(after)


def entry(address: str) -> Entry:
    return nftables.entry(address, 443)


def test_names_below_wildcards_are_pinned_up_to_a_bound_and_the_oldest_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(egress, "LIVE_NAMES", 8)
    world = World(monkeypatch, tmp_path, "*.w.test")
    for number in range(8):
        world.egress._pinned(f"n{number}.w.test", (f"45.0.0.{number}",))
    world.egress._pinned("n0.w.test", ("45.0.1.0",))  # asked for again: the newest, with both addresses
    assert world.filter == {entry(f"45.0.0.{n}") for n in range(8)} | {entry("45.0.1.0")}
    world.egress._pinned("n8.w.test", ("45.0.0.8",))
    assert entry("45.0.0.1") not in world.filter
    assert {entry("45.0.0.0"), entry("45.0.1.0"), entry("45.0.0.2"), entry("45.0.0.8")} <= world.filter
    said = "n1.w.test"
    assert not world.egress._decide("45.0.0.1", 443, None).allowed  # no new connection
    assert world.egress._decide("45.0.0.1", 443, said).allowed  # a request of one that lives
    assert not world.egress._decide("45.0.0.1", 443, "n2.w.test").allowed
    world.egress.close()


def test_a_name_that_the_packet_filter_has_no_room_for_is_not_pinned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, "*.w.test")
    world.full = True
    with pytest.raises(OSError, match="No space"):
        world.egress._pinned("n.w.test", ("45.0.0.1",))
    assert not world.egress._decide("45.0.0.1", 443, "n.w.test").allowed
    world.egress.close()
    world.egress.close()


def test_a_rule_that_the_packet_filter_refuses_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, tmp_path, "a.test")
    world.full = True
    got: list[Any] = []
    world.egress.allow("45.0.0.0/8", "ada", got.append)
    assert [error.code for error in got] == ["egress-full"]
    assert [line.rule for line in world.egress.rows()] == ["a.test"]
    assert world.told == []
    world.egress.close()


def test_an_address_that_the_host_gains_is_refused_from_then_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A network by another wire, a new address of IPv6 each day: what listens there is the host's own."""
    world = World(monkeypatch, tmp_path, "45.0.0.0/8", "*.w.test", "46.0.0.1")
    world.egress._pinned("n.w.test", ("47.0.0.1",))
    own = ["44.0.0.1"]
    monkeypatch.setattr(netlink, "own_addresses", lambda: tuple(own))

    def allowed() -> list[bool]:
        world.egress._look_at_host()
        asked = (("45.0.0.1", None), ("45.0.0.2", None), ("46.0.0.1", None), ("47.0.0.1", "n.w.test"))
        return [world.egress._decide(address, 443, said).allowed for address, said in asked]

    assert allowed() == [True, True, True, True]
    own += ["45.0.0.1", "46.0.0.1", "47.0.0.1"]
    assert allowed() == [False, True, True, False], "a rule for exactly that address still opens it"
    own[1:] = []
    assert allowed() == [True, True, True, True]
    world.egress.close()
