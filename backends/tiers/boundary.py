"""The box's side of a launch: the processes from the fork to the boundary.

``builder -> init -> worker``. The builder leaves the host's namespaces, so that init, its child, is pid 1 of
a new process namespace. Whatever a process runs writes into the memory that it shares with whoever forked it
(counts of references), and init would keep copies of those pages for as long as the box lives. So what need
not be done by init itself is done by children that end with it: one of the builder's shows the shared layers;
the worker unpacks the plan, makes the network, the root and the rules of Landlock, and leaves to init what
only init can do: enter the rules, install the filter, serve.

What builder and init run is named here by itself and not through its module, for the same reason: to look up
an attribute touches three objects more.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import gc
import marshal
import os
import socket
import sys
from _socket import socket as Socket
from os import (
    chdir,
    fork,
    getegid,
    geteuid,
    pidfd_open,
    setgroups,
    setresgid,
    setresuid,
    setsid,
    waitpid,
)

from backends import injected, trace
from backends.injected import strike
from backends.keeper.init import main as init_main
from backends.keeper.init_protocol import recv, send
from backends.kernel import landlock, mounts, namespaces
from backends.kernel.capabilities import drop_all
from backends.kernel.landlock import enter as enter_rules
from backends.kernel.namespaces import CLONE_NEWCGROUP, CLONE_NEWNS, map_own, unshare
from backends.kernel.seccomp import install
from backends.kernel.syscalls import PR_SET_DUMPABLE, prctl
from backends.tiers import netns, order, root
from backends.tiers.descriptors import keep_only
from backends.tiers.etc import UID
from backends.tiers.netns import NetworkPlan
from backends.tiers.order import OWN_NETWORK, SHARED, VARIABLES, Order, read_opening, unpack
from backends.tiers.root import BuildError
from backends.trace import point

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import NoReturn

_FLAGS = (
    namespaces.CLONE_NEWUSER
    | namespaces.CLONE_NEWNS
    | namespaces.CLONE_NEWPID
    | namespaces.CLONE_NEWIPC
    | namespaces.CLONE_NEWUTS
)
_OWN_FLAGS = _FLAGS | namespaces.CLONE_NEWNET
_AGAIN = namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS
_STARTS = "init", "the box starts"
_LANDLOCK = "landlock", "Landlock is applied"
_UNIX, _STREAM = int(socket.AF_UNIX), int(socket.SOCK_STREAM) | int(socket.SOCK_CLOEXEC)
_ORDER = sys.byteorder
_INT = 4  # bytes of a descriptor
_ROOM = socket.CMSG_SPACE(_INT)
_FAILED = 3  # the exit status of who has told the caller why


class _StageError(Exception):
    def __init__(self, stage: str, what: str, error: OSError) -> None:
        super().__init__(what)
        self.stage = stage
        self.what = what
        self.error = error


def _report(control: Socket, error: BaseException) -> NoReturn:
    try:
        if isinstance(error, _StageError | BuildError):
            stage, what, why = error.stage, error.what, error.error.strerror or str(error.error)
        else:
            stage, what, why = "init", "the box starts", f"{type(error).__name__}: {error}"
        send(control, {"ev": "error", "stage": stage, "what": what, "why": why})
    finally:
        os._exit(_FAILED)


def _become(uid: int, gid: int) -> None:
    setgroups([])
    setresgid(gid, gid, gid)
    setresuid(uid, uid, uid)


# ---- the builder, outside the process namespace still


def descend(plan: int, control: socket.socket, death: int) -> NoReturn:
    """Be the builder of a launch: ``plan`` is the pipe that tells what to build, see ``order``."""
    spoken: Socket = control
    stage, what = _STARTS
    try:
        point("builder: begins")
        # Objects of the caller that close a descriptor when they are collected must not close ours.
        gc.freeze()
        gc.enable()
        setsid()
        prctl(PR_SET_DUMPABLE, 1)  # or our own files in /proc are not ours to write
        spoken, (death, plan) = keep_only(control, death, plan)
        point("builder: alone")
        sealed = read_opening(plan)
        if sealed is None:
            os._exit(0)
        features, data = sealed
        told = features & VARIABLES > 0
        if told:
            order.take_over(unpack(data).environment)
        else:
            injected.begin("")
        point("builder: opened")
        uid, gid = geteuid(), getegid()
        mapped = uid == 0 and features & SHARED > 0
        if mapped:
            stage, what = "layers", "the shared layers are shown as the payload's own"
            strike(stage)
            unshare(CLONE_NEWNS)
            _aside(spoken, data)
        stage, what = "userns", "new namespaces are made"
        strike(stage)
        unshare(_OWN_FLAGS if features & OWN_NETWORK else _FLAGS)
        point("builder: unshared")
        if uid:
            # As its root: a namespace's own settings below /proc/sys are its root's alone.
            stage, what = "uid-map", "the box's user ids are mapped"
            strike(stage)
            map_own(0, uid, gid)
        stage, what = _STARTS
        send(spoken, {"ev": "unshared"})
        if recv(spoken)[0] is None:
            os._exit(1)
        point("builder: forks")
        child = fork()
        if child == 0:
            _init(plan, spoken, death, uid == 0, mapped, told)
        send(spoken, {"ev": "forked", "pid": child}, [pidfd_open(child)])
        os._exit(0)
    except OSError as error:
        _report(spoken, _StageError(stage, what, error))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        _report(spoken, error)


def _aside(control: Socket, data: bytes) -> None:
    """Have a child show the layers, in the mount namespace that is ours; when it fails, we end too."""
    child = fork()
    if child == 0:
        try:
            opening = unpack(data)
            root.map_lowers(opening.tree, opening.shared, opening.uid, opening.gid)
        except OSError as error:
            _report(control, _StageError("layers", "the shared layers are shown as the payload's own", error))
        except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
            _report(control, error)
        finally:
            os._exit(0)
    _require(child)


def _require(child: int) -> None:
    """Wait for a child that did a part of the launch; when it told a failure, nothing is left to do."""
    status = waitpid(child, 0)[1]
    if status == _FAILED << 8:
        os._exit(_FAILED)
    if status:
        raise BuildError("mounts", "the box is built", OSError(errno.ESRCH, "its builder ended"))


# ---- the worker, in the box's namespaces


def _work(plan: int, control: Socket, out: Socket, privileged: bool, mapped: bool) -> NoReturn:
    """Make everything that is not init's own, and tell init through ``out`` what is left to do."""
    stage, what = "uid-map", "the builder becomes the box's root"
    try:
        built = _told(plan)
        if privileged:
            # Everything is built as the namespace's root, whom the map made.
            strike(stage)
            _become(0, 0)
        namespace = namespaces.inode("self", "pid")
        stage, what = "uts", "the box gets its name"
        strike(stage)
        socket.sethostname(built.name)
        if built.loopback:
            stage, what = "network", "loopback is brought up"
            strike(stage)
            namespaces.loopback_up()
        if built.network is not None:
            _network(built.network, control)
        trace.hold()
        point("init: named, network up")
        unset = root.build(built.root(mapped))
        point("init: root built")
        hosts = [] if built.network is None else [_hosts()]
        stage, what = _LANDLOCK
        strike(stage)
        ruleset = landlock.ruleset(built.rules)
        point("init: Landlock's rules")
        left = marshal.dumps(order.plain((built.program, built.audited, *built.settings)))
        word = {"ev": "built", "namespace": namespace, "unset": list(unset), "trace": trace.held()}
        send(control, word, hosts)
        socket.send_fds(socket.socket(fileno=out.detach()), [left], [ruleset])
    except OSError as error:
        _report(control, _StageError(stage, what, error))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        _report(control, error)
    finally:
        os._exit(0)


def _told(plan: int) -> Order:
    """What the caller wants built; when it gives up instead, the launch ends."""
    data = bytearray()
    while part := os.read(plan, 1 << 16):
        data += part
    if not data:
        os._exit(_FAILED)
    return order.decode(bytes(data))


def _hosts() -> int:
    """What the keeper writes the box's hosts file with when a name leads elsewhere; inside, nobody has it."""
    try:
        return mounts.writable("/etc/hosts")
    except OSError as error:
        raise BuildError("network", "the hosts file is handed to the keeper", error) from error


def _network(plan: NetworkPlan, control: Socket) -> None:
    """Makes the private network and hands its sockets over: inside, nobody keeps one."""
    made = netns.build(plan)
    send(control, {"ev": "networked"}, [one.fileno() for one in made])
    for one in made:
        one.close()


# ---- init, pid 1 of the new process namespace


def _init(plan: int, control: Socket, death: int, privileged: bool, mapped: bool, told: bool) -> NoReturn:
    stage, what = _STARTS
    try:
        data, ruleset = _built(plan, control, privileged, mapped)
        program, audited, name, limits, promises = marshal.loads(data)  # noqa: S302 (our own child's)
        trace.hold()
        if recv(control)[0] is None:
            os._exit(1)
        # Only now: the caller has moved us into the box's control groups, the root of what will be seen.
        stage, what = "cgroup", "control groups are hidden"
        strike(stage)
        unshare(CLONE_NEWCGROUP)
        point("init: in its groups")
        if privileged:
            stage, what = "uid-map", "root is given up"
            strike(stage)
            _become(UID, UID)
            # The change of user made us undumpable, and our own files in /proc the property of nobody here.
            prctl(PR_SET_DUMPABLE, 1)
        uid, gid = geteuid(), getegid()  # as the first namespace names them: the second maps no id yet
        stage, what = "userns", "the mounts are locked by a second user namespace"
        strike(stage)
        unshare(_AGAIN)
        stage, what = "uid-map", "the only user is mapped"
        strike(stage)
        map_own(UID, uid, gid)
        point("init: second user namespace")
        stage, what = "capabilities", "capabilities are dropped"
        strike(stage)
        drop_all()
        prctl(PR_SET_DUMPABLE, 0)
        stage, what = _LANDLOCK
        enter_rules(ruleset, audited=audited)
        if audited:
            _be_refused()
        point("init: Landlock")
        stage, what = "seccomp", "the system call filter is applied"
        strike(stage)
        listener = install(program)
        point("init: confined")
        stage, what = _STARTS
        send(control, {"ev": "confined", "trace": trace.held()}, [listener])
        os.close(listener)
    except OSError as error:
        _report(control, _StageError(stage, what, error))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        _report(control, error)
    if told:
        os.environ.clear()
    init_main(control, death, (name, limits, promises))


def _built(plan: int, control: Socket, privileged: bool, mapped: bool) -> tuple[bytes, int]:
    """Let the worker do its part; what it leaves to us, and Landlock's rules."""
    near, far = _socket.socketpair(_UNIX, _STREAM)
    child = fork()
    if child == 0:
        _work(plan, control, far, privileged, mapped)
    os.close(plan)
    far.close()
    data, passed, _, _ = near.recvmsg(1 << 16, _ROOM)
    while part := near.recv(1 << 16):
        data += part
    near.close()
    _require(child)
    # pivot_root(2) in the worker has moved our root with it, and our folder only if it was that root.
    chdir("/")
    return data, int.from_bytes(passed[0][2][:_INT], _ORDER)


def _be_refused() -> None:
    """One refusal of Landlock's: the record of it tells the keeper which domain is the box's."""
    with contextlib.suppress(PermissionError):
        os.mkdir("/dev/pts/cloche")
