"""What the first process of a launch is told to build, in a form that costs its memory little.

The box's init comes of that process and keeps what it touched. So of the opening no more is unpacked than it
needs, and the order is read by a child of init's, which ends when it has built what it says.
"""

from __future__ import annotations

import marshal
import os

from backends import injected, trace
from backends.keeper.init import Settings
from backends.kernel import landlock
from backends.kernel.shares import Share
from backends.record import NamedTuple
from backends.tiers import grants
from backends.tiers.netns import NetworkPlan
from backends.tiers.root import RootPlan, places

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import Any

_HEAD = 5  # bytes before the opening: what it holds, and how long it is
# What is known of an opening without unpacking it: a network namespace of its own, folders of the host under
# the box's own, and an environment, which its reader has none of.
OWN_NETWORK, SHARED, VARIABLES = 1, 2, 4
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

    def root(self, mapped: bool) -> RootPlan:
        """The plan of the root, unpacked. ``mapped``: what is shared lies where ``map_lowers`` shows it."""
        plan = _made(marshal.loads(self.plan))  # noqa: S302 (our forker's, through a pipe that nobody else has)
        assert isinstance(plan, RootPlan)
        return plan.shown(places(plan.tree, len(plan.shared))) if mapped else plan


def encode_opening(opening: Opening) -> bytes:
    """``opening`` as bytes for :func:`read_opening`."""
    data = marshal.dumps(plain(opening))
    what = OWN_NETWORK if opening.own_network else 0
    what |= SHARED if opening.shared else 0
    what |= VARIABLES if opening.environment else 0
    return bytes([what]) + len(data).to_bytes(_HEAD - 1, "big") + data


def read_opening(fd: int) -> tuple[int, bytes] | None:
    """The opening that comes first through the pipe ``fd``, packed, after the bits of what is known of it;
    ``None`` when the pipe ends instead."""
    head = _exactly(fd, _HEAD)
    data = _exactly(fd, int.from_bytes(head[1:], "big"))
    return (head[0], data) if data else None


def unpack(data: bytes) -> Opening:
    """What :func:`read_opening` read."""
    return Opening(*marshal.loads(data))  # noqa: S302 (as in Order.root)


def _exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := os.read(fd, size - len(data))):
        data += part
    return data if len(data) == size else b""


def encode(order: Order) -> bytes:
    """``order`` as bytes for :func:`decode`."""
    return marshal.dumps(plain(order))


def decode(data: bytes) -> Order:
    """The order in ``data``, which this program wrote a moment ago."""
    order = Order(*marshal.loads(data))  # noqa: S302 (as in Order.root)
    name, limits, promises = order.settings
    settings = Settings(name, limits, promises)
    network = NetworkPlan(*order.network) if order.network is not None else None
    return order._replace(settings=settings, network=network)


_KINDS: tuple[type[tuple[Any, ...]], ...] = (
    RootPlan, Share, grants.Plan, grants.Layer, grants.Overlay, grants.File, grants.Link, grants.Folder,
    grants.Empty, grants.Mask, tuple,
)  # fmt: skip


def pack(plan: RootPlan) -> bytes:
    """``plan`` as the field of an order."""
    return marshal.dumps(_sorted(plan))


def _sorted(value: Any) -> Any:
    """Each tuple with its kind before its fields."""
    return (_KINDS.index(type(value)), *map(_sorted, value)) if isinstance(value, tuple) else value


def _made(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    kind, fields = _KINDS[value[0]], map(_made, value[1:])
    return tuple(fields) if kind is tuple else kind(*fields)


def plain(value: Any) -> Any:
    """Named tuples as the plain ones that marshal knows."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, frozenset):
        return frozenset(map(plain, value))
    return value
