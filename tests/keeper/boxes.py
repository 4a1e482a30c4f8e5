"""Real boxes for the keeper's tests: made on disk by hand, started by the real keeper at a real tier."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, state_dir
from backends.boxes.manifest import Manifest, save
from backends.evidence import journal
from backends.keeper import client
from backends.keeper.client import KeeperClient
from backends.policy import canonical
from backends.policy.model import EnvPolicy, FsPolicy, NetPolicy, Policy, Resources

PAYLOAD = 1879048192 + 4711  # what root's boxes run as; far above what systems hand out

READ = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache",
    "/etc/python3.11",
)  # fmt: skip

RESOURCES = Resources(
    mem=None,
    procs=None,
    wall=None,
    cpu=None,
    file_size=None,
    files=4096,
    tmp=64 << 20,
    shm=16 << 20,
    disk=None,
)

POLICY = Policy(
    version=1,
    profile="default",
    tier="process",
    tree="checkout",
    history="full",
    observe="writes",
    debug=False,
    fs=FsPolicy(read=tuple(p for p in READ if os.path.lexists(p)), write=(), deny=()),
    net=NetPolicy(mode="deny", egress=(), loopback=True, unix=True),
    env=EnvPolicy(passed=("CLOCHE_TEST_PASSED",), set=()),
    resources=RESOURCES,
    image="",
    services=(),
    secrets=(),
)


def make(name: str = "box", policy: Policy = POLICY) -> BoxPaths:
    """A box on disk in state created, with an empty tree."""
    paths = BoxPaths(state_dir() / "repo-0123456789" / name)
    paths.root.mkdir(mode=0o700, parents=True)
    text = canonical.encode(policy)
    paths.policy.write_bytes(text)
    confined = policy.tier != "workspace"
    uid, gid = (PAYLOAD, PAYLOAD) if os.geteuid() == 0 and confined else (os.geteuid(), os.getegid())
    for folder in (paths.tree, paths.home, paths.mount, paths.tmp):
        folder.mkdir(mode=0o700)
    for folder in (paths.tree, paths.home):
        os.chown(folder, uid, gid)
    save(
        paths,
        Manifest(
            name=name,
            repository="",
            git_dir="",
            repository_key="repo-0123456789",
            tier=policy.tier,
            profile="default",
            state="created",
            base="0" * 40,
            base_tree="0" * 40,
            base_ref="",
            created=time.time(),
            policy_digest=canonical.digest(text),
            payload_uid=uid,
            payload_gid=gid,
            detached=True,
        ),
    )
    return paths


def limited(**resources: Any) -> Policy:
    return POLICY._replace(resources=RESOURCES._replace(**resources))


class Ran(NamedTuple):
    """A command that ended."""

    session: int
    exit: int
    out: bytes
    err: bytes
    event: Mapping[str, Any]


class Running:
    """A session with our ends of its pipes."""

    def __init__(
        self,
        keeper: KeeperClient,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: str = "",
    ) -> None:
        self.keeper = keeper
        pairs = [os.pipe() for _ in range(3)]
        self.stdin, self.out, self.err = pairs[0][1], pairs[1][0], pairs[2][0]
        theirs = (pairs[0][0], pairs[1][1], pairs[2][1])
        try:
            reply = keeper.call("run", fds=theirs, argv=list(argv), env=dict(env or {}), cwd=cwd)
        finally:
            for fd in theirs:
                os.close(fd)
        self.session: int = reply["session"]
        self.process: list[int] | None = reply["process"]

    def read(self, wanted: bytes, limit: float = 60.0) -> bytes:
        """Stdout up to and with ``wanted``."""
        got = b""
        until = time.monotonic() + limit
        while wanted not in got:
            if not select.select([self.out], [], [], max(0.0, until - time.monotonic()))[0]:
                raise AssertionError(f"{wanted!r} did not come, only {got!r}")
            data = os.read(self.out, 65536)
            if not data:
                raise AssertionError(f"{wanted!r} did not come before the end, only {got!r}")
            got += data
        return got

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def finish(self, stdin: bytes = b"", limit: float = 60.0) -> Ran:
        """Feed stdin, collect output, wait for the exit event."""
        out, err = bytearray(), bytearray()
        left = memoryview(stdin)
        readers = {self.out: out, self.err: err}
        if self.stdin >= 0 and not left:
            self.close_stdin()
        elif self.stdin >= 0:
            os.set_blocking(self.stdin, False)
        until = time.monotonic() + limit
        while readers:
            writers = [self.stdin] if self.stdin >= 0 else []
            ready, able, _ = select.select(list(readers), writers, [], max(0.0, until - time.monotonic()))
            if not ready and not able:
                raise AssertionError(f"no end within {limit} s: {bytes(out[-200:])!r} {bytes(err[-200:])!r}")
            for fd in ready:
                data = os.read(fd, 1 << 16)
                readers[fd] += data
                if not data:
                    del readers[fd]
                    os.close(fd)
            for fd in able:
                try:
                    left = left[os.write(fd, left[: 1 << 16]) :]
                except BrokenPipeError:
                    left = left[:0]
                if not left:
                    self.close_stdin()
        self.close_stdin()
        event = self.keeper.wait_event("exit", max(0.1, until - time.monotonic()), session=self.session)
        return Ran(self.session, event["exit"], bytes(out), bytes(err), event)

    def drop(self) -> None:
        """Close our ends."""
        for fd in (self.out, self.err):
            os.close(fd)
        self.close_stdin()


def run(keeper: KeeperClient, *argv: str, stdin: bytes = b"", limit: float = 60.0, **more: Any) -> Ran:
    """One command from start to exit."""
    return Running(keeper, argv, **more).finish(stdin, limit)


def sh(keeper: KeeperClient, script: str, stdin: bytes = b"", limit: float = 60.0) -> Ran:
    return run(keeper, "/bin/sh", "-c", script, stdin=stdin, limit=limit)


@contextmanager
def started(paths: BoxPaths) -> Iterator[KeeperClient]:
    """The box's keeper, started when needed; stopped afterwards if it still lives."""
    keeper = client.start(paths)
    try:
        yield keeper
    finally:
        keeper.close()
        stop(paths)


def stop(paths: BoxPaths) -> None:
    live = liveness.read(paths)
    if live.kind == "live" and live.keeper is not None:
        with client.connect(paths) as keeper:
            keeper.call("stop")
        assert liveness.wait_gone(live.keeper, 60.0)


class Screen:
    """A client's end of a terminal session."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.seen = b""

    def until(self, wanted: bytes, limit: float = 60.0) -> bytes:
        """Read until ``wanted`` was seen; returns what came since the last call, up to and with it."""
        end = time.monotonic() + limit
        while wanted not in self.seen:
            self.sock.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.sock.recv(65536)
            except TimeoutError as error:
                raise AssertionError(f"{wanted!r} did not come, only {self.seen[-500:]!r}") from error
            if not data:
                raise AssertionError(f"the terminal ended before {wanted!r}: {self.seen[-500:]!r}")
            self.seen += data
        at = self.seen.index(wanted) + len(wanted)
        got, self.seen = self.seen[:at], self.seen[at:]
        return got

    def type(self, text: bytes) -> None:
        self.sock.settimeout(60)
        self.sock.sendall(text)

    def ended(self, limit: float = 60.0) -> bool:
        """Whether the stream ends."""
        self.sock.settimeout(limit)
        try:
            while self.sock.recv(65536):
                continue
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self.sock.close()


def shell(keeper: KeeperClient, *argv: str, rows: int = 24, cols: int = 80) -> tuple[int, Screen]:
    mine, theirs = socket.socketpair()
    with theirs:
        reply = keeper.call(
            "shell", fds=(theirs.fileno(),), argv=list(argv), env={"TERM": "xterm"}, rows=rows, cols=cols
        )
    return reply["session"], Screen(mine)


def attach(keeper: KeeperClient, session: int, rows: int = 24, cols: int = 80) -> Screen:
    mine, theirs = socket.socketpair()
    with theirs:
        keeper.call("attach", fds=(theirs.fileno(),), session=session, rows=rows, cols=cols)
    return Screen(mine)


def records(paths: BoxPaths, kind: str | None = None) -> list[dict[str, Any]]:
    """The data of the journal's records of one kind, in order."""
    return [dict(r.data) for r in journal.read(paths.journal) if kind in (None, r.kind)]


def write_script(paths: BoxPaths, name: str, text: str) -> None:
    """An executable in the box's tree."""
    path = Path(paths.tree) / name
    path.write_text(text)
    path.chmod(0o755)
