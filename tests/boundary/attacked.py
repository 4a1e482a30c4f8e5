"""The attack program against one box: what the host holds ready for it, what is looked at from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.kernel import netlink, syscalls
from backends.tiers import differences

if TYPE_CHECKING:
    from tests.container.world import World

PROGRAM = Path(__file__).with_name("attack_program.py")
CALLS = (
    "bpf", "chmod", "clone3", "fchmodat", "io_uring_setup", "keyctl", "mount", "perf_event_open", "ptrace",
    "setns", "unshare", "userfaultfd",
)  # fmt: skip
MIB = 1 << 20
MEMORY, PROCS, FILE_SIZE, TMP = 320 * MIB, 60, 4 * MIB, 8 * MIB  # of the box; a guest needs that much
RESOURCES = f'resources = {{ mem = "{MEMORY >> 20}M", procs = {PROCS}, tmp = "8M", file_size = "4M" }}'
# In sessions of their own, in this order: a limit may end the box, and the daemon is to be there at its end.
ALONE = ("forks", "memory", "daemon")
Run = Callable[[str, str], str]  # the program and its argument to what it printed; "" where it was ended


class Host:
    """A file, a process, and sockets that everybody on the host can reach."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o777)
        self.file = folder / "secret"
        self.file.write_text("the host's")
        self.file.chmod(0o666)
        self.daemon = f"cloche-attack-daemon-{secrets.token_hex(6)}"
        self.marker = f"cloche-attack-host-{secrets.token_hex(6)}"
        self.process = subprocess.Popen([self.marker, "600"], executable="/bin/sleep")
        self.abstract = f"cloche-attack-{secrets.token_hex(6)}"
        self.path = folder / "socket"
        self._tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self._listeners = [self._tcp]
        for address in (f"\0{self.abstract}", str(self.path)):
            one = socket.socket(socket.AF_UNIX)
            one.bind(address)
            one.listen()
            self._listeners.append(one)
        self.path.chmod(0o777)

    def given(self, *attacks: str) -> str:
        own = [one for one in netlink.own_addresses() if "." in one and not one.startswith("127.")]
        numbers = {name: syscalls.number(name) for name in CALLS}
        return json.dumps(
            {
                "numbers": {name: number for name, number in numbers.items() if number is not None},
                "file": str(self.file),
                "marker": self.marker[::-1],
                "daemon": self.daemon,
                "abstract": self.abstract,
                "path": str(self.path),
                "port": self._tcp.getsockname()[1],
                "address": own[0] if own else "192.0.2.2",
                "memory": 2 * MEMORY,
                "attacks": attacks,
                "alone": ALONE,
            }
        )

    def untouched(self) -> None:
        """Whatever the words were: nothing of the host was changed or reached."""
        assert self.file.read_text() == "the host's"
        assert not Path("/usr/cloche-attack").exists()
        assert not Path("/sys/fs/cgroup/cloche-attack").exists()
        assert self.process.poll() is None
        for one in self._listeners:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                peer = one.accept()[1]
                raise AssertionError(f"{one.getsockname()!r} was reached by {peer!r}")

    def daemons(self) -> int:
        """How many of the host's processes have the daemon's name."""
        found = 0
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                with contextlib.suppress(OSError):
                    found += self.daemon.encode() in (path / "cmdline").read_bytes()
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for one in self._listeners:
            one.close()


@contextlib.contextmanager
def host() -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="cloche-attack-", dir="/tmp"))
    made = Host(folder)
    try:
        yield made
        made.untouched()
    finally:
        made.close()
        shutil.rmtree(folder)


def attack(run: Run, given: Host) -> dict[str, str]:
    """Every attack's word; ``ended`` where the session did not live to tell it."""
    program = PROGRAM.read_text()
    found: dict[str, str] = json.loads(run(program, given.given()))
    for ident in ALONE:
        said = run(program, given.given(ident))
        found.update(json.loads(said) if said else {ident: "ended"})
    return found


def compare(tier: str, found: dict[str, str]) -> None:
    """Each word is one that the table has for the tier, and the table has no attack beside those made."""
    known = {row.ident: row.at(tier) for row in differences.TABLE}
    missing = set(known) - set(found)
    assert not missing - ({"x32", "i386"} if os.uname().machine != "x86_64" else set())
    wrong = {
        ident: (word, known[ident].words if ident in known else None)
        for ident, word in found.items()
        if ident not in known or word not in known[ident].words
    }
    assert not wrong, wrong


def counted(tier: str, refused: list[str], noticed: list[str]) -> None:
    """Each count that the table speaks of was made, and no refusal was counted that it does not speak of."""
    told = {row.at(tier).told: row.ident for row in differences.TABLE if row.at(tier).told}
    lines = refused + noticed
    assert {
        one: ident for one, ident in told.items() if not any(line.startswith(one) for line in lines)
    } == {}
    assert [line for line in refused if not line.startswith(tuple(told))] == []


def in_the_tree(tree: Path, tier: str) -> None:
    """What the attacks left in the box's files, as the host sees it."""
    assert not (tree / "attack-device").exists() or stat.S_ISREG((tree / "attack-device").lstat().st_mode)
    bit = bool((tree / "attack-set-id").lstat().st_mode & stat.S_ISUID)
    assert bit is (tier == "gvisor")
    assert not bit or not tree.parent.stat().st_mode & 0o077


def still(path: Path) -> bool:
    """Whether the daemon's file has stopped growing."""
    before = path.stat().st_size
    time.sleep(0.4)
    return before > 0 and path.stat().st_size == before


# ---- the tiers of an image


def image_tier(world: World, box: Path, tier: str) -> None:
    """The attacks in a box that ``world`` made, compared with the table and looked at from outside."""

    def run(program: str, argument: str) -> str:
        words = ("run", box.name, "--", "python3", "-I", "-S", "-c", program, argument)
        for _ in range(5):
            done = world.cloche(*words, timeout=200)
            if "the session did not start" not in done.err:  # the box that a limit ended was still ending
                return done.out
            time.sleep(1)
        raise AssertionError(done.err)

    with host() as given:
        compare(tier, attack(run, given))
        in_the_tree(box / "tree", tier)
        assert given.daemons() == (tier == "container")  # to the host, the others' processes are no processes
        silent = {one[0] for one in world.live(box)["not_observed"]}
        assert {"fs-read", "fs-write", "exec", "socket", "syscall", "net", "limit"} <= silent
        assert world.cloche("stop", box.name).code == 0
        assert given.daemons() == 0
        assert still(box / "tree" / "attack-beat")
        assert world.left() == []


# ---- process and supervised: in a process of their own, since whoever launches a box is as large as its init


def _text(detail: str) -> str:
    """The address alone, of what the harness kept of a connect."""
    return re.sub(r"^Address\(.* text='([^']*)'.*\)$", r"\1", detail)


def kernel_tier(tier: str) -> dict[str, Any]:
    from tests.boundary import harness, networked

    held = harness.policy().resources._replace(mem=MEMORY, procs=PROCS, tmp=TMP, file_size=FILE_SIZE)
    made: contextlib.AbstractContextManager[harness.Box]
    if tier == "supervised":
        from backends.tiers import supervised

        policy = harness.policy(net="allow", egress=networked.LISTED, tier=tier)
        made = harness.box(policy._replace(resources=held), tier=supervised.TIER)
    else:
        made = harness.box(harness.policy()._replace(resources=held))
    with host() as given, made as box:
        seen = networked.Seen(box) if tier == "supervised" else None

        def run(program: str, argument: str) -> str:
            done = box.run(harness.PYTHON, "-I", "-S", "-c", program, argument, timeout=120)
            assert done.exit == 0, done.err
            return done.out

        found = attack(run, given)
        in_the_tree(box.paths.tree, tier)
        before = given.daemons()
        box.end()
        address = json.loads(given.given())["address"]
        refused = [f"{kind} {detail}" for kind, detail in box.refused]
        if seen:
            refused += [f"packet {one.address} {one.protocol} {one.port}" for one in seen.packets]
        noticed = [f"{kind} {_text(detail)}" for kind, detail in box.seen]
        return {
            "found": found,
            "refused": [one.replace(f" {address}", " HOST") for one in refused],
            "noticed": [one.replace(f" {address}", " HOST") for one in noticed],
            "daemons": [before, given.daemons()],
            "still": still(box.paths.tree / "attack-beat"),
        }


if __name__ == "__main__":
    print(json.dumps(kernel_tier(sys.argv[1])))
