"""A small internet in namespaces of the test's own, with servers, a hosts file, and no way out.

``inside(act)`` runs ``act`` in a process of its own there. A keeper started by it lives there too, so what
it dials and what it looks up is this internet. Its addresses are ordinary ones: documentation addresses are
refused, as they should be. They are no addresses of the host, but local routes, as a router might have them.
"""

from __future__ import annotations

import http.server
import os
import select
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.kernel import capabilities, mounts, namespaces, netlink
from backends.kernel.syscalls import PR_SET_DUMPABLE, prctl
from backends.policy.model import Policy
from tests.keeper import boxes

ALLOWED, OTHER, V6 = "203.0.114.10", "203.0.114.20", "2a00:77::10"
HOSTS = {
    "allowed.test": (ALLOWED, V6),
    "other.test": (OTHER,),
    "a.wild.test": (OTHER,),
    "inner.test": ("10.1.2.3",),
}
PATIENCE = 90.0
_RTMSG = struct.Struct("=8BI")


def policy(*egress: str, mode: str = "allow", **more: Any) -> Policy:
    net = boxes.POLICY.net._replace(mode=mode, egress=egress)
    return boxes.POLICY._replace(tier="supervised", net=net, **more)


def inside(folder: Path, act: Callable[[], None]) -> None:
    """Run ``act`` in the small internet; what it raises fails the test with its traceback."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        told = b"ended without a word"
        try:
            _enter(folder)
            act()
            told = b""
        except BaseException:
            told = traceback.format_exc().encode()
        finally:
            os.write(writer, told[-60000:])
            os._exit(0)
    os.close(writer)
    try:
        told = _read(reader)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not told, told.decode()


def _read(reader: int) -> bytes:
    out, until = b"", time.monotonic() + PATIENCE
    while select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
        chunk = os.read(reader, 65536)
        if not chunk:
            return out
        out += chunk
    return out + b"it took too long"


def _enter(folder: Path) -> None:
    uid, gid = os.geteuid(), os.getegid()
    flags = namespaces.CLONE_NEWNET | namespaces.CLONE_NEWNS
    if uid:
        namespaces.unshare(namespaces.CLONE_NEWUSER | flags)
        namespaces.map_ids(None, ((uid, uid, 1),), ((gid, gid, 1),), setgroups=False)
    else:
        namespaces.unshare(flags)
    mounts.make_private()
    namespaces.loopback_up()
    _route("203.0.114.0", 24)
    _route("2a00:77::", 64)
    show(folder, HOSTS)
    (folder / "resolv").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    mounts.bind(os.fspath(folder / "hosts"), "/etc/hosts", 0)
    mounts.bind(os.fspath(folder / "resolv"), os.path.realpath("/etc/resolv.conf"), 0)
    if uid:
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
        # A keeper looks at who connects to it, which it may not do with a process that has more rights.
        capabilities.drop_all()
        prctl(PR_SET_DUMPABLE, 1)
    os.environ["CLOCHE_ZYGOTE"] = "0"  # one would outlive the test


def show(folder: Path, hosts: dict[str, tuple[str, ...]]) -> None:
    """What the host's resolver says from now on."""
    lines = [f"{address} {name}" for name, addresses in hosts.items() for address in addresses]
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")


def _route(address: str, bits: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    body = _RTMSG.pack(family, bits, 0, 0, 255, 4, 254, 2, 0)
    body += netlink.attribute(1, socket.inet_pton(family, address))
    body += netlink.attribute(4, struct.pack("=I", netlink.LOOPBACK))
    with netlink.connect(netlink.NETLINK_ROUTE) as sock:
        netlink.transact(
            sock, netlink.message(netlink.RTM_NEWROUTE, netlink.CREATE | netlink.ACK, 0, body), 1
        )


# ---- servers


def _free(sock: socket.socket) -> None:
    """Let it be bound to an address that is only routed here (ip(7), IP_FREEBIND; 78 is IPV6_FREEBIND)."""
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, 78, 1)
    else:
        sock.setsockopt(socket.SOL_IP, 15, 1)


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _free(sock)
    sock.bind((address, port))
    sock.listen(600)
    return sock


class Web(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Files of a folder by HTTP at one address; ``asked`` are the requests so far."""

    daemon_threads = True
    request_queue_size = 600

    def __init__(self, address: str, port: int, folder: Path, context: ssl.SSLContext | None = None) -> None:
        self.asked: list[str] = []
        self.accepted = 0
        self.folder = folder
        super().__init__((address, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = _bound(address, port)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def get_request(self) -> tuple[socket.socket, Any]:
        self.accepted += 1
        return super().get_request()


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Web

    def __init__(self, request: Any, address: Any, server: Web) -> None:
        super().__init__(request, address, server, directory=os.fspath(server.folder))

    def log_message(self, _format: str, *_words: Any) -> None:
        self.server.asked.append(self.requestline)


class Listener:
    """A server that nobody must reach, over TCP and UDP; ``touched`` tells whether anybody did."""

    def __init__(self, address: str, port: int) -> None:
        self._tcp = _bound(address, port)
        family = self._tcp.family
        self._udp = socket.socket(family, socket.SOCK_DGRAM)
        _free(self._udp)
        self._udp.bind((address, port))

    @property
    def touched(self) -> bool:
        return bool(select.select([self._tcp, self._udp], [], [], 0.1)[0])


def run(*words: str, cwd: Path | None = None) -> None:
    """A command of the test's own side."""
    subprocess.run(words, cwd=cwd, check=True, capture_output=True)


def certificate(folder: Path, name: str) -> Path:
    """A certificate for ``name`` that is its own authority, with its key in one file."""
    target = folder / f"{name}.pem"
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-days", "2",
        "-keyout", os.fspath(folder / f"{name}.key"), "-out", os.fspath(target),
    )  # fmt: skip
    return target


def tls(folder: Path, name: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate(folder, name), folder / f"{name}.key")
    return made
