"""A container whose kernel is gVisor: a program between the box and the host's kernel takes its system calls.

Three things differ from other runtimes. The box's first process is given no descriptor, so a process beside
it on the host watches the death pipe. A session on the host is the ``runsc exec`` that waits for it, so what
is left of one is ended inside. And the box's processes are gVisor's own: what is promised inside is what its
kernel refuses, not what the host's does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Iterable
from typing import Any

from backends.container import gvisor_call, gvisor_stand, gvisor_watch, inspection, joining, plan
from backends.container.inspection import Seen
from backends.container.joining import Joiner, Runtime
from backends.container.steward import ContainerSteward, call
from backends.keeper.init_protocol import Message
from backends.keeper.init_session import Spawn, Started
from backends.kernel import procfs, pty
from backends.tiers.limits import NOT_ENFORCED
from backends.tiers.protocol import Refusal
from backends.values import Claim, Enforcement

_PATIENCE = 30.0  # seconds for one session to start
_STEP = 4  # milliseconds between two looks
FIRST = f'trap "" CHLD; while :; do {plan.INIT} sleep 86400; done'
# What its kernel allows and that reaches nothing of the host's: namespaces inside it are its own.
_ITS_OWN = frozenset({"user-namespace", "first", "set-id", "capabilities", "network"})


def refusals(*, net: str, rootful: bool) -> Iterable[Refusal]:
    """What this runtime cannot hold."""
    if net == "allow":
        yield Refusal(
            "runtime",
            "gVisor's network is a program's own and holds no listener of the keeper: the list has no proxy",
            'state runtime = "auto" for a list of destinations, or net.mode = "deny"',
        )
    if rootful:
        yield Refusal(
            "runtime",
            "gVisor is driven rootless only: as root its file server would be root",
            'use it as an ordinary user, or state runtime = "auto"',
        )


class GvisorSteward(ContainerSteward):
    """One box under gVisor."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._watch = 0
        self._rest = 0  # pid of the process that stands for what ended commands left

    def words(self, runtime: Runtime) -> list[str]:
        made = self._order
        if made.checkpoint:
            runtime = gvisor_call.restoring(made.podman, runtime.argv[0], made.checkpoint)
        return plan.run(made.plan, runtime.program, first=FIRST, held=False)

    def join(self, runtime: Runtime, container: str, pid: int) -> Joiner:
        wanted = self._order.plan
        self._watch = gvisor_watch.watch(self.death, pid, wanted.memory, wanted.folder)
        return GvisorJoiner(runtime, container, self._order.process, self._order.plan.folder, pid)

    def claims(self) -> tuple[Claim, ...]:
        assert self._seen is not None
        return claims(self._seen, os.uname().release)

    def _facts(self, runtime: Runtime) -> dict[str, Any]:
        """What is below the sandbox's first process is gVisor's; the box's are those that stand for them."""
        facts = super()._facts(runtime)
        assert isinstance(self._joiner, GvisorJoiner)
        self._joiner.forget()  # the look inside has ended
        watch = procfs.identify(self._watch)
        if watch is None:
            raise OSError("the process that watches the box is gone already")
        return {**facts, "first": list(watch)}

    def below(self) -> dict[int, procfs.Stat]:
        now = procfs.scan()
        return {one.pid: one for one in procfs.descendants(now, now.stats[os.getpid()].ident)}

    def tell(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        if message.get("ev") != "exit" or not isinstance(self._joiner, GvisorJoiner):
            super().tell(message, fds)
            return
        pid = message.get("pid")
        if pid == self._rest:
            self._rest = 0
            if message.get("status"):
                self._joiner.end_all()  # somebody ended it, and means what it stands for
            return
        if not self._rest and self._joiner.last(pid):
            # Before the keeper takes the box for idle; without anything left it is gone at once.
            self._rest = gvisor_watch.stand_for_the_rest(self._joiner.told("ps"))
        super().tell(message, fds)
        self._joiner.ended(pid if isinstance(pid, int) else 0)

    def happened(self, fd: int) -> None:
        if fd == self._first_fd:
            path = os.path.join(self._order.plan.folder, gvisor_watch.OVER)
            with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
                self.tell({"ev": "error", "what": "the box was ended", "why": file.read(200)})
        super().happened(fd)

    def freeze(self) -> int:
        """All of the box at once; its processes on the host are gVisor's, and are not to be stopped."""
        return self._whole("pause")

    def thaw(self) -> int:
        return self._whole("resume")

    def _whole(self, verb: str) -> int:
        assert isinstance(self._joiner, GvisorJoiner)
        status, _, said = call(self._joiner.told(verb), self._order.env, self._order.plan.folder)
        if status:
            raise OSError(f"runsc {verb}: {said}")
        return 1


class GvisorJoiner(Joiner):
    """Sessions by ``runsc exec``, which stands on the host for the command inside."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._inner: dict[int, int] = {}  # pid on the host to the command's inside

    def start(self, spawn: Spawn, fds: tuple[int, ...]) -> Started:
        """As :meth:`Joiner.start`; the process on the host leads a session, for signals to its group."""
        self._number += 1
        base = os.path.join(self._folder, f"x{self._number}")
        master = slave = -1
        try:
            with open(f"{base}.json", "w", encoding="ascii") as file:
                json.dump(self._record(spawn, spawn.argv), file)
            words = [*self._runtime.argv, "--log", f"{base}.log", "--log-format", "json"]
            words += ["exec", "--internal-pid-file", f"{base}.inner", "--process", f"{base}.json"]
            words.append(self._container)
            if spawn.size is not None:
                master = pty.open_master()
                slave = pty.open_slave(master)
                pty.set_size(slave, *spawn.size)
                fds = (slave, slave, slave)
            enter = gvisor_stand.entering(self._runtime.argv, self._container)
            name = os.path.basename(spawn.argv[0])
            stand = gvisor_stand.start(words, fds, enter, name, terminal=spawn.size is not None)
            pid = stand.pid
            pidfd = os.pidfd_open(pid)
            inner = _number_in(f"{base}.inner", pidfd)
            if inner is not None:
                with contextlib.suppress(BrokenPipeError):  # it has ended already
                    os.write(stand.tell, b"%d" % inner)
            os.close(stand.tell)
            if inner is None:
                with contextlib.suppress(ProcessLookupError):  # it ended, or did not start in time
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                os.close(pidfd)
                os.waitpid(pid, 0)
                raise joining.failure(f"{base}.log", spawn.argv[0])
            self._inner[pid] = inner
        except BaseException:
            if master >= 0:
                os.close(master)
            raise
        finally:
            if slave >= 0:
                os.close(slave)
            for kind in ("json", "log", "inner"):
                joining.remove_file(f"{base}.{kind}")
        result, report = os.pipe2(os.O_CLOEXEC)
        os.close(report)
        return Started(pid, pidfd, master, result)

    def told(self, *words: str, last: tuple[str, ...] = ()) -> list[str]:
        """A call of the runtime for this container."""
        return [*self._runtime.argv, *words, self._container, *last]

    def last(self, pid: object) -> bool:
        """Whether the command that ``pid`` stood for was the only one."""
        return list(self._inner) == [pid]

    def forget(self) -> None:
        self._inner.clear()

    def end_all(self) -> None:
        """SIGKILL to every process of the box's user inside (kill(2), pid -1)."""
        enter = gvisor_stand.entering(self._runtime.argv, self._container)
        call([*enter, plan.INIT, "kill", "-9", "-1"], {"PATH": "/usr/bin:/bin"}, self._folder)

    def ended(self, pid: int) -> None:
        """The process on the host is gone: so must be the command, which it may have left running."""
        inner = self._inner.pop(pid, 0)
        if inner:
            words = self.told("kill", "--pid", str(inner), last=("9",))
            call(words, {"PATH": "/usr/bin:/bin"}, self._folder)


def _number_in(path: str, pidfd: int) -> int | None:
    """The number that ``runsc`` writes when the command runs; None when it ended and wrote none."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = False
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:
            text = ""
        if text.isdigit():
            return int(text)
        if ended or time.monotonic() > until:
            return None
        ended = bool(poll.poll(_STEP))


def claims(seen: Seen, own: str) -> tuple[Claim, ...]:
    """What is claimed of a box under gVisor, and that its kernel is not the host's."""
    kept = [one for one in inspection.claims(seen) if one.id not in _ITS_OWN]
    kernel = seen.texts.get("kernel", "").strip()
    status = inspection.fields(seen.texts.get("status", ""))
    none = not status.get("CapEff", "?").strip("0")
    first = seen.proofs.get("kill-first", [False, "it was not run"])
    whole = "end" in seen.texts
    lines = seen.texts.get("net", "").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    rows = (
        (
            "other-kernel",
            "The box's system calls are taken by another kernel than the host's.",
            kernel not in ("", own),
            f"inside {kernel or 'unknown'}, outside {own}",
        ),
        ("capabilities", "Sessions have no capability.", none, f"CapEff {status.get('CapEff')}"),
        ("first", "The box's first process cannot be ended from inside.", first[0] is True, str(first[1])),
        ("network", "The box's network has loopback at most.", set(names) <= {"lo"}, str(names)),
    )
    made = (
        Claim(ident, text, result(held and whole), evidence, round(seen.took, 6))
        for ident, text, held, evidence in rows
    )
    return (*kept, *made)


def result(held: bool) -> str:
    return inspection.PROVED if held else inspection.FAILED


def rows(made: Iterable[Enforcement]) -> tuple[Enforcement, ...]:
    """The rows of a container as they are under gVisor."""
    return tuple(_ROWS.get(row.key, lambda same: same)(row) for row in made)


def _syscalls(row: Enforcement) -> Enforcement:
    return row._replace(
        enforced="taken by gVisor's kernel, a program; the host's kernel takes that program's alone",
        missing="the table is not applied inside: what it refuses elsewhere, gVisor's kernel answers itself",
        mechanism="gVisor, platform ptrace",
        proof="other-kernel",
    )


def _privileges(row: Enforcement) -> Enforcement:
    return row._replace(
        missing="set-id bits can be set on the box's own files; their folder is closed to every other user",
        mechanism="user namespace, no capabilities",
        proof="capabilities",
    )


def _unix(row: Enforcement) -> Enforcement:
    if row.requested != "true":
        return row._replace(enforced=NOT_ENFORCED, missing="gVisor's kernel has them, and none of the host's")
    return row._replace(mechanism="gVisor's own kernel; no host folder", proof="network")


def _runtime(row: Enforcement) -> Enforcement:
    return row._replace(proof="other-kernel", mechanism="runsc, platform ptrace, network none")


def _limit(row: Enforcement) -> Enforcement:
    return row._replace(
        enforced="asked of gVisor's kernel", missing="it shows no limits inside, so none is proved", proof=""
    )


def _file_size(row: Enforcement) -> Enforcement:
    why = "gVisor's kernel takes the limit and lets larger files be written"
    return row._replace(enforced=NOT_ENFORCED, missing=why, mechanism="", proof="")


def _memory(row: Enforcement) -> Enforcement:
    return row._replace(
        enforced=f"soft: looked at every {gvisor_watch.LOOK / 1000} s, the whole box ends beyond it",
        missing="no control group holds it; what gVisor itself needs is not counted",
        mechanism="size of the file that holds gVisor's memory, SIGKILL",
        proof="",
    )


_ROWS = {
    "resources.mem": _memory,
    "syscalls": _syscalls,
    "privileges": _privileges,
    "net.unix": _unix,
    "runtime": _runtime,
    "resources.file_size": _file_size,
    "resources.files": _limit,
    "resources.cpu": _limit,
}
