"""Attacks from inside a supervised box on what is not listed: refused, counted exactly, nothing touched."""

from __future__ import annotations

import os
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from backends.evidence import journal
from backends.keeper.client import KeeperClient
from tests.keeper import boxes, internet
from tests.keeper.internet import ALLOWED, OTHER, V6, Listener, Web
from tests.support import descriptors_of, wait_until

pytestmark = pytest.mark.boundary
BUSYBOX = "/usr/bin/busybox"


def python(keeper: KeeperClient, script: str, *words: str, limit: float = 60.0) -> boxes.Ran:
    return boxes.run(keeper, "/usr/bin/python3", "-I", "-S", "-c", script, *words, limit=limit)


def counted(keeper: KeeperClient) -> dict[tuple[str, str], int]:
    """The tally as kind and object with the count; its parts add up to its total."""
    tally: dict[str, Any] = keeper.call("tally")
    assert tally["total"] == sum(row["count"] for row in tally["rows"]) + tally["others"]
    return {(row["kind"], row["object"]): row["count"] for row in tally["rows"]}


TRY = """
import errno, socket, sys
def told(call, *words):
    try:
        call(*words)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "DONE"
for word in sys.argv[1:]:
    kind, address, port = word.split("|")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if kind == "tcp":
        print(word, told(socket.socket(family, socket.SOCK_STREAM).connect, (address, int(port))))
    else:
        print(word, told(socket.socket(family, socket.SOCK_DGRAM).sendto, b"x", (address, int(port))))
"""
SPELLED = {
    # what a program writes: the object of its refusal
    f"tcp|{OTHER}|443": f"{OTHER}:443",
    f"tcp|{ALLOWED}|8080": "allowed.test:8080",
    f"tcp|::ffff:{OTHER}|80": f"{OTHER}:80",
    f"tcp|{int.from_bytes(socket.inet_aton(OTHER), 'big')}|81": f"{OTHER}:81",
    "tcp|0313.0.0162.024|82": f"{OTHER}:82",
    "tcp|0xcb007214|83": f"{OTHER}:83",
    "tcp|2a00:77::20|443": "[2a00:77::20]:443",
    f"tcp|{V6}|444": "allowed.test:444",
    "tcp|8.8.8.8|53": "8.8.8.8:53 (name server)",
    "udp|8.8.8.8|53": "8.8.8.8:53/udp (name server)",
    f"udp|{OTHER}|9": f"{OTHER}:9/udp",
    f"udp|{ALLOWED}|80": "allowed.test:80/udp",
    "udp|2a00:77::20|9": "[2a00:77::20]:9/udp",
    "tcp|169.254.169.254|80": "169.254.169.254:80 (a cloud's metadata service)",
    "tcp|10.1.2.3|443": "10.1.2.3:443",
}


def test_every_spelling_of_what_is_not_listed_is_refused_and_counted_once(tmp_path: Path) -> None:
    def act() -> None:
        untouched = [Listener(OTHER, port) for port in (443, 80, 81, 82, 83, 9)]
        untouched += [Listener(V6, 444), Listener(ALLOWED, 8080), Listener("2a00:77::20", 443)]
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            got = python(keeper, TRY, *SPELLED)
            assert got.exit == 0, got.err
            results = dict(line.rsplit(" ", 1) for line in got.out.decode().splitlines())
            refused = {"tcp": {"ECONNREFUSED"}, "udp": {"DONE", "EPERM", "EACCES", "ECONNREFUSED"}}
            for word in SPELLED:
                assert results[word] in refused[word[:3]], (word, results[word])
            assert counted(keeper) == {("net", shown): 1 for shown in SPELLED.values()}
            rows = keeper.call("tally")["rows"]
            assert {(row["lane"], row["enforced_by"]) for row in rows} == {("kernel", "nftables")}
            assert all("python3" in row["command"] and row["pid"] > 0 for row in rows)
        assert not any(one.touched for one in untouched)

    internet.inside(tmp_path, act)


QUERY = """
import socket, struct
def query(name):
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\\0" + struct.pack("!2H", 1, 1)
for family, address in ((2, "127.0.0.53"), (10, "::1")):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(10)
        s.sendto(query("udp.evil.example"), (address, 53))
        print(s.recv(512)[3] & 15)
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(10)
        s.connect((address, 53))
        data = query("tcp.evil.example")
        s.sendall(struct.pack("!H", len(data)) + data)
        print(s.recv(512)[5] & 15)
"""


def test_whoever_asks_any_loopback_address_for_names_is_counted_by_name(tmp_path: Path) -> None:
    """S12: also programs that read no configuration and have a local resolver's address built in."""

    def act() -> None:
        with boxes.started(boxes.make(policy=internet.policy("allowed.test:80"))) as keeper:
            got = python(keeper, QUERY)
            assert (got.exit, got.out) == (0, b"3\n" * 4), got.err
            assert counted(keeper) == {("dns", "udp.evil.example"): 2, ("dns", "tcp.evil.example"): 2}
            assert all("python3" in row["command"] for row in keeper.call("tally")["rows"])

    internet.inside(tmp_path, act)


INSIDE = """
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8000), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:8000/hello").read().decode(), flush=True)
input()
"""


def test_a_server_inside_is_reached_inside_and_nowhere_else(tmp_path: Path) -> None:
    def act() -> None:
        paths = boxes.make(policy=internet.policy("allowed.test:80", "126.0.0.0/7:8000"))
        (paths.tree / "hello").write_text("hello from inside")
        (paths.tree / "hello").chmod(0o644)
        with boxes.started(paths) as keeper:
            running = boxes.Running(keeper, ["/usr/bin/python3", "-I", "-c", INSIDE])
            assert running.read(b"\n") == b"hello from inside\n"
            for address in ("127.0.0.1", ALLOWED):
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((address, 8000), 5)
            assert running.finish(b"\n").exit == 0
            assert counted(keeper) == {}

    internet.inside(tmp_path, act)


SOCKETS = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for family, kind, protocol in ((17, 3, 768), (16, 3, 12), (16, 3, 15), (40, 1, 0), (2, 3, 1), (10, 3, 58)):
    for _ in range(3):
        fd = libc.socket(family, kind, protocol)
        print("MADE" if fd >= 0 else errno.errorcode[ctypes.get_errno()])
print("route", libc.socket(16, 3, 0) >= 0)
"""


def test_sockets_of_other_families_are_refused_and_counted_by_family(tmp_path: Path) -> None:
    def act() -> None:
        with boxes.started(boxes.make(policy=internet.policy("allowed.test:80"))) as keeper:
            lines = python(keeper, SOCKETS).out.decode().splitlines()
            assert "MADE" not in lines and lines[-1] == "route True"
            rows = Counter({shown: count for (kind, shown), count in counted(keeper).items()})
            assert sum(rows.values()) == 18
            for family, count in (("AF_PACKET", 3), ("AF_NETLINK", 6), ("AF_VSOCK", 3)):
                assert sum(n for shown, n in rows.items() if family in shown) == count, rows

    internet.inside(tmp_path, act)


DAEMON = """
import os, socket, sys, time
if os.fork(): sys.exit()
os.setsid()
if os.fork(): os._exit(0)
for fd in (0, 1, 2): os.close(fd)
for _ in range(7):
    with socket.socket() as s:
        s.connect_ex((sys.argv[1], 443))
open("/work/done", "w").close()
time.sleep(60)
"""


@pytest.mark.skipif(not os.path.exists(BUSYBOX), reason="busybox is not installed")
def test_daemons_and_renamed_static_programs_are_held_like_all_others(tmp_path: Path) -> None:
    def act() -> None:
        untouched = [Listener(OTHER, 443), Listener(OTHER, 80)]
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            python(keeper, DAEMON, OTHER)
            script = (
                f"until [ -e done ]; do sleep 0.05; done; cp {BUSYBOX} innocent; exec -a wget ./innocent "
            )
            got = boxes.run(keeper, "/bin/bash", "-c", f"{script} -q -O - http://{OTHER}/")
            assert got.exit == 1, got
            assert counted(keeper) == {("net", f"{OTHER}:443"): 7, ("net", f"{OTHER}:80"): 1}
            commands = {row["object"]: row["command"] for row in keeper.call("tally")["rows"]}
            assert "python3" in commands[f"{OTHER}:443"]
            assert "wget" in commands[f"{OTHER}:80"]
        assert not any(one.touched for one in untouched)

    internet.inside(tmp_path, act)


FLOOD = """
import socket, sys
first = int(sys.argv[1])
for number in range(first, first + int(sys.argv[2])):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try: s.sendto(b"x", ("45.%d.%d.%d" % (number >> 16, number >> 8 & 255, number & 255), 9))
        except OSError: pass
for _ in range(5):
    with socket.socket() as s:
        s.connect_ex((sys.argv[3], 443))
"""


def test_a_flood_of_destinations_hides_no_refusal(tmp_path: Path) -> None:
    """S11: what finds no row of its own is in the total and in "others", exactly."""

    def act() -> None:
        with boxes.started(boxes.make(policy=internet.policy("allowed.test:80"))) as keeper:
            assert python(keeper, FLOOD, "0", "300", OTHER).exit == 0
            assert python(keeper, FLOOD, "65536", "6000", OTHER).exit == 0
            tally = keeper.call("tally")
            rows = {row["object"]: row["count"] for row in tally["rows"]}
            assert tally["total"] == 300 + 6000 + 10
            assert tally["total"] == sum(rows.values()) + tally["others"]
            again = python(keeper, FLOOD, "0", "0", OTHER)
            assert again.exit == 0
            later = keeper.call("tally")
            assert later["total"] == tally["total"] + 5
            gained = sum(row["count"] for row in later["rows"]) - sum(rows.values())
            assert gained + later["others"] - tally["others"] == 5

    internet.inside(tmp_path, act)


def test_what_was_refused_just_before_the_end_is_in_the_journal(tmp_path: Path) -> None:
    def act() -> None:
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            python(keeper, FLOOD, "0", "3", OTHER)
        counts = {one["object"]: one["count"] for one in boxes.records(paths, "denial")}
        assert counts == {f"45.0.0.{n}:9/udp": 1 for n in range(3)} | {f"{OTHER}:443": 5}

    internet.inside(tmp_path, act)


FULL = """
import os, resource, select, socket, sys
children = []
for _ in range(4):
    if not os.fork():
        held = []
        for _ in range(1250):
            s = socket.socket()
            s.settimeout(20)
            try: s.connect((sys.argv[1], 80))
            except OSError: pass
            held.append(s)
        os._exit(0)
for _ in range(4): os.wait()
"""


def test_five_thousand_connections_do_not_close_the_journal(tmp_path: Path) -> None:
    """S13: beyond the cap they are reset and counted; what is journalled and listed goes on."""
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        Web(ALLOWED, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            running = boxes.Running(keeper, ["/usr/bin/python3", "-I", "-S", "-c", FULL, ALLOWED])
            keeper.call("flush")
            assert running.finish(limit=60.0).exit == 0
            (row,) = keeper.call("tally")["rows"]
            assert (row["kind"], row["object"], row["enforced_by"]) == ("limit", "connections", "relay")
            assert 0 < row["count"] <= 4000
            got = boxes.run(keeper, "curl", "-sS", "http://allowed.test/index.html")
            assert (got.exit, got.out) == (0, b"hello from outside"), got.err
            log = paths.keeper_log.read_text()
            assert "Traceback" not in log and log.count("connections are refused") <= 5
        assert journal.verify(paths.journal).problems == ()

    internet.inside(tmp_path, act)


MANY = """
import socket, sys
want = int(sys.argv[1])
held = []
for _ in range(want):
    s = socket.socket()
    s.settimeout(30)
    s.connect((sys.argv[2], 80))
    held.append(s)
for s in held:
    s.sendall(b"GET /index.html HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
good = 0
for s in held:
    got = b""
    while not got.endswith(b"hello from outside"):
        chunk = s.recv(65536)
        if not chunk:
            break
        got += chunk
    good += got.endswith(b"hello from outside")
print(good)
"""


def test_five_hundred_connections_at_a_time_leave_the_keeper_its_descriptors(tmp_path: Path) -> None:
    """S13: all of them are served, the journal is still written, and afterwards none is left open."""
    (tmp_path / "index.html").write_text("hello from outside")

    def act() -> None:
        Web(ALLOWED, 80, tmp_path)
        paths = boxes.make(policy=internet.policy("allowed.test:80"))
        with boxes.started(paths) as keeper:
            pid = keeper.call("hello")["keeper"]
            python(keeper, MANY, "1", ALLOWED)
            before = descriptors_of(pid)
            running = boxes.Running(keeper, ["/usr/bin/python3", "-I", "-S", "-c", MANY, "500", ALLOWED])
            assert keeper.call("stat")["state"] == "running"
            assert running.finish(limit=60.0).out == b"500\n"
            assert counted(keeper) == {}
            assert python(keeper, TRY, f"tcp|{OTHER}|443").exit == 0
            assert counted(keeper) == {("net", f"{OTHER}:443"): 1}
            wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before, "none is left open")
            (row,) = keeper.call("egress")["rows"]
            assert row[4] == 501
        assert journal.verify(paths.journal).problems == ()

    internet.inside(tmp_path, act)


def test_a_box_that_is_denied_all_reaches_no_name_and_is_never_widened(tmp_path: Path) -> None:
    def act() -> None:
        web = Web(ALLOWED, 80, tmp_path)
        paths = boxes.make(policy=internet.policy(mode="deny"))
        with boxes.started(paths) as keeper:
            with pytest.raises(Exception, match="never widened"):
                keeper.call("allow", rule="allowed.test:80", who="t")
            assert boxes.run(keeper, "curl", "-sS", "http://allowed.test/").exit == 6
            assert boxes.run(keeper, "curl", "-sS", f"http://{ALLOWED}/").exit == 7
            assert counted(keeper)["net", f"{ALLOWED}:80"] == 1
            assert counted(keeper)["dns", "allowed.test"] == 2
            assert keeper.call("egress")["rows"] == []
        assert web.accepted == 0
        assert not boxes.records(paths, "egress-rule")

    internet.inside(tmp_path, act)
