"""A real box without a keeper: launches a tier and answers its notifications on a thread of the test.

Attack scripts run inside; what they achieved is checked from outside.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backends import tiers
from backends.boxes.layout import BoxPaths
from backends.host import asking
from backends.keeper import init_protocol
from backends.kernel import cgroups, notify, procfs, seccomp
from backends.policy.identity import identify
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy, Resources
from backends.tiers import choosing, grants, planning, process
from backends.tiers.protocol import LaunchSpec, LiveBox, Tier
from backends.values import Claim

PAYLOAD = 1879048192 + 4242
READ = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ssl/certs",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/magic",
    "/etc/python3.11", "/etc/python3",
)  # fmt: skip
ENV = {
    "HOME": "/home/box",
    "USER": "box",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
}
PYTHON = "/usr/bin/python3"


def policy(
    *,
    read: Sequence[str] = (),
    write: Sequence[str] = (),
    deny: Sequence[str] = (),
    net: str = "deny",
    egress: Sequence[str] = (),
    loopback: bool = True,
    unix: bool = True,
    observe: str = "writes",
    debug: bool = False,
    tier: str = "process",
    **resources: int | None,
) -> Policy:
    held: dict[str, Any] = {
        "mem": None, "procs": None, "wall": None, "cpu": None, "file_size": None, "files": 65536,
        "tmp": 256 << 20, "shm": 64 << 20, "disk": None,
    }  # fmt: skip
    held.update(resources)
    return Policy(
        version=1,
        profile="test",
        tier=tier,
        tree="checkout",
        history="full",
        observe=observe,
        debug=debug,
        fs=FsPolicy(
            tuple(path for path in (*READ, *read) if os.path.lexists(path)),
            tuple(write),
            tuple(deny),
            tuple(hidden(write, deny)),
        ),
        net=NetPolicy(net, tuple(egress), loopback, unix),
        env=EnvPolicy((), ()),
        resources=Resources(**held),
        image="",
        services=(),
        secrets=(),
    )


def hidden(write: Sequence[str], deny: Sequence[str]) -> Iterator[tuple[str, str]]:
    for path in deny:
        grant = min((one for one in write if grants.covers(one, path)), key=len, default=None)
        if grant is not None and os.path.lexists(path):
            yield path, identify(grant, path)


class Result(NamedTuple):
    exit: int  # exit code, or minus the signal
    out: str
    err: str
    peak: int | None  # None: below init's own, so not told


class Box:
    """One live box. ``refused`` counts (kind, detail), ``seen`` what was let go on, once it was ready."""

    def __init__(self, live: LiveBox, spec: LaunchSpec) -> None:
        self.live = live
        self.spec = spec
        self.paths = spec.paths
        self.filter = planning.filter_spec(spec.policy, spec.tree_provider)
        self.refused: Counter[tuple[str, str]] = Counter()
        self.seen: Counter[tuple[str, str]] = Counter()
        self.execs: list[tuple[str, ...]] = []
        self.exits: list[dict[str, Any]] = []
        self.proofs: list[list[Any]] = []
        self._next = 1
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()
        self._ready()

    # ---- notifications

    def _answer(self) -> None:
        if self.live.notify is None:
            return
        poll = select.poll()
        poll.register(self.live.notify, select.POLLIN)
        notify.prepare(self.live.notify)
        try:
            while True:
                for _, event in poll.poll(1000):
                    if event & select.POLLIN:
                        self._one(self.live.notify)
                    elif event & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                        return
        except BaseException as error:  # shown by the test that waits
            self._failure = error

    def _one(self, fd: int) -> None:
        waiting = notify.receive(fd)
        if waiting is None:
            return
        notice = seccomp.classify(self.filter, waiting.nr, waiting.args)
        if notice.errno is not None:
            self.refused[notice.kind, notice.detail] += 1
            notify.refuse(fd, waiting.id, notice.errno)
            return
        try:
            with notify.Memory(waiting.pid) as memory:
                if notice.kind == "exec":
                    argv = memory.strings(waiting.args[1])
                    self.execs.append(tuple(os.fsdecode(word) for word in argv))
                elif notice.kind == "open":
                    path = memory.string(waiting.args[0 if notice.call in ("open", "creat") else 1])
                    self.seen["open", os.fsdecode(path)] += 1
                elif notice.kind == "connect":
                    index = 1 if notice.call == "connect" else 4
                    address = notify.read_address(memory, waiting.args[index], waiting.args[index + 1])
                    self.seen["connect", str(address)] += 1
        except OSError:
            self.seen["unreadable", notice.kind] += 1
        notify.proceed(fd, waiting.id)

    # ---- talk with init

    def _ready(self) -> None:
        message = self.event("ready")
        self.proofs = message["proofs"]
        self.refused.clear()
        self.seen.clear()
        self.execs.clear()

    def receive(self, timeout: float = 60.0) -> tuple[dict[str, Any], list[int]]:
        self.live.control.settimeout(timeout)
        message, fds = init_protocol.recv(self.live.control)
        if self._failure:
            raise self._failure
        if message is None:
            raise AssertionError("init is gone")
        return message, fds

    def event(self, name: str, timeout: float = 60.0) -> dict[str, Any]:
        while True:
            message, fds = self.receive(timeout)
            init_protocol.close(fds)
            if message.get("ev") == name:
                return message
            if message.get("ev") == "exit":
                self.exits.append(message)
            if message.get("ev") in ("error", "failed"):
                raise AssertionError(message)

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/work",
        fds: Sequence[int] = (),
        pty: tuple[int, int] | None = None,
    ) -> tuple[int, int, list[int]]:
        """Starts a session; returns its number, its pid inside and the descriptors that came with it."""
        number = self._next
        self._next += 1
        init_protocol.send(
            self.live.control,
            {
                "op": "spawn",
                "id": number,
                "argv": list(argv),
                "env": {**ENV, **(env or {})},
                "cwd": cwd,
                "pty": list(pty) if pty else None,
            },
            fds,
        )
        while True:
            message, got = self.receive()
            if message.get("ev") == "spawned" and message["id"] == number:
                return number, message["pid"], got
            init_protocol.close(got)
            if message.get("ev") == "exit":
                self.exits.append(message)
            elif message.get("ev") == "failed":
                raise OSError(message["errno"], message["why"])
            else:
                raise AssertionError(message)

    def wait(self, number: int, timeout: float = 60.0) -> dict[str, Any]:
        for message in self.exits:
            if message["id"] == number:
                return message
        deadline = time.monotonic() + timeout
        while True:
            message, fds = self.receive(max(0.1, deadline - time.monotonic()))
            init_protocol.close(fds)
            if message.get("ev") == "exit":
                self.exits.append(message)
                if message["id"] == number:
                    return message

    def run(
        self,
        *argv: str,
        timeout: float = 60.0,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "/work",
    ) -> Result:
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        inside = (pipes[0][0], pipes[1][1], pipes[2][1])
        if self.spec.payload_uid != os.geteuid():
            for fd in inside:
                os.fchown(fd, self.spec.payload_uid, self.spec.payload_gid)
        outputs = [bytearray(), bytearray()]

        def read(fd: int, into: bytearray) -> None:
            while chunk := os.read(fd, 65536):
                into += chunk
            os.close(fd)

        try:
            number, _, got = self.start(argv, env=env, cwd=cwd, fds=inside)
        finally:
            for fd in inside:
                os.close(fd)
        init_protocol.close(got)
        threads = [
            threading.Thread(target=read, args=(pipes[n + 1][0], outputs[n]), daemon=True) for n in (0, 1)
        ]
        for thread in threads:
            thread.start()
        with contextlib.suppress(BrokenPipeError):
            os.write(pipes[0][1], stdin)
        os.close(pipes[0][1])
        message = self.wait(number, timeout)
        for thread in threads:
            thread.join(20.0)  # the end of the pipe comes with the last process that holds it
        code = os.waitstatus_to_exitcode(message["status"])
        return Result(
            code, outputs[0].decode(errors="replace"), outputs[1].decode(errors="replace"), message["maxrss"]
        )

    def python(self, script: str, *args: str, timeout: float = 60.0) -> Result:
        return self.run(PYTHON, "-I", "-S", "-c", script, *args, timeout=timeout)

    def sh(self, script: str, timeout: float = 60.0, env: Mapping[str, str] | None = None) -> Result:
        return self.run("/bin/bash", "-c", script, timeout=timeout, env=env)

    def ask(self, operation: str, event: str) -> dict[str, Any]:
        init_protocol.send(self.live.control, {"op": operation})
        return self.event(event)

    # ---- from outside

    def processes(self) -> tuple[int, ...]:
        """Pids (host's view) in the box's process namespace, without zombies that nobody has reaped yet."""
        found = {pid: procfs.read_stat(pid) for pid in procfs.members(self.live.pid_namespace)}
        return tuple(pid for pid, stat in found.items() if stat and stat.state not in "ZX")

    def alive(self) -> bool:
        return procfs.alive(self.live.init)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.live.pidfd, signal.SIGKILL)
        select.select([self.live.pidfd], [], [], 60.0)

    def close(self) -> None:
        self.end()
        self._thread.join(60.0)
        self.live.control.close()
        for fd in (self.live.pidfd, self.live.notify, self.live.death):
            if fd is not None:
                os.close(fd)
        if self.live.network:
            self.live.network.close()
        assert cgroups.remove(self.live.cgroups) == ()


def make_paths(root: Path, uid: int, gid: int, *, repo: bool = False) -> BoxPaths:
    """The folders of an empty box, as the engine makes them."""
    paths = BoxPaths(root)
    root.mkdir(mode=0o700, parents=True)
    for folder in (paths.tree, paths.home, paths.mount):
        folder.mkdir()
    (paths.tree / ".git").mkdir()
    if repo:
        paths.repo.mkdir()
    paths.manifest.write_text("{}")
    if os.geteuid() == 0:
        for folder in (paths.tree, paths.tree / ".git", paths.home, *([paths.repo] if repo else [])):
            os.chown(folder, uid, gid)
    return paths


def spec(
    chosen: Policy, folder: Path | None = None, name: str = "probe", *, repo: bool = False
) -> LaunchSpec:
    """A launch of ``chosen``; without a folder only its values can be used."""
    uid, gid = (PAYLOAD, PAYLOAD) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    paths = (
        make_paths(folder / "key" / name, uid, gid, repo=repo) if folder else BoxPaths(Path("/nonexistent"))
    )
    return LaunchSpec(paths, chosen, name, uid, gid, detached=True)


@contextlib.contextmanager
def box(
    chosen: Policy | None = None, *, tier: Tier = process.TIER, name: str = "probe", repo: bool = False
) -> Iterator[Box]:
    """A live box in a temporary folder, ended and removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="cloche-test-"))
    try:
        with launched(spec(chosen or policy(), folder, name, repo=repo), tier=tier) as one:
            yield one
    finally:
        shutil.rmtree(folder, onerror=_force)


@contextlib.contextmanager
def launched(wanted: LaunchSpec, *, tier: Tier = process.TIER) -> Iterator[Box]:
    """One life of a box, whose folders stay: it may be launched again."""
    live = tier.launch(wanted)
    one = Box.__new__(Box)
    try:
        one.__init__(live, wanted)  # type: ignore[misc]
        yield one
    finally:
        one.close()


def _force(function: Any, path: str, _info: Any) -> None:
    os.chmod(os.path.dirname(path), 0o700)
    os.chmod(path, 0o700)
    function(path)


def apart(tier: str) -> tuple[Claim, ...]:
    """What the probe of a tier says, run in a process of its own as the product runs it: where it meets the
    limit of memory the kernel ends who is largest, which is to be the program and no test run's copy."""
    answer = asking.ask((tier,))[tier]
    assert answer.document is not None, answer.why
    return tuple([Claim(*row) for row in answer.document["claims"]])


def runs(probe: Callable[[str], Iterable[Claim]]) -> choosing.Verdict:
    """Runs a tier's probe when it is first asked for, and tells of each of its claims."""
    known: dict[str, Claim] = {}

    def tell(ident: str) -> Claim | None:
        if ident in tiers.MODULES:
            known.update((claim.id, claim) for claim in probe(ident))
        return known.get(ident)

    return tell
