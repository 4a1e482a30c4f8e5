"""Addresses that a box is never given a way to, also inside another form (S16)."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backends.egress.addresses import classify

REFUSED = [
    ("64:ff9b::a9fe:a9fe", "NAT64 of 169.254.169.254: a cloud's metadata service"),
    ("::169.254.169.254", "IPv4-compatible of 169.254.169.254: a cloud's metadata service"),
    ("::ffff:169.254.169.254", "IPv4-mapped of 169.254.169.254: a cloud's metadata service"),
    ("64:ff9b:1::a9fe:a9fe", "NAT64 of"),
    ("64:ff9b:1:808:8:800::", "NAT64 of"),
    ("fec0::1", "site-local"),
    ("168.63.129.16", "a cloud's metadata service"),
    ("169.254.169.254", "a cloud's metadata service"),
    ("100.100.100.200", "a cloud's metadata service"),
    ("fd00:ec2::254", "a cloud's metadata service"),
    ("224.0.0.251", "multicast"),
    ("239.255.255.250", "multicast"),
    ("ff0e::1", "multicast"),
    ("127.0.0.1", "loopback"),
    ("127.255.0.3", "loopback"),
    ("::1", "loopback"),
    ("0.0.0.0", "the unspecified address"),
    ("::", "the unspecified address"),
    ("::ffff:0.0.0.0", "IPv4-mapped of 0.0.0.0: the unspecified address"),
    ("10.1.2.3", "a private network"),
    ("172.31.255.255", "a private network"),
    ("192.168.0.1", "a private network"),
    ("fd12::1", "a private network"),
    ("169.254.1.1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("100.64.0.1", "shared by a carrier (CGNAT)"),
    ("192.0.2.1", "for documentation only"),
    ("2001:db8::1", "for documentation only"),
    ("2002:7f00:1::", "6to4 of 127.0.0.1: loopback"),
    ("2001:0:808:808::f5ff:fffe", "Teredo client of 10.0.0.1: a private network"),
    ("2001:0:a00:1::f7f7:f7f7", "Teredo server of 10.0.0.1: a private network"),
    ("2606:4700::5efe:a00:1", "ISATAP of 10.0.0.1: a private network"),
    ("2606:4700::200:5efe:a00:1", "ISATAP of 10.0.0.1: a private network"),
    ("::8.8.8.8", "outside of what the internet uses"),
    ("255.255.255.255", "broadcast"),
    ("4000::1", "outside of what the internet uses"),
    ("127.1", "no numeric address"),
    ("0177.0.0.1", "no numeric address"),
    ("2130706433", "no numeric address"),
    ("localhost", "no numeric address"),
    ("10.0.0.1\0.example", "no numeric address"),
    ("", "no numeric address"),
]
ALLOWED = ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize(("address", "reason"), REFUSED)
def test_what_is_not_of_the_internet_is_refused_and_named(address: str, reason: str) -> None:
    verdict = classify(address)
    assert not verdict.allowed
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize("address", ALLOWED)
def test_what_is_of_the_internet_is_allowed(address: str) -> None:
    assert classify(address).allowed


@pytest.mark.parametrize("address", ["9.9.9.9", "::ffff:9.9.9.9", "64:ff9b::909:909", "2002:909:909::1"])
@pytest.mark.parametrize("own", ["9.9.9.9", "::ffff:9.9.9.9"])
def test_an_address_of_this_host_is_refused_in_every_form(address: str, own: str) -> None:
    assert classify(address).allowed
    verdict = classify(address, own=["2606:4700::7", own])
    assert not verdict.allowed and verdict.reason.endswith("an address of this host")


def test_an_own_address_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="no address"):
        classify("8.8.8.8", own=["eth0"])


def forms(inner: int, rest: int) -> list[int]:
    """Every IPv6 form that carries ``inner``; ``rest`` fills the bits that are free."""
    free = rest & (1 << 80) - 1
    return [
        0xFFFF << 32 | inner,
        inner,
        0xFFFF << 48 | inner,
        0x64FF9B << 96 | inner,
        0x64FF9B0001 << 80 | (rest & (1 << 48) - 1) << 32 | inner,
        0x64FF9B0001 << 80 | inner >> 16 << 64 | (inner & 0xFFFF) << 40 | rest & (1 << 40) - 1,
        0x2002 << 112 | inner << 80 | free,
        0x20010000 << 96 | inner << 64 | rest & (1 << 64) - 1,
        0x20010000 << 96 | 0x08080808 << 64 | (rest & (1 << 32) - 1) << 32 | inner ^ 0xFFFFFFFF,
        (0x2000 << 48 | rest & (1 << 61) - 1) << 64 | 0x5EFE << 32 | inner,
        (0x2000 << 48 | rest & (1 << 61) - 1) << 64 | 0x02005EFE << 32 | inner,
    ]


REFUSED_V4 = st.sampled_from([a for a, _ in REFUSED if a.count(".") == 3 and ":" not in a and "\0" not in a])
BITS = st.integers(0, (1 << 128) - 1)


@given(st.one_of(REFUSED_V4.filter(lambda a: a[:2] != "01"), st.ip_addresses(v=4).map(str)), BITS)
def test_whatever_carries_a_refused_ipv4_address_is_refused(inner: str, rest: int) -> None:
    assume(not classify(inner).allowed)
    for value in forms(int(ipaddress.IPv4Address(inner)), rest):
        outer = socket.inet_ntop(socket.AF_INET6, value.to_bytes(16, "big"))
        assert not classify(outer).allowed, outer


@given(st.ip_addresses(v=4), BITS)
def test_whatever_carries_an_address_of_this_host_is_refused(inner: ipaddress.IPv4Address, rest: int) -> None:
    for value in forms(int(inner), rest):
        outer = socket.inet_ntop(socket.AF_INET6, value.to_bytes(16, "big"))
        assert not classify(outer, own=[str(inner)]).allowed, outer


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_nothing_is_allowed_that_python_calls_private_and_is_no_carrier(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if classify(str(address)).allowed and not str(address).startswith(
        ("64:ff9b:", "2002:", "2001:", "::ffff:")
    ):
        assert address.is_global and not address.is_multicast
