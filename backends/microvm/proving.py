"""The proof of a monitor: a guest without a disk that boots now, runs one command and has another kernel.

The whole attempt is a process of its own with a limit of its own: a hypervisor that hangs, as some do, is
killed with all that it started.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from backends.errors import ClocheError
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, close_from, prctl
from backends.microvm.vmm import Command, Guest, GuestSpec, Image, Limits, Observed, Proof, Vmm

_MEMORY = 256 << 20
_TMP = 8 << 20
_COMMAND = ("/init", "--proof")  # the guest's own program, which prints the word
_WORD = b"cloche-proof"
_LARGEST = 1 << 16


def prove(vmm: Vmm, accelerator: str, patience: float) -> Proof:
    """Boot with ``vmm`` in a process of its own; at most ``patience`` seconds."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="cloche-proof-"))
    reader, writer = os.pipe2(os.O_CLOEXEC)
    # Ends the attempt when we do: its read end is what the boot takes for its death pipe.
    held, death = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    child = os.fork()
    if child == 0:
        _attempt(vmm, accelerator, folder, patience, writer, death)
    os.close(writer)
    death.close()
    try:
        ready, _, _ = select.select([reader], [], [], patience + 2)
        data = os.read(reader, _LARGEST) if ready else b""
    finally:
        held.close()
        os.close(reader)
        _end(child)
        shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - began, 3)
    if not data:
        return Proof(False, f"it hung: no word within {patience:.0f} s", seconds, None)
    said = json.loads(data)
    observed = Observed(*said["observed"]) if said["observed"] else None
    own = os.uname().release
    if observed is None or not said["ran"]:
        return Proof(False, str(said["why"]), seconds, observed)
    if observed.kernel == own:
        return Proof(False, f"inside and outside have the same kernel, {own}", seconds, observed)
    evidence = f"a guest ran a command under kernel {observed.kernel}, the host's is {own}"
    return Proof(True, evidence, seconds, observed)


def _end(child: int) -> None:
    until = time.monotonic() + 3
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _attempt(
    vmm: Vmm, accelerator: str, folder: Path, patience: float, writer: int, death: socket.socket
) -> NoReturn:
    said: dict[str, object] = {"observed": None, "ran": False, "why": "", "name": vmm.name}
    try:
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # a monitor that is started has us for its parent, and ends with us
        signal.alarm(int(patience) + 1)
        spec = GuestSpec(
            name="proof",
            folder=folder,
            image=Image("", "", Path()),
            shares=(),
            accelerator=accelerator,
            memory=_MEMORY,
            cpus=1,
            procs=None,
            tmp=_TMP,
            shm=_TMP,
            uid=os.geteuid(),
            gid=os.getegid(),
            home="/",
            files=(),
            proxy=None,
            egress=(),
        )
        guest = vmm.boot(spec, Limits(None, None, None), death.fileno())
        try:
            said["observed"] = list(guest.observed)
            said["ran"], said["why"] = _run(guest, patience)
        finally:
            guest.end()
            while True:
                os.waitpid(-1, 0)
    except ChildProcessError:
        signal.alarm(0)  # all that it started is gone and collected
    except ClocheError as error:
        said["why"] = error.why
    except OSError as error:
        said["why"] = str(error)
    finally:
        os.write(writer, json.dumps(said).encode()[:_LARGEST])
        os._exit(0)


def _run(guest: Guest, patience: float) -> tuple[bool, str]:
    """Run the one command; whether it printed its word and ended well, and what it did instead."""
    out, into = os.pipe2(os.O_CLOEXEC)
    session = guest.session(Command(1, _COMMAND, {}, "/", None))
    child = os.fork()
    if child == 0:
        try:
            null = os.open("/dev/null", os.O_RDWR)
            fds = [os.dup(fd) + 0 for fd in (null, into, into, *session.keep)]
            high = [os.dup2(fd, 64 + place) for place, fd in enumerate(fds)]
            for place, fd in enumerate(high):
                os.dup2(fd, place if place < 3 else place + 1)
            report = os.dup2(null, 3)
            close_from(4 + len(session.keep))
            session.run(report, tuple(range(4, 4 + len(session.keep))))
        finally:
            os._exit(127)
    os.close(into)
    for fd in session.keep:
        os.close(fd)
    until = time.monotonic() + patience
    data = b""
    status = -1
    ended = os.pidfd_open(child)
    reading = True
    while status < 0 and time.monotonic() < until:
        poll = select.poll()
        for fd, events in ((ended, select.POLLIN), *guest.watched().items()):
            poll.register(fd, events)
        if reading:
            poll.register(out, select.POLLIN)
        for fd, events in poll.poll(1000):
            if fd == ended:
                status = os.waitpid(child, 0)[1]
            elif fd != out:
                guest.ready(fd, events)
            else:
                part = os.read(out, 4096)
                reading = bool(part)
                data += part
    if reading:
        os.set_blocking(out, False)
        data += os.read(out, 4096) if select.select([out], [], [], 0)[0] else b""
    if status == 0 and _WORD in data:
        return True, ""
    return False, f"the command ended with status {status} and printed {data[:80]!r}"
