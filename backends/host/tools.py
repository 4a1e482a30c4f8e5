"""What programs of this host say of themselves: Podman, OCI runtimes, VMMs, git. Asked all at once, bounded.

Their words are facts like any other. Run by the prober, so that one that hangs holds nobody up.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time

from backends import injected
from backends.record import NamedTuple
from backends.snapshots_host import Fact

PATIENCE = 2.5  # seconds for all of them together
_LONGEST = 1 << 20
_WORDS = 200  # characters of one value
RUNTIMES = ("crun", "runc", "runsc", "kata-runtime", "youki")
VMMS = ("qemu-system-x86_64", "qemu-system-aarch64", "firecracker", "cloud-hypervisor", "msb")
_PROGRAMS = (*RUNTIMES, *VMMS, "git", "podman")


class Said(NamedTuple):
    """What one program answered; ``why`` is "" when it did."""

    text: str
    why: str


def gather(patience: float = PATIENCE) -> tuple[Fact, ...]:
    """Facts about every program, also of those that are absent."""
    asked = {name: [name, "--version"] for name in _PROGRAMS}
    if injected.how("podman") in ("absent", "hung"):
        del asked["podman"]
    struck = injected.how("vmm")
    for name in VMMS if struck else ():
        del asked[name]
    said = ask(asked, patience)
    if struck:
        why = ("absent" if struck == "absent" else f"no answer within {patience:g} s") + injected.MARK
        said.update((name, Said("", why)) for name in VMMS)
    facts = [_podman(said.get("podman")), _socket()]
    facts.append(_many("oci-runtimes", "OCI runtimes", RUNTIMES, said, "container"))
    facts.append(_subordinate())
    facts.append(_many("vmms", "virtual machine monitors", VMMS, said, "virtual machine"))
    facts += [_kvm(), Fact("git", "git", _first(said["git"]), "host")]
    return tuple(facts)


def ask(asked: dict[str, list[str]], patience: float) -> dict[str, Said]:
    """Runs every command line at once and takes what comes within ``patience`` seconds; kills the rest."""
    answers: dict[str, Said] = {}
    running: dict[int, tuple[str, subprocess.Popen[bytes], bytearray]] = {}
    poll = select.poll()
    for name, argv in asked.items():
        program = shutil.which(argv[0])
        if program is None:
            answers[name] = Said("", "absent")
            continue
        try:
            child = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            answers[name] = Said("", error.strerror or "cannot be started")
            continue
        assert child.stdout is not None
        running[child.stdout.fileno()] = (name, child, bytearray())
        poll.register(child.stdout.fileno(), select.POLLIN)
    deadline = time.monotonic() + patience
    while running and (left := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            name, child, data = running[fd]
            part = os.read(fd, 65536)
            data += part
            if part and len(data) < _LONGEST:
                continue
            poll.unregister(fd)
            del running[fd]
            answers[name] = _ended(child, data, deadline)
    for name, child, _ in running.values():
        _end(child)
        answers[name] = Said("", f"no answer within {patience:g} s")
    return answers


def _ended(child: subprocess.Popen[bytes], data: bytearray, deadline: float) -> Said:
    try:
        code = child.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _end(child)
        return Said("", "it does not end")
    assert child.stdout is not None
    child.stdout.close()
    text = data.decode("utf-8", "replace")
    return Said(text, "") if code == 0 else Said(text, f"it ended with {code}")


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def _first(said: Said) -> str:
    """The first line of an answer, as far as it is printable."""
    if said.why:
        return said.why
    line = said.text.strip().partition("\n")[0][:_WORDS]
    return "".join(char if char.isprintable() else "?" for char in line) or "it says nothing"


def _many(ident: str, text: str, names: tuple[str, ...], said: dict[str, Said], group: str) -> Fact:
    here = [f"{name}: {_first(said[name])}" for name in names if said[name].why != "absent"]
    return Fact(ident, text, "; ".join(here) or "none", group)


def _podman(said: Said | None) -> Fact:
    """Asked for its version only: ``podman info`` makes a store and leaves a process behind."""
    struck = injected.how("podman")
    if struck == "rootful":
        said = Said("podman", "")
    if said is None:
        value = "absent" if struck == "absent" else f"no answer within {PATIENCE:g} s"
    elif said.why:
        value = said.why
    else:
        rootless = os.geteuid() != 0 and struck != "rootful"
        value = f"{'rootless' if rootless else 'rootful'}, {_first(said)}"
    return Fact("podman", "Podman", value + (injected.MARK if struck else ""), "container")


def _socket() -> Fact:
    places = (
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
        f"/run/user/{os.geteuid()}/podman/podman.sock",
    )
    open_ones = [path for path in places if os.access(path, os.W_OK)]
    value = f"{', '.join(open_ones)}: whoever reaches it starts containers" if open_ones else "none in reach"
    return Fact("engine-sockets", "sockets of container engines", value, "container")


def _subordinate() -> Fact:
    import pwd

    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = ""
    told = []
    for kind in ("subuid", "subgid"):
        try:
            with open(f"/etc/{kind}", encoding="utf-8", errors="replace") as file:
                rows = [line.strip() for line in file]
        except OSError as error:
            told.append(f"/etc/{kind}: {error.strerror}")
            continue
        own = [row.partition(":")[2] for row in rows if row.partition(":")[0] in (name, str(os.geteuid()))]
        told.append(f"{kind} {', '.join(own) or 'none'}")
    return Fact("subordinate-ids", "subordinate user ids", _first(Said("; ".join(told), "")), "container")


def _kvm() -> Fact:
    return Fact("kvm", "/dev/kvm", kvm(), "virtual machine")


def kvm() -> str:
    """Whether the device opens, which does not tell whether a guest boots."""
    struck = injected.how("kvm")
    if struck == "absent":
        return f"absent{injected.MARK}"
    if struck == "EACCES":
        return f"cannot be opened: Permission denied{injected.MARK}"
    if struck == "boots-nothing":
        return f"opens; no guest boots{injected.MARK}"
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    return "opens; whether a guest boots is not tried by this version"
