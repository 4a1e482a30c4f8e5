"""A TLS connection may say hello twice, when the server asks for it: both must name an allowed host."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.keeper.relay_http import NotPassed
from backends.keeper.relay_tls import Hellos
from tests.egress.hellos import records
from tests.keeper.relays import client_hello, served

GOOD, EVIL = "good.example.com", "evil.example.net"
HELLO = client_hello(GOOD)
BAD = client_hello(EVIL)
CHANGE = b"\x14\x03\x03\x00\x01\x01"
EARLY = b"\x17\x03\x03\x00\x05early"
FINISHED = b"\x16\x03\x03\x00\x08\x01\x00\x00\x28\x03\x03\x03\x03"  # of TLS 1.2, encrypted: any bytes
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def answer(random: bytes, sizes: tuple[int, ...] = ()) -> bytes:
    return records(b"\x02\x00\x00\x28\x03\x03" + random + bytes(8), sizes)


def hellos() -> Hellos:
    def admit(name: str) -> None:
        if name != GOOD:
            raise NotPassed("no", name)

    return Hellos(admit)


def send(one: Hellos, data: bytes, size: int = 0) -> bytes:
    """What passes of ``data`` in pieces; ends with "|" where it is refused."""
    out = b""
    try:
        for at in range(0, len(data), size or len(data)):
            out += one.sent(data[at : at + (size or len(data))])
    except NotPassed:
        out += b"|"
    return out


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("between", [b"", CHANGE, CHANGE + EARLY])
@pytest.mark.parametrize("when", ["after", "before"])
def test_a_second_hello_for_another_host_never_passes(size: int, between: bytes, when: str) -> None:
    for again in (BAD, records(BAD[5:], (1, 3, 20, 1, 1))):
        one = hellos()
        assert send(one, HELLO, size) == HELLO
        if when == "after":
            assert one.answered(answer(RETRY)) == b""
        # Of a piece that is refused in part nothing passes.
        assert send(one, between + again, size) == (between if size else b"") + b"|"


def test_a_second_hello_in_the_record_of_the_first_does_not_pass() -> None:
    assert send(hellos(), records(HELLO[5:] + BAD[5:])) == b"|"
    assert send(hellos(), records(HELLO[5:] + HELLO[5:])) == b"|"


@pytest.mark.parametrize("size", [0, 1, 7])
def test_what_comes_after_the_second_hello_is_passed_unread(size: int) -> None:
    one = hellos()
    assert send(one, HELLO, size) == HELLO
    one.answered(answer(RETRY))
    rest = CHANGE + HELLO + CHANGE + FINISHED + b"anything"
    assert send(one, rest, size) == rest
    assert one.done


@pytest.mark.parametrize("sizes", [(), (1, 2, 3), (38,)])
@pytest.mark.parametrize("step", [1, 1000])
def test_a_server_that_takes_the_first_hello_ends_the_checks(sizes: tuple[int, ...], step: int) -> None:
    one = hellos()
    send(one, HELLO)
    assert one.sent(FINISHED[:7]) == b""
    kept, data = b"", b"\x15\x03\x03\x00\x02\x01\x70" + answer(b"\x07" * 32, sizes)
    for at in range(0, len(data), step):
        if not one.told:
            kept += one.answered(data[at : at + step])
    assert kept == FINISHED[:7]
    assert one.done and send(one, FINISHED[7:] + BAD) == FINISHED[7:] + BAD


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_pass_or_are_refused(data: bytes, again: bool) -> None:
    one = hellos()
    send(one, HELLO)
    with contextlib.suppress(NotPassed):
        passed = one.answered(answer(RETRY)) if again else b""
        passed += one.sent(data)
        assert data.startswith(passed)
    one.answered(data)


# ---- with OpenSSL on both sides


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server whose only group no client guesses, so that it asks each for a second hello."""
    key: Path = tmp_path_factory.mktemp("tls") / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-keyout", str(key), "-out", str(key) + ".crt", "-subj", f"/CN={GOOD}", "-days", "2"]
    subprocess.run(words, check=True, capture_output=True)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(str(key) + ".crt", key)
    made.set_ecdh_curve("secp521r1")
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    return made


def talk(client: socket.socket, change: Callable[[bytes], bytes]) -> bytes:
    """A handshake by hand, each flight of the client's through ``change``, then eight bytes each way."""
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = plain.wrap_bio(into, out, server_hostname=GOOD)
    flights = 0
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            flights += 1
            client.sendall(change(out.read()) if flights > 1 else out.read())
            into.write(client.recv(1 << 16))
    assert flights > 1, "the server asked for a second hello"
    session.write(b"question")
    client.sendall(out.read())
    while True:
        try:
            return session.read(8)
        except ssl.SSLWantReadError:
            into.write(client.recv(1 << 16))


def test_a_server_that_asks_for_a_second_hello_is_reached(context: ssl.SSLContext) -> None:
    def serve(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as secure:
            secure.sendall(secure.recv(8)[::-1])

    with served(serve, (GOOD,), (GOOD,), port=443) as (one, _), one.connect() as client:
        assert talk(client, lambda flight: flight) == b"noitseuq"
        assert one.refusals == []


def test_a_server_is_not_told_another_name_by_a_second_hello(context: ssl.SSLContext) -> None:
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True):
            names.append("a whole handshake")

    with served(serve, (GOOD,), (GOOD,), port=443) as (one, server), one.connect() as client:
        with contextlib.suppress(OSError, ssl.SSLError):
            talk(client, lambda flight: flight.replace(GOOD.encode(), EVIL.encode()))
        one.settle(lambda: len(one.refusals) == 1)
        server.wait()
        assert f"(SNI {EVIL})" in one.refusals[0][0].object
    assert EVIL not in names and "a whole handshake" not in names
