"""Launching a box of tier ``microvm``: what is decided here, handed to the guest's steward."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backends.boxes.layout import BoxPaths, runtime_dir
from backends.container import places
from backends.container.podman import state_mark
from backends.errors import Refused
from backends.kernel import modes, procfs
from backends.microvm import choosing, links, received, rootfs
from backends.microvm.steward import GuestSteward
from backends.microvm.vmm import GuestSpec, Limits, Observed, Share, Vmm
from backends.steward import serving
from backends.tiers import etc
from backends.tiers.protocol import BoxProxy, LaunchSpec, LiveBox
from backends.trees import borrowing, inert
from backends.trees.remove import remove

DEFAULT_MEMORY = 512 << 20  # bytes of a guest whose policy states none
LEAST_MEMORY = 160 << 20  # bytes with which a guest boots
END_PATIENCE = 3.0  # seconds until a steward that is at its end is killed
FOLDERS = "guests"  # below the runtime folder
PROXY = "proxy"


def launch(spec: LaunchSpec) -> LiveBox:
    """As ``Tier.launch``; what the tier refuses is refused already."""
    policy = spec.policy
    vmm = choosing.choose(policy.vmm, policy.accelerator)
    image = rootfs.image(policy.image)
    _own_folders(spec)
    folder = _fresh(spec.paths)
    proxy: BoxProxy | None = None
    try:
        if policy.net.mode == "allow":
            proxy = _proxy(spec, folder)
        guest = _guest(spec, folder, image, proxied=proxy is not None)
        resources = policy.resources
        held = Limits(resources.files, resources.file_size, resources.cpu, resources.wall)
        pid, control, death, reader = serving.fork(
            lambda control, death, _: GuestSteward(control, death, guest, held, vmm), spec.box_name
        )
    except BaseException:
        if proxy is not None:
            proxy.listener.close()
        remove(folder)
        raise
    try:
        answer = serving.told(reader)
        return _live(spec, guest, vmm, answer, pid, control, death, proxy)
    except BaseException:
        os.close(death)
        control.close()
        if proxy is not None:
            proxy.listener.close()
        raise


def _fresh(paths: BoxPaths) -> Path:
    """The folder of a launch, empty. A box has one, so that what a crash left of the last is gone by now."""
    folder = runtime_dir() / FOLDERS / f"{state_mark()}-{places.mark(paths)}"
    if folder.exists():
        remove(folder)
    folder.mkdir(mode=0o700, parents=True)
    return folder


def sweep(live: Iterable[BoxPaths]) -> int:
    """Remove the folders of launches that crashes left, those of ``live`` not; how many. For cloche gc."""
    own = state_mark()  # another state folder's boxes are not known here
    kept = {f"{own}-{places.mark(paths)}" for paths in live}
    left = [one for one in (runtime_dir() / FOLDERS).glob(f"{own}-*") if one.name not in kept]
    for folder in left:
        with contextlib.suppress(FileNotFoundError):  # its steward was still at it
            remove(folder)
    return len(left)


def _live(
    spec: LaunchSpec,
    guest: GuestSpec,
    vmm: Vmm,
    answer: dict[str, Any],
    pid: int,
    control: socket.socket,
    death: int,
    proxy: BoxProxy | None,
) -> LiveBox:
    steward = procfs.identify(pid)
    if steward is None:
        raise Refused(
            f"box {spec.box_name} cannot start",
            "its steward is gone already",
            "see keeper.log in the box's folder",
            code="launch-init",
        )
    observed = Observed(*answer["observed"])
    return LiveBox(
        init=steward,
        pidfd=os.pidfd_open(pid),
        control=control,
        notify=None,
        death=death,
        enforcement=received.enforcement(spec, guest, vmm, observed, proxy.pins if proxy else None),
        not_observed=received.not_observed(guest, vmm),
        cgroups=(),
        inside_tree=etc.TREE,
        inside_home=etc.HOME,
        end_patience=END_PATIENCE,
        shell=observed.shell or "/bin/sh",
        facts=received.facts(guest, vmm, observed.kernel, str(answer["bound"])),
        proxy=proxy,
    )


def _guest(spec: LaunchSpec, folder: Path, image: Any, *, proxied: bool) -> GuestSpec:
    policy, paths = spec.policy, spec.paths
    return GuestSpec(
        name=spec.box_name,
        folder=folder,
        image=image,
        shares=_shares(paths),
        accelerator=policy.accelerator,
        memory=max(policy.resources.mem or DEFAULT_MEMORY, LEAST_MEMORY),
        cpus=1 if policy.accelerator == "tcg" else min(4, os.cpu_count() or 1),
        procs=policy.resources.procs,
        tmp=policy.resources.tmp,
        shm=policy.resources.shm,
        uid=spec.payload_uid,
        gid=spec.payload_gid,
        home=etc.HOME,
        files=_files(spec),
        proxy=folder / PROXY if proxied else None,
        egress=policy.net.egress if proxied else (),
    )


def _shares(paths: BoxPaths) -> tuple[Share, ...]:
    rows = [Share("work", paths.tree, etc.TREE, True), Share("home", paths.home, etc.HOME, True)]
    if paths.repo.is_dir():
        rows.append(Share("repo", paths.repo, f"{etc.TREE}/.git", True))
    rows += [
        Share(f"objects{number}", source, f"{borrowing.INSIDE_OBJECTS}/{number}", False)
        for number, source in enumerate(borrowing.borrowed(paths))
    ]
    return tuple(rows)


def _files(spec: LaunchSpec) -> tuple[tuple[str, str], ...]:
    """The box's own /etc, with the user as whom its files are shared: ids are the same on both sides."""
    made = etc.synthesize(spec.box_name, "/bin/sh", host_network=False)
    own = f":{spec.payload_uid}:{spec.payload_gid}:"
    made["/etc/passwd"] = made["/etc/passwd"].replace(f":{etc.UID}:{etc.UID}:".encode(), own.encode())
    made["/etc/group"] = made["/etc/group"].replace(
        f"{etc.USER}:x:{etc.UID}:".encode(), f"{etc.USER}:x:{spec.payload_gid}:".encode()
    )
    return tuple((path, data.decode("utf-8", "surrogateescape")) for path, data in made.items())


def _proxy(spec: LaunchSpec, folder: Path) -> BoxProxy:
    from backends.tiers import networking

    _, pins, own = networking.listed(spec.policy)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(os.fsencode(folder / PROXY))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return BoxProxy(listener, pins, own)


def _own_folders(spec: LaunchSpec) -> None:
    """What the box may have made unusable of its own folders is put right, and its links are mapped."""
    paths = spec.paths
    owner = (spec.payload_uid, spec.payload_gid) if os.geteuid() == 0 else None
    try:
        for folder in (paths.tree, paths.home, paths.repo):
            if folder != paths.repo or folder.is_dir():
                modes.open_up(os.fspath(folder))
        tree = os.open(paths.tree, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            inert.make(tree)
        finally:
            os.close(tree)
        paths.mapped.touch(mode=0o600)
        for folder in (paths.tree, paths.home):
            links.map_links(os.fspath(folder), owner)
    except OSError as error:
        raise Refused(
            f"the microvm tier cannot start box {spec.box_name}",
            f"its own folders: {error.filename or paths.tree}: {os.strerror(error.errno or 0)}",
            "cloche doctor says what is wrong with the box's folders",
            code="launch-tree",
        ) from error
