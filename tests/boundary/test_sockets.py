"""Attacks on sockets: the host's listeners are out of reach, the box's own work (S4, S18, P5)."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boundary import harness
from tests.boundary.harness import Box

CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        s = socket.socket(socket.AF_UNIX, kind)
        try:
            s.connect(path.replace("@", "\\0"))
            s.send(b"reached")
            print("REACHED", path, kind)
        except OSError as error:
            print(error.errno, path)
"""


class Listener:
    """A host process's sockets, one of each kind, that record whoever reaches them."""

    def __init__(self, folder: Path) -> None:
        self.paths: list[str] = []
        self.reached: list[str] = []
        self.sockets: list[socket.socket] = []
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            self.bind(str(folder / f"{kind.name}.sock"), kind)

    def bind(self, path: str, kind: int) -> None:
        one = socket.socket(socket.AF_UNIX, kind)
        one.bind(path.replace("@", "\0"))
        if not path.startswith("@"):
            os.chmod(path, 0o777)
            self.paths.append(path)
        if kind != socket.SOCK_DGRAM:
            one.listen(8)
        one.setblocking(False)
        self.sockets.append(one)

    def collect(self) -> list[str]:
        for one in self.sockets:
            with contextlib.suppress(BlockingIOError):
                if one.type == socket.SOCK_DGRAM:
                    self.reached.append(str(one.recv(100)))
                else:
                    self.reached.append(str(one.accept()[1]))
        return self.reached

    def close(self) -> None:
        for one in self.sockets:
            one.close()
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)
    root = tmp_path / "granted"
    (root / "deep" / "deeper").mkdir(parents=True)
    return root


@pytest.fixture
def listeners(granted: Path) -> Iterator[list[Listener]]:
    made = [Listener(granted), Listener(granted / "deep" / "deeper")]
    yield made
    for one in made:
        one.close()


def test_listeners_under_a_granted_folder_cannot_be_reached(granted: Path, listeners: list[Listener]) -> None:
    """S4: all kinds, at the root of a grant, deep below it, by a link, made after the launch."""
    with harness.box(harness.policy(read=[str(granted)])) as box:
        later = granted / "deep" / "later"
        later.mkdir()
        listeners.append(Listener(later))
        paths = [path for one in listeners for path in one.paths]
        box.sh(f"ln -s {paths[0]} /work/link")
        result = box.run(harness.PYTHON, "-c", CONNECT, *paths, "/work/link")
        lines = result.out.splitlines()
        assert len(lines) == 3 * (len(paths) + 1), result.err
        assert {line.split()[0] for line in lines} == {"111"}  # ECONNREFUSED: nobody listens on that inode
    assert [one.collect() for one in listeners] == [[], [], []]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_listeners_under_every_default_grant_cannot_be_reached() -> None:
    made = []
    roots = [
        Path(path) for path in ("/usr", "/usr/lib", "/usr/local/share", "/etc/ssl/certs", "/etc/alternatives")
    ]
    try:
        for root in roots:
            folder = root / "cloche-test-sockets"
            folder.mkdir()
            made.append((folder, Listener(folder)))
        with harness.box() as box:
            paths = [path for _, one in made for path in one.paths]
            result = box.run(harness.PYTHON, "-c", CONNECT, *paths)
            assert "REACHED" not in result.out
            assert len(result.out.splitlines()) == 3 * len(paths)
        assert [one.collect() for _, one in made] == [[]] * len(made)
    finally:
        for folder, one in made:
            one.close()
            folder.rmdir()


def test_a_single_file_grant_of_a_socket_is_left_out(granted: Path, listeners: list[Listener]) -> None:
    path = listeners[0].paths[0]
    with harness.box(harness.policy(read=[path])) as box:
        assert "REACHED" not in box.run(harness.PYTHON, "-c", CONNECT, path).out
        row = next(row for row in box.live.enforcement if row.key == "fs.read")
        assert f"{path} (neither a file, a folder nor a link)" in row.missing
    assert listeners[0].collect() == []


def test_a_write_grant_above_a_listener_is_refused_by_name(granted: Path, listeners: list[Listener]) -> None:
    from backends.tiers import process

    refusals = process.TIER.refusals(harness.policy(write=[str(granted)]))
    assert {refusal.key for refusal in refusals} == {"fs.write"}
    assert any(listeners[0].paths[0] in refusal.why for refusal in refusals)


@pytest.mark.parametrize("net", ["deny", "host"])
def test_abstract_and_well_known_sockets_of_the_host_are_refused(net: str, tmp_path: Path) -> None:
    """P5, with and without the host's network namespace."""
    host = Listener(tmp_path)
    name = f"@cloche-test-{os.getpid()}"
    host.bind(name, socket.SOCK_STREAM)
    host.bind(f"{name}-d", socket.SOCK_DGRAM)
    try:
        with harness.box(harness.policy(net=net)) as box:
            paths = [name, f"{name}-d", *host.paths, "/run/dbus/system_bus_socket", "/var/run/docker.sock"]
            result = box.run(harness.PYTHON, "-c", CONNECT, *paths)
            assert "REACHED" not in result.out
            assert len(result.out.splitlines()) == 3 * len(paths), result.err
            named = [detail for kind, detail in box.seen if kind == "connect"]
            assert any(name in detail for detail in named)
            assert any("system_bus_socket" in detail for detail in named)
    finally:
        assert host.collect() == []
        host.close()


def test_no_variable_names_an_agent_or_a_bus(confined: Box) -> None:
    assert {line.split("=")[0] for line in confined.sh("env").out.splitlines()} <= {
        "HOME", "USER", "PATH", "LANG", "PWD", "SHLVL", "_",
    }  # fmt: skip


def test_sockets_inside_work_by_path_by_name_and_over_loopback(confined: Box) -> None:
    result = confined.python(
        """
import array, os, socket, threading
def serve(s):
    c, _ = s.accept()
    c.sendall(c.recv(10))
U = socket.AF_UNIX
for family, address in ((U, "/tmp/s"), (U, "\\0inside"), (U, "/work/s"),
                        (socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("::1", 0))):
    s = socket.socket(family)
    s.bind(address)
    s.listen()
    threading.Thread(target=serve, args=(s,)).start()
    c = socket.socket(family)
    c.connect(s.getsockname())
    c.sendall(b"echo")
    print(c.recv(10))
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [1])
print(socket.recv_fds(b, 10, 1)[0])
"""
    )
    assert result.out.split() == ["b'echo'"] * 5 + ["b'x'"], result.err


def test_without_network_nothing_outside_answers(confined: Box) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.2)
    port = server.getsockname()[1]
    own = socket.gethostbyname(socket.gethostname()) if socket.gethostname() else "127.0.0.1"
    result = confined.python(
        f"""
import socket
for address in (("127.0.0.1", {port}), ({own!r}, {port}), ("192.0.2.1", 80), ("8.8.8.8", 53),
                ("169.254.169.254", 80)):
    try:
        socket.create_connection(address, timeout=2)
        print("REACHED", address)
    except OSError as error:
        print(error.errno)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    u.sendto(b"x", ("8.8.8.8", 53))
    print("SENT")
except OSError as error:
    print(error.errno)
try:
    socket.getaddrinfo("example.com", 80)
    print("RESOLVED")
except socket.gaierror as error:
    print("gai")
print(sorted(n for _, n in socket.if_nameindex())[:1])
"""
    )
    words = result.out.split()
    assert words[0] == "111"
    assert words[2:6] == ["101"] * 4
    assert words[6] == "gai"
    assert "REACHED" not in words
    with pytest.raises(TimeoutError):
        server.accept()
    server.close()
    seen = [detail for kind, detail in confined.seen if kind == "connect"]
    assert any("169.254.169.254" in detail for detail in seen)


def test_with_the_hosts_network_its_loopback_answers() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    threading.Thread(target=lambda: server.accept()[0].sendall(b"host"), daemon=True).start()
    with harness.box(harness.policy(net="host")) as box:
        script = f"import socket; print(socket.create_connection(('127.0.0.1', {port}), 5).recv(10))"
        assert box.python(script).out.strip() == "b'host'"
        row = next(row for row in box.live.enforcement if row.key == "net.mode")
        assert row.enforced == "the host's network"
    server.close()


def test_unusual_protocols_and_families_are_refused_and_counted(confined: Box) -> None:
    """S18: the protocol argument is judged too."""
    before = dict(confined.refused)
    result = confined.python(
        """
import socket
for args in ((2, 1, 262), (2, 2, 136), (2, 1, 132), (2, 5, 132), (10, 1, 262), (2, 3, 1), (2, 2, 1),
             (17, 3, 768), (17, 2, 0), (16, 3, 9), (16, 3, 15), (38, 5, 0), (40, 1, 0), (44, 3, 0),
             (30, 5, 0), (21, 5, 0)):
    try:
        socket.socket(*args)
        print("OPENED", args)
    except OSError:
        pass
try:
    print("OPENED", socket.socketpair(30))
except OSError:
    pass
"""
    )
    assert (result.out, result.exit) == ("", 0), result.err
    new = {
        key[1]: count - before.get(key, 0) for key, count in confined.refused.items() if key[0] == "socket"
    }
    assert new["AF_INET SOCK_STREAM MPTCP"] == 1
    assert new["AF_INET SOCK_DGRAM UDPLITE"] == 1
    assert new["AF_INET SOCK_STREAM SCTP"] == 1
    assert new["AF_PACKET SOCK_RAW 768"] == 1
    assert sum(new.values()) == 17


def test_unix_sockets_can_be_shut_off() -> None:
    with harness.box(harness.policy(unix=False)) as box:
        result = box.python(
            "import socket; socket.socketpair(); print('pair'); socket.socket(socket.AF_UNIX)"
        )
        assert result.out == "pair\n"
        assert "PermissionError" in result.err
        assert box.refused["socket", "AF_UNIX SOCK_STREAM"] >= 1


def test_loopback_can_be_shut_off() -> None:
    with harness.box(harness.policy(loopback=False)) as box:
        result = box.python(
            "import socket; s = socket.create_server(('127.0.0.1', 0));"
            "socket.create_connection(s.getsockname(), 1)"
        )
        assert "Network is unreachable" in result.err
