"""The ``workspace`` tier: a worktree of its own and nothing else. No process is confined by it."""

from __future__ import annotations

import _socket
import gc
import os
import signal
import socket
from typing import TYPE_CHECKING, NoReturn

from backends.errors import Refused
from backends.keeper import init, init_protocol
from backends.keeper.init import Settings
from backends.kernel import procfs
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, prctl
from backends.policy.model import Policy
from backends.tiers import limits
from backends.tiers.descriptors import keep_only
from backends.tiers.limits import NOT_ENFORCED
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal
from backends.values import Enforcement, NotObserved

if TYPE_CHECKING:
    from backends.tiers.builder import Builder

UNCONFINED = "nothing confines the process: it runs as you"
JOURNAL = "the journal and the keeper are within its reach: it can rewrite what they say"


class WorkspaceTier:
    name = "workspace"
    confined = False
    promise = "edits land in a separate Git worktree, branch and index, with a pinned base"
    stays_false = f"{UNCONFINED}; {JOURNAL}"

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        """Keys that would read as a boundary. Grants and network of a profile are shown as not enforced."""
        if policy.net.mode == "allow":
            return (
                Refusal(
                    "net.mode",
                    f"at this tier {UNCONFINED}, so no list of destinations holds",
                    'use --tier supervised, or state net.mode = "deny", shown as not enforced, or "host"',
                ),
            )
        return ()

    def begin(self, begun: Builder | None) -> None:
        if begun is not None:
            begun.abandon()

    def launch(self, spec: LaunchSpec) -> LiveBox:
        refusals = self.refusals(spec.policy)
        if refusals:
            first = refusals[0]
            raise Refused(f"the workspace tier cannot take {first.key}", first.why, first.remedy, code="tier")
        held = limits.hold(spec.box_name, spec.policy.resources, confined=False)
        control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        death_read, death = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _launcher(inner, death_read, Settings(spec.box_name, held.limits, None))
        inner.close()
        os.close(death_read)
        pidfd = os.pidfd_open(pid)
        ident = procfs.identify(pid)
        if ident is None:
            os.close(pidfd)
            os.close(death)
            control.close()
            raise Refused(
                f"box {spec.box_name} cannot start",
                "its first process is gone already",
                "see keeper.log in the box's folder",
                code="launch-init",
            )
        return LiveBox(
            init=ident,
            pidfd=pidfd,
            control=control,
            notify=None,
            death=death,
            enforcement=(*_enforcement(spec.policy), *held.rows),
            not_observed=tuple(
                NotObserved(kind, f"workspace: {UNCONFINED}, so nothing is refused")
                for kind in ("fs-read", "fs-write", "exec", "net", "dns", "socket", "syscall")
            ),
            cgroups=(),
            inside_tree=str(spec.paths.tree),
            inside_home=os.path.expanduser("~"),
        )


def _launcher(inner: socket.socket, death: int, settings: Settings) -> NoReturn:
    """The tree's subreaper: orphans become its children, so that a stop finds them."""
    control: _socket.socket = inner
    try:
        gc.freeze()
        os.environ.clear()  # it would be in init's memory
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        control, (death,) = keep_only(inner, death)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller must hear of it
        try:
            why = f"{type(error).__name__}: {error}"
            init_protocol.send(control, {"ev": "error", "what": "the launcher starts", "why": why})
        finally:
            os._exit(3)
    init.main(control, death, settings)


def _enforcement(policy: Policy) -> tuple[Enforcement, ...]:
    rows = (
        ("fs.read", f"{len(policy.fs.read)} paths"),
        ("fs.write", f"{len(policy.fs.write)} paths"),
        ("fs.deny", f"{len(policy.fs.deny)} paths"),
        ("net.mode", policy.net.mode),
        ("syscalls", "the table of refused calls"),
        ("privileges", "none"),
        ("journal", "out of the box's reach"),
    )
    whys = {"journal": JOURNAL}
    return tuple(
        Enforcement(key, requested, NOT_ENFORCED, whys.get(key, UNCONFINED), "", "")
        for key, requested in rows
    )


TIER = WorkspaceTier()
