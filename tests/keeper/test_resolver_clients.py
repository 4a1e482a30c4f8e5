"""Real programs' resolvers against the keeper's: denied names fail at once, and the host sees none (N1)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.real

WORLD = Path(__file__).with_name("resolver_world.py")
PATIENCE = 4.0  # seconds; a client that waits for an answer that it does not take waits for five

PYTHON = """
import socket, sys
try:
    print(*sorted({one[4][0] for one in socket.getaddrinfo(sys.argv[1], 443)}))
except socket.gaierror as error:
    print("no", error.errno)
"""
DIG = """
import sys, dnslib, socket, struct
name, kind, way = sys.argv[1:]
query = dnslib.DNSRecord.question(name, kind)
data = query.send("127.0.0.2", 53, tcp=way == "tcp", timeout=30)
reply = dnslib.DNSRecord.parse(data)
print(reply.header.rcode, *(one.rdata for one in reply.rr))
"""
# What musl takes as a reply (src/network/res_msend.c): it passes over all other codes and waits.
MUSL_TAKES = ("0", "3")
CARES = "require('dns').resolve4(process.argv[1], (e, a) => console.log(e ? 'no ' + e.code : a.join(' ')))"
LIBUV = "require('dns').lookup(process.argv[1], (e, a) => console.log(e ? 'no ' + e.code : a))"


def glibc(name: str) -> list[str]:
    return [sys.executable, "-I", "-c", PYTHON, name]


def dig(name: str, kind: str = "A", way: str = "udp") -> list[str]:
    return [sys.executable, "-I", "-c", DIG, name, kind, way]


def world(folder: Path, commands: Sequence[list[str]]) -> dict[str, Any]:
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            sys.executable,
            WORLD,
            folder,
        ],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(ROOT)},
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    for command, one in zip(commands, result["done"], strict=True):
        assert one["code"] == 0, (command, one)
    return result


def outputs(result: dict[str, Any]) -> list[str]:
    return [one["out"].strip() for one in result["done"]]


def test_allowed_names_are_found_by_every_client_and_denied_ones_fail_at_once(tmp_path: Path) -> None:
    expected = [
        (glibc("API.example.com"), "93.184.216.34"),
        (glibc("a.cdn.example"), "93.184.216.40"),
        (glibc("denied.example"), "no -2"),
        (dig("api.example.com", "A", "tcp"), "0 93.184.216.34"),
        (dig("denied.example", "A", "tcp"), "3"),
    ]
    node = shutil.which("node")
    if node:
        expected += [
            ([node, "-e", CARES, "api.example.com"], "93.184.216.34"),
            ([node, "-e", CARES, "denied.example"], "no ENOTFOUND"),
            ([node, "-e", LIBUV, "api.example.com"], "93.184.216.34"),
            ([node, "-e", LIBUV, "denied.example"], "no ENOTFOUND"),
        ]
    result = world(tmp_path, [command for command, _ in expected])
    assert outputs(result) == [text for _, text in expected]
    denied = [one for one, (_, text) in zip(result["done"], expected, strict=True) if text[:2] in ("no", "3")]
    assert all(one["seconds"] < PATIENCE for one in denied), denied
    assert set(result["denied"]) == {"denied.example"}
    assert result["pinned"] == {"a.cdn.example": ["93.184.216.40"]}
    assert result["lost"] == {}


def test_the_host_s_name_server_sees_no_denied_name_over_udp_or_tcp(tmp_path: Path) -> None:
    names = (
        "denied.example",
        "secret.data.denied.example",
        "cdn.example",
        "xcdn.example",
        "api.example.com.x.example",
    )
    commands = [
        dig(name, kind, way) for name in names for kind in ("A", "AAAA", "TXT") for way in ("udp", "tcp")
    ]
    result = world(tmp_path, commands)
    assert result["seen"] == []
    assert result["denied"] == dict.fromkeys(names, 6)
    assert {text.split()[0] for text in outputs(result)} <= set(MUSL_TAKES)


def test_a_name_below_a_wildcard_is_asked_as_it_is_and_its_private_answers_are_refused(
    tmp_path: Path,
) -> None:
    asked = ["a.cdn.example", "inner.cdn.example", "meta.cdn.example", "none.cdn.example"]
    result = world(tmp_path, [dig(name) for name in asked] + [dig("a.cdn.example", "TXT")])
    assert outputs(result) == ["0 93.184.216.40", "3", "3", "3", "0"]
    assert set(result["seen"]) == set(asked)
    assert result["denied"] == {"inner.cdn.example": 1, "meta.cdn.example": 1}
    assert result["pinned"] == {"a.cdn.example": ["93.184.216.40"]}
