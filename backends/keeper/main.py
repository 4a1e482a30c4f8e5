"""Starting a keeper: alone, detached, with the box's lock; launch, prove, then serve until the end.

What serves is imported after the launch: init, forked from a small process, proves its claims meanwhile.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from backends import tiers, trace
from backends.boxes import generations, lifecycle, liveness, store
from backends.boxes import manifest as manifests
from backends.boxes.layout import BoxPaths, socket_path
from backends.boxes.manifest import Manifest
from backends.errors import ClocheError, Refused
from backends.keeper import protocol
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop
from backends.keeper.seed import raise_limits
from backends.kernel import cgroups
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, prctl
from backends.policy import canonical
from backends.policy.model import Policy
from backends.tiers.protocol import LaunchSpec

if TYPE_CHECKING:
    from backends.keeper.requests import Requests
    from backends.keeper.server import Server
    from backends.kernel.seccomp import FilterSpec
    from backends.tiers.builder import Builder
    from backends.trees.verification import Verification
    from backends.values import Claim

LINGER = 300.0  # seconds after the last process of the box ended
LINGER_VARIABLE = "CLOCHE_LINGER"
READY_PATIENCE = 20.0  # seconds that init gets to prove its claims
OVERLAY = "overlay"
TIDY = 0.5  # seconds after the box is ready
LAST_REPLIES = 1.0  # seconds that clients get to take their last replies


class Starter:
    """The command that started us and waits at the other end of a pipe for one line."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def tell(self, error: ClocheError | None) -> None:
        """Ready (None), or why not; only the first time counts."""
        if self._fd < 0:
            return
        line = protocol.encode({"ok": True} if error is None else {"ok": False, "error": error.as_dict()})
        try:
            os.write(self._fd, line)
        except BrokenPipeError:
            return  # whoever started us has gone; the box lives on
        finally:
            os.close(self._fd)
            self._fd = -1


def shown(root: str) -> tuple[str, str]:
    """Under which name and arguments the keeper of the box in ``root`` is listed."""
    return "cloche-keeper", f"cloche keeper {os.path.basename(root)}"


def serve(
    root: str, ready_fd: int, intact: frozenset[str] = frozenset(), begun: Builder | None = None
) -> NoReturn:
    """Be the keeper of the box in ``root``; what comes of it goes to ``ready_fd`` as one line.

    ``intact``: shared layers that whoever forked us knows to be as they were sealed. ``begun``: the first
    process of a launch, for a tier that goes on with one.
    """
    starter = Starter(ready_fd)
    log = Log()
    code = 0
    try:
        os.chdir("/")
        os.umask(0o077)
        trace.point("keeper: begins")
        _serve(BoxPaths(Path(root)), starter, log, intact, begun)
    except ClocheError as error:
        starter.tell(error)
        code = error.exit_code
    except BaseException as error:  # noqa: BLE001 (the last place: reported to the log and to the starter)
        log.failure("keeper", error)
        starter.tell(
            ClocheError(
                "the keeper failed",
                f"{type(error).__name__}: {error}",
                f"see {root}/keeper.log",
                code="keeper-failure",
            )
        )
        code = 1
    os._exit(code)


def _serve(
    paths: BoxPaths, starter: Starter, log: Log, intact: frozenset[str], begun: Builder | None
) -> None:
    lock = Lock(store.take(paths, "keeper"))
    try:
        _Serving(paths, Loop(log.failure), log, starter, lock, intact, begun).run()
    finally:
        lock.release()


class Lock:
    """The box's lock: held from before the launch until nothing of the box is left."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def load_policy(paths: BoxPaths, manifest: Manifest) -> Policy:
    """The policy that the box was made with; ``Refused`` when the file is another one by now."""
    try:
        data = paths.policy.read_bytes()
    except OSError as error:
        raise _tampered(f"policy.json cannot be read: {error.strerror}") from error
    if canonical.digest(data) != manifest.policy_digest:
        raise _tampered(
            f"policy.json has the digest {canonical.digest(data)[:16]} and the box was made with "
            f"{manifest.policy_digest[:16]}"
        )
    return canonical.decode(data)


def _tampered(why: str) -> Refused:
    return Refused(
        "the box does not start",
        why,
        "export what it holds and make a new one: cloche new",
        code="policy-digest",
    )


def settled(paths: BoxPaths) -> Manifest:
    """The manifest of a box that may start. What a keeper left that died is brought to order first."""
    manifest = manifests.load(paths)
    if liveness.read(paths).kind == "lost" or manifest.state == lifecycle.RUNNING:
        from backends.verbs.passage import Held, settle

        held = Held(paths)
        settle(held)
        manifest = held.manifest
    lifecycle.require(paths.name, manifest.state, "run")
    return generations.take_up(paths, manifest)


class _Serving:
    """From the launched box to the end of the loop."""

    def __init__(
        self,
        paths: BoxPaths,
        loop: Loop,
        log: Log,
        starter: Starter,
        lock: Lock,
        intact: frozenset[str],
        begun: Builder | None,
    ) -> None:
        self._paths = paths
        self._loop = loop
        self._log = log
        self._starter = starter
        self._lock = lock
        self._person = os.path.expanduser("~")
        self._server: Server | None = None
        self._requests: Requests | None = None
        self._failure: ClocheError | None = None
        raise_limits()  # init inherits them
        manifest = settled(paths)
        # Whatever a box without a pid namespace leaves behind is handed to us instead of to the host's init.
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Ends with us, should anything from here on keep the box from starting.
        begun = tiers.get(manifest.tier).begin(begun)
        policy = load_policy(paths, manifest)
        if policy.tier != manifest.tier:
            raise _tampered(f"policy.json asks for {policy.tier}, the box was made as {manifest.tier}")
        earlier = liveness.read(paths).facts.get("disk_base")
        tier = tiers.get(policy.tier)
        trace.point("keeper: policy loaded")
        spec = LaunchSpec(
            paths,
            policy,
            paths.name,
            manifest.payload_uid,
            manifest.payload_gid,
            manifest.detached,
            manifest.tree_provider,
            begun,
        )
        # Checked while the box is built and proves its claims; no session starts before the verdict.
        self._verification = _verification(spec, manifest, intact)
        trace.point("keeper: layers' check begun")
        try:
            box = tier.launch(spec)
        except BaseException:
            if self._verification is not None:
                self._verification.abandon()
            raise
        trace.point("keeper: confined")
        gc.disable()  # until the box is ready: collecting while modules load finds nothing
        from backends.keeper.keeper import Keeper
        from backends.keeper.state import State

        self._keeper = Keeper(
            loop,
            log,
            spec,
            box,
            _filter_spec(policy, manifest.tree_provider) if box.notify is not None else None,
            lambda recorder: State(loop, paths, manifest, recorder),
            confined=tier.confined,
            linger=float(os.environ.get(LINGER_VARIABLE) or LINGER),
            disk_base=earlier if isinstance(earlier, int) else None,
            ready=self._ready,
        )
        self._keeper.ended.append(self._ended)
        trace.point("keeper: serves init")
        self._patience = loop.later(READY_PATIENCE, self._not_ready)
        loop.later(0.0, _prepare)

    def run(self) -> None:
        """Serve until the box has ended; raises what kept it from becoming ready."""
        _on_signals(self._loop, lambda name: self._keeper.stop(name, "signal"))
        self._loop.run()
        if self._failure is not None:
            raise self._failure

    def _not_ready(self) -> None:
        self._ready(None, f"init proved nothing within {READY_PATIENCE:.0f} seconds")

    def _ready(self, claims: tuple[Claim, ...] | None, why: str) -> None:
        self._patience.cancel()
        try:
            if claims is None:
                raise Refused(
                    "the box does not start",
                    why,
                    "cloche probe says what this host can enforce",
                    code="launch-refused",
                )
            trace.point("keeper: proofs taken")
            if self._verification is not None:
                self._verification.result()
            trace.point("keeper: layers checked")
            self._open(claims)
        except ClocheError as error:
            self._failure = error
            self._keeper.stop(error.why, "keeper")
        except OSError as error:
            self._failure = ClocheError(
                "the box does not start", str(error), f"see {self._paths.keeper_log}", code="keeper-failure"
            )
            self._keeper.stop(str(error), "keeper")

    def _open(self, claims: tuple[Claim, ...]) -> None:
        """The box keeps its promises: write down what holds, and let clients in."""
        from backends.keeper.requests import Requests
        from backends.keeper.server import Server
        from backends.keeper.state import identity

        keeper = self._keeper
        path = os.fspath(socket_path(self._paths))
        self._requests = Requests(keeper)
        self._server = Server(self._loop, path, self._log, self._requests.handle)
        keeper.live.begin(identity(os.getpid()), keeper.box, claims, path, {"disk_base": keeper.limits.base})
        facts = keeper.live.facts
        keeper.recorder.note(
            "launch",
            {
                "proofs": facts["claims"],
                "enforcement": facts["enforcement"],
                "not_observed": facts["not_observed"],
                "host": facts["host"],
                "facts": facts["facts"],
                "keeper": facts["keeper"],
                "init": facts["init"],
            },
        )
        keeper.begin(self._person)
        trace.point("keeper: ready")
        self._starter.tell(None)
        self._loop.later(0.0, _settle_down)
        self._loop.later(TIDY, lambda: _tidy(keeper.box.cgroups, self._log))

    def _ended(self) -> None:
        """Nothing of the box is left: answer who waits for that, then go.

        The lock goes first, so that whoever was answered finds the box free.
        """
        if self._server is not None:
            self._server.stop_listening()
        self._lock.release()
        if self._requests is not None:
            self._requests.stopped()
        self._leave(time.monotonic() + LAST_REPLIES)

    def _leave(self, until: float) -> None:
        if self._server is not None and self._server.waiting and time.monotonic() < until:
            self._loop.later(0.01, lambda: self._leave(until))
            return
        if self._server is not None:
            self._server.close()
        self._loop.stop()


def _prepare() -> None:
    """Import what the first request takes, while init is at work and nobody waits for us."""
    from backends.keeper import requests, server  # noqa: F401


def _settle_down() -> None:
    """What is better done before the first command than in it."""
    from backends.keeper import words

    words.load()
    gc.freeze()
    gc.enable()


def _tidy(groups: tuple[str, ...], log: Log) -> None:
    """What keepers that were killed left of control groups; nobody waits for it."""
    try:
        cgroups.sweep(groups)
    except OSError as error:
        log.failure("old control groups", error)


def _filter_spec(policy: Policy, tree_provider: str) -> FilterSpec:
    """What the box's filter asks us, as its tier built it."""
    from backends.tiers.planning import filter_spec

    return filter_spec(policy, tree_provider)


def _verification(spec: LaunchSpec, manifest: Manifest, intact: frozenset[str]) -> Verification | None:
    """The check of the shared layers below a box's tree, begun; ``None`` where nothing is shared."""
    if manifest.tree_provider != OVERLAY:
        return None
    from backends.trees.verification import Verification

    return Verification(spec.paths, manifest.under, intact)


def _on_signals(loop: Loop, stop: Callable[[str], None]) -> None:
    """SIGTERM ends the box in order; what a terminal sends is not for us."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    reader.setblocking(False)
    writer.setblocking(False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def woken(_events: int) -> None:
        if signal.SIGTERM in reader.recv(64):
            stop("SIGTERM")

    loop.add(reader.fileno(), READ, woken)
    _KEPT.extend((reader, writer))


_KEPT: list[socket.socket] = []  # the interpreter writes to the descriptor, not to the object
