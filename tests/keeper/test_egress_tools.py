"""Real programs in a supervised box reach what is listed, by name, over HTTP and TLS, without a proxy."""

from __future__ import annotations

import os
import ssl
import zipfile
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from tests.keeper import boxes, internet
from tests.keeper.internet import ALLOWED, OTHER, V6, Web

pytestmark = pytest.mark.boundary


def give(paths: BoxPaths, name: str, source: Path) -> None:
    """A file of the host's into the box's tree."""
    (paths.tree / name).write_bytes(source.read_bytes())
    (paths.tree / name).chmod(0o644)


def both(port: int, folder: Path, tls: ssl.SSLContext | None = None) -> tuple[Web, Web]:
    """The same server at both addresses of allowed.test."""
    return Web(ALLOWED, port, folder, tls), Web(V6, port, folder, tls)


def test_curl_follows_a_listed_name_over_http_and_tls_and_ipv6(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        plain = both(80, tmp_path)
        both(443, tmp_path, internet.tls(tmp_path, "allowed.test"))
        paths = boxes.make(policy=internet.policy("allowed.test:80", "allowed.test"))
        give(paths, "ca.pem", tmp_path / "allowed.test.pem")
        with boxes.started(paths) as keeper:
            for words in (
                ("-4", "http://allowed.test/index.html"),
                ("-6", "http://allowed.test/index.html"),
                ("-4", "http://ALLOWED.test./index.html"),
                ("--cacert", "/work/ca.pem", "https://allowed.test/index.html"),
            ):
                got = boxes.run(keeper, "curl", "-sS", *words, env={"http_proxy": "http://127.0.0.1:9"})
                assert (got.exit, got.out) == (0, b"hello from outside"), (words, got.err)
            assert [len(web.asked) for web in plain] == [2, 1]
            rows = keeper.call("egress")["rows"]
            assert [(row[0], row[1], row[4], row[8]) for row in rows] == [
                ("allowed.test:80", "allowed.test", 3, "pinned"),
                ("allowed.test", "allowed.test", 1, "pinned"),
            ]
            assert all(row[5] > 0 and row[6] > 3 * len("hello from outside") for row in rows)
            assert keeper.call("tally")["rows"] == []
        told = boxes.records(paths, "traffic")
        assert sum(one["connections"] for one in told) == 4
        assert sum(one["received"] for one in told) == sum(row[6] for row in rows)

    internet.inside(tmp_path, act)


def test_git_clones_and_pip_downloads_from_listed_names(tmp_path: Path) -> None:
    source = tmp_path / "source"
    internet.run("git", "init", "-q", "-b", "main", os.fspath(source))
    (source / "file").write_text("content\n")
    internet.run("git", "add", "file", cwd=source)
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    internet.run("git", *who, "commit", "-q", "-m", "one", cwd=source)
    internet.run("git", "clone", "-q", "--bare", os.fspath(source), os.fspath(tmp_path / "repo.git"))
    internet.run("git", "update-server-info", cwd=tmp_path / "repo.git")
    wheel = tmp_path / "simple" / "tiny" / "tiny-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny.py", "")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")

    def act() -> None:
        both(8080, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:8080"))
        with boxes.started(paths) as keeper:
            script = "git clone -q http://allowed.test:8080/repo.git /tmp/clone && cat /tmp/clone/file"
            got = boxes.sh(keeper, script)
            assert (got.exit, got.out) == (0, b"content\n"), got.err
            got = boxes.run(
                keeper, "/usr/bin/python3", "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir",
                "--disable-pip-version-check", "-d", "/tmp/wheels", "--trusted-host", "allowed.test",
                "-i", "http://allowed.test:8080/simple/", "tiny",
            )  # fmt: skip
            assert got.exit == 0, got.err
            assert boxes.sh(keeper, "ls /tmp/wheels").out == b"tiny-1.0-py3-none-any.whl\n"
            tally = keeper.call("tally")
            assert (tally["total"], tally["rows"]) == (0, [])

    internet.inside(tmp_path, act)


NODE = """
const fs = require('fs'), dns = require('dns').promises;
(async () => {
  const got = await fetch(process.argv[1]);
  console.log(got.status, await got.text());
  console.log((await dns.resolve4('allowed.test')).join());
  for (const ask of [() => fetch('http://telemetry.example/'), () => dns.resolve4('cares.example')])
    try { await ask(); console.log('REACHED'); } catch (error) { console.log('refused'); }
})();
"""


@pytest.mark.skipif(not os.path.exists("/usr/bin/node"), reason="node is not installed")
def test_node_fetches_listed_names_with_both_of_its_resolvers(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        both(443, tmp_path, internet.tls(tmp_path, "allowed.test"))
        paths = boxes.make(policy=internet.policy("allowed.test"))
        give(paths, "ca.pem", tmp_path / "allowed.test.pem")
        with boxes.started(paths) as keeper:
            script = 'NODE_EXTRA_CA_CERTS=/work/ca.pem exec node -e "$0" https://allowed.test/index.html'
            got = boxes.run(keeper, "/bin/sh", "-c", script, NODE)
            lines = got.out.decode().splitlines()
            assert lines == ["200 hello from outside", ALLOWED, "refused", "refused"], (lines, got.err)
            rows = {row["object"]: row for row in keeper.call("tally")["rows"]}
            assert set(rows) == {"telemetry.example", "cares.example"}  # S12: getaddrinfo and c-ares
            assert all(row["kind"] == "dns" and "node" in row["command"] for row in rows.values())

    internet.inside(tmp_path, act)


def test_another_name_at_a_listed_address_is_refused_and_counted(tmp_path: Path) -> None:
    """S9: the address of a listed name is no permit for whoever else answers there."""
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        web, _ = both(80, tmp_path)
        tls, _ = both(443, tmp_path, internet.tls(tmp_path, "evil.test"))
        paths = boxes.make(policy=internet.policy("allowed.test:80", "allowed.test"))
        with boxes.started(paths) as keeper:
            for words in (
                ("-k", "--resolve", f"evil.test:443:{ALLOWED}", "https://evil.test/"),
                ("-k", f"https://{ALLOWED}/"),
                ("-H", "Host: evil.test", "http://allowed.test/"),
                ("-H", "Host: evil.test", "http://allowed.test/"),
                (f"http://{ALLOWED}/",),
            ):
                assert boxes.run(keeper, "curl", "-4", "-sS", *words).exit not in (0, 6, 7), words
            assert (web.asked, web.accepted, tls.accepted) == ([], 0, 0)
            rows = {row["object"]: (row["count"], row["enforced_by"]) for row in keeper.call("tally")["rows"]}
            assert rows == {
                f"{ALLOWED}:443 (SNI evil.test)": (1, "relay"),
                f"{ALLOWED}:443 (no name)": (1, "relay"),
                f"{ALLOWED}:80 (Host evil.test)": (2, "relay"),
                f"{ALLOWED}:80 (Host {ALLOWED})": (1, "relay"),
            }

    internet.inside(tmp_path, act)


def test_a_name_below_a_wildcard_is_looked_up_by_the_host_and_reached(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        Web(OTHER, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("*.wild.test:80"))
        with boxes.started(paths) as keeper:
            got = boxes.run(keeper, "curl", "-sS", "http://a.wild.test/index.html")
            assert (got.exit, got.out) == (0, b"hello from outside"), got.err
            # The same address by a name that does not lead there, and by the host of the wildcard itself.
            assert boxes.run(keeper, "curl", "-sS", f"http://{OTHER}/").exit == 56
            assert boxes.run(keeper, "curl", "-sS", "http://wild.test/").exit == 6
            assert boxes.run(keeper, "curl", "-sS", "http://other.test/").exit == 6
            (row,) = keeper.call("egress")["rows"]
            assert row[:5] == ["*.wild.test:80", "a.wild.test", [OTHER], 80, 1]
            assert row[7:] == [1, "pinned"]

    internet.inside(tmp_path, act)


ELSEWHERE = """
import http.client, sys
c = http.client.HTTPConnection(sys.argv[1], 80, timeout=20)
for host in ("allowed.test", "second.test"):
    c.request("GET", "/index.html", headers={"Host": host})
    print(c.getresponse().read().decode(), flush=True)
"""


def test_another_address_of_the_name_is_taken_when_the_first_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        third = "203.0.114.30"
        hosts = {"allowed.test": (ALLOWED, OTHER, third), "second.test": (ALLOWED,)}
        internet.show(tmp_path, hosts)
        web = Web(third, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80", "second.test:80"))
        with boxes.started(paths) as keeper:
            got = boxes.run(keeper, "/usr/bin/python3", "-I", "-S", "-c", ELSEWHERE, ALLOWED)
            # What leads to the address that was meant need not lead to the one that was taken.
            assert (got.exit, got.out) == (1, b"hello from outside\n"), got.err
            assert web.asked == ["GET /index.html HTTP/1.1"]
            assert boxes.run(keeper, "curl", "-sS", "http://second.test/").exit == 56
            first, second = keeper.call("egress")["rows"]
            assert (first[1], first[4], second[1], second[4]) == ("allowed.test", 1, "second.test", 0)
            (denied,) = keeper.call("tally")["rows"]
            assert denied["object"] == f"{third}:80 (Host second.test)"
        told = {one["address"]: (one["connections"], one["failed"]) for one in boxes.records(paths, "traffic")
                if one["name"] == "allowed.test"}  # fmt: skip
        assert sorted(told) == sorted([ALLOWED, OTHER, third])
        assert told[third] == (1, 0)

    internet.inside(tmp_path, act)
