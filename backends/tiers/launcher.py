"""The chain of forks that ends in a box's init, and the talk with it until the boundary stands.

``caller -> builder -> init``: the builder leaves the host's namespaces, so that init, its child, is pid 1 of
a new process namespace. Started by root, a caller writes the builder's id maps, since mapping two ids takes
rights in the namespace above; root (0) is in the map only for the building and gone with the second user
namespace, in which only the payload's id exists.
"""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import signal
import socket
import time
from typing import NoReturn

from backends import injected, trace
from backends.keeper import init, init_protocol
from backends.keeper.init import Settings
from backends.keeper.init_protocol import Message
from backends.kernel import capabilities, cgroups, landlock, mounts, namespaces, procfs, seccomp
from backends.kernel.cgroups import Groups
from backends.kernel.syscalls import PR_SET_DUMPABLE, prctl
from backends.record import NamedTuple
from backends.tiers import etc, netns, order, root
from backends.tiers.descriptors import keep_only
from backends.tiers.netns import NetworkPlan
from backends.tiers.order import Opening, Order
from backends.tiers.root import BuildError, RootPlan
from backends.values import ProcessId

PATIENCE = 20.0  # seconds from the first fork to the boundary
_BASE_FLAGS = (
    namespaces.CLONE_NEWUSER
    | namespaces.CLONE_NEWNS
    | namespaces.CLONE_NEWPID
    | namespaces.CLONE_NEWIPC
    | namespaces.CLONE_NEWUTS
)


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


class Builder:
    """The first process of a launch, waiting to be told what to build.

    Forked before its forker has read and decided anything: what that touches of their common memory is no
    longer shared, and the box's init, which comes of this process, would keep it as long as the box lives.
    """

    def __init__(self) -> None:
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        death_read, self.death = os.pipe2(os.O_CLOEXEC)
        plan, self._plan = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            _builder(plan, inner, death_read)
        inner.close()
        os.close(death_read)
        os.close(plan)
        self.entering: Entering | None = None
        self._opened = False

    def open(self, opening: Opening) -> None:
        """Let the process leave the host's namespaces, while its forker decides the rest.

        Of a process that is gone, or could not, :func:`launch` hears.
        """
        self._opened = True
        self._write(order.encode_opening(opening))

    def enter(self, groups: Groups) -> None:
        """Begin to move the process into the box's control groups; :func:`launch` waits for the end of it."""
        self.entering = Entering(groups, self.pid)

    def tell(self, build: Build) -> None:
        """What to build; nothing is sent to a process that is gone, of which :func:`launch` hears."""
        told = Order(
            build.name,
            build.root.mount,
            build.loopback,
            build.rules,
            build.program,
            build.settings,
            build.network,
            order.pack(build.root),
            build.audited,
        )
        try:
            if not self._opened:
                shared = build.root.shared
                own, tree = build.own_network, build.root.tree
                self.open(Opening(build.uid, build.gid, tree, shared, own, order.variables()))
            self._write(order.encode(told))
        finally:
            os.close(self._plan)
            self._plan = -1

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        with contextlib.suppress(BrokenPipeError):  # its last word, or that there is none, is read next
            while left:
                left = left[os.write(self._plan, left) :]

    def move(self, first: int) -> int:
        """Give our descriptors the numbers from ``first`` on, for whoever closes all others; the next number.

        The old ones stay open, as the caller's to close.
        """
        held = (self.control.detach(), self.death, self._plan)
        for target, fd in enumerate(held, first):
            if target != fd:
                os.dup2(fd, target, inheritable=False)
        self.control, self.death, self._plan = socket.socket(fileno=first), first + 1, first + 2
        return first + len(held)

    def abandon(self) -> None:
        """Let the process end: nobody will tell it anything."""
        os.close(self._plan)
        os.close(self.death)
        self.control.close()
        _wait(self.pid)


def launch(build: Build, begun: Builder | None = None) -> Launched:
    """Goes on with ``begun`` until init is confined. ``LaunchError`` leaves nothing running."""
    first = begun or Builder()
    builder, control, death = first.pid, first.control, first.death
    pidfd = notify = -1
    hosts = -1
    network: tuple[socket.socket, ...] = ()
    try:
        first.tell(build)
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
        # They come from two processes: on a busy host init may be confined before its parent says it forked.
        while pidfd < 0 or notify < 0:
            message, fds = _expect(control, "forked", "networked", "confined")
            if message["ev"] == "forked":
                pidfd, pid = fds[0], message["pid"]
                ident = procfs.identify(pid) if isinstance(pid, int) else None
                entering.follow(pid if isinstance(pid, int) else 0)
                with contextlib.suppress(BrokenPipeError):  # init has failed, and has told why
                    init_protocol.send(control, {"op": "entered"})
                trace.point("launch: in its groups")
            elif message["ev"] == "networked":
                network = netns.received(fds)
            else:
                notify, namespace, unset = fds[0], message["namespace"], _texts(message["unset"])
                hosts = fds[1] if len(fds) > 1 else -1
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
        _wait(builder)
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
        except OSError as error:
            what = "the box enters its control groups"
            raise LaunchError("cgroup", what, os.strerror(error.errno or 0)) from error


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _wait(builder: int) -> None:
    deadline = time.monotonic() + 1.0
    while os.waitpid(builder, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(builder, signal.SIGKILL)
            os.waitpid(builder, 0)
            return
        time.sleep(0.0005)


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


# ---- the builder, outside the process namespace still


def _builder(plan: int, control: socket.socket, death: int) -> NoReturn:
    try:
        trace.point("builder: begins")
        # Objects of the caller that close a descriptor when they are collected must not close ours.
        gc.freeze()
        os.setsid()
        prctl(PR_SET_DUMPABLE, 1)  # or our own files in /proc are not ours to write
        control, (death, plan) = keep_only(control, death, plan)
        trace.point("builder: alone")
        opening = order.read_opening(plan)
        if opening is None:
            os._exit(0)
        order.take_over(opening.environment)
        trace.point("builder: opened")
        privileged = os.geteuid() == 0
        uid, gid = os.geteuid(), os.getegid()
        shared = opening.shared
        if privileged and shared:
            shown: list[tuple[str, ...]] = []
            _stage(
                "layers",
                "the shared layers are shown as the payload's own",
                lambda: shown.append(root.map_lowers(opening.tree, shared, opening.uid, opening.gid)),
            )
            shared = shown[0]
        flags = _BASE_FLAGS | (namespaces.CLONE_NEWNET if opening.own_network else 0)
        _stage("userns", "new namespaces are made", lambda: namespaces.unshare(flags))
        trace.point("builder: unshared")
        if not privileged:
            # As its root: a namespace's own settings below /proc/sys are its root's alone.
            extents = ((0, uid, 1),), ((0, gid, 1),)
            _stage("uid-map", "the box's user ids are mapped", lambda: _map_self(extents))
        init_protocol.send(control, {"ev": "unshared"})
        build = _told(plan)
        trace.point("builder: told")
        if init_protocol.recv(control)[0] is None:
            os._exit(1)
        if privileged:
            # Everything is built as the namespace's root, whom the map just made.
            _stage("uid-map", "the builder becomes the box's root", lambda: _become(0, 0))
        trace.point("builder: forks")
        child = os.fork()
        if child == 0:
            _init(build, shared, control, death, privileged)
        pidfd = os.pidfd_open(child)
        init_protocol.send(control, {"ev": "forked", "pid": child}, [pidfd])
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        _report(control, error)


def _told(plan: int) -> Order:
    """What the caller wants built; when it gives up instead, the process ends."""
    data = bytearray()
    while part := os.read(plan, 1 << 16):
        data += part
    os.close(plan)
    if not data:
        os._exit(0)
    return order.decode(bytes(data))


def _map_self(extents: tuple[tuple[namespaces.Extent, ...], tuple[namespaces.Extent, ...]]) -> None:
    namespaces.map_ids(None, *extents, setgroups=False)


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


class _StageError(Exception):
    def __init__(self, stage: str, what: str, error: OSError) -> None:
        super().__init__(what)
        self.stage = stage
        self.what = what
        self.error = error


def _stage(stage: str, what: str, step: object) -> None:
    assert callable(step)
    try:
        injected.strike(stage)
        step()
    except OSError as error:
        raise _StageError(stage, what, error) from error


def _report(control: socket.socket, error: BaseException) -> NoReturn:
    try:
        if isinstance(error, _StageError | BuildError):
            stage, what, why = error.stage, error.what, error.error.strerror or str(error.error)
        else:
            stage, what, why = "init", "the box starts", f"{type(error).__name__}: {error}"
        init_protocol.send(control, {"ev": "error", "stage": stage, "what": what, "why": why})
    finally:
        os._exit(3)


# ---- init, pid 1 of the new process namespace


def _init(
    build: Order, shared: tuple[str, ...], control: socket.socket, death: int, privileged: bool
) -> NoReturn:
    try:
        namespace = namespaces.inode("self", "pid")
        _stage("uts", "the box gets its name", lambda: socket.sethostname(build.name))
        if build.loopback:
            _stage("network", "loopback is brought up", namespaces.loopback_up)
        if build.network is not None:
            _network(build.network, control)
        trace.hold()
        trace.point("init: named, network up")
        unset = root.build(build.mount, lambda: build.root(shared))
        trace.point("init: root built")
        given = [] if build.network is None else [_hosts()]
        if init_protocol.recv(control)[0] is None:
            os._exit(1)
        # Only now: the caller has moved us into the box's control groups, the root of what will be seen.
        _stage("cgroup", "control groups are hidden", lambda: namespaces.unshare(namespaces.CLONE_NEWCGROUP))
        trace.point("init: in its groups")
        if privileged:
            _stage("uid-map", "root is given up", lambda: _become(etc.UID, etc.UID))
            # The change of user made us undumpable, and our own files in /proc the property of nobody here.
            prctl(PR_SET_DUMPABLE, 1)
        own = os.geteuid(), os.getegid()  # as the first namespace names them: the second one maps no id yet
        flags = namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS
        _stage(
            "userns", "the mounts are locked by a second user namespace", lambda: namespaces.unshare(flags)
        )
        extents = ((etc.UID, own[0], 1),), ((etc.UID, own[1], 1),)
        _stage("uid-map", "the only user is mapped", lambda: _map_self(extents))
        trace.point("init: second user namespace")
        _stage("capabilities", "capabilities are dropped", capabilities.drop_all)
        prctl(PR_SET_DUMPABLE, 0)
        _stage(
            "landlock", "Landlock is applied", lambda: landlock.restrict(build.rules, audited=build.audited)
        )
        if build.audited:
            _be_refused()
        trace.point("init: Landlock")
        listener = -1

        def install() -> None:
            nonlocal listener
            listener = seccomp.install(build.program)

        _stage("seccomp", "the system call filter is applied", install)
        trace.point("init: confined")
        told = {"ev": "confined", "namespace": namespace, "unset": list(unset), "trace": trace.held()}
        init_protocol.send(control, told, [listener, *given])
        for fd in (listener, *given):
            os.close(fd)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        _report(control, error)
    init.main(control, death, build.settings)


def _be_refused() -> None:
    """One refusal of Landlock's: the record of it tells the keeper which domain is the box's."""
    with contextlib.suppress(PermissionError):
        os.mkdir("/dev/pts/cloche")


def _hosts() -> int:
    """What the keeper writes the box's hosts file with when a name leads elsewhere; inside, nobody has it."""
    try:
        return mounts.writable("/etc/hosts")
    except OSError as error:
        raise BuildError("network", "the hosts file is handed to the keeper", error) from error


def _network(plan: NetworkPlan, control: socket.socket) -> None:
    """Makes the private network and hands its sockets over: inside, nobody keeps one."""
    made = netns.build(plan)
    init_protocol.send(control, {"ev": "networked"}, [one.fileno() for one in made])
    for one in made:
        one.close()
