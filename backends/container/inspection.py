"""What a container is really held to, from commands executed in it: the ground of every row that is shown.

One session, with all that sessions have, tries what was promised to be refused and prints what came of it.
The program is the first process's own (:data:`backends.container.plan.INIT`), so that no image has to bring
one. Its answer comes from inside and is read as such: bounded, and a missing line is a failed proof.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from backends.container.joining import Joiner
from backends.container.plan import INIT
from backends.keeper.init_session import Spawn
from backends.record import NamedTuple
from backends.values import Claim

_PATIENCE = 20.0  # seconds for all proofs together
_LARGEST = 256 << 10
PROVED, FAILED = "proved", "failed"

# Each proof prints "name ok|no evidence". `b` is busybox(1), whose applets need no file in the image.
_SCRIPT = r"""
b={init}
say() {{ echo "=$1 $2 $3"; }}
refused() {{ n=$1; shift; if out=$("$@" 2>&1); then say $n no "$* went through"; else say $n ok "$out"; fi; }}
refused mount $b mount -t tmpfs none /tmp
refused user-namespace $b unshare -U $b true
refused network-namespace $b unshare -n $b true
refused write-outside $b touch /etc/.cloche-proof
refused write-root $b touch /.cloche-proof
refused first $b cat /proc/1/environ
refused kill-first $b kill -9 1
refused device $b mknod {home}/.cloche-device c 1 3
for folder in {tree} {home}; do
  f=$folder/.cloche-proof-$$
  if $b touch $f && $b rm $f; then say work-inside ok $folder; else say work-inside no $folder; fi
done
f={home}/.cloche-set-id-$$
$b touch $f; refused set-id $b chmod 4755 $f; $b rm -f $f
echo ==status; $b cat /proc/self/status
echo ==limits; $b cat /proc/self/limits
echo ==mounts; $b cat /proc/self/mountinfo
echo ==net; $b cat /proc/net/dev
echo ==kernel; $b uname -r
echo ==sizes; $b df -k /tmp /dev/shm
echo ==shell; for s in /bin/bash /usr/bin/bash /bin/sh; do if [ -x $s ]; then echo $s; break; fi; done
echo ==git; for g in /usr/bin/git /bin/git /usr/local/bin/git; do if [ -x $g ]; then echo $g; fi; done
echo ==processes; for p in /proc/[0-9]*; do echo $p; done
echo ==end
"""


class Seen(NamedTuple):
    """What the look inside brought: proofs by name (held, evidence) and texts by name."""

    proofs: dict[str, list[object]]
    texts: dict[str, str]
    took: float


def look(joiner: Joiner, tree: str, home: str) -> Seen:
    """Run the proofs. ``OSError`` when no session can be started at all."""
    began = time.monotonic()
    script = _SCRIPT.format(init=INIT, tree=tree, home=home)
    spawn = Spawn(0, (INIT, "sh", "-c", script), {"PATH": "/nonexistent"}, tree, None)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        started = joiner.start(spawn, (null, writer, writer))
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(null)
        os.close(writer)
    os.close(started.result)
    data = _read(reader, began + _PATIENCE)
    os.close(reader)
    _reap(started.pid, started.pidfd)
    return parse(data.decode("utf-8", "replace"), time.monotonic() - began)


def _read(fd: int, until: float) -> bytes:
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while len(data) < _LARGEST and (left := until - time.monotonic()) > 0 and poll.poll(left * 1000):
        part = os.read(fd, 1 << 16)
        if not part:
            break
        data += part
    return data


def _reap(pid: int, pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended, as it should
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
    os.waitpid(pid, 0)


def parse(text: str, took: float) -> Seen:
    """The answer of the script; what is not of its form is left out, so that its proof is missing."""
    proofs: dict[str, list[object]] = {}
    texts: dict[str, str] = {}
    part = ""
    for line in text.splitlines():
        if line.startswith("=="):
            part = line[2:]
            texts[part] = ""
        elif part:
            texts[part] += line + "\n"
        elif line.startswith("="):
            name, _, rest = line[1:].partition(" ")
            result, _, evidence = rest.partition(" ")
            held = result == "ok" and proofs.get(name, [True, ""])[0] is True
            proofs[name] = [held, evidence[:300]]
    return Seen(proofs, texts, took)


_TRIED = (
    ("mount", "No process of the box can mount anything.", ("mount",)),
    (
        "user-namespace",
        "No new namespace can be made inside, so no capability can be had there.",
        ("user-namespace", "network-namespace"),
    ),
    (
        "write-outside",
        "The image's files cannot be changed.",
        ("write-outside", "write-root"),
    ),
    ("work-inside", "The tree and the home can be written.", ("work-inside",)),
    (
        "first",
        "The box's first process can be neither seen into nor ended from inside.",
        ("first", "kill-first"),
    ),
    ("device", "No device can be made.", ("device",)),
    ("set-id", "No set-user-id or set-group-id bit can be set.", ("set-id",)),
)
_READ = (
    (
        "capabilities",
        "Sessions have no capability and cannot gain one (no_new_privs), under a seccomp filter.",
    ),
    ("network", "The box's network has loopback and nothing else."),
    ("processes", "Processes of the host cannot be seen."),
)
CLAIMS: tuple[tuple[str, str], ...] = (*((ident, text) for ident, text, _ in _TRIED), *_READ)
"""Every claim that :func:`claims` answers for, as id and sentence."""


def claims(seen: Seen) -> tuple[Claim, ...]:
    """The claims of a container with what came of each."""
    rows = []
    sentences = dict(CLAIMS)
    for ident, text, names in _TRIED:
        found = [seen.proofs.get(name, [False, "it was not run"]) for name in names]
        held = all(one[0] is True for one in found)
        rows.append((ident, text, held, "; ".join(str(one[1]) for one in found)))
    status = fields(seen.texts.get("status", ""))
    caps = {name: value for name, value in status.items() if name.startswith("Cap")}
    none = len(caps) == 5 and all(value.strip("0") == "" for value in caps.values())
    rows.append(
        (
            "capabilities",
            sentences["capabilities"],
            none and status.get("NoNewPrivs") == "1" and status.get("Seccomp") == "2",
            ", ".join(f"{name} {status.get(name)}" for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")),
        )
    )
    interfaces = [line.partition(":")[0].strip() for line in seen.texts.get("net", "").splitlines()[2:]]
    rows.append(("network", sentences["network"], interfaces == ["lo"], str(interfaces)))
    count = len(seen.texts.get("processes", "").split())
    rows.append(("processes", sentences["processes"], 0 < count <= 8, f"{count} processes in sight"))
    whole = "end" in seen.texts
    return tuple(
        Claim(ident, text, PROVED if held and whole else FAILED, evidence, round(seen.took, 6))
        for ident, text, held, evidence in rows
    )


def fields(text: str) -> dict[str, str]:
    """``Name: value`` lines (proc_pid_status(5))."""
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found[name] = value.strip()
    return found


def groups(pid: int) -> dict[str, str]:
    """What the control groups of a process hold: ``memory`` and ``pids`` with the limit that is set there.

    Read from the host, in cgroup v2 or v1 (cgroups(7)). Empty where neither has a group with a limit.
    """
    found: dict[str, str] = {}
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, path in rows:
        for name, plain, legacy in (
            ("memory", "memory.max", "memory.limit_in_bytes"),
            ("pids", "pids.max", "pids.max"),
        ):
            places = [f"/sys/fs/cgroup{path}/{plain}"] if not controllers else []
            if name in controllers.split(","):
                places = [f"/sys/fs/cgroup/{name}{path}/{legacy}"]
            for place in places:
                try:
                    with open(place, encoding="ascii") as file:
                        found[name] = file.read().strip()
                except OSError:
                    continue  # no such controller here
    return found
