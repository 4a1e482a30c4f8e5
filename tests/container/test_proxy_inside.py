"""Attacks on the list from inside a real container: the proxy is the only way, and it goes nowhere else."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from backends.kernel import netlink
from tests.container.world import World

PYTHON = True

_RAW = """
import json, socket
told = {}
def tried(name, act):
    try:
        act()
        told[name] = "reached"
    except OSError as error:
        told[name] = type(error).__name__
def tcp(host, port):
    return lambda: socket.create_connection((host, port), 3).close()
def udp(host, port):
    def act():
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.sendto(b"x", (host, port))
    return act
for host in HOSTS:
    tried(f"tcp {host}", tcp(host, PORT))
    tried(f"udp {host}", udp(host, PORT))
tried("name", lambda: socket.getaddrinfo("example.com", 443))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("take over", lambda: socket.create_server(("127.0.0.1", 3128)))
print(json.dumps(told))
"""
_ASKED = """
import json, socket
def asked(data):
    with socket.create_connection(("127.0.0.1", 3128), 10) as one:
        one.sendall(data)
        out = b""
        try:
            while piece := one.recv(65536):
                out += piece
        except OSError:
            out += b"|reset"
        return out.decode("latin-1")
print(json.dumps([asked(one.encode("latin-1")) for one in REQUESTS]))
"""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Hello

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Host"]))
        body = b"hello"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, _format: str, *_words: object) -> None:
        """Tests ask what was asked for."""


class Hello(http.server.ThreadingHTTPServer):
    """A server of the host's."""

    def __init__(self, address: str) -> None:
        self.asked: list[tuple[str, str]] = []
        self.accepted = 0
        super().__init__((address, 0), _Handler)
        self.port: int = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def get_request(self) -> tuple[socket.socket, object]:
        self.accepted += 1
        return super().get_request()


def _own() -> str:
    """An address of this host that is not its loopback."""
    found = [one for one in netlink.own_addresses() if ":" not in one and not one.startswith("127.")]
    if not found:
        pytest.skip("this host has no address but its loopback")
    return found[0]


@pytest.fixture(scope="module")
def servers(world: World) -> Iterator[tuple[Hello, Hello]]:
    """One on the host's own address, which the box ``listed`` may reach, and one on its loopback."""
    listed, loopback = Hello(_own()), Hello("127.0.0.1")
    world.profile("listed", f'net.mode = "allow"\nnet.egress = ["{_own()}:{listed.port}"]')
    world.new("listed", profile="listed")
    yield listed, loopback
    for one in (listed, loopback):
        one.shutdown()
        one.server_close()


def asked(world: World, *requests: str) -> list[str]:
    found: list[str] = world.python("listed", f"REQUESTS = {json.dumps(requests)}\n{_ASKED}")
    return found


def test_a_program_that_ignores_the_proxy_reaches_nothing(world: World, servers: tuple[Hello, Hello]) -> None:
    listed, loopback = servers
    before = listed.accepted, loopback.accepted
    hosts = [
        _own(),
        "1.1.1.1",
        "169.254.169.254",
        "10.0.2.2",
        "10.0.2.3",
        "192.168.127.254",
        "2606:4700::1111",
    ]
    code = f"HOSTS = {hosts!r}\nPORT = {listed.port}\n{_RAW}"
    told = world.python("listed", code)
    assert {name for name, how in told.items() if how == "reached"} == set()
    told = world.python("listed", f"HOSTS = ['127.0.0.1', 'localhost']\nPORT = {loopback.port}\n{_RAW}")
    assert told["tcp 127.0.0.1"] == told["tcp localhost"] == "ConnectionRefusedError"
    assert told["take over"] == "OSError"
    assert (listed.accepted, loopback.accepted) == before


def test_programs_that_read_the_environment_reach_the_list_and_get_reasons_for_the_rest(
    world: World, servers: tuple[Hello, Hello]
) -> None:
    listed, loopback = servers
    own = f"{_own()}:{listed.port}"
    done = world.cloche("run", "listed", "--", "wget", "-qO-", f"http://{own}/by-wget")
    assert (done.code, done.out) == (0, "hello")
    told = world.python(
        "listed",
        "import json, urllib.request, urllib.error\n"
        "def get(url):\n"
        "    try: return urllib.request.urlopen(url, timeout=10).read().decode()\n"
        "    except urllib.error.HTTPError as error: return f'{error.code} {error.reason}'\n"
        "    except OSError as error: return str(error)\n"
        f"print(json.dumps([get('http://{own}/a'), get('http://{_own()}:1/'), get('https://evil.example/')]))",
    )
    assert told == [
        "hello",
        f"403 Forbidden: cloche: {_own()}:1: no rule allows it",
        "<urlopen error Tunnel connection failed: 403 Forbidden: cloche: evil.example:443: "
        "no rule allows it>",
    ]
    assert listed.asked[-1] == ("/a", own)
    assert loopback.accepted == 0


def test_no_request_leads_to_the_hosts_loopback_or_anywhere_else(
    world: World, servers: tuple[Hello, Hello]
) -> None:
    listed, loopback = servers
    before = len(listed.asked)
    own, port = f"{_own()}:{listed.port}", loopback.port
    targets = [
        f"127.0.0.1:{port}",
        f"[::1]:{port}",
        f"[::ffff:127.0.0.1]:{port}",
        f"0.0.0.0:{port}",
        f"localhost:{port}",
    ]
    said = asked(world, *(f"CONNECT {one} HTTP/1.1\r\nHost: {one}\r\n\r\n" for one in targets))
    assert [one[:12] for one in said] == ["HTTP/1.1 403"] * len(targets)
    doubtful = [
        f"GET http://{own}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        f"GET http://{own}@127.0.0.1:{port}/ HTTP/1.1\r\nHost: {own}\r\n\r\n",
        f"GET http://{own}/ HTTP/1.1\r\nHost: {own}\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        f"GET http://{own}/ HTTP/1.1\r\nHost: {own}\r\nX: a\r\n folded\r\n\r\n",
        f"CONNECT 2130706433:{port} HTTP/1.1\r\n\r\n",
        f"CONNECT {own}\x00:1 HTTP/1.1\r\n\r\n",
        f"POST http://{own}/ HTTP/1.1\r\nHost: {own}\r\nContent-Length: 1\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {own}\r\n\r\n",
    ]
    assert [one[:12] for one in asked(world, *doubtful)] == ["HTTP/1.1 400"] * len(doubtful)
    assert len(listed.asked) == before
    assert loopback.accepted == 0


def test_a_request_behind_an_allowed_one_is_never_made(world: World, servers: tuple[Hello, Hello]) -> None:
    listed, loopback = servers
    own = f"{_own()}:{listed.port}"
    before = len(listed.asked)
    first = f"GET http://{own}/first HTTP/1.1\r\nHost: {own}\r\n\r\n"
    second = (
        f"GET http://127.0.0.1:{loopback.port}/second HTTP/1.1\r\nHost: 127.0.0.1:{loopback.port}\r\n\r\n"
    )
    [said] = asked(world, first + second)
    assert said.startswith("HTTP/1.0 200 OK\r\n") and said.endswith("hello")
    assert listed.asked[before:] == [("/first", own)]
    assert loopback.accepted == 0


def test_the_proxy_is_the_boxs_alone_and_what_it_refused_is_told(
    world: World, servers: tuple[Hello, Hello]
) -> None:
    world.new("beside")
    try:
        told = world.python("beside", f"HOSTS = ['127.0.0.1']\nPORT = 3128\n{_RAW}")
        assert told["tcp 127.0.0.1"] == "ConnectionRefusedError"
    finally:
        assert world.cloche("rm", "--force", "beside").code == 0
    asked(
        world, "CONNECT counted.example:443 HTTP/1.1\r\n\r\n", "CONNECT counted.example:443 HTTP/1.1\r\n\r\n"
    )
    target = f"{_own()}:{servers[0].port}"
    [answer] = asked(world, f"GET http://{target}/counted HTTP/1.1\r\nHost: {target}\r\n\r\n")
    assert answer.endswith("hello")
    rows = world.cloche("denials", "listed", "--json").json()
    assert isinstance(rows, dict)
    [row] = [one for one in rows["rows"] if one["object"] == "counted.example:443"]
    assert (row["count"], row["kind"], row["lane"], row["rule"]) == (2, "net", "proxy", "no rule allows it")
    told = world.cloche("egress", "listed", "--json").json()
    assert isinstance(told, dict)
    [line] = told["rows"]
    assert line["rule"] == target
    assert line["connections"] == len(servers[0].asked) and line["sent"] > 0 and line["received"] > 0


def test_a_stopped_box_leaves_no_listener_and_no_connection(
    world: World, servers: tuple[Hello, Hello]
) -> None:
    assert world.cloche("stop", "listed").code == 0
    assert world.left() == []
