"""The steward of a container: Podman brings it up and takes it away, the runtime lets sessions into it.

Podman's conmon(8) is not among the box's processes: it becomes the keeper's child, waits for the end of the
container's first process and then has Podman remove the container, also when keeper and steward were killed.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, NoReturn

from backends.container import inspection, listening, plan, sharing, userns
from backends.container.inspection import Seen
from backends.container.joining import Joiner, Process, Runtime
from backends.container.plan import Plan
from backends.container.podman import Podman
from backends.container.variables import image_variables
from backends.errors import Refused
from backends.keeper.init_session import Spawn, Started
from backends.kernel import namespaces, procfs
from backends.kernel.shares import Share
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, close_from, prctl
from backends.record import NamedTuple
from backends.steward.serving import Steward
from backends.trees.remove import remove
from backends.values import Claim, ProcessId

STARTING = 60.0  # seconds for Podman to start a container
ENDING = 10.0  # seconds for Podman to remove one
_WORDS = 600
_TURN = 0.01  # seconds between two looks at what ended
_TRIES = 3  # to remove a container: where its monitor was killed, Podman finds out by failing once


class Order(NamedTuple):
    """What a steward of a container is made for."""

    podman: Podman
    env: dict[str, str]  # of every call of Podman
    plan: Plan
    runtimes: tuple[str, ...]  # names to try in turn
    process: Process
    box: str
    tree: str  # inside
    home: str  # inside
    rootful: bool
    listener: tuple[str, int] | None  # where a proxy is to be reached inside
    words: tuple[str, ...]  # Podman's own, before the verb
    shares: tuple[Share, ...]
    checkpoint: str = ""  # folder of the state that this launch goes on from

    def argv(self, *words: str) -> list[str]:
        return [*self.words, *words]


class ContainerSteward(Steward):
    def __init__(self, control: socket.socket, death: int, order: Order, hand: socket.socket | None) -> None:
        super().__init__(control, death, order.box)
        self._order = order
        self._hand = hand  # takes the listener
        self._container = ""
        self._first: ProcessId | None = None
        self._first_fd = -1
        self._conmon_fd = -1
        self._joiner: Joiner | None = None
        self._seen: Seen | None = None

    # ---- up

    def bring_up(self) -> dict[str, Any]:
        podman = self._order.podman
        if self._order.rootful:
            userns.shelter(str(podman.store), str(podman.run))
        else:
            userns.enter()
        from backends.container import runtimes

        tried: dict[str, str] = {}
        for name in runtimes.likely(podman, self._order.runtimes):
            runtime = runtimes.known(podman, name, rootful=self._order.rootful)
            if runtime is None:
                tried[name] = "not on this host"
                continue
            why = self._run(runtime)
            if not why:
                runtimes.remember(podman, tried)
                return self._facts(runtime)
            if "image not known" in why:
                raise Refused(
                    f"the container tier cannot start box {self._order.box}",
                    f"the image {self._order.plan.image[:12]} that it was made for is gone",
                    "make or import it again; one of another digest is another image: cloche image ls",
                    code="image-gone",
                )
            tried[name] = why
        raise Refused(
            f"the container tier cannot start box {self._order.box}",
            "; ".join(f"{name}: {why}" for name, why in tried.items()),
            runtimes.REMEDY,
            code="launch-container",
        )

    def _run(self, runtime: Runtime) -> str:
        """Start the container; "" when it runs, else why it does not."""
        wanted = self._order.plan
        former = self._former() if self._order.rootful else ""
        words = self._order.argv(*self.words(runtime))
        status, out, said = call(words, self._order.env, wanted.folder, self.death)
        if former:
            plan.drop_groups(former)  # Podman replaces a container without them
        if status:
            return said or f"podman ended with {status}"
        self._container = out.strip().rpartition("\n")[2]
        pid = _number(f"{wanted.folder}/first")
        conmon = _number(f"{wanted.folder}/conmon")
        self._first_fd = os.pidfd_open(pid)
        self._first = procfs.identify(pid)
        if self._first is None:
            return "its first process ended at once"
        try:
            self._conmon_fd = os.pidfd_open(conmon)
        except ProcessLookupError:
            return "its monitor ended at once"
        self._joiner = self.join(runtime, self._container, pid)
        self._joiner.variables = image_variables(self._record())
        return ""

    def _former(self) -> str:
        """The container of this name that a crash left, "" where there is none."""
        try:
            with open(f"{self._order.podman.store}/{plan.RECORDS}/containers.json", "rb") as file:
                known = json.load(file)
        except (FileNotFoundError, ValueError):
            return ""
        return next((one["id"] for one in known if self._order.plan.name in one.get("names", ())), "")

    def _record(self) -> str:
        """Podman's folder of this container; gone with it."""
        return f"{self._order.podman.store}/{plan.RECORDS}/{self._container}"

    def words(self, runtime: Runtime) -> list[str]:
        """What Podman is told: to start the container."""
        return plan.run(self._order.plan, runtime.program)

    def join(self, runtime: Runtime, container: str, pid: int) -> Joiner:
        """What starts sessions in the container whose first process is ``pid``."""
        return Joiner(runtime, container, self._order.process, self._order.plan.folder, pid)

    def _facts(self, runtime: Runtime) -> dict[str, Any]:
        assert self._first is not None and self._joiner is not None
        # Not before: Podman's monitor is to be the keeper's child, and sessions ours.
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._seen = inspection.look(self._joiner, self._order.tree, self._order.home)
        if self._order.listener is not None and self._hand is not None:
            listening.hand_over(self._first.pid, *self._order.listener, self._hand)
            self._hand.close()
        return {
            "runtime": runtime.name,
            "container": self._container,
            "first": list(self._first),
            "namespace": namespaces.inode(self._first.pid, "pid"),
            "seen": self._seen._asdict(),
            "groups": inspection.groups(self._first.pid),
            "unset": list(sharing.hold(self._first.pid, self._order.shares)),
        }

    def prepare(self) -> None:
        super().prepare()
        self.poll.register(self._first_fd, select.POLLIN)

    def happened(self, fd: int) -> None:
        if fd == self._first_fd:
            self.end()

    def claims(self) -> tuple[Claim, ...]:
        assert self._seen is not None
        return inspection.claims(self._seen)

    # ---- sessions

    def start(self, spawn: Spawn, fds: tuple[int, ...]) -> Started:
        assert self._joiner is not None
        try:
            return self._joiner.start(spawn, fds)
        except TimeoutError:
            self._end_unknown()
            raise

    def _end_unknown(self) -> None:
        """End what came in and never became a session: whatever was stopped on its way."""
        known = {one.started.pid for one in self.pending.values()} | set(self.sessions)
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            for pid in map(int, file.read().split()):
                if pid not in known:
                    os.kill(pid, signal.SIGKILL)

    def below(self) -> dict[int, procfs.Stat]:
        now = procfs.scan()
        me = now.stats[os.getpid()]
        found = {one.pid: one for one in procfs.descendants(now, me.ident)}
        if self._first is not None:
            found.update({one.pid: one for one in procfs.descendants(now, self._first)})
        return found

    # ---- down

    def gone(self) -> None:
        """SIGKILL to the first process ends all the others (pid_namespaces(7)); then Podman's own removal."""
        until = time.monotonic() + ENDING
        if self._first_fd >= 0:
            _kill(self._first_fd)
            # It ends when every process of its namespace was collected, and sessions are our children.
            while not _wait(self._first_fd, min(until, time.monotonic() + _TURN)):
                if time.monotonic() > until:
                    break
                self.discard()
        if self._conmon_fd >= 0:
            _wait(self._conmon_fd, until)
        wanted = self._order.plan
        record = self._record()
        for _ in range(_TRIES):
            if not self._container or not os.path.isdir(record):
                break
            call(self._order.argv(*plan.REMOVE, self._container), self._order.env, wanted.folder)
        if self._order.rootful:
            plan.drop_groups(self._container)
        remove(Path(wanted.folder))


def call(words: list[str], env: dict[str, str], folder: str, third: int = -1) -> tuple[int, str, str]:
    """Run Podman with ``third`` as its descriptor 3; its exit code, what it printed, and its last words."""
    out, said = os.path.join(folder, "podman.out"), os.path.join(folder, "podman.err")
    pid = os.fork()
    if pid == 0:
        _podman(words, env, out, said, third)
    pidfd = os.pidfd_open(pid)
    try:
        if not _wait(pidfd, time.monotonic() + STARTING):
            _kill(pidfd)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(pidfd)
    texts = []
    for path in (out, said):
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read(64 << 10).strip())
    return os.waitstatus_to_exitcode(status), texts[0], _last(texts[1])


def _podman(words: list[str], env: dict[str, str], out: str, said: str, third: int) -> NoReturn:
    try:
        made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        fds = [os.open("/dev/null", os.O_RDONLY), os.open(out, made, 0o600), os.open(said, made, 0o600)]
        if third >= 0:
            fds.append(third)
        high = []
        for fd in fds:
            while fd < 8:
                fd = os.dup(fd)
            high.append(fd)
        for target, fd in enumerate(high):
            os.dup2(fd, target)
        close_from(len(high))
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(0o022)
        os.execve(words[0], words, env)  # noqa: S606
    finally:
        os._exit(127)


def _last(text: str) -> str:
    """The last line that says something; the runtime's own words come wrapped in JSON now and then."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for line in reversed(lines) if line.startswith("Error:")), lines[-1] if lines else "")
    try:
        value = json.loads(found)
        found = str(value.get("msg", found)) if isinstance(value, dict) else found
    except ValueError:
        return found.removeprefix("Error: ")[:_WORDS]
    return found[:_WORDS]


def _number(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    except OSError as error:
        if error.errno != errno.ESRCH:
            raise


def _wait(pidfd: int, until: float) -> bool:
    """Whether the process ended before ``until`` (monotonic seconds)."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))
