"""The keeper's side of a box that is started for a look: notifications, ``ready``, and a few programs."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time

from backends import injected
from backends.host import proofs_inside
from backends.keeper import init_protocol, relay_net
from backends.keeper.init_protocol import Message
from backends.kernel import cgroups, notify, seccomp
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.tiers.planning import filter_spec
from backends.tiers.protocol import LiveBox
from backends.values import Claim

PROVED, FAILED, NOT_RUN = "proved", "failed", "not run"
PATIENCE = 15.0  # seconds that one probe may take
_ENV = {"PATH": "/usr/bin:/bin"}
_SAID = 4096  # bytes of a program's output that are kept
_BLOCK = 2  # times the limit of memory that the program which must not get it asks for

STARTED_CLAIM = ("started", "A box starts, runs a program and ends.", "no box of this tier can be used")
"""Of every tier; its duration is what a start costs on this host."""

MEMORY_CLAIMS: tuple[tuple[str, str, str], ...] = (
    ("memory-limit", "The limit of memory bites.", "one program could use up the host's memory"),
    (
        "memory-box",
        "Memory is limited for the box as a whole.",
        "many programs of a box together could use up the host's memory",
    ),
)


class ProbeError(Exception):
    """The box of a probe did not do what a box does. ``proofs``: what its init tried, when it came so far."""

    def __init__(self, text: str, proofs: tuple[Claim, ...] = ()) -> None:
        super().__init__(text)
        self.proofs = proofs


class Ended(NamedTuple):
    """A program that ran in the box, or why it could not."""

    status: int  # as of waitpid(2)
    said: str
    refused: str = ""


class Talk:
    """Stands in for a keeper. ``patience``: seconds for all of it."""

    def __init__(self, live: LiveBox, policy: Policy, patience: float = 0.0) -> None:
        self.live = live
        self.policy = policy
        self.spec = filter_spec(policy)
        self.patience = patience or PATIENCE
        self.deadline = time.monotonic() + self.patience
        self.poll = select.poll()
        self.poll.register(live.control, select.POLLIN)
        if live.notify is not None:
            notify.prepare(live.notify)
            self.poll.register(live.notify, select.POLLIN)
        self._programs = 0

    def run(self) -> tuple[Claim, ...]:
        """Wait until the box is ready and run one program in it; what its init proved."""
        rows = self.hear("ready").get("proofs")
        ended = self.program([self.live.shell, "-c", ":"] if self.live.shell else ["true"])
        if ended.refused:
            raise ProbeError(f"a program could not start: {ended.refused}")
        if ended.status != 0:
            raise ProbeError(f"a program ended with wait status {ended.status}")
        return _claims(rows)

    def program(self, argv: list[str]) -> Ended:
        """Run a session to its end."""
        self._programs += 1
        if injected.meant("hang", self.policy.tier):
            argv = ["sleep", "3600"]
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            request = {
                "op": "spawn",
                "id": self._programs,
                "argv": argv,
                "env": _ENV,
                "cwd": "/",
                "pty": None,
            }
            init_protocol.send(self.live.control, request, [null, writer, writer])
            os.close(writer)
            writer = -1
            started = self.hear("spawned", "failed")
            if started.get("ev") == "failed":
                return Ended(-1, "", str(started.get("why")))
            status = self.hear("exit").get("status")
            said = b""
            with contextlib.suppress(BlockingIOError):
                said = os.read(reader, _SAID)
            return Ended(status if isinstance(status, int) else -1, said.decode("utf-8", "replace").strip())
        finally:
            for fd in (reader, writer, null):
                if fd >= 0:
                    os.close(fd)

    # ---- proofs by programs, and by looking from outside

    def memory(self) -> tuple[Claim, Claim]:
        """A program asks for more than the box may have."""
        began = time.perf_counter()
        limit = self.policy.resources.mem or 0
        ended = self.program(["dd", "if=/dev/zero", "of=/dev/null", f"bs={_BLOCK * limit}", "count=1"])
        took = time.perf_counter() - began
        (one, text, _), (whole, whole_text, _) = MEMORY_CLAIMS
        asked = f"a program asked for {_BLOCK * limit >> 20} MiB, {limit >> 20} MiB are allowed"
        killed = os.WIFSIGNALED(ended.status) and os.WTERMSIG(ended.status) == signal.SIGKILL
        by_group = [row for row in self.live.enforcement if row.key == "resources.mem" and not row.missing]
        missing = next((row.missing for row in self.live.enforcement if row.key == "resources.mem"), "")
        if ended.refused:
            return (
                Claim(one, text, NOT_RUN, f"dd could not start: {ended.refused}", took),
                Claim(whole, whole_text, NOT_RUN, missing or "as above", 0.0),
            )
        if ended.status == 0:
            return (
                Claim(one, text, FAILED, f"{asked}: it got them", took),
                Claim(whole, whole_text, FAILED if by_group else NOT_RUN, missing or "as above", 0.0),
            )
        how = (
            "the kernel ended it"
            if killed
            else f"refused: {ended.said.splitlines()[0] if ended.said else '?'}"
        )
        first = Claim(one, text, PROVED, f"{asked}: {how}", took)
        if killed and by_group:
            counted = f"{by_group[0].mechanism}, which counts every process of the box, ended the program"
            return first, Claim(whole, whole_text, PROVED, counted, 0.0)
        why = missing or "no control group ended the program"
        return first, Claim(whole, whole_text, NOT_RUN, why, 0.0)

    def relayed(self, claim: Claim) -> Claim:
        """The claim that a listed destination arrives, as the relay's listener sees it from outside."""
        network = self.live.network
        if claim.result != PROVED or network is None:
            return claim
        try:
            with _accepted(network.relay4) as client:
                found = relay_net.original(client)
        except OSError as error:
            return claim._replace(result=FAILED, evidence=f"{claim.evidence}; the relay saw nothing: {error}")
        if found != proofs_inside.LISTED:
            return claim._replace(result=FAILED, evidence=f"{claim.evidence}; the relay saw {found}")
        return claim._replace(evidence=f"{claim.evidence}, to the relay, which sees where it was to go")

    # ---- messages

    def hear(self, *events: str) -> Message:
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                mark = injected.MARK if injected.how("hang") else ""
                raise ProbeError(f"the box did not say {events[0]} within {self.patience:g} s{mark}")
            for fd, happened in self.poll.poll(left * 1000):
                if fd == self.live.notify:
                    self.answer(fd, happened)
                    continue
                message, fds = init_protocol.recv(self.live.control)
                init_protocol.close(fds)
                if message is None:
                    raise ProbeError(f"the box's init ended before it said {events[0]}")
                if message.get("ev") in events:
                    return message
                if message.get("ev") in ("error", "failed"):
                    what = message.get("what", "a program could not start")
                    raise ProbeError(f"{what}: {message.get('why')}", _claims(message.get("proofs")))

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


def end(live: LiveBox) -> None:
    """End the box and give back all that a keeper would have held of it."""
    os.close(live.death)
    if live.end_patience:  # a steward takes away what it brought up, and then ends by itself
        select.select([live.pidfd], [], [], live.end_patience)
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(live.pidfd, signal.SIGKILL)
    select.select([live.pidfd], [], [], PATIENCE)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(live.init.pid, os.WNOHANG)  # a workbench that probes lives on, and so would the zombie
    live.control.close()
    for fd in (live.pidfd, live.notify):
        if fd is not None:
            os.close(fd)
    if live.network:
        live.network.close()
    if live.proxy:
        live.proxy.listener.close()
    if live.audit is not None:
        live.audit.close()
    cgroups.remove(live.cgroups)


def _claims(rows: object) -> tuple[Claim, ...]:
    return tuple(Claim(*row) for row in rows) if isinstance(rows, list) else ()


def _accepted(listener: socket.socket) -> socket.socket:
    """A connection that was made already; ``OSError`` when there is none."""
    return listener.accept()[0]
