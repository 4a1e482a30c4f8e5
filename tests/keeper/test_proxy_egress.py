"""The list of a box behind a proxy: real names and servers of a small internet, changed while it runs."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.errors import ClocheError
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.keeper.proxy_egress import ProxyEgress
from backends.kernel import netlink
from backends.tiers import networking
from backends.tiers.protocol import BoxProxy
from tests.keeper import internet
from tests.keeper.internet import ALLOWED, OTHER, Web

LIMIT = 30.0


class World:
    """Serves a list from a thread; to be used inside the small internet."""

    def __init__(self, folder: Path, *listed: str) -> None:
        (folder / "file").write_text("content\n")
        self.folder = folder
        policy = internet.policy(*listed)._replace(tier="container")
        own = netlink.own_addresses()
        pins = networking.resolved(Matcher(rules.parse_all(listed), own))
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self.denied: list[Refusal] = []
        self.told: list[tuple[str, Any]] = []
        log = Log(os.open(folder / "log", os.O_WRONLY | os.O_CREAT))
        self.loop = Loop(log.failure)
        self.egress = ProxyEgress(
            self.loop,
            log,
            policy,
            BoxProxy(listener, pins, own),
            lambda refusal, _pid, _command, _count: self.denied.append(refusal),
            lambda kind, data: self.told.append((kind, data)),
        )
        self._wake = socket.socketpair()
        self._calls: list[Callable[[], None]] = []
        self.loop.add(self._wake[0].fileno(), 1, self._woken)
        self.egress.begin()
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._thread.start()

    def _woken(self, _events: int) -> None:
        self._wake[0].recv(64)
        while self._calls:
            self._calls.pop(0)()

    def call(self, act: Callable[[], None]) -> None:
        done = threading.Event()
        self._calls += [act, done.set]
        self._wake[1].send(b"x")
        assert done.wait(LIMIT)

    def answered(self, act: Callable[[Callable[[Any], None]], None]) -> Any:
        """What an act of a person is told, perhaps later."""
        got: list[Any] = []
        there = threading.Event()

        def done(value: Any) -> None:
            got.append(value)
            there.set()

        self.call(lambda: act(done))
        assert there.wait(LIMIT)
        return got[0]

    def get(self, url: str, cafile: Path | None = None) -> str:
        """What urllib gets through the proxy, or how it is refused."""
        proxy = f"http://127.0.0.1:{self.port}"
        context = ssl.create_default_context(cafile=os.fspath(cafile)) if cafile else None
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": proxy, "https": proxy}),
            urllib.request.HTTPSHandler(context=context),
        )
        try:
            with opener.open(url, timeout=LIMIT) as answer:
                body: bytes = answer.read()
                return body.decode()
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.reason}"
        except OSError as error:
            return str(error)

    def close(self) -> None:
        self.call(self.egress.close)
        self.call(self.egress.close)
        self.call(self.loop.stop)
        self._thread.join(LIMIT)


def test_https_and_http_of_listed_names_arrive_and_nothing_else_does(tmp_path: Path) -> None:
    def act() -> None:
        secure = Web(ALLOWED, 443, tmp_path, internet.tls(tmp_path, "allowed.test"))
        plain, other = Web(ALLOWED, 80, tmp_path), Web(OTHER, 80, tmp_path)
        world = World(tmp_path, "allowed.test", "allowed.test:80")
        authority = tmp_path / "allowed.test.pem"
        assert world.get("https://allowed.test/file", authority) == "content\n"
        assert world.get("http://allowed.test/file") == "content\n"
        assert plain.asked == ["GET /file HTTP/1.1"]
        for url, why in (
            ("http://other.test/file", "403 Forbidden: cloche: other.test:80: no rule allows it"),
            (f"http://{OTHER}/file", f"403 Forbidden: cloche: {OTHER}:80: no rule allows it"),
            (f"http://{ALLOWED}/file", f"403 Forbidden: cloche: {ALLOWED}:80: no rule allows it"),
            ("http://inner.test/file", "403 Forbidden: cloche: inner.test:80: no rule allows it"),
            (
                "http://allowed.test:8080/file",
                "403 Forbidden: cloche: allowed.test:8080: allowed.test is allowed on port 443 only",
            ),
        ):
            assert world.get(url) == why
        assert "Tunnel connection failed: 403 Forbidden" in world.get("https://other.test/file", authority)
        assert other.accepted == 0
        world.call(lambda: world.egress.tell())
        traffic = {
            (data["address"], data["port"], data["name"]): data["connections"]
            for kind, data in world.told
            if kind == "traffic"
        }
        assert traffic == {(ALLOWED, 443, "allowed.test"): 1, (ALLOWED, 80, "allowed.test"): 1}
        lines = {(line.name, line.port): line.connections for line in world.egress.rows()}
        assert lines == {("allowed.test", 443): 1, ("allowed.test", 80): 1}
        assert [one.object for one in world.denied][-1] == "other.test:443"
        assert {(one.lane, one.enforced_by) for one in world.denied} == {("proxy", "proxy")}
        assert secure.accepted == 1
        world.close()

    internet.inside(tmp_path, act)


def test_a_tunnel_to_one_tenant_does_not_reach_another_of_the_same_address(tmp_path: Path) -> None:
    def act() -> None:
        internet.show(tmp_path, {**internet.HOSTS, "tenant.test": (ALLOWED,)})
        Web(ALLOWED, 443, tmp_path, internet.tls(tmp_path, "tenant.test"))
        world = World(tmp_path, "allowed.test", "tenant.test")
        context = ssl.create_default_context(cafile=os.fspath(tmp_path / "tenant.test.pem"))
        assert world.get("https://tenant.test/file", tmp_path / "tenant.test.pem") == "content\n"
        connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=LIMIT)
        connection.set_tunnel("allowed.test", 443)
        connection.connect()
        try:
            context.wrap_socket(connection.sock, server_hostname="tenant.test")
            raise AssertionError("the other tenant was reached")
        except OSError:
            pass
        assert [(one.object, one.rule) for one in world.denied] == [
            ("allowed.test:443 (SNI tenant.test)", "the tunnel was asked for another name")
        ]
        world.close()

    internet.inside(tmp_path, act)


def test_names_below_a_wildcard_are_looked_up_when_they_are_asked_for(tmp_path: Path) -> None:
    def act() -> None:
        Web(OTHER, 80, tmp_path)
        internet.show(
            tmp_path, {**internet.HOSTS, "in.wild.test": ("10.1.2.3",), "own.wild.test": ("127.0.0.1",)}
        )
        world = World(tmp_path, "*.wild.test:80")
        assert world.get("http://a.wild.test/file") == "content\n"
        assert world.get("http://a.wild.test/file") == "content\n"
        assert world.get("http://in.wild.test/file") == (
            "403 Forbidden: cloche: in.wild.test:80: every address is refused: a private network"
        )
        assert world.get("http://own.wild.test/file").startswith("403 ")
        assert world.get("http://none.wild.test/file").startswith("403 ")
        assert world.get("http://wild.test/file") == "403 Forbidden: cloche: wild.test:80: no rule allows it"
        names = {line.name: line.connections for line in world.egress.rows()}
        assert names["a.wild.test"] == 2
        world.close()

    internet.inside(tmp_path, act)


def test_a_person_widens_and_renews_the_list_of_a_running_box(tmp_path: Path) -> None:
    def act() -> None:
        Web(ALLOWED, 80, tmp_path)
        Web(OTHER, 80, tmp_path)
        world = World(tmp_path, "allowed.test:80")
        assert world.get("http://other.test/file").startswith("403 ")
        assert world.answered(lambda done: world.egress.allow("other.test:80", "ada", done)) == {
            "rule": "other.test:80",
            "pins": {"other.test": [OTHER]},
            "known": False,
        }
        assert world.get("http://other.test/file") == "content\n"
        refused = world.answered(lambda done: world.egress.allow("inner.test:80", "ada", done))
        assert isinstance(refused, ClocheError) and refused.code == "unresolved"
        internet.show(tmp_path, {**internet.HOSTS, "allowed.test": (OTHER,)})
        told = world.answered(lambda done: world.egress.repin("ada", done))
        assert told["changed"] == [{"name": "allowed.test", "old": [ALLOWED, internet.V6], "new": [OTHER]}]
        assert world.get("http://allowed.test/file") == "content\n"
        kinds = [kind for kind, _ in world.told]
        assert kinds.count("egress-rule") == 1 and kinds.count("repin") == 1
        world.close()

    internet.inside(tmp_path, act)


def test_the_hosts_own_address_is_no_destination_by_any_name(tmp_path: Path) -> None:
    def act() -> None:
        server = Web("127.0.0.1", 80, tmp_path)
        internet.show(tmp_path, {**internet.HOSTS, "me.test": ("127.0.0.1",)})
        world = World(tmp_path, "me.test:80", "0.0.0.0/1:80")
        for url in ("http://me.test/file", "http://127.0.0.1/file", "http://[::ffff:127.0.0.1]/file"):
            assert world.get(url).startswith("403 "), url
        assert server.accepted == 0
        world.close()

    internet.inside(tmp_path, act)
