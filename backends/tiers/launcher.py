"""The chain of forks that ends in a box's init, and the talk with it until the boundary stands.

``caller -> builder -> init``: the builder leaves the host's namespaces, so that init, its child, is pid 1 of
a new process namespace. Started by root, a caller writes the builder's id maps, since mapping two ids takes
rights in the namespace above; root (0) is in the map only for the building and gone with the second user
namespace, in which only the payload's id exists.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import socket

from backends import trace
from backends.keeper import init_protocol
from backends.keeper.init import Settings
from backends.keeper.init_protocol import Message
from backends.kernel import cgroups, namespaces, procfs
from backends.kernel.cgroups import Groups
from backends.record import NamedTuple
from backends.tiers import etc, netns, order
from backends.tiers.builder import Builder
from backends.tiers.netns import NetworkPlan
from backends.tiers.order import Opening, Order
from backends.tiers.root import RootPlan
from backends.values import ProcessId

PATIENCE = 20.0  # seconds from the first fork to the boundary


class Build(NamedTuple):
    """Everything that the box's side of the launch needs."""

    name: str
    uid: int  # payload, host's view
    gid: int
    root: RootPlan
    own_network: bool
    loopback: bool
    rules: tuple[tuple[str, int], ...]  # Landlock, paths as named inside
    program: bytes  # seccomp filter
    settings: Settings
    groups: Groups
    network: NetworkPlan | None = None  # a private network with a list of destinations
    audited: bool = False  # the kernel is to tell the host's audit what Landlock refuses


class Launched(NamedTuple):
    init: ProcessId
    pidfd: int
    control: socket.socket
    notify: int
    death: int
    namespace: int  # inode of the box's process namespace
    unset: tuple[str, ...]  # settings below /proc/sys that this kernel does not let a box's builder make
    network: tuple[socket.socket, ...] = ()  # of a private network, see netns.build
    hosts: int = -1  # to write the hosts file of such a box


class LaunchError(Exception):
    """The launch ended before the boundary stood. ``stage`` is the key of its remedy."""

    def __init__(self, stage: str, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.stage = stage
        self.what = what
        self.why = why


def _told(begun: Builder, build: Build) -> None:
    shared, own, tree = build.root.shared, build.own_network, build.root.tree
    begun.tell(
        Opening(build.uid, build.gid, tree, shared, own, order.variables()),
        Order(
            build.name,
            build.root.mount,
            build.loopback,
            build.rules,
            build.program,
            build.settings,
            build.network,
            order.pack(build.root),
            build.audited,
        ),
    )


def launch(build: Build, begun: Builder | None = None) -> Launched:
    """Goes on with ``begun`` until init is confined. ``LaunchError`` leaves nothing running."""
    first = begun or Builder()
    builder, control, death = first.pid, first.control, first.death
    pidfd = notify = -1
    hosts = -1
    network: tuple[socket.socket, ...] = ()
    try:
        _told(first, build)
        entering = first.entering or Entering(build.groups, builder)
        control.settimeout(PATIENCE)
        _expect(control, "unshared")
        trace.point("launch: builder has namespaces")
        if os.geteuid() == 0:
            maps = ((0, 0, 1), (etc.UID, build.uid, 1)), ((0, 0, 1), (etc.UID, build.gid, 1))
            _map(builder, *maps)
        init_protocol.send(control, {"op": "go"})
        trace.point("launch: mapped")
        ident, namespace = None, None
        unset: tuple[str, ...] = ()
        # They come from several processes: on a busy host init may be confined before its parent says that it
        # forked.
        while pidfd < 0 or notify < 0:
            message, fds = _expect(control, "forked", "networked", "built", "confined")
            if message["ev"] == "forked":
                pidfd, pid = fds[0], message["pid"]
                ident = procfs.identify(pid) if isinstance(pid, int) else None
                entering.follow(pid if isinstance(pid, int) else 0)
                with contextlib.suppress(BrokenPipeError):  # init has failed, and has told why
                    init_protocol.send(control, {"op": "entered"})
                trace.point("launch: in its groups")
            elif message["ev"] == "networked":
                network = netns.received(fds)
            elif message["ev"] == "built":
                namespace, unset = message["namespace"], _texts(message["unset"])
                hosts = fds[0] if fds else -1
                trace.carry(_texts(message["trace"]))
            else:
                notify = fds[0]
                trace.carry(_texts(message["trace"]))
        if ident is None or not isinstance(namespace, int):
            raise LaunchError("init", "init started", "it is gone already")
    except BaseException:
        for fd in (pidfd, notify, death, hosts):
            if fd >= 0:
                os.close(fd)
        for one in (*network, control):
            one.close()
        raise
    finally:
        # The builder ends as soon as init is forked, or with the closed control socket.
        first.wait()
    control.settimeout(None)
    return Launched(ident, pidfd, control, notify, death, namespace, unset, network, hosts)


class Entering:
    """Moves the builder into the box's control groups while it works.

    The first move waits for a grace period of the kernel, some 10 ms (cgroup_threadgroup_rwsem); the next one
    that follows at once does not, so init is moved too instead of being forked only afterwards. A thread of
    the low-level kind: the other one runs code of its own in every process that is forked later.
    """

    def __init__(self, groups: Groups, builder: int) -> None:
        self._groups = groups
        self._builder = builder
        self._error: OSError | None = None
        self._moving = _thread.allocate_lock()
        if groups.folders:
            self._moving.acquire()
            _thread.start_new_thread(self._move, ())

    def _move(self) -> None:
        try:
            cgroups.enter(self._groups, self._builder)
            trace.point("launch: builder entered")
        except ProcessLookupError:
            return  # it has done its work, and init, which counts, is moved by itself
        except OSError as error:
            self._error = error
        finally:
            self._moving.release()

    def follow(self, init: int) -> None:
        """Wait for the builder's move and make init's; ``LaunchError`` when either failed."""
        if not self._groups.folders:
            return
        try:
            with self._moving:
                if self._error is not None:
                    raise self._error
            cgroups.enter(self._groups, init)
        except ProcessLookupError:
            return  # init ended already: its last word says why, and is heard next
        except OSError as error:
            what = "the box enters its control groups"
            raise LaunchError("cgroup", what, os.strerror(error.errno or 0)) from error


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _map(pid: int, uids: tuple[namespaces.Extent, ...], gids: tuple[namespaces.Extent, ...]) -> None:
    try:
        namespaces.map_ids(pid, uids, gids, setgroups=True)
    except OSError as error:
        raise LaunchError(
            "uid-map", "the box's user ids are mapped", os.strerror(error.errno or 0)
        ) from error


def _expect(control: socket.socket, *events: str) -> tuple[Message, list[int]]:
    try:
        try:
            message, fds = init_protocol.recv(control)
        except ConnectionResetError:
            # Whoever ends with a packet of ours unread resets the socket once; its last word comes after.
            message, fds = init_protocol.recv(control)
    except TimeoutError as error:
        raise LaunchError("init", "the box starts", f"nothing was heard for {PATIENCE:.0f} s") from error
    if message is None:
        raise LaunchError("init", "the box starts", "its first process ended without a word")
    if message.get("ev") in events:
        return message, fds
    init_protocol.close(fds)
    raise LaunchError(
        str(message.get("stage", "init")),
        str(message.get("what", "the box starts")),
        str(message.get("why", "?")),
    )
