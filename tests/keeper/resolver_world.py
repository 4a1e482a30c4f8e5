"""A host and a box in one private network: a logging name server, the keeper's resolver, and real clients.

Run as ``unshare --user --map-root-user --net --mount --fork --pid python resolver_world.py FOLDER``. Reads a
JSON list of commands from standard input; each runs with the resolver as its only name server. Prints, for
each, its exit code, its output and the seconds it took; then what was refused, pinned and lost, and what the
host's name server saw. FOLDER is for files of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import dnslib

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.keeper.resolver import Resolver

HOST, BOX = "127.0.0.1", "127.0.0.2"
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
ANSWERS = {
    "a.cdn.example": ["93.184.216.40", "10.0.0.1"],
    "inner.cdn.example": ["10.0.0.1"],
    "meta.cdn.example": ["169.254.169.254"],
}


def main() -> None:
    with socket.socket() as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    folder = Path(sys.argv[1])
    use_name_server(folder / "host", f"nameserver {HOST}\nsearch corp.example\n")
    seen: list[str] = []
    serve_host(seen)
    loop = Loop(lambda where, error: print(where, repr(error), file=sys.stderr))
    denied: dict[str, int] = {}
    pinned: dict[str, tuple[str, ...]] = {}
    lost: dict[str, int] = {}
    resolver = Resolver(
        loop,
        Log(),
        sockets(BOX),
        Matcher(rules.parse_all(["api.example.com", "*.cdn.example"])),
        Pins([Pin("api.example.com", ("93.184.216.34",), 0.0)]),
        lambda refusal, _pid, _command, count: denied.update(
            {refusal.object: denied.get(refusal.object, 0) + count}
        ),
        pinned=lambda name, found: pinned.update({name: found}),
        lost=lambda what, count: lost.update({what: lost.get(what, 0) + count}),
    )
    thread = threading.Thread(target=loop.run)
    thread.start()
    (folder / "box").write_text(f"nameserver {BOX}\n")
    done = [run(command, folder / "box") for command in json.load(sys.stdin)]
    loop.later(0, loop.stop)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wake:
        wake.sendto(b"", (BOX, 53))
    thread.join()
    denied.pop("(malformed)", None)
    resolver.close()
    result = {"done": done, "denied": denied, "pinned": pinned, "lost": lost, "seen": seen}
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)


def use_name_server(path: Path, text: str) -> None:
    path.write_text(text)
    subprocess.run(["mount", "--bind", path, "/etc/resolv.conf"], check=True)


def sockets(address: str) -> list[socket.socket]:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, 53))
    return [udp, socket.create_server((address, 53))]


def serve_host(seen: list[str]) -> None:
    udp, tcp = sockets(HOST)

    def answer(data: bytes) -> bytes:
        query = dnslib.DNSRecord.parse(data)
        name = str(query.q.qname).removesuffix(".").lower()
        seen.append(name)
        reply = query.reply()
        if name not in ANSWERS:
            reply.header.rcode = 3
        elif query.q.qtype == 1:
            for one in ANSWERS[name]:
                reply.add_answer(dnslib.RR(query.q.qname, 1, rdata=dnslib.A(one), ttl=60))
        return bytes(reply.pack())

    def datagrams() -> None:
        while True:
            data, sender = udp.recvfrom(4096)
            udp.sendto(answer(data), sender)

    def connections() -> None:
        while True:
            tcp.accept()[0].close()
            seen.append("a connection")

    for serve in (datagrams, connections):
        threading.Thread(target=serve, daemon=True).start()


def run(command: list[str], resolv: Path) -> dict[str, object]:
    script = f'mount --bind {resolv} /etc/resolv.conf && exec "$@"'
    begun = time.monotonic()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    seconds = time.monotonic() - begun
    return {"code": done.returncode, "out": done.stdout + done.stderr, "seconds": seconds}


if __name__ == "__main__":
    main()
