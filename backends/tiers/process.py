"""The ``process`` tier: namespaces, a root of granted paths only, Landlock, seccomp and limits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from backends import trace
from backends.boxes.layout import BoxPaths, state_dir
from backends.errors import Refused
from backends.keeper.init import Settings
from backends.keeper.init_proofs import Promises
from backends.kernel import cgroups, landlock, modes, mounts, namespaces, seccomp, shares, syscalls
from backends.kernel.seccomp import FilterSpec
from backends.policy.model import Policy
from backends.tiers import etc, grants, launcher, limits, received, root
from backends.tiers.limits import Held
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal
from backends.tiers.remedies import remedy
from backends.trees import borrowing, inert
from backends.values import Enforcement

if TYPE_CHECKING:
    from backends.tiers.networking import Networking

LANDLOCK_MINIMUM = 2  # below it, moving a file between folders is refused inside too
LANDLOCK_HOST_NETWORK = 6  # abstract sockets of the host are in sight then; from here on they can be scoped

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


class ProcessTier:
    name = "process"
    confined = True
    promise = (
        "a file system allowlist, system call denials, namespaces and limits bind the whole process tree, "
        "whatever it forks"
    )
    stays_false = "the host's kernel is shared; the network is all or nothing, without a list of destinations"

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        return (*_network_refusals(policy), *policy_refusals(policy), *host_refusals(policy))

    def begin(self, begun: launcher.Builder | None) -> launcher.Builder | None:
        return begun or launcher.Builder()

    def launch(self, spec: LaunchSpec) -> LiveBox:
        return start(self.name, spec, self.refusals(spec.policy))


def start(
    tier: str, spec: LaunchSpec, refusals: Iterable[Refusal], networking: Networking | None = None
) -> LiveBox:
    """Launches a box of ``tier``; with ``networking`` in a network with a list. Raises as Tier.launch."""
    for first in refusals:
        raise Refused(f"the {tier} tier cannot take {first.key}", first.why, first.remedy, code="tier")
    held = limits.hold(_group_name(spec), spec.policy.resources, confined=True)
    try:
        trace.point("launch: limits")
        prepared = prepare(spec, held, networking)
        trace.point("launch: plan")
        launched = launcher.launch(prepared.build, spec.begun)
        trace.point("launch: boundary")
    except launcher.LaunchError as error:
        _remove(held)
        raise Refused(
            f"the {tier} tier cannot start box {spec.box_name}",
            f"{error.what}: {error.why}",
            remedy(error.stage),
            code=f"launch-{error.stage}",
        ) from error
    except BaseException:
        _remove(held)
        raise
    return LiveBox(
        init=launched.init,
        pidfd=launched.pidfd,
        control=launched.control,
        notify=launched.notify,
        death=launched.death,
        enforcement=(*prepared.enforcement, received.shared(prepared.build.root.shares, launched.unset)),
        not_observed=received.not_observed(spec.policy, held, networking),
        cgroups=held.groups.folders,
        inside_tree=etc.TREE,
        inside_home=etc.HOME,
        pid_namespace=launched.namespace,
        network=networking.live(launched.network, launched.hosts) if networking else None,
    )


def _remove(held: Held) -> None:
    cgroups.remove(held.groups.folders)


def _group_name(spec: LaunchSpec) -> str:
    return f"{spec.paths.repository_key}-{spec.box_name}-{os.urandom(4).hex()}"


# ---- what cannot be had


def _network_refusals(policy: Policy) -> Iterable[Refusal]:
    if policy.net.mode == "allow":
        yield Refusal(
            "net.mode",
            "this tier cannot hold a box to a list of destinations",
            'use --tier supervised, or state net.mode = "deny" (nothing) or "host" (everything)',
        )
    if policy.net.mode == "host" and not policy.net.loopback:
        yield Refusal(
            "net.loopback",
            "with the host's network its loopback is there too",
            'state net.loopback = true, or net.mode = "deny"',
        )


def policy_refusals(policy: Policy) -> Iterable[Refusal]:
    """What a tier that runs the host's programs in a root of grants cannot enforce, beside the network."""
    if policy.image:
        yield Refusal(
            "image",
            "this tier runs the host's programs, not an image",
            "leave out image: this version runs none",
        )
    for key, stated in (("services", policy.services), ("secrets", policy.secrets)):
        if stated:
            yield Refusal(key, f"this tier provides no {key}", f"remove {key} from the profile")
    collisions = [("fs.read", *found) for found in grants.collisions(policy.fs.read)]
    collisions += [("fs.write", *found) for found in grants.collisions(policy.fs.write, writable=True)]
    for key, path, why in collisions:
        yield Refusal(key, f"{path} cannot be shown in a box: {why}", f"remove {path} from {key}")
    records = str(state_dir().resolve())
    for path in policy.fs.write:
        if grants.covers(path, records) or grants.covers(records, path):
            yield Refusal(
                "fs.write", f"{path} reaches Cloche's own records in {records}", "grant a smaller folder"
            )
    for path in grants.listening_below(policy.fs.write):
        yield Refusal(
            "fs.write",
            f"a host process listens on {path}, which a write grant would connect to the box",
            "grant a smaller folder, or read only",
        )


def host_refusals(policy: Policy) -> Iterable[Refusal]:
    """What this host cannot do for a confined box, as far as it tells without trying."""
    if syscalls.architecture() not in syscalls.ARCHITECTURES:
        yield Refusal(
            "tier", f"there is no system call table for {syscalls.architecture()}", remedy("architecture")
        )
    level = landlock.abi()
    if level < LANDLOCK_MINIMUM:
        yield Refusal(
            "tier",
            f"Landlock ABI {LANDLOCK_MINIMUM} is needed, this kernel offers {level or 'none'}",
            remedy("landlock"),
        )
    elif policy.net.mode == "host" and level < LANDLOCK_HOST_NETWORK:
        yield Refusal(
            "net.mode",
            f"the host's abstract sockets can be closed off from Landlock ABI {LANDLOCK_HOST_NETWORK} on,"
            f" this kernel offers {level}",
            'state net.mode = "deny", or use Linux 6.12',
        )


# ---- what is built


class Prepared(NamedTuple):
    build: launcher.Build
    enforcement: tuple[Enforcement, ...]


def prepare(spec: LaunchSpec, held: Held, networking: Networking | None = None) -> Prepared:
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
        **_layered(spec),
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


def _layered(spec: LaunchSpec) -> dict[str, Any]:
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


TIER = ProcessTier()
