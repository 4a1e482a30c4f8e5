"""Lookups on the host by the keeper's helper: what comes back, what it inherits, how each of them ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.keeper import libraries, lookup, lookup_child
from backends.keeper.log import Log
from backends.keeper.lookup import AGAIN, Found, Lookups
from backends.keeper.loop import Loop
from tests.support import ROOT

pytestmark = pytest.mark.real


class Host:
    """Lookups on a loop that the test steps."""

    def __init__(self, log: int) -> None:
        self.errors: list[str] = []
        self.loop = Loop(lambda where, error: self.errors.append(f"{where}: {error!r}"))
        self.lookups = Lookups(self.loop, Log(log), patience=2)
        self.found: list[tuple[str, Found]] = []

    def ask(self, *names: str) -> None:
        for name in names:
            self.lookups.ask(name, lambda found, name=name: self.found.append((name, found)))  # type: ignore[misc]

    def hold(self, name: str, done: Callable[[Found], None]) -> None:
        """As if the helper had the question and no answer."""
        number = len(self.lookups._running)
        self.lookups._running[number] = lookup._Asked(name, done, time.monotonic() + 100)

    def until(self, done: Callable[[], bool], patience: float = 30.0) -> None:
        end = time.monotonic() + patience
        while not done():
            assert time.monotonic() < end, "not in time"
            self.loop.step(0.05)
            self.lookups.tick()

    @property
    def helper(self) -> int:
        """The pid of the helper, by its pidfd."""
        text = Path(f"/proc/self/fdinfo/{self.lookups._pidfd}").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pid:"))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    host = Host(log)
    yield host
    host.lookups.close()
    os.close(log)
    assert host.errors == []


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def test_a_name_that_the_host_knows_is_found(host: Host) -> None:
    host.ask("localhost")
    host.until(lambda: bool(host.found))
    ((name, found),) = host.found
    assert name == "localhost"
    assert found.error == ""
    assert set(found.addresses) <= {"127.0.0.1", "::1"} and found.addresses


def test_a_name_that_cannot_be_has_no_address(host: Host) -> None:
    host.ask("a" * 64 + ".example")
    host.until(lambda: bool(host.found))
    assert host.found[0][1].addresses == ()
    assert host.found[0][1].error in ("none", "again")


def test_nothing_starts_before_the_first_lookup(host: Host) -> None:
    host.lookups.tick()
    assert host.lookups._pidfd == -1


def test_more_than_run_at_once_wait_their_turn_and_more_than_wait_are_told(host: Host) -> None:
    number = lookup.AT_ONCE + lookup.WAITING
    host.ask(*["localhost"] * (number + 3))
    assert host.found == [("localhost", AGAIN)] * 3
    host.until(lambda: len(host.found) == number + 3)
    assert all(found.addresses for _, found in host.found[3:])


def test_what_a_person_asks_waits_for_nothing_that_a_box_asks(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a box that asks for names below a wildcard without end keeps its rules as they are."""
    sent: list[str] = []

    def hold(name: str, done: Callable[[Found], None]) -> None:
        sent.append(name)
        host.hold(name, done)

    monkeypatch.setattr(host.lookups, "_send", hold)
    host.ask(*["box.example"] * (lookup.AT_ONCE + lookup.WAITING + 9))
    told = len(host.found)
    for number in range(3 * lookup.FIRST):
        host.lookups.ask(f"{number}.person.example", lambda found: None, first=True)
    assert len(host.found) == told, "none of them is turned away"
    assert sent[lookup.AT_ONCE :] == [f"{number}.person.example" for number in range(lookup.FIRST)]
    host.lookups._running.clear()
    host.lookups.tick()
    assert sent[lookup.AT_ONCE + lookup.FIRST :][: 2 * lookup.FIRST] == [
        f"{number}.person.example" for number in range(lookup.FIRST, 3 * lookup.FIRST)
    ]


def test_the_helper_has_none_of_the_keeper_s_descriptors_and_nothing_of_its_environment(host: Host) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # the worst case; all of ours are close-on-exec
    try:
        host.ask("localhost")
        host.until(lambda: bool(host.found))
        folder = Path(f"/proc/{host.helper}/fd")
        assert sorted(os.listdir(folder)) == ["0", "1", "2"]
        assert {os.readlink(folder / one) for one in ("1", "2")} == {os.devnull}
        names = {
            one.partition(b"=")[0] for one in Path(f"/proc/{host.helper}/environ").read_bytes().split(b"\0")
        }
        assert names - {b""} == {b"PATH", b"LC_ALL", b"LOCALDOMAIN"}
    finally:
        os.close(reader)
        os.close(writer)


def test_a_helper_that_was_killed_is_replaced_and_what_was_asked_of_it_has_no_answer(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_PAUSE", 0.0)
    host.ask("localhost")
    host.until(lambda: bool(host.found))
    first = host.helper
    os.kill(first, signal.SIGSTOP)
    host.ask("localhost")
    os.kill(first, signal.SIGKILL)
    host.until(lambda: len(host.found) == 2)
    assert host.found[1] == ("localhost", AGAIN)
    host.ask("localhost")
    host.until(lambda: len(host.found) == 3)
    assert host.found[2][1].addresses
    assert host.helper != first


def test_a_lookup_without_an_answer_is_given_up(host: Host) -> None:
    host.ask("localhost")
    host.until(lambda: bool(host.found))
    os.kill(host.helper, signal.SIGSTOP)
    host.ask("localhost")
    host.until(lambda: len(host.found) == 2)
    assert host.found[1] == ("localhost", AGAIN)
    os.kill(host.helper, signal.SIGCONT)


def test_closing_ends_a_helper_even_if_it_hangs(host: Host) -> None:
    host.ask("localhost")
    host.until(lambda: bool(host.found))
    pid = host.helper
    os.kill(pid, signal.SIGSTOP)
    host.lookups.close()
    host.until(lambda: gone(pid))


STUCK = """
import socket, sys, time
sys.path.insert(0, {root!r})
from backends.keeper import lookup_child
socket.getaddrinfo = lambda *_, **__: time.sleep(600)
lookup_child.main(int(sys.argv[1]))
"""


def stuck(patience: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A helper whose lookups never end, with one that runs."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", STUCK.format(root=str(ROOT)), str(patience)],
            stdin=theirs.fileno(),
            start_new_session=True,
        )
    mine.send(b"1 a.example")
    return mine, child


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in text.split()]


def wait(done: Callable[[], bool], patience: float = 30.0) -> None:
    end = time.monotonic() + patience
    while not done():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def test_a_lookup_that_hangs_ends_by_its_alarm_and_the_helper_lives() -> None:
    mine, child = stuck(3)
    with mine:
        seen: list[int] = []

        def runs() -> bool:
            seen[:] = seen or children(child.pid)  # it may have ended when it is looked for again
            return bool(seen)

        wait(runs)
        wait(lambda: all(map(gone, seen)))
        assert child.poll() is None
    assert child.wait(30) == -signal.SIGKILL


def test_lookups_end_with_the_keeper() -> None:
    mine, child = stuck(600)
    wait(lambda: bool(children(child.pid)))
    (running,) = children(child.pid)
    mine.close()
    assert child.wait(30) == -signal.SIGKILL
    wait(lambda: gone(running))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (socket.gaierror(socket.EAI_NONAME, ""), ([], "none")),
        (socket.gaierror(socket.EAI_NODATA, ""), ([], "none")),
        (socket.gaierror(socket.EAI_AGAIN, ""), ([], "again")),
        (socket.gaierror(socket.EAI_FAIL, ""), ([], "again")),
        (OSError(24, "Too many open files"), ([], "again")),
    ],
)
def test_failures_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, error: OSError, expected: tuple[list[str], str]
) -> None:
    def fail(*_words: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert lookup_child.look_up(b"a.example") == expected


# ---------------------------------------------------------------- libraries


def isolated(code: str) -> object:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys, json; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        timeout=60,
    )
    return json.loads(done.stdout)


def test_an_isolated_process_gets_the_library_it_names_and_a_path_without_others() -> None:
    code = """
before = list(sys.path)
from backends.keeper import libraries, resolver
early = "dnslib" in sys.modules
dnslib = libraries.load("dnslib")
from importlib.util import find_spec
print(json.dumps([early, dnslib.__name__, sys.path == before, find_spec("textual") is None]))
"""
    assert isolated(code) == [False, "dnslib", True, True]


def test_a_library_that_is_not_installed_is_refused_by_name() -> None:
    with pytest.raises(Refused) as caught:
        libraries.load("no_such_library_of_ours")
    assert caught.value.code == "library-missing"
    assert "no_such_library_of_ours" in caught.value.what


def test_no_library_comes_from_the_working_folder_or_the_user_s_own_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_library.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Refused):
        libraries.load("planted_library")


def test_a_library_that_fails_to_load_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_library.py").write_text("raise ValueError('broken')\n")
    monkeypatch.setattr(libraries, "places", lambda: [str(tmp_path)])
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            libraries.load("broken_library")
    assert "broken_library" not in sys.modules
