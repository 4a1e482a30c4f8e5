"""What the first process of a launch is told to build, in a form that costs its memory little.

The box's init comes of that process and keeps what it touched. So the plan of the root stays packed until the
child unpacks it that builds the root, and the rest is read by marshal, which loads no code.
"""

from __future__ import annotations

import marshal
import os
import pickle
from typing import Any

from backends import injected, trace
from backends.keeper.init import Settings
from backends.keeper.init_proofs import Promises
from backends.kernel import landlock
from backends.kernel.rlimits import Limits
from backends.record import NamedTuple
from backends.tiers.netns import NetworkPlan
from backends.tiers.root import RootPlan

_LENGTH = 4  # bytes that tell how long the opening is
_HANDED = (landlock.ABI_VARIABLE, trace.VARIABLE, injected.VARIABLE)


class Opening(NamedTuple):
    """What a builder needs to leave the host's namespaces, known before the rest is decided."""

    uid: int  # payload, host's view
    gid: int
    tree: str
    shared: tuple[str, ...]  # folders of the host that lie under the box's own
    own_network: bool
    environment: tuple[tuple[str, str], ...] = ()  # see variables


def variables() -> tuple[tuple[str, str], ...]:
    """What of our environment a launch's first process goes by: it may be older than that."""
    return tuple((name, os.environ[name]) for name in _HANDED if name in os.environ)


def take_over(environment: tuple[tuple[str, str], ...]) -> None:
    """Go by ``environment``, and by nothing of the kind that was there before."""
    given = dict(environment)
    for name in _HANDED:
        if name in given:
            os.environ[name] = given[name]
        elif name in os.environ:
            del os.environ[name]
    trace.begin(given.get(trace.VARIABLE, ""))
    injected.begin(given.get(injected.VARIABLE, ""))


class Order(NamedTuple):
    """The box's side of a launch; the fields are those of ``launcher.Build``."""

    name: str
    mount: str
    loopback: bool
    rules: tuple[tuple[str, int], ...]
    program: bytes
    settings: Settings
    network: NetworkPlan | None
    plan: bytes  # see unpack
    audited: bool = False  # the kernel is to tell what Landlock refuses

    def root(self, shared: tuple[str, ...]) -> RootPlan:
        """The plan of the root, unpacked, with the shared folders where they are shown by now."""
        plan = pickle.loads(self.plan)  # noqa: S301 (our own forker's, through a pipe that nobody else has)
        assert isinstance(plan, RootPlan)
        return plan.shown(shared)


def encode_opening(opening: Opening) -> bytes:
    """``opening`` as bytes for :func:`read_opening`."""
    data = marshal.dumps(_plain(opening))
    return len(data).to_bytes(_LENGTH, "big") + data


def read_opening(fd: int) -> Opening | None:
    """The opening that comes first through the pipe ``fd``; ``None`` when it ends instead."""
    data = _exactly(fd, int.from_bytes(_exactly(fd, _LENGTH), "big"))
    return Opening(*marshal.loads(data)) if data else None  # noqa: S302 (as in Order.root)


def _exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := os.read(fd, size - len(data))):
        data += part
    return data if len(data) == size else b""


def encode(order: Order) -> bytes:
    """``order`` as bytes for :func:`decode`."""
    return marshal.dumps(_plain(order))


def decode(data: bytes) -> Order:
    """The order in ``data``, which this program wrote a moment ago."""
    order = Order(*marshal.loads(data))  # noqa: S302 (as in Order.root)
    name, limits, promises = order.settings
    settings = Settings(name, Limits(*limits), Promises(*promises) if promises is not None else None)
    network = NetworkPlan(*order.network) if order.network is not None else None
    return order._replace(settings=settings, network=network)


def pack(plan: RootPlan) -> bytes:
    """``plan`` as the field of an order."""
    return pickle.dumps(plan)


def _plain(value: Any) -> Any:
    """Named tuples as the plain ones that marshal knows."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, frozenset):
        return frozenset(map(_plain, value))
    return value
