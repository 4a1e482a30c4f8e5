"""What this host can enforce, shown by doing it: each tier starts a minimal box and runs a program in it.

Probe and launch are the same code, and the claims of a probe are those that the box's own init proved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import tempfile
import time
from pathlib import Path

from backends import tiers
from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.errors import ClocheError
from backends.keeper import init_protocol
from backends.keeper.init_protocol import Message, ProtocolError
from backends.kernel import cgroups, landlock, notify, seccomp
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy, Resources
from backends.record import NamedTuple
from backends.snapshots import Claim
from backends.tiers.planning import filter_spec
from backends.tiers.protocol import LaunchSpec, LiveBox, Tier
from backends.trees.remove import remove
from backends.values import Enforcement, ProcessId

PROVED, FAILED = "proved", "failed"
PATIENCE = 15.0  # seconds that one probe may take
_PAYLOAD_UIDS = 1879048192  # where root's boxes take their users from
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache")
_ENV = {"PATH": "/usr/bin:/bin"}


class ProbeError(Exception):
    """The box of a probe did not do what a box does."""


def run() -> tuple[Claim, ...]:
    """Every tier of this version: its verdict (id = the tier's name), then what its init proved."""
    claims: list[Claim] = []
    for name in tiers.MODULES:
        claims += probe(name)
    return tuple(claims)


def probe(name: str) -> tuple[Claim, ...]:
    """The verdict on one tier and the proofs behind it. Never raises for a tier that cannot be had."""
    began = time.perf_counter()
    tier = tiers.get(name)
    try:
        proofs = _try(tier)
    except ClocheError as error:
        why = f"{error.what}: {error.why}. Remedy: {error.next_step}"
        return (Claim(name, tier.promise, FAILED, why, time.perf_counter() - began),)
    except (ProbeError, ProtocolError, OSError) as error:
        return (Claim(name, tier.promise, FAILED, str(error), time.perf_counter() - began),)
    took = time.perf_counter() - began
    evidence = "a box started, ran a program and ended"
    if tier.confined:
        evidence = f"a box started, its init proved {len(proofs)} claims, a program ran in it and ended"
    claims = [Claim(name, tier.promise, PROVED, evidence, took)]
    claims += [proof._replace(id=f"{name}.{proof.id}") for proof in proofs]
    if tier.confined:
        claims.append(_rights(name))
    return tuple(claims)


def _rights(name: str) -> Claim:
    """The rights that the box's domain handled: which those are depends on the kernel alone."""
    level = landlock.abi()
    evidence = f"ABI {level}: {', '.join(landlock.domain(level).names())}"
    return Claim(f"{name}.landlock", "Landlock refuses what no rule allows.", PROVED, evidence, 0.0)


def _policy(tier: str) -> Policy:
    return Policy(
        version=1,
        profile="probe",
        tier=tier,
        tree="checkout",
        history="none",
        observe="none",
        debug=False,
        fs=FsPolicy(tuple(path for path in _PROGRAMS if os.path.lexists(path)), (), ()),
        net=NetPolicy("deny", (), True, True),
        env=EnvPolicy((), ()),
        resources=Resources(None, 64, None, None, None, 1024, 16 << 20, 16 << 20, None),
        image="",
        services=(),
        secrets=(),
    )


def _prefix(pid: int) -> str:
    """How the folder of a probe begins: whose it is, by pid and start, so that one left behind is told."""
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


def _try(tier: Tier) -> tuple[Claim, ...]:
    return under(tier, _policy(tier.name)).proofs


def under(tier: Tier, policy: Policy) -> Tried:
    """Start an empty box under ``policy`` as a launch does, hear its proofs, run a program in it, end it.

    Raises what a launch raises; ``ProbeError``, ``ProtocolError`` and ``OSError`` where the box of the probe
    did not do what a box does.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"{_prefix(os.getpid())}-", dir=runtime_dir()))
    try:
        root = os.geteuid() == 0
        uid = _PAYLOAD_UIDS + int.from_bytes(os.urandom(2), "big") if root else os.geteuid()
        gid = uid if root else os.getegid()
        paths = BoxPaths(folder / "probe" / "probe")
        paths.root.mkdir(mode=0o700, parents=True)
        for own in (paths.tree, paths.home, paths.mount):
            own.mkdir()
        if root:
            for own in (paths.tree, paths.home):
                os.chown(own, uid, gid)
        live = tier.launch(LaunchSpec(paths, policy, "probe", uid, gid, detached=True))
        try:
            return Tried(_Talk(live, policy).run(), live.enforcement)
        finally:
            _end(live)
    finally:
        remove(folder)


def _end(live: LiveBox) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(live.pidfd, signal.SIGKILL)
    select.select([live.pidfd], [], [], PATIENCE)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(live.init.pid, os.WNOHANG)  # a workbench that probes lives on, and so would the zombie
    live.control.close()
    for fd in (live.pidfd, live.death, live.notify):
        if fd is not None:
            os.close(fd)
    if live.network:
        live.network.close()
    cgroups.remove(live.cgroups)


class _Talk:
    """Stands in for a keeper: answers notifications, hears ``ready``, runs one program."""

    def __init__(self, live: LiveBox, policy: Policy) -> None:
        self.live = live
        self.spec = filter_spec(policy)
        self.deadline = time.monotonic() + PATIENCE
        self.poll = select.poll()
        self.poll.register(live.control, select.POLLIN)
        if live.notify is not None:
            notify.prepare(live.notify)
            self.poll.register(live.notify, select.POLLIN)

    def run(self) -> tuple[Claim, ...]:
        ready = self.hear("ready")
        rows = ready.get("proofs")
        proofs = tuple(Claim(*row) for row in rows) if isinstance(rows, list) else ()
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            request = {"op": "spawn", "id": 1, "argv": ["true"], "env": _ENV, "cwd": "/", "pty": None}
            init_protocol.send(self.live.control, request, [null, null, null])
        finally:
            os.close(null)
        self.hear("spawned")
        exited = self.hear("exit")
        if exited.get("status") != 0:
            raise ProbeError(f"a program ended with wait status {exited.get('status')}")
        return proofs

    def hear(self, event: str) -> Message:
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise ProbeError(f"the box did not say {event} within {PATIENCE:.0f} s")
            for fd, happened in self.poll.poll(left * 1000):
                if fd == self.live.notify:
                    self.answer(fd, happened)
                    continue
                message, fds = init_protocol.recv(self.live.control)
                init_protocol.close(fds)
                if message is None:
                    raise ProbeError(f"the box's init ended before it said {event}")
                if message.get("ev") == event:
                    return message
                if message.get("ev") in ("error", "failed"):
                    raise ProbeError(
                        f"{message.get('what', 'a program could not start')}: {message.get('why')}"
                    )

    def answer(self, fd: int, happened: int) -> None:
        if not happened & select.POLLIN:
            self.poll.unregister(fd)
            return
        waiting = notify.receive(fd)
        if waiting is None:
            return
        code = seccomp.classify(self.spec, waiting.nr, waiting.args).errno
        if code is None:
            notify.proceed(fd, waiting.id)
        else:
            notify.refuse(fd, waiting.id, code or errno.EPERM)
