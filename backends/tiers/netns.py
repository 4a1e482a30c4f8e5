"""A box's private network, made inside its network namespace while the box is built.

Every address leads to ``lo`` and meets the packet filter; nothing else connects the namespace to anything.
What a box reaches, it reaches through sockets that are made here, before the right to make them is given up,
and are handed to the keeper: the relay's listeners, the name server's sockets, and one to the packet filter.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from backends import injected
from backends.kernel import netlink
from backends.kernel.nftables import RELAY_PORT
from backends.record import NamedTuple
from backends.tiers.root import BuildError

DNS_PORT = 53
BACKLOG = 1024  # connections that may wait for the relay
DNS_BACKLOG = 64
IPV6_OFF = "/proc/sys/net/ipv6/conf/lo/disable_ipv6"
# Seconds that the kernel remembers an ended connection to the relay; with its usual 120 a box could fill the
# table, and what finds no room there is dropped before the filter counts it (nf_conntrack-sysctl.rst).
ENDED = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait"
REMEMBERED = b"5"
SOCKETS = 7  # of one box, in the order of build()

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
# The name server answers at every loopback address: libraries have 127.0.0.1, 127.0.0.53 and ::1 built in.
_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}  # noqa: S104 (of a private namespace)

_LOADED = "the packet filter (nf_tables) is loaded"


class NetworkPlan(NamedTuple):
    """All that :func:`build` needs, decided before the launch."""

    batch: bytes  # the packet filter's messages
    labels: tuple[str, ...]  # what each of them asks for
    listed: bytes  # the messages that let the listed destinations pass
    listed_acks: int  # how many of those are acknowledged, 0 without a list


def build(plan: NetworkPlan) -> tuple[socket.socket, ...]:
    """Routes, listeners and filter; ``lo`` is up already. Raises :class:`BuildError`.

    Returns the relay's listeners (IPv4, IPv6), the name server's sockets (UDP, UDP over IPv6, TCP, TCP over
    IPv6) and the netlink socket of the packet filter.
    """
    try:
        injected.strike("ipv6")
        _allow_ipv6()
    except OSError as error:
        raise BuildError("ipv6", "IPv6 is switched on", error) from error
    try:
        netlink.local_routes()
    except OSError as error:
        raise BuildError("network", "every destination is led to the packet filter", error) from error
    try:
        made = [_bound(family, socket.SOCK_STREAM, _LOOPBACK, RELAY_PORT, BACKLOG) for family in _FAMILIES]
        made += [_bound(family, socket.SOCK_DGRAM, _ANY, DNS_PORT, 0) for family in _FAMILIES]
        made += [_bound(family, socket.SOCK_STREAM, _ANY, DNS_PORT, DNS_BACKLOG) for family in _FAMILIES]
    except OSError as error:
        raise BuildError("network", "relay and name server listen inside", error) from error
    nft = _filter(plan)
    try:
        _set(ENDED, REMEMBERED)
    except OSError as error:
        raise BuildError("nftables", "the kernel soon forgets ended connections", error) from error
    return (*made, nft)


def _allow_ipv6() -> None:
    """Undoes what a host may hand on to new network namespaces (net.core.devconf_inherit_init_net)."""
    _set(IPV6_OFF, b"0")


def _set(path: str, value: bytes) -> None:
    """Sets a value of this network namespace, unless it is that already. ``OSError``."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.read(fd, 16).strip() != value:
            os.pwrite(fd, value, 0)
    finally:
        os.close(fd)


def _bound(
    family: socket.AddressFamily, kind: socket.SocketKind, addresses: dict[socket.AddressFamily, str],
    port: int, backlog: int,
) -> socket.socket:  # fmt: skip
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind((addresses[family], port))
    if backlog:
        made.listen(backlog)
    return made


def _filter(plan: NetworkPlan) -> socket.socket:
    what = _LOADED
    try:
        injected.strike("nftables")
        sock = netlink.connect(netlink.NETLINK_NETFILTER)
        netlink.transact(sock, plan.batch, len(plan.labels))
        what = "the listed destinations are let pass"
        if plan.listed_acks:
            netlink.transact(sock, plan.listed, plan.listed_acks)
    except netlink.BatchError as error:
        known = what is _LOADED and 0 <= error.number < len(plan.labels)
        raise BuildError(
            "nftables", f"{what}: {plan.labels[error.number]}" if known else what, error
        ) from error
    except OSError as error:
        raise BuildError("nftables", what, error) from error
    return sock


def received(fds: Sequence[int]) -> tuple[socket.socket, ...]:
    """The sockets of :func:`build` on the keeper's side. ``ValueError`` for another number of them."""
    if len(fds) != SOCKETS:
        raise ValueError(f"{len(fds)} descriptors instead of {SOCKETS}")
    return tuple(socket.socket(fileno=fd) for fd in fds)
