"""A steward: what a keeper takes for the init of a box whose first process is not ours.

The keeper forks it at launch. It brings the box up, tells of it through a pipe, then answers spawn, freeze,
thaw and end as :mod:`backends.keeper.init` does, whose loop it is. **A session is a child of the steward**:
the keeper signals it, counts it and reads its end as with a process of any tier. A tier says how a session
starts, what of the host's processes is the box's, and how the box ends.

It ends when the keeper says so, when the control socket closes, when the death pipe does, and on SIGTERM; the
box ends with it whatever way it went (see :meth:`Steward.gone`, and the first process of the box, which
reads the death pipe itself).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from backends.errors import ClocheError, Refused
from backends.keeper import init_protocol
from backends.keeper.init import Init, Settings
from backends.keeper.init_session import Spawn, Started
from backends.kernel import title
from backends.kernel.rlimits import Limits
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, prctl
from backends.tiers.descriptors import keep_only
from backends.values import Claim

_LARGEST = 4 << 20  # bytes of what a steward tells of its launch


class Steward(Init):
    """One box. Subclasses say what is theirs; none of these is called after ``end``."""

    def __init__(self, control: socket.socket, death: int, name: str) -> None:
        super().__init__(control, death, Settings(name, Limits(), None))

    def bring_up(self) -> dict[str, Any]:
        """Start the box; returns what the launch must know of it. ``ClocheError``, ``OSError``: it failed."""
        raise NotImplementedError

    def claims(self) -> tuple[Claim, ...]:
        """What was promised, each with the action that was run for it inside."""
        raise NotImplementedError

    def start(self, spawn: Spawn, fds: tuple[int, ...]) -> Started:
        """A child for ``spawn``; as :func:`backends.keeper.init_session.start`."""
        raise NotImplementedError

    def gone(self) -> None:
        """End the box and wait until nothing of it is left, within the time that a keeper gives."""
        raise NotImplementedError

    def prepare(self) -> None:
        super().prepare()
        # Sessions may be started by a helper that leaves: they come to us, not to the keeper.
        prctl(PR_SET_CHILD_SUBREAPER, 1)

    def prove(self) -> bool:
        claims = self.claims()
        failed = [claim for claim in claims if claim.result == "failed"]
        if failed:
            self.tell(
                {
                    "ev": "error",
                    "what": f"the proof {failed[0].id} failed",
                    "why": f"{failed[0].text} {failed[0].evidence}",
                    "proofs": [list(claim) for claim in claims],
                }
            )
            return False
        self.tell({"ev": "ready", "proofs": [list(claim) for claim in claims]})
        return True

    def end(self) -> NoReturn:
        try:
            self.gone()
        finally:
            os._exit(0)


def fork(
    make: Callable[[socket.socket, int, tuple[int, ...]], Steward],
    name: str,
    keep: tuple[int, ...] = (),
) -> tuple[int, socket.socket, int, int]:
    """Forks a steward made by ``make(control, death, kept)``; ``kept`` are ``keep`` under their new numbers.

    Returns its pid, the control socket, the keeper's end of the death pipe, and a descriptor from which
    :func:`told` reads what came of the launch. The death pipe is a socket, not a pipe: through
    ``/proc/PID/fd`` a pipe could be opened for writing by whoever may look there, and would never end.
    """
    control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    death, held = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _steward(make, name, inner, held.detach(), writer, keep)
    inner.close()
    held.close()
    os.close(writer)
    return pid, control, death.detach(), reader


def told(reader: int) -> dict[str, Any]:
    """What the steward said of its launch, waiting for it; ``ClocheError`` as it was raised there."""
    data = b""
    with os.fdopen(reader, "rb") as file:
        data = file.read(_LARGEST + 1)
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Refused(
            "the box does not start",
            "its steward ended without a word",
            "see keeper.log in the box's folder",
            code="launch-init",
        ) from error
    if not isinstance(value, dict):
        raise TypeError("a steward tells an object")
    if "error" in value:
        raise ClocheError(**value["error"]) if value.get("kind") != "refused" else Refused(**value["error"])
    return value


def _steward(
    make: Callable[[socket.socket, int, tuple[int, ...]], Steward],
    name: str,
    control: socket.socket,
    death: int,
    writer: int,
    keep: tuple[int, ...],
) -> NoReturn:
    try:
        gc.freeze()
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        bare, (death, writer, *kept) = keep_only(control, death, writer, *keep)
        control = socket.socket(fileno=bare.detach())
        title.replace("cloche-steward", f"cloche steward {name}")
        steward = make(control, death, tuple(kept))
        _launch(steward, writer)
        os.environ.clear()
        steward.prepare()
        prctl(PR_SET_DUMPABLE, 1)  # as it was: who may look into it is the person, who owns the box
        if steward.prove():
            steward.serve()
        steward.end()
    except BaseException as error:  # noqa: BLE001 (the box must end, and the keeper be told why)
        try:
            why = f"{type(error).__name__}: {error}"
            init_protocol.send(control, {"ev": "error", "what": "the steward failed", "why": why})
        finally:
            os._exit(3)
    finally:
        os._exit(1)


def _launch(steward: Steward, writer: int) -> None:
    """Brings the box up and tells the launch; does not return when that failed."""
    try:
        answer: Mapping[str, Any] = steward.bring_up()
    except (ClocheError, OSError, RuntimeError, ValueError) as error:
        told = error if isinstance(error, ClocheError) else None
        what = {
            "what": told.what if told else "the box does not start",
            "why": told.why if told else f"{type(error).__name__}: {error}",
            "next_step": told.next_step if told else "see keeper.log in the box's folder",
            "code": told.code if told else "launch-steward",
        }
        kind = "refused" if told is None or isinstance(told, Refused) else "error"
        os.write(writer, json.dumps({"error": what, "kind": kind}).encode())
        try:
            steward.gone()
        finally:
            os._exit(1)
    with os.fdopen(writer, "wb") as file:
        file.write(json.dumps(answer).encode())
