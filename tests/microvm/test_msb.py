"""microsandbox as a monitor: the real one as far as it boots here, and the rest with a stand-in."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.kernel import procfs
from backends.microvm import msb_guest, msb_store, msb_words, vmm
from backends.microvm.msb import VMM
from backends.microvm.vmm import HARDWARE, TCG, Command, Guest, Limits, Observed
from tests.microvm.msb_recorder import spec

STANDIN = Path(__file__).with_name("msb_standin.py")
NONE = Limits(None, None, None)


@pytest.fixture
def death() -> Iterator[int]:
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


def machines() -> list[str]:
    found = []
    for pid in procfs.scan().stats:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [b"machine"] or words[:1] == [b"msb-machine"]:
            found.append(f"{pid} {words}")
    return found


def test_it_is_one_of_the_monitors_and_knows_no_emulation() -> None:
    assert vmm.get("microsandbox") is VMM
    assert TCG not in VMM.accelerators
    assert VMM.version().startswith("msb 0.7")


def test_the_real_one_boots_a_guest_or_says_what_failed_and_leaves_nothing() -> None:
    proof = VMM.prove(HARDWARE, 28)
    assert proof.proved or proof.evidence
    if not proof.proved:
        assert any(word in proof.evidence for word in ("relay", "come up", "hung", "Kvm", "KVM")), (
            proof.evidence
        )
    assert machines() == []
    assert "cloche-" not in msb_store.call(["ls", "--format", "json"]).out


def test_root_is_told_why_it_gets_none() -> None:
    keys = {one.key for one in VMM.obstacles(HARDWARE)}
    assert ("vmm" in keys) == (os.geteuid() == 0)


def test_where_it_is_absent_the_remedy_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msb_store, "find", lambda: "")
    (one,) = VMM.obstacles(HARDWARE)
    assert "pip install microsandbox" in one.remedy
    assert VMM.version() == ""


def test_a_store_whose_sockets_would_have_too_long_a_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 90)))
    with pytest.raises(Refused) as caught:
        msb_store.home()
    assert "XDG_CACHE_HOME" in caught.value.next_step


def test_the_image_in_its_store_is_the_pinned_one_and_is_loaded_once(tmp_path: Path) -> None:
    image = spec(tmp_path).image
    reference = msb_store.load(image, tmp_path)
    assert msb_store.load(image, tmp_path) == reference
    assert not (tmp_path / "image.tar").exists()


# ---- with the stand-in


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, death: int) -> Iterator[Guest]:
    monkeypatch.setattr(msb_store, "find", lambda: str(STANDIN))
    monkeypatch.setattr(msb_store, "load", lambda image, folder: "localhost/none:1")
    monkeypatch.setattr(msb_guest, "machine_of", _child)
    # What it shares is what was recorded.
    monkeypatch.setattr("backends.microvm.msb_answers.differences", lambda asked, got: ())
    folder = tmp_path / "launch"
    folder.mkdir(mode=0o700)
    made = VMM.boot(spec(folder), NONE, death)
    try:
        yield made
    finally:
        made.end()
        for fd in made.monitors:
            os.close(fd)
    assert machines() == []


def _child(runner: int, name: str) -> int | None:
    for pid, stat in procfs.scan().stats.items():
        if stat.parent == runner and stat.name == "sleep":
            return os.pidfd_open(pid)
    return None


PATH = {"PATH": "/usr/bin:/bin"}


def _run(
    guest: Guest, number: int, argv: tuple[str, ...], env: dict[str, str], cwd: str = "/"
) -> tuple[int, str]:
    session = guest.session(Command(number, argv, env, cwd, None))
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        os.dup2(into, 1)
        os.dup2(into, 2)
        session.run(os.open("/dev/null", os.O_WRONLY), ())
        os._exit(127)
    os.close(into)
    with os.fdopen(out, errors="replace") as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    session.done(status)
    return os.waitstatus_to_exitcode(status), text


def test_a_booted_guest_says_its_kernel(guest: Guest) -> None:
    assert guest.observed == Observed(os.uname().release, os.uname().machine)
    assert len(guest.monitors) == 2


def test_a_command_has_exactly_its_environment_its_words_and_its_code(guest: Guest) -> None:
    env = {"A": "b c", "Q": 'it\'s "$HOME"\n'}
    assert _run(guest, 1, ("env",), env) == (0, 'A=b c\nQ=it\'s "$HOME"\n\n')
    words = ("printf", "%s|", "a b", "", "*", "'")
    assert _run(guest, 2, words, PATH) == (0, "a b||*|'|")
    assert _run(guest, 3, ("sh", "-c", "exit 7"), PATH)[0] == 7
    assert _run(guest, 4, ("sh", "-c", "kill -9 $$"), PATH)[0] == 137
    assert _run(guest, 5, ("pwd",), PATH, "/usr") == (0, "/usr\n")
    assert _run(guest, 6, ("/no/such",), {})[0] == 127
    assert _run(guest, 7, ("true",), {}, "/no/such")[0] == 126


def test_what_a_command_left_running_ends_with_it(guest: Guest, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = f"sleep 60 >/dev/null 2>&1 & echo $! > {mark}"
    assert _run(guest, 1, ("sh", "-c", text), PATH)[0] == 0
    fd = os.pidfd_open(int(mark.read_text()))
    assert select.select([fd], [], [], 10)[0]
    os.close(fd)
    assert not (tmp_path / "launch" / "orders" / "1").exists()


def test_a_command_that_env_would_take_for_a_variable_is_refused(guest: Guest) -> None:
    with pytest.raises(OSError):
        guest.session(Command(1, ("A=b",), {}, "/", None))


def test_a_freeze_is_told_only_when_it_is_one(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    guest.freeze(done.append)
    guest.thaw(done.append)
    assert done == [1, 1]
    monkeypatch.setattr(msb_words, "pause", msb_words.resume)
    with pytest.raises(OSError):
        guest.freeze(done.append)


def test_a_guest_whose_machine_ends_is_lost(guest: Guest) -> None:
    os.kill(next(pid for pid, stat in procfs.scan().stats.items() if stat.name == "sleep" and _is(pid)), 9)
    until = time.monotonic() + 10
    ready: list[int] = []
    while not ready and time.monotonic() < until:
        poll = select.poll()
        for fd, events in guest.watched().items():
            poll.register(fd, events)
        ready = [fd for fd, _ in poll.poll(1000)]
    with pytest.raises(ConnectionResetError):
        guest.ready(ready[0], select.POLLIN)


def _is(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"msb-machine")
    except OSError:
        return False


def test_a_boot_whose_keeper_goes_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(msb_store, "load", lambda image, folder: "localhost/none:1")
    folder = tmp_path / "launch"
    folder.mkdir(mode=0o700)
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(Refused):
        VMM.boot(spec(folder), NONE, reader)
    os.close(reader)
    assert machines() == []
