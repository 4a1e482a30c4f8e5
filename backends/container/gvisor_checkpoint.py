"""Saving the processes of a box under gVisor, and what must be the same where they go on.

``runsc checkpoint`` writes all that gVisor's kernel holds (memory, processes, what lies in its own file
systems) and ends the container. Files of the box's own folders are on the host, so they are copied beside it.

Source: https://gvisor.dev/docs/user_guide/checkpoint_restore/; ``runsc checkpoint --help``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.container import gvisor_call, images, places, plan, runtimes
from backends.container.podman import prepare
from backends.errors import ClocheError, Refused
from backends.record import NamedTuple

FOLDER = "checkpoint"  # in the box's own folder
STATE = "state"
NEXT = "next"  # in FOLDER: there when the next launch is to go on from it
_PATIENCE = 120.0  # seconds to write what may be gigabytes
_LARGEST = 64 << 10
# "host:" is gVisor's name of a descriptor of the host's. The first three are Podman's, and lead nowhere.
_ATTACHED = f"""\
b={plan.INIT}
for p in /proc/[0-9]*; do
  [ "$p" = "/proc/$$" ] && continue
  for f in "$p"/fd/*; do
    case $($b readlink "$f") in
      host:\\[[123]\\]) ;;
      host:*) echo "$p $($b tr '\\000\\n' '  ' < "$p/cmdline")"; break ;;
    esac
  done
done
echo end
"""


def folder(paths: BoxPaths) -> Path:
    return paths.root / FOLDER


def version() -> str:
    """The one line of ``runsc --version`` that tells releases apart; "" where there is none."""
    file = runtimes.program(gvisor_call.NAME)
    if file is None:
        return ""
    done = subprocess.run(
        [file, "--version"], capture_output=True, text=True, check=False, timeout=10, env={}
    )
    return done.stdout.partition("\n")[0][:120]


class Running(NamedTuple):
    """A live container, as it is asked from outside."""

    words: tuple[str, ...]  # of runsc, in the namespaces of the box's steward
    env: dict[str, str]
    ident: str


def running(paths: BoxPaths, steward: int) -> Running:
    """The container of a live box. ``steward``: the pid of its steward.

    It has to be asked in that one's namespaces: from elsewhere ``runsc`` takes a sandbox that it may not
    signal for one that has ended, and takes it away.
    """
    engine = prepare()
    file = runtimes.program(gvisor_call.NAME)
    if file is None:
        raise Refused(
            "the box is not saved", "there is no runsc", "as root: apt-get install runsc", code="no-runsc"
        )
    words = ("inspect", "--format", "{{.Id}}", places.name(paths))
    ident = images.call(engine, *words, doing="finding the box's container").strip()
    enter = ("nsenter", f"--target={steward}", "--user", "--mount", "--preserve-credentials", "--")
    return Running((*enter, *gvisor_call.runtime(engine, file).argv), engine.environment(), ident)


def attached(box: Running) -> tuple[str, ...]:
    """The commands of processes that hold a stream of somebody outside, which is nowhere when they go on.

    Hostile text, bounded and printable. ``ClocheError`` when the box does not tell.
    """
    user = f"{plan.UID}:{plan.UID}"
    code, out, said = _run(box, "exec", "--user", user, box.ident, plan.INIT, "sh", "-c", _ATTACHED)
    if code or not out.endswith("end\n"):
        raise ClocheError(
            "it cannot be told which processes of the box hold streams of others",
            said or "the box did not say",
            "end the box and start it again: cloche stop",
            code="checkpoint-failed",
        )
    lines = [line.split(" ", 1) for line in out[:_LARGEST].splitlines() if line != "end"]
    return tuple("".join(one if one.isprintable() else "?" for one in line[-1])[:120] for line in lines)


def save(box: Running, into: Path) -> int:
    """Write the box's processes below ``into`` and end its container; the bytes written.

    ``ClocheError`` with gVisor's words when it does not; the container may have ended all the same.
    """
    into.mkdir(mode=0o700)
    code, _, said = _run(box, "checkpoint", "--image-path", os.fspath(into), box.ident)
    size = sum(one.stat().st_size for one in into.iterdir())
    if code or not size:
        raise ClocheError(
            "the box is not saved",
            said or "gVisor wrote nothing",
            "end the box and start it again: cloche stop; what runs in it may use what gVisor cannot save",
            code="checkpoint-failed",
        )
    return size


def _run(box: Running, *words: str) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            [*box.words, *words],
            env=box.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return 1, "", f"no answer of gVisor within {_PATIENCE:.0f} s"
    said = done.stderr.decode("utf-8", "replace").strip()[-400:]
    return done.returncode, done.stdout.decode("utf-8", "replace"), said


def taken(paths: BoxPaths) -> str:
    """The state that this launch is to go on from, "" for a launch like any other; true once."""
    mark = folder(paths) / NEXT
    try:
        mark.unlink()
    except FileNotFoundError:
        return ""
    return os.fspath(folder(paths) / STATE)
