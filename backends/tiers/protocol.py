"""What every tier is to the keeper: it refuses what it cannot enforce, then launches one box.

A tier is one module under :mod:`backends.tiers` with an object of this protocol; the table in
:mod:`backends.tiers` maps names to modules. Nothing else in the engine knows a tier by name.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Protocol

from backends.boxes.layout import BoxPaths
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.values import Enforcement, NotObserved, ProcessId

if TYPE_CHECKING:
    from backends.egress.pins import Pins
    from backends.kernel.nftables import Entry
    from backends.tiers.builder import Builder


class Refusal(NamedTuple):
    """Why a tier cannot take a policy on this host: the key or requirement, the cause, the remedy."""

    key: str
    why: str
    remedy: str


class LaunchSpec(NamedTuple):
    """All that a launch needs; resolved and frozen before."""

    paths: BoxPaths
    policy: Policy
    box_name: str
    payload_uid: int  # host uid that the box's processes run as; the user's own unless root started it
    payload_gid: int
    detached: bool  # no source repository
    tree_provider: str = "checkout"  # checkout: the tree is a folder; overlay: changes over shared layers
    begun: Builder | None = None  # what Tier.begin returned; the launch is its owner


class BoxNetwork(NamedTuple):
    """A box's private network, as its keeper holds it: sockets that live in the box's network namespace."""

    relay4: socket.socket  # listening; what the filter lets pass arrives here (SO_ORIGINAL_DST)
    relay6: socket.socket
    dns: tuple[socket.socket, ...]  # UDP, UDP over IPv6, listening TCP, listening TCP over IPv6; port 53
    nft: socket.socket  # NETLINK_NETFILTER, see backends/kernel/nftables.py
    pins: Pins  # names as they were resolved for this launch
    entries: frozenset[Entry]  # what the filter lets pass at first
    own: tuple[str, ...]  # the host's own addresses, which no name opens
    hosts: int  # descriptor to write the box's hosts file; the box itself can only read it

    def close(self) -> None:
        """Close all that is still open of it."""
        for one in (self.relay4, self.relay6, *self.dns, self.nft):
            one.close()
        os.close(self.hosts)


class BoxProxy(NamedTuple):
    """How a box without a route reaches its list: the keeper serves ``listener`` as an HTTP proxy.

    See ``backends/keeper/proxy.py``. The keeper closes it.
    """

    listener: socket.socket  # listening, TCP in the box's network namespace or a Unix socket
    pins: Pins  # names as they were resolved for this launch (backends.tiers.networking.resolved)
    own: tuple[str, ...]  # the host's own addresses (netlink.own_addresses), which no name opens
    # What names it inside; () where it is at the address and port of ``backends.egress.proxied``.
    variables: tuple[tuple[str, str], ...] = ()


class LiveBox(NamedTuple):
    """A box whose init is up and confined, waiting for spawn requests.

    Whoever holds ``death`` keeps the box alive: when its last copy closes, init ends the whole tree.
    """

    init: ProcessId  # host's view
    pidfd: int
    control: socket.socket  # SOCK_SEQPACKET to init, see backends/keeper/init_protocol.py
    notify: int | None  # seccomp user-notification descriptor, None where the tier has no gate
    death: int  # write end of the death pipe
    enforcement: tuple[Enforcement, ...]
    not_observed: tuple[NotObserved, ...]
    cgroups: tuple[str, ...]  # folders to remove when the box has ended
    inside_tree: str  # the tree's path as seen inside
    inside_home: str
    pid_namespace: int = 0  # inode of the box's process namespace, 0 where it shares the host's
    network: BoxNetwork | None = None  # of the tiers that hold a box to a list of destinations
    audit: socket.socket | None = None  # where root may hear what Landlock refuses
    # Where the init is a steward of the host: from which processes the box's descend besides (the first one
    # inside), how long the steward may take to end the box, the shell inside, and what else is to be told.
    beside: tuple[ProcessId, ...] = ()
    end_patience: float = 0.0  # seconds; 0: the usual time
    shell: str = ""  # "": the keeper looks for one
    facts: tuple[tuple[str, str], ...] = ()  # runtime, image, kernel: names and values for people
    proxy: BoxProxy | None = None  # of the tiers whose only way out is a proxy


class Tier(Protocol):
    """One way to enforce a boundary."""

    name: str
    confined: bool  # False only for workspace: nothing binds the process
    promise: str  # what becomes true, one sentence
    stays_false: str

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        """Every key or host requirement that keeps this tier from enforcing ``policy``; empty: it can."""
        ...

    def begin(self, begun: Builder | None) -> Builder | None:
        """What :meth:`launch` goes on with as ``spec.begun``: ``begun``, or a process forked now; or None."""
        ...

    def launch(self, spec: LaunchSpec) -> LiveBox:
        """Build the boundary and start init in it. Any failure ends the launch (raises ``Refused``)."""
        ...
