"""Launching a box of tier ``container``: what is planned here, handed to its steward."""

from __future__ import annotations

import os
import platform
import resource
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.container import (
    gvisor_call,
    gvisor_checkpoint,
    gvisor_left,
    listening,
    places,
    plan,
    podman,
    profile,
    received,
    runtimes,
)
from backends.container.gvisor import GvisorSteward
from backends.container.inspection import Seen
from backends.container.joining import Process
from backends.container.plan import Mount, Plan
from backends.container.podman import Podman
from backends.container.steward import ENDING, ContainerSteward, Order
from backends.egress import proxied
from backends.errors import Refused
from backends.kernel import modes, procfs, rlimits, shares
from backends.kernel.rlimits import Limits
from backends.policy.model import Policy
from backends.steward import serving
from backends.tiers import etc
from backends.tiers.protocol import BoxProxy, LaunchSpec, LiveBox, Refusal
from backends.trees import borrowing, inert
from backends.trees.remove import remove
from backends.values import ProcessId

TIER = "container"
_STATIC = ("/bin/busybox", "/usr/bin/busybox")
_IDS = 65536  # ids of an image
_TYPES = {
    "procs": "RLIMIT_NPROC",
    "data": "RLIMIT_DATA",
    "cpu": "RLIMIT_CPU",
    "file_size": "RLIMIT_FSIZE",
    "files": "RLIMIT_NOFILE",
    "signals": "RLIMIT_SIGPENDING",
    "queues": "RLIMIT_MSGQUEUE",
}


def start(spec: LaunchSpec, refusals: Iterable[Refusal]) -> LiveBox:
    """As ``Tier.launch``."""
    for first in refusals:
        raise Refused(f"the {TIER} tier cannot take {first.key}", first.why, first.remedy, code="tier")
    engine = podman.prepare()
    rootful = os.geteuid() == 0
    folder = places.folder(engine, spec.paths)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    remove(folder)  # what a steward left that was killed
    folder.mkdir(mode=0o700)
    try:
        order = _order(spec, engine, folder, rootful=rootful)
        network = None
        if order.listener is not None:
            from backends.tiers import networking

            _, pins, own = networking.listed(spec.policy)
            network = pins, own
        kind: type[ContainerSteward] = ContainerSteward
        if order.runtimes == (gvisor_call.NAME,):
            kind = GvisorSteward
            order = order._replace(checkpoint=gvisor_checkpoint.taken(spec.paths))
            if any(gvisor_left.sandboxes(engine)):
                from backends.container import images

                words = ("ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.ID}}")
                told = images.call(engine, *words, doing="listing containers")
                gvisor_left.end_of_box(engine, places.name(spec.paths), told)
        taking, hand = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        pid, control, death, reader = serving.fork(
            lambda control, death, kept: kind(control, death, order, socket.socket(fileno=kept[0])),
            spec.box_name,
            (hand.fileno(),),
        )
        hand.close()
    except BaseException:
        remove(folder)
        raise
    try:
        answer = serving.told(reader)
        steward = procfs.identify(pid)
        if steward is None:
            raise Refused(
                f"box {spec.box_name} cannot start",
                "its steward is gone already",
                "see keeper.log in the box's folder",
                code="launch-init",
            )
        proxy = network and BoxProxy(listening.taken(taking), *network)
        taking.close()
        return _live(spec, order, answer, steward, control, death, proxy)
    except BaseException:
        os.close(death)
        control.close()
        raise


def _live(
    spec: LaunchSpec,
    order: Order,
    answer: dict[str, Any],
    steward: ProcessId,
    control: socket.socket,
    death: int,
    proxy: BoxProxy | None,
) -> LiveBox:
    seen = Seen(**answer["seen"])
    told = received.Told(
        str(answer["runtime"]), seen, dict(answer["groups"]), order.rootful, tuple(answer["unset"])
    )
    shell = seen.texts.get("shell", "").strip() or "/bin/sh"
    return LiveBox(
        init=steward,
        pidfd=os.pidfd_open(steward.pid),
        control=control,
        notify=None,
        death=death,
        enforcement=received.enforcement(spec, order, told, proxy.pins if proxy else None),
        not_observed=received.not_observed(proxied=proxy is not None),
        cgroups=(),
        inside_tree=etc.TREE,
        inside_home=etc.HOME,
        pid_namespace=int(answer["namespace"]),
        beside=(ProcessId(*answer["first"]),),
        end_patience=2 * ENDING,
        shell=shell,
        facts=received.facts(spec.policy, order, told),
        proxy=proxy,
    )


def _order(spec: LaunchSpec, engine: Podman, folder: Path, *, rootful: bool) -> Order:
    policy, paths = spec.policy, spec.paths
    _own_folders(spec)
    limits = _limits(policy)
    seccomp = folder / "seccomp.json"
    seccomp.write_bytes(profile.build(platform.machine(), unix=policy.net.unix, debug=policy.debug))
    uids = _rootful_map(spec.payload_uid) if rootful else ()
    gids = _rootful_map(spec.payload_gid) if rootful else ()
    made = Plan(
        name=places.name(paths),
        image=image_id(policy.image),
        hostname=spec.box_name,
        folder=str(folder),
        seccomp=str(seccomp),
        mounts=_mounts(spec, folder),
        tmp=policy.resources.tmp,
        shm=policy.resources.shm,
        memory=policy.resources.mem,
        procs=policy.resources.procs,
        files=limits.files or policy.resources.files,
        uidmap=uids,
        gidmap=gids,
    )
    process = Process(plan.UID, plan.UID, _rlimits(limits))
    return Order(
        podman=engine,
        env=engine.environment(),
        words=tuple(engine.argv()),
        shares=shares.wanted(policy.resources.shm),
        plan=made,
        runtimes=runtimes.wanted(policy.runtime),
        process=process,
        box=spec.box_name,
        tree=etc.TREE,
        home=etc.HOME,
        rootful=rootful,
        listener=(proxied.ADDRESS, proxied.PORT) if policy.net.mode == "allow" else None,
    )


def _rootful_map(payload: int) -> tuple[tuple[int, int, int], ...]:
    """One extent, in which the sessions' id is the box's own outside; nobody in the box can become another.

    Podman's store mounts an image for one extent only. Ids of other boxes may lie in it: without a
    capability, and without a file of theirs in sight, that gives nothing.
    """
    return ((0, payload - plan.UID, _IDS),)


def image_id(image: str) -> str:
    """The 64 digits that a policy's pinned image ends with; ``Refused`` where it is not pinned."""
    _, at, digest = image.rpartition("@sha256:")
    if not at or len(digest) != 64:
        raise Refused(
            "the box does not start",
            f"its policy names the image {image} and pins no digest",
            "make a new box: cloche new pins what the name means then",
            code="image-unpinned",
        )
    return digest


def _limits(policy: Policy) -> Limits:
    resources = policy.resources
    return Limits(
        procs=resources.procs,
        data=resources.mem,
        cpu=resources.cpu,
        file_size=resources.file_size,
        files=rlimits.open_files(resources.files, shared=True),
        signals=rlimits.share(resource.RLIMIT_SIGPENDING),
        queues=rlimits.share(resource.RLIMIT_MSGQUEUE),
    )


def _rlimits(limits: Limits) -> tuple[tuple[str, int, int], ...]:
    rows = [
        (_TYPES[field], value, rlimits.ceiling(kind, value)) for field, kind, value in rlimits.wanted(limits)
    ]
    return (*rows, ("RLIMIT_CORE", 0, 0))


def _mounts(spec: LaunchSpec, folder: Path) -> tuple[Mount, ...]:
    paths = spec.paths
    rows = [Mount(str(paths.tree), etc.TREE, True), Mount(str(paths.home), etc.HOME, True)]
    if paths.repo.is_dir():
        rows.append(Mount(str(paths.repo), f"{etc.TREE}/.git", True))
    rows += [
        Mount(str(source), f"{borrowing.INSIDE_OBJECTS}/{number}", False)
        for number, source in enumerate(borrowing.borrowed(paths))
    ]
    rows.append(Mount(static_program(), plan.INIT, False))
    for name, data in etc.synthesize(spec.box_name, "/bin/sh", host_network=False).items():
        file = folder / name.rpartition("/")[2]
        file.write_bytes(data)
        file.chmod(0o644)
        rows.append(Mount(str(file), name, False))
    return tuple(rows)


def static_program() -> str:
    """The host's busybox(1), linked statically, of which a container's first process is made."""
    for path in _STATIC:
        try:
            with open(path, "rb") as file:
                head = file.read(4096)
        except OSError:
            continue
        # A dynamic program names its interpreter in the first page (elf(5), PT_INTERP).
        if head.startswith(b"\x7fELF") and b"/ld-" not in head:
            return path
    raise Refused(
        "the container tier has no first process to start",
        "it is the host's busybox, linked statically, and there is none at " + " or ".join(_STATIC),
        "as root: apt-get install busybox-static",
        code="no-static-program",
    )


def _own_folders(spec: LaunchSpec) -> None:
    """What the box may have made unusable of its own folders is put right, so that it starts again."""
    paths: BoxPaths = spec.paths
    try:
        for folder in (paths.tree, paths.home, paths.repo):
            if folder != paths.repo or folder.is_dir():
                modes.open_up(os.fspath(folder))
        tree = os.open(paths.tree, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            inert.make(tree)
        finally:
            os.close(tree)
    except OSError as error:
        raise Refused(
            f"the {TIER} tier cannot start box {spec.box_name}",
            f"its own folders: {error.filename or paths.tree}: {os.strerror(error.errno or 0)}",
            "cloche doctor says what is wrong with the box's folders",
            code="launch-tree",
        ) from error
