"""Starting a box's keeper: forked from a zygote, or where that cannot be, as a process of its own."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from backends import trace
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.digest import sha256
from backends.errors import ClocheError, NoSuchBox, from_dict
from backends.keeper import address, peer, protocol, surroundings
from backends.keeper.log import Log
from backends.keeper.protocol import Decoder, ProtocolError

START_TIMEOUT = 120.0  # seconds from the start of a keeper to a ready box: a guest may have to boot
ZYGOTE_PATIENCE = 10.0  # seconds that a zygote gets to load and fork; beyond, the keeper starts by itself
ZYGOTE_VARIABLE = "CLOCHE_ZYGOTE"  # "0": every keeper starts by itself
# All that a keeper takes of its starter's environment. The box's first process has it in its memory.
KEPT = (
    "HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "CLOCHE_LINGER",
    "CLOCHE_INJECT",
    "CLOCHE_LANDLOCK_ABI",
    "CLOCHE_TRACE",
    "CLOCHE_GUEST_KERNEL",
)
SCRIPT = Path(__file__).with_name("__main__.py")
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_DEFAULTS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})

_started: list[int] = []  # children of ours that fork a zygote and end


def launch(paths: BoxPaths) -> None:
    """Start a keeper and wait until its box is ready. ``Busy`` with code "locked" when one lives."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    log = -1
    try:
        log = os.open(
            paths.keeper_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        trace.point("start: asked")
        zygote = None
        try:
            zygote = warm()
        except OSError as error:
            Log(log).failure("start: no zygote", error)
        if zygote is None or not _fork_from_zygote(zygote, paths, log, writer):
            # A pipe of its own: a zygote that stands still holds the other, or its keeper has a word for it.
            for fd in (reader, writer):
                os.close(fd)
            reader = writer = -1
            reader, writer = os.pipe2(os.O_CLOEXEC)
            _spawn(paths, log, writer)
        os.close(writer)
        writer = -1
        trace.point("start: forked")
        _await(reader, paths)
        _collect()
    except FileNotFoundError as error:
        raise NoSuchBox(
            f"there is no box {paths.name}", f"{paths.root} is gone", "cloche ls", code="no-such-box"
        ) from error
    finally:
        for fd in (reader, writer, log):
            if fd >= 0:
                os.close(fd)


def environment() -> dict[str, str]:
    """What a keeper takes of our environment."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


# ---- a keeper by itself


def _spawn(paths: BoxPaths, log: int, writer: int) -> None:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        child = _run([os.fspath(paths.root), "3"], environment(), (null, log, log, writer))
    finally:
        os.close(null)
    try:
        os.waitpid(child, 0)  # it forks the keeper and ends at once
    except ChildProcessError:
        return  # an event loop of this process collected it first


def _run(words: list[str], variables: dict[str, str], fds: tuple[int, ...]) -> int:
    """Start an isolated interpreter of this package with ``fds`` as its descriptors from 0 on."""
    # Sources first move out of the way of the targets.
    sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in fds]
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", os.fspath(SCRIPT), *words],
            variables,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(sources)],
            # Whatever the starter blocks or ignores must not reach the keeper, nor the box through it.
            setsigmask=(),
            setsigdef=_DEFAULTS,
        )
    finally:
        for fd in sources:
            os.close(fd)


# ---- a keeper from the zygote


def zygote_path() -> Path:
    """The socket of the zygote that passes on what we would have passed on, and has loaded what we run."""
    where = f"{surroundings.of()}\0{sys.executable}\0{SCRIPT}"
    return runtime_dir() / f"zygote-{sha256(os.fsencode(where)).hexdigest()[:20]}.sock"


def warm() -> Path | None:
    """See that a zygote loads, or is there already; returns its socket at once.

    ``None`` where keepers are to start by themselves, ``OSError`` where no zygote can be had.
    """
    _collect()
    if not _wanted():
        return None
    path = zygote_path()
    lock = _lock(path.with_suffix(".lock"))
    if lock < 0:
        return path  # held by the one that lives, through a descriptor that it was given
    try:
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
            address.bind(listener, path)
            listener.listen(address.BACKLOG)
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            log = -1
            try:
                log = os.open(path.with_suffix(".log"), _FLAGS | os.O_TRUNC, 0o600)
                words = ["--zygote", os.fspath(path), "3"]
                _started.append(_run(words, {}, (null, log, log, listener.fileno(), lock)))
            finally:
                for fd in (null, log):
                    if fd >= 0:
                        os.close(fd)
    finally:
        os.close(lock)
    return path


def sweep() -> int:
    """Remove the files of zygotes that live no more; how many zygotes they were."""
    swept = 0
    for path in sorted(runtime_dir().glob("zygote-*.lock")):
        try:
            lock = _lock(path)
        except OSError:
            continue  # none of ours, or just taken away
        if lock < 0:
            continue
        try:
            for suffix in (".sock", ".log", ".lock"):
                path.with_suffix(suffix).unlink(missing_ok=True)
            swept += 1
        except OSError:
            continue  # a folder of that name, which is none of ours
        finally:
            os.close(lock)
    return swept


def _wanted() -> bool:
    return os.environ.get(ZYGOTE_VARIABLE) != "0" and surroundings.comparable()


def _lock(path: Path) -> int:
    """The lock file at ``path``, locked; -1 where somebody else has it."""
    while True:
        fd = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _leads_to(path, fd):
                return fd
        except BlockingIOError:
            os.close(fd)
            return -1
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # it was swept away before we had it


def _leads_to(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except FileNotFoundError:
        return False


def _collect() -> None:
    """Take the exit of what we started, so that it does not stay as a zombie."""
    for child in list(_started):
        try:
            ended = os.waitpid(child, os.WNOHANG)[0] != 0
        except ChildProcessError:
            ended = True  # an event loop of this process collected it
        if ended:
            _started.remove(child)


def _fork_from_zygote(zygote: Path, paths: BoxPaths, log: int, writer: int) -> bool:
    """Whether a zygote forked the keeper. Whatever goes wrong with it, the keeper can start by itself."""
    request = {"root": os.fspath(paths.root), "env": environment()}
    until = time.monotonic() + ZYGOTE_PATIENCE
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.settimeout(ZYGOTE_PATIENCE)
            address.connect(sock, zygote)
            # One that still loads shows who started it, of whom the same holds.
            if (other := peer.pid(sock)) != os.getpid() and not surroundings.within_reach(other):
                return False
            data = protocol.encode(request)
            sent = sock.sendmsg([data], protocol.rights((log, writer)))
            if sent < len(data):  # sending nothing fails where the answer is there and who gave it has gone
                sock.sendall(data[sent:])
            sock.settimeout(max(0.001, until - time.monotonic()))
            answer = next(Decoder().feed(sock.recv(65536)), {})
        except (OSError, ProtocolError):
            return False
    return answer.get("ok") is True


# ---- its first word


def _await(reader: int, paths: BoxPaths) -> None:
    decoder = Decoder()
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    until = time.monotonic() + START_TIMEOUT
    while poller.poll(max(0.0, until - time.monotonic()) * 1000):
        data = os.read(reader, 65536)
        if not data:
            break
        for value in decoder.feed(data):
            if value.get("ok"):
                return
            error = value.get("error")
            raise from_dict(error if isinstance(error, dict) else {})
    raise ClocheError(
        f"the keeper of box {paths.name} did not start",
        "it ended, or hangs, before the box was ready",
        f"see {paths.keeper_log}",
        code="keeper-failure",
    )
