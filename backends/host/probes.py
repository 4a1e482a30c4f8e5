"""What this host can enforce, shown by doing it: each tier starts a minimal box and runs programs in it.

Probe and launch are the same code. The proofs of a probe are those that the box's own init makes at every
launch, and those of :mod:`backends.host.proofs_inside` and :mod:`backends.host.proofs_talk`, which cost too
much for that.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from backends import tiers
from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.errors import ClocheError
from backends.host import proofs_image, proofs_inside, proofs_talk
from backends.host.proofs_talk import FAILED as FAILED
from backends.host.proofs_talk import NOT_RUN as NOT_RUN
from backends.host.proofs_talk import PROVED as PROVED
from backends.host.proofs_talk import ProbeError as ProbeError
from backends.keeper import init_proofs
from backends.keeper.init_protocol import ProtocolError
from backends.kernel import landlock
from backends.policy.fit import IMAGE_TIERS
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy, Resources
from backends.record import NamedTuple
from backends.tiers.protocol import LaunchSpec, Tier
from backends.trees.remove import remove
from backends.values import Claim, Enforcement, ProcessId

_PAYLOAD_UIDS = 1879048192  # where root's boxes take their users from
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache")
# One of these is denied below the grant of /usr, and must not be there then.
_DENIABLE = (
    "/usr/lib/os-release",
    "/usr/share/common-licenses",
    "/usr/share/doc",
    "/usr/include",
    "/usr/games",
)
_MEMORY = 64 << 20
_PROCESSES = 24

_one_at_a_time = _thread.allocate_lock()  # what is set before a fork is the whole process's


class Attempt(NamedTuple):
    """What trying a tier came to; of one that cannot be had also the error that said so, if one did."""

    claims: tuple[Claim, ...]
    error: ClocheError | None


def run() -> tuple[Claim, ...]:
    """Every tier of this version: its verdict (id = the tier's name), then what was proved."""
    claims: list[Claim] = []
    for name in tiers.MODULES:
        claims += probe(name)
    return tuple(claims)


def probe(name: str, patience: float = 0.0) -> tuple[Claim, ...]:
    """The verdict on one tier and the proofs behind it. Never raises for a tier that cannot be had."""
    return attempt(name, patience).claims


def attempt(name: str, patience: float = 0.0) -> Attempt:
    """As :func:`probe`, with the error behind a verdict. ``patience``: seconds, 0 for the usual."""
    began = time.perf_counter()
    tier = tiers.get(name)
    try:
        proofs = _tried(tier, patience)
    except ClocheError as error:
        why = f"{error.what}: {error.why}. Remedy: {error.next_step}"
        result = NOT_RUN if error.code == proofs_image.NO_IMAGE else FAILED
        return Attempt((Claim(name, tier.promise, result, why, time.perf_counter() - began),), error)
    except (ProbeError, ProtocolError, OSError) as error:
        verdict = Claim(name, tier.promise, FAILED, str(error), time.perf_counter() - began)
        known = error.proofs if isinstance(error, ProbeError) else ()
        return Attempt((verdict, *_named(name, known)), None)
    took = time.perf_counter() - began
    evidence = "a box started, ran a program and ended"
    if tier.confined:
        held = sum(proof.result == PROVED for proof in proofs)
        evidence = f"a box started, {held} claims were proved in it, programs ran in it and ended"
    failed = [proof for proof in proofs if proof.result == FAILED]
    if failed:
        evidence = f"{failed[0].text} Not so: {failed[0].evidence}"
    verdict = Claim(name, tier.promise, FAILED if failed else PROVED, evidence, took)
    return Attempt((verdict, *_named(name, proofs)), None)


def _named(tier: str, proofs: tuple[Claim, ...]) -> tuple[Claim, ...]:
    return tuple([proof._replace(id=f"{tier}.{proof.id}") for proof in proofs])


# ---- a box for a look


def _denied() -> str:
    return next((path for path in _DENIABLE if os.path.lexists(path)), "")


def _policy(tier: str) -> Policy:
    """What a probe's box may: little, with every limit, and at ``supervised`` one destination of nobody's."""
    listed = tier == "supervised"
    egress = (f"{proofs_inside.LISTED[0]}:{proofs_inside.LISTED[1]}",) if listed else ()
    denied = _denied()
    confined = tiers.get(tier).confined
    return Policy(
        version=1,
        profile="probe",
        tier=tier,
        tree="checkout",
        history="none",
        observe="none",
        debug=False,
        fs=FsPolicy(
            tuple(path for path in _PROGRAMS if os.path.lexists(path)),
            (),
            (denied,) if denied and confined else (),
        ),
        net=NetPolicy("allow" if listed else "deny", egress, True, True),
        env=EnvPolicy((), ()),
        resources=Resources(
            _MEMORY if confined else None, _PROCESSES, None, None, None, 1024, 16 << 20, 16 << 20, None
        ),
        image="",
        services=(),
        secrets=(),
    )


def _prefix(pid: int) -> str:
    """How the folder and the groups of a probe begin: whose they are, by pid and start, so that those left
    behind are told."""
    return f"probe-{pid}-{liveness.start_time(pid) or 0}"


def stale() -> tuple[Path, ...]:
    """Folders of probes whose process was killed before it could remove them."""
    left = []
    for folder in sorted(runtime_dir().glob("probe-*-*-*")):
        _, pid, start, _ = folder.name.split("-", 3)
        if pid.isdecimal() and start.isdecimal() and not liveness.alive(ProcessId(int(pid), int(start))):
            left.append(folder)
    return tuple(left)


class Tried(NamedTuple):
    """What a box that was started for a look proved, and what became of each value of its policy."""

    proofs: tuple[Claim, ...]
    enforcement: tuple[Enforcement, ...]


def _tried(tier: Tier, patience: float) -> tuple[Claim, ...]:
    policy = _policy(tier.name)
    proofs: tuple[Claim, ...] = ()
    if tier.name in IMAGE_TIERS:
        patience = patience or proofs_image.PATIENCE[tier.name]
        policy = policy._replace(image=proofs_image.image(tier, policy), fs=FsPolicy((), (), ()))
        policy = policy._replace(resources=policy.resources._replace(mem=proofs_image.MEMORY))
    elif tier.confined:
        with _looking_out(policy):
            proofs = under(tier, policy, thorough=True, patience=patience).proofs
    # Once more, without what no launch does: what a start costs here.
    began = time.perf_counter()
    plain = under(tier, policy, patience=patience).proofs
    took = time.perf_counter() - began
    ident, text, _ = proofs_talk.STARTED_CLAIM
    return (Claim(ident, text, PROVED, f"in {took * 1000:.0f} ms", took), *(proofs or plain))


@contextlib.contextmanager
def _looking_out(policy: Policy) -> Iterator[None]:
    """Has init try more than at a launch, and gives it something of the host to look for."""
    name = f"cloche-probe-{os.urandom(8).hex()}"
    with _one_at_a_time, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as host:
        host.bind("\0" + name)
        host.listen(1)
        outside = proofs_inside.Outside.seen(_denied(), name, _PROCESSES, listed=bool(policy.net.egress))
        init_proofs.more = proofs_inside.proofs(outside)
        try:
            yield
        finally:
            init_proofs.more = ()


def under(tier: Tier, policy: Policy, *, thorough: bool = False, patience: float = 0.0) -> Tried:
    """Start an empty box under ``policy`` as a launch does, hear its proofs, run a program in it, end it.

    ``thorough``: run programs that meet its limits, too. Raises what a launch raises; ``ProbeError``,
    ``ProtocolError`` and ``OSError`` where the box of the probe did not do what a box does.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{_prefix(os.getpid())}-", dir=runtime_dir()))
    try:
        root = os.geteuid() == 0
        uid = _PAYLOAD_UIDS + int.from_bytes(os.urandom(2), "big") if root else os.geteuid()
        gid = uid if root else os.getegid()
        paths = BoxPaths(folder / _prefix(os.getpid()) / "probe")  # its control groups are named by that too
        paths.root.mkdir(mode=0o700, parents=True)
        for own in (paths.tree, paths.home, paths.mount):
            own.mkdir()
        if root:
            for own in (paths.tree, paths.home):
                os.chown(own, uid, gid)
        live = tier.launch(LaunchSpec(paths, policy, "probe", uid, gid, detached=True))
        try:
            talk = proofs_talk.Talk(live, policy, patience)
            proofs = talk.run()
            if thorough:
                listed = proofs_inside.LISTED_CLAIM[0]
                proofs = tuple([talk.relayed(one) if one.id == listed else one for one in proofs])
                proofs = (*proofs, *talk.memory())
            return Tried(_rights(proofs), live.enforcement)
        finally:
            proofs_talk.end(live)
    finally:
        remove(folder)


def _rights(proofs: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """With the rights that the box's domain handled: which those are depends on the kernel alone."""
    level = landlock.abi()
    handled = f"; ABI {level}: {', '.join(landlock.domain(level).names())}"
    return tuple(
        [one._replace(evidence=one.evidence + handled) if one.id == "landlock" else one for one in proofs]
    )
