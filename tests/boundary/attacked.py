"""The attack program against one box: what the host holds ready for it, what is looked at from outside."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
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
MEMORY = 320  # MiB; a guest needs that much
RESOURCES = f'resources = {{ mem = "{MEMORY}M", procs = 60, tmp = "8M", file_size = "4M" }}'
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
        own = [one for one in netlink.own_addresses() if "." in one and not one.startswith("127.")]
        self.address = own[0] if own else "192.0.2.2"
        self._tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port: int = self._tcp.getsockname()[1]
        self._listeners = [self._tcp]
        for address in (f"\0{self.abstract}", str(self.path)):
            one = socket.socket(socket.AF_UNIX)
            one.bind(address)
            one.listen()
            self._listeners.append(one)
        self.path.chmod(0o777)

    def given(self, *attacks: str) -> str:
        numbers = {name: syscalls.number(name) for name in CALLS}
        return json.dumps(
            {
                "numbers": {name: number for name, number in numbers.items() if number is not None},
                "file": str(self.file),
                "marker": self.marker[::-1],
                "daemon": self.daemon,
                "abstract": self.abstract,
                "path": str(self.path),
                "port": self.port,
                "address": self.address,
                "memory": 2 * MEMORY << 20,
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


def counted(tier: str, rows: list[dict[str, Any]], given: Host) -> None:
    """Each refusal that the table says is counted is in ``rows`` of the denials, and no other is there.

    What the keeper says of limits is not looked at: when it looked decides what it says.
    """
    own = f" {given.address}:{given.port}"
    lines = [f"{row['kind']} {row['object']}".replace(own, " HOST") for row in rows if row["kind"] != "limit"]
    told = {row.at(tier).told: row.ident for row in differences.TABLE if row.at(tier).told}
    missing = {one: ident for one, ident in told.items() if not any(line.startswith(one) for line in lines)}
    assert not missing, (missing, lines)
    assert [line for line in lines if not line.startswith(tuple(told))] == []


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


def compared(world: World, box: Path, tier: str) -> None:
    """Make the attacks in a box of ``world``; compare them with the table, and look from outside."""

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
        # To the host, processes of another kernel are no processes.
        assert given.daemons() == (tier not in ("gvisor", "microvm"))
        denials: Any = world.cloche("denials", box.name, "--json").json()
        counted(tier, denials["rows"], given)
        if tier not in ("process", "supervised"):
            silent = {one["kind"] for one in denials["not_observed"]}
            assert {"fs-read", "fs-write", "exec", "socket", "syscall", "net", "dns"} <= silent
        assert world.cloche("stop", box.name).code == 0
        assert given.daemons() == 0
        assert still(box / "tree" / "attack-beat")
        assert world.left() == []
