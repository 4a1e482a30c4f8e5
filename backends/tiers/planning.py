"""Everything that a launch decides before its first fork: root, promises, rules, filter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from backends.boxes.layout import BoxPaths, state_dir
from backends.errors import Refused
from backends.keeper.init import Settings
from backends.keeper.init_proofs import Promises
from backends.kernel import landlock, modes, mounts, namespaces, seccomp, shares
from backends.kernel.seccomp import FilterSpec
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.tiers import etc, grants, launcher, received, root
from backends.tiers.limits import Held
from backends.tiers.order import Opening, variables
from backends.tiers.protocol import LaunchSpec
from backends.tiers.remedies import remedy
from backends.trees import borrowing, inert
from backends.values import Enforcement

if TYPE_CHECKING:
    from backends.tiers.networking import Networking

_DEVICE = landlock.FS_READ_FILE | landlock.FS_WRITE_FILE | landlock.FS_TRUNCATE | landlock.FS_IOCTL_DEV


def filter_spec(policy: Policy, tree_provider: str = "checkout") -> FilterSpec:
    """What the filter of a box with ``policy`` asks its keeper."""
    return FilterSpec(
        renames=tree_provider == "overlay",
        opens=policy.observe,
        execs=True,
        connects=policy.observe != "none",
        unix=policy.net.unix,
        debug=policy.debug,
    )


class Prepared(NamedTuple):
    build: launcher.Build
    enforcement: tuple[Enforcement, ...]


def opening(spec: LaunchSpec, layered: dict[str, Any]) -> Opening:
    """What the first process of a launch can begin with, while the rest is decided."""
    shared = tuple(layered.get("lowers", ()))
    if "repo_lower" in layered:
        shared = (*shared, layered["repo_lower"])
    own_network = spec.policy.net.mode != "host"
    tree = str(spec.paths.tree)
    return Opening(spec.payload_uid, spec.payload_gid, tree, shared, own_network, variables())


def prepare(
    spec: LaunchSpec, held: Held, layered: dict[str, Any], networking: Networking | None = None
) -> Prepared:
    """Everything that is decided before the first fork."""
    policy = spec.policy
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    host_network = policy.net.mode == "host"
    pinned = networking.pinned if networking else None
    files = etc.synthesize(spec.box_name, shell, host_network=host_network, pinned=pinned)
    deny = (*policy.fs.deny, *_records(spec.paths, policy))
    _own_folders(spec)
    plan = grants.plan(
        policy.fs.read,
        policy.fs.write,
        deny,
        mounts.mount_points(),
        files,
        root.OWN_FOLDERS,
        dict(policy.fs.hidden),
    )
    objects = borrowed_objects(spec.paths)
    root_plan = root.RootPlan(
        mount=str(spec.paths.mount),
        tree=str(spec.paths.tree),
        repo=str(spec.paths.repo) if spec.paths.repo.is_dir() else "",
        home=str(spec.paths.home),
        objects=objects,
        grants=plan,
        files=tuple(files.items()),
        tmp=policy.resources.tmp,
        shm=policy.resources.shm,
        owner=(etc.UID, etc.UID) if os.geteuid() == 0 else (0, 0),
        shares=shares.wanted(policy.resources.shm),
        **layered,
    )
    writes = tuple(step.path for step in plan.steps if isinstance(step, grants.Folder))
    single = tuple(step.path for step in plan.steps if isinstance(step, grants.File) and step.writable)
    shown = tuple(step.path for step in plan.steps if isinstance(step, grants.Overlay))
    masked = {step.path for step in plan.steps if isinstance(step, grants.Mask)}
    promises = Promises(
        read_only=("/", "/etc", *shown),
        absent=(
            str(spec.paths.manifest),
            *(path for path in deny if path not in masked and path not in files),
        ),
        writable=root.WRITABLE,
        network=policy.net.mode,
        loopback=policy.net.loopback,
        sizes=(("/tmp", policy.resources.tmp), ("/dev/shm", policy.resources.shm)),  # noqa: S108
        host_network=namespaces.inode("self", "net"),
        refused=networking.refused if networking else (),
    )
    build = launcher.Build(
        name=spec.box_name,
        uid=spec.payload_uid,
        gid=spec.payload_gid,
        root=root_plan,
        own_network=not host_network,
        loopback=policy.net.loopback and not host_network,
        rules=_rules(writes, single),
        program=seccomp.build(filter_spec(policy, spec.tree_provider)),
        settings=Settings(spec.box_name, held.limits, promises),
        groups=held.groups,
        network=networking.plan if networking else None,
    )
    return Prepared(build, (*received.enforcement(spec, plan, networking), *held.rows))


def _own_folders(spec: LaunchSpec) -> None:
    """What the box may have made unusable of its own folders is put right, so that it starts again."""
    paths = spec.paths
    tree_folder = paths.upper if spec.tree_provider == "overlay" else paths.tree
    try:
        for folder in (tree_folder, paths.home, paths.repo):
            if folder != paths.repo or folder.is_dir():
                modes.open_up(os.fspath(folder))
        tree = os.open(tree_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            inert.make(tree)
        finally:
            os.close(tree)
    except OSError as error:
        raise Refused(
            f"the process tier cannot start box {spec.box_name}",
            f"its own folders: {error.filename or tree_folder}: {os.strerror(error.errno or 0)}",
            remedy("tree"),
            code="launch-tree",
        ) from error


def layered(spec: LaunchSpec) -> dict[str, Any]:
    """The fields of a root plan that say what the tree is made of, where it is not one folder."""
    if spec.tree_provider != "overlay":
        return {}
    from backends.trees import verification

    lowers = tuple(str(folder) for folder in verification.lowers(spec.paths))
    fields = {"lowers": lowers, "upper": str(spec.paths.upper), "work": str(spec.paths.work)}
    shared = verification.gitdir(spec.paths)
    if shared is None:
        return fields
    return {**fields, "repo_lower": str(shared), "repo_work": str(spec.paths.repo_work)}


def _records(paths: BoxPaths, policy: Policy) -> tuple[str, ...]:
    """Cloche's own records, hidden below every grant: they hold other boxes' trees, policies and journals."""
    places = {str(state_dir().resolve()), str(paths.root.parent.resolve())}
    return tuple(
        place for place in sorted(places) if any(grants.covers(grant, place) for grant in policy.fs.read)
    )


def borrowed_objects(paths: BoxPaths) -> tuple[tuple[str, str], ...]:
    """Host folders of git objects that the box's repository borrows, with their place inside."""
    return tuple(
        (str(source), f"{borrowing.INSIDE_OBJECTS}/{n}") for n, source in enumerate(borrowing.borrowed(paths))
    )


def _rules(writes: tuple[str, ...], single: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Landlock over the finished root: all of it may be read, only the box's own places written."""
    rules = [("/", landlock.FS_READ_EXECUTE)]
    rules += [(path, landlock.FS_READ_WRITE) for path in (*root.WRITABLE, *writes, *single)]
    rules += [(f"/dev/{name}", _DEVICE) for name in root.DEVICES]
    rules += [("/dev/pts", _DEVICE | landlock.FS_READ_DIR)]
    rules += [("/proc", landlock.FS_READ_EXECUTE | landlock.FS_WRITE_FILE | landlock.FS_TRUNCATE)]
    return tuple(rules)
