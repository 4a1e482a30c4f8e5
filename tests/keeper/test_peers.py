"""Who may talk to a keeper, and what a keeper refuses to start from."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.boxes import liveness, store
from backends.boxes.layout import BoxPaths, socket_path
from backends.boxes.manifest import load, save
from backends.errors import Busy, NoSuchBox, Refused, UsageError
from backends.keeper import client, protocol, requests, start
from backends.keeper.client import KeeperClient
from tests.conftest import Home
from tests.keeper import boxes
from tests.keeper.boxes import Running, sh
from tests.support import descriptors_of, wait_until

CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
HELLO = protocol.encode({"v": 1, "id": 1, "op": "hello", "fds": 0})


def raw(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(str(path))
    return sock


def answer_to_a_child(path: Path, flags: int, *, fork: bool) -> bytes:
    """What the keeper says to a process that went into new namespaces before it connected."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            uid, gid = os.geteuid(), os.getegid()
            if ctypes.CDLL(None, use_errno=True).unshare(flags):
                os.write(writer, b"no namespace")
                os._exit(1)
            if flags & CLONE_NEWUSER:
                for name, text in (
                    ("setgroups", "deny"),
                    ("uid_map", f"{uid} {uid} 1"),
                    ("gid_map", f"{gid} {gid} 1"),
                ):
                    fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
                    os.write(fd, text.encode())
                    os.close(fd)
            if fork and os.fork():
                os.wait()
                os._exit(0)
            assert os.geteuid() == uid
            with raw(path) as sock:
                try:
                    sock.sendall(HELLO)
                    data = sock.recv(4096)
                except (BrokenPipeError, ConnectionResetError):
                    data = b""
            os.write(writer, data or b"hung up")
        finally:
            os._exit(0)
    os.close(writer)
    said = b""
    while data := os.read(reader, 4096):
        said += data
    os.close(reader)
    os.waitpid(child, 0)
    return said


@pytest.mark.boundary
def test_the_same_uid_in_another_user_namespace_is_turned_away(box: BoxPaths, keeper: KeeperClient) -> None:
    path = socket_path(box)
    assert b'"ok":true' in answer_to_a_child(path, 0, fork=False)
    assert answer_to_a_child(path, CLONE_NEWUSER, fork=False) == b"hung up"
    assert answer_to_a_child(path, CLONE_NEWUSER | CLONE_NEWPID, fork=True) == b"hung up"
    wait_until(lambda: "another user namespace" in box.keeper_log.read_text(), "it says why")


@pytest.mark.boundary
def test_a_process_in_another_pid_namespace_is_turned_away(box: BoxPaths, keeper: KeeperClient) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    assert answer_to_a_child(socket_path(box), CLONE_NEWPID, fork=True) == b"hung up"
    wait_until(lambda: "another pid namespace" in box.keeper_log.read_text(), "it says why")


@pytest.mark.boundary
def test_another_user_cannot_reach_the_socket(box: BoxPaths, keeper: KeeperClient) -> None:
    path = socket_path(box)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    if os.geteuid() == 0:
        code = (
            "import os,socket,sys\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "try:\n socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
            "except PermissionError: sys.exit(7)\n"
        )
        assert subprocess.run(["/usr/bin/python3", "-c", code, str(path)], check=False).returncode == 7


@pytest.mark.boundary
def test_nothing_inside_reaches_the_keeper_s_socket(box: BoxPaths, keeper: KeeperClient) -> None:
    path = socket_path(box)
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    ran = boxes.run(keeper, "/usr/bin/python3", "-c", code)
    assert ran.exit == 1
    assert b"FileNotFoundError" in ran.err
    rows = {(one["kind"], one["object"]) for one in keeper.call("tally")["rows"]}
    assert ("socket", f"unix:{path}") in rows


@pytest.mark.boundary
def test_a_policy_that_was_changed_is_refused(box: BoxPaths) -> None:
    text = box.policy.read_bytes()
    box.policy.write_bytes(text.replace(b'"mode":"deny"', b'"mode":"host"'))
    with pytest.raises(Refused) as refusal:
        client.start(box)
    assert refusal.value.code == "policy-digest"
    assert liveness.read(box).kind == ""
    assert not box.live.exists()
    box.policy.write_bytes(text)
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo as agreed").exit == 0


def test_a_policy_that_is_not_canonical_is_refused_even_with_its_digest(box: BoxPaths) -> None:
    from backends.policy import canonical

    text = json.dumps(json.loads(box.policy.read_bytes()), indent=1).encode()
    box.policy.write_bytes(text)
    save(box, load(box)._replace(policy_digest=canonical.digest(text)))
    with pytest.raises(Refused) as refusal:
        client.start(box)
    assert refusal.value.code == "policy-broken"


def test_a_tier_that_cannot_take_the_policy_is_refused_with_its_reason(home: Home) -> None:
    policy = boxes.POLICY._replace(image="debian")
    paths = boxes.make(policy=policy)
    with pytest.raises(Refused) as refusal:
        client.start(paths)
    assert "image" in refusal.value.what
    assert refusal.value.next_step
    assert not socket_path(paths).exists()


@pytest.mark.parametrize("state", ["proposed", "applied", "aborted"])
def test_a_box_that_may_not_run_is_refused(box: BoxPaths, state: str) -> None:
    save(box, load(box)._replace(state=state))
    with pytest.raises(Refused) as refusal:
        client.start(box)
    assert refusal.value.code == "wrong-state"


def test_a_box_that_was_removed_is_no_box(box: BoxPaths) -> None:
    with pytest.raises(NoSuchBox):
        client.start(BoxPaths(box.root.with_name("other")))
    with pytest.raises(NoSuchBox) as missing:
        client.connect(box)
    assert missing.value.code == "not-live"


def test_the_lock_of_another_verb_keeps_a_keeper_out(box: BoxPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RACE_PATIENCE", 0.2)
    with store.lock(box, "rm"):
        with pytest.raises(Busy) as refusal:
            client.start(box)
        assert refusal.value.code == "locked"
        assert "cloche rm" in refusal.value.why
    with boxes.started(box) as keeper:
        assert sh(keeper, "true").exit == 0


def test_a_live_keeper_holds_the_lock(box: BoxPaths, keeper: KeeperClient) -> None:
    with pytest.raises(Busy), store.lock(box, "rm"):
        pass


def test_many_starters_get_one_keeper(box: BoxPaths) -> None:
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with client.start(box) as keeper:
                    code = 0 if sh(keeper, "true").exit == 0 else 2
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert len(boxes.records(box, "launch")) == 1
    boxes.stop(box)


def test_a_dead_keeper_s_socket_is_replaced(box: BoxPaths) -> None:
    path = socket_path(box)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo new").out == b"new\n"


def test_another_version_is_told_and_nothing_else_is_done(box: BoxPaths, keeper: KeeperClient) -> None:
    with raw(socket_path(box)) as sock:
        sock.sendall(protocol.encode({"v": 2, "id": 5, "op": "stop", "fds": 0}))
        reply = json.loads(sock.recv(65536))
    assert (reply["id"], reply["ok"], reply["error"]["code"]) == (5, False, "protocol-version")
    assert sh(keeper, "true").exit == 0


@pytest.mark.parametrize(
    "sent",
    [b"\xff\xfe\n", b"[1]\n", b"{" * 5000 + b"\n", b"x" * (protocol.MAX_REQUEST + 10)],
    ids=["no text", "no object", "deep", "endless"],
)
def test_nonsense_costs_its_own_connection_only(box: BoxPaths, keeper: KeeperClient, sent: bytes) -> None:
    with raw(socket_path(box)) as sock:
        try:
            sock.sendall(sent)
            assert sock.recv(65536) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert sh(keeper, "true").exit == 0


def test_descriptors_that_nobody_asked_for_are_closed(box: BoxPaths, keeper: KeeperClient) -> None:
    pid = keeper.call("hello")["keeper"]
    before = descriptors_of(pid)
    reader, writer = os.pipe()
    for _ in range(3):
        with raw(socket_path(box)) as sock:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("3i", writer, writer, writer))]
            for _ in range(4):
                try:
                    sock.sendmsg([HELLO], rights)
                except (BrokenPipeError, ConnectionResetError):
                    break
    os.close(writer)
    assert os.read(reader, 1) == b"", "no copy of the descriptor is left in the keeper"
    os.close(reader)
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) == before, "none leaks")


def test_wrong_descriptors_are_refused_and_closed(keeper: KeeperClient) -> None:
    reader, writer = os.pipe()
    with pytest.raises(UsageError):
        keeper.call("run", fds=(writer,), argv=["true"], env={})
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_an_unknown_operation_is_told(keeper: KeeperClient) -> None:
    with pytest.raises(UsageError) as refusal:
        keeper.call("apply")
    assert refusal.value.code == "unknown-operation"


def test_a_client_that_reads_nothing_delays_nobody(box: BoxPaths, keeper: KeeperClient) -> None:
    Running(keeper, ["/bin/sh", "-c", "seq 1 1000000"]).finish()
    with raw(socket_path(box)) as lazy:
        request = protocol.encode(
            {"v": 1, "id": 1, "op": "output", "fds": 0, "session": None, "limit": 65536}
        )
        lazy.setblocking(False)
        try:
            for _ in range(5000):
                lazy.send(request)
        except (BlockingIOError, BrokenPipeError):
            pass
        began = time.monotonic()
        for _ in range(20):
            keeper.call("hello")
        assert time.monotonic() - began < 50  # the lazy one never reads


def test_clients_that_vanish_in_the_middle_leave_nothing(box: BoxPaths, keeper: KeeperClient) -> None:
    pid = keeper.call("hello")["keeper"]
    sh(keeper, "true")
    before = descriptors_of(pid)
    for _ in range(30):
        other = client.connect(box)
        running = Running(other, ["/bin/sh", "-c", "echo x; exit 0"])
        other.send("subscribe")
        other.close()
        running.drop()
    wait_until(lambda: keeper.call("stat")["sessions"] == 0, "their sessions end")
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before, "their descriptors are closed")


def test_subscribers_get_each_record_and_collapsed_notices(box: BoxPaths, keeper: KeeperClient) -> None:
    with client.connect(box) as other:
        other.call("subscribe")
        began = time.monotonic()
        sh(keeper, "for i in $(seq 1 200); do echo $i; done; sleep 0.3")
        took = time.monotonic() - began
        got = []
        for event in other.events(timeout=60):
            got.append(event)
            if event.get("record", {}).get("data", {}).get("to") == "idle":
                break
        got += other.events(timeout=1.5)
    kinds = [one["record"]["kind"] for one in got if one["event"] == "record"]
    assert kinds[0] == "session-start" or "session-start" in kinds
    assert "session-exit" in kinds and "transition" in kinds
    seqs = [one["record"]["seq"] for one in got if one["event"] == "record"]
    assert seqs == sorted(set(seqs))
    notices = [one for one in got if one["event"] == "output"]
    assert 1 <= len(notices) <= 8 + took / requests.QUIET  # not one for each line


def test_an_answer_counts_although_whoever_gave_it_has_gone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that is told to stop answers and goes, before the one who asked gets its turn again."""
    path = home.root / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        pass_on = KeeperClient._pass

        def passed(self: KeeperClient, data: bytes, fds: Sequence[int]) -> int:
            sent = pass_on(self, data, fds)
            peer, _ = listener.accept()
            with peer:
                number = json.loads(peer.recv(4096))["id"]
                peer.sendall(protocol.encode({"id": number, "ok": True, "ended": 7}))
            return sent

        monkeypatch.setattr(KeeperClient, "_pass", passed)
        with KeeperClient(path) as asking:
            assert asking.call("stop") == {"ended": 7}


def test_a_keeper_that_a_zygote_forked_counts_although_the_zygote_has_gone(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = box.root / "zygote"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                _, fds = protocol.receive(peer, 1 << 16, 2)
                protocol.close_all(fds)
                peer.sendall(protocol.encode({"ok": True}))

        class Slow(socket.socket):
            """Does not get its turn between sending and the next thing."""

            def sendmsg(self, *args: Any) -> int:
                answering = threading.Thread(target=answer)
                answering.start()
                sent = super().sendmsg(*args)
                answering.join()
                return sent

        monkeypatch.setattr(socket, "socket", Slow)
        reader, writer = os.pipe()
        try:
            assert start._fork_from_zygote(path, box, writer, writer)
        finally:
            os.close(reader)
            os.close(writer)
