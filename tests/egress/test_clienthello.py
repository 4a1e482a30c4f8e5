"""The server name of a TLS hello, however it is cut up, and none from what two could read differently."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.egress.clienthello import ClientHello
from backends.egress.spoken import LIMIT, NEED, Bad, Found, Result
from tests.egress import hellos

NAMED = hellos.hello(hellos.SUPPORTED_VERSIONS, hellos.server_name(b"a.example"))


def read(data: bytes, cuts: tuple[int, ...] = ()) -> Result:
    parser = ClientHello()
    result: Result = NEED
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        result = parser.feed(data[start:end])
    return result


def test_the_name_that_openssl_says_is_found() -> None:
    assert read(hellos.real("api.example.com")) == Found("api.example.com")
    assert read(hellos.real("bücher.example")) == Found("xn--bcher-kva.example")


def test_openssl_without_a_name_says_none() -> None:
    assert read(hellos.real(None)) == Bad("the TLS hello says no server name")
    assert read(hellos.real("192.0.2.1")) == Bad("the TLS hello says no server name")  # as RFC 6066 demands


@given(st.lists(st.integers(1, 120), max_size=12), st.lists(st.integers(0, 400), max_size=8))
def test_a_hello_over_many_records_and_reads_is_one_hello(sizes: list[int], cuts: list[int]) -> None:
    whole = hellos.message(
        [(hellos.GREASE[0], b""), hellos.server_name(b"A.Example"), hellos.SUPPORTED_VERSIONS]
    )
    data = hellos.records(whole, sizes)
    where = tuple(sorted(min(cut, len(data)) for cut in cuts))
    assert read(data, where) == Found("a.example")
    assert read(data[:-1], tuple(min(cut, len(data) - 1) for cut in where)) == NEED


def test_one_byte_in_each_record_and_each_read_is_read() -> None:
    whole = hellos.message([hellos.server_name(b"a.example")])
    data = hellos.records(whole, [1] * len(whole))
    assert read(data, tuple(range(1, len(data)))) == Found("a.example")


@given(st.permutations([*hellos.GREASE, 10, 13, 51]), st.integers(0, 6))
def test_grease_and_unknown_extensions_change_nothing(kinds: list[int], at: int) -> None:
    extensions = [(kind, b"\x00" * (kind % 3)) for kind in kinds]
    extensions.insert(at, hellos.server_name(b"a.example"))
    assert read(hellos.hello(*extensions)) == Found("a.example")


def test_what_follows_the_hello_is_no_part_of_it() -> None:
    early = b"\x17\x03\x03\x00\x05early"
    assert read(NAMED + early) == Found("a.example")
    assert read(NAMED + b"\0" * LIMIT) == Found("a.example")


def test_an_outer_hello_of_ech_is_noted() -> None:
    outer = (hellos.ECH, b"\0" + b"\x01" * 60)
    assert read(hellos.hello(outer, hellos.server_name(b"public.example"))) == Found(
        "public.example", ech=True
    )
    inner = (hellos.ECH, b"\x01")
    assert isinstance(read(hellos.hello(inner, hellos.server_name(b"a.example"))), Bad)
    assert isinstance(read(hellos.hello((hellos.ECH, b""), hellos.server_name(b"a.example"))), Bad)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (hellos.records(hellos.message(None)), "says no server name"),
        (hellos.hello(), "says no server name"),
        (hellos.hello(hellos.SUPPORTED_VERSIONS), "says no server name"),
        (hellos.hello(hellos.server_name(b"a.example", b"b.example")), "several server names"),
        (hellos.hello(hellos.server_name(b"a.example", b"a.example")), "several server names"),
        (hellos.hello(hellos.server_name(b"a.example"), hellos.server_name(b"b.example")), "stands twice"),
        (
            hellos.hello(hellos.server_name(b"a.example"), (hellos.GREASE[0], b""), (hellos.GREASE[0], b"")),
            "twice",
        ),
        (hellos.hello(hellos.server_name(b"a.example", kind=1)), "unknown type"),
        (hellos.hello((0, b"")), "a length"),
        (hellos.hello((0, b"\0\0")), "a length"),
        (hellos.hello((0, b"\x00\x0c\x00\x00\x09a.example\x00")), "a length"),
        (hellos.hello((0, b"\x00\x0c\x00\x00\x0aa.example")), "a length"),
        (hellos.hello(hellos.server_name(b"")), "is no name"),
        (hellos.hello(hellos.server_name(b"a.example\0.evil.example")), "is no name"),
        (hellos.hello(hellos.server_name("ä.example".encode())), "is no name"),
        (hellos.hello(hellos.server_name(b"*.example")), "is no name"),
        (hellos.hello(hellos.server_name(b"a..example")), "is no name"),
        (hellos.hello(hellos.server_name(b"134744072")), "is no name"),
        (hellos.hello(hellos.server_name(b"a" * 300)), "is no name"),
        (hellos.records(b"\x02" + hellos.vector(3, b"x" * 40)), "does not begin with a TLS hello"),
        (hellos.records(b"\x01" + hellos.vector(3, b"x" * 20)), "a length"),
        (
            hellos.records(
                b"\x01" + hellos.vector(3, hellos.body([hellos.server_name(b"a.example")]) + b"\0")
            ),
            "a length",
        ),
        (hellos.records(b"\x01" + (LIMIT + 1).to_bytes(3, "big")), "too long"),
        (b"\x16\x03\x01\x00\x00", "empty or too long"),
        (b"\x16\x03\x01\x40\x01", "empty or too long"),
        (b"\x16\x02", "no TLS record"),
        (b"\x15\x03\x01\x00\x02\x01\x00", "does not begin with a TLS hello"),
        (b"\x80\x2e\x01\x03\x01", "does not begin with a TLS hello"),
        (b"GET / HTTP/1.1\r\n", "does not begin with a TLS hello"),
        (NAMED[:20] + b"", None),
        (
            hellos.records(hellos.message([])[:8]) + b"\x17\x03\x03\x00\x01x",
            "does not begin with a TLS hello",
        ),
    ],
)
def test_what_two_servers_could_read_differently_is_no_name(data: bytes, why: str | None) -> None:
    result = read(data)
    if why is None:
        assert result == NEED
    else:
        assert isinstance(result, Bad)
        assert why in result.reason


def test_the_text_of_an_address_is_found_as_such() -> None:
    assert read(hellos.hello(hellos.server_name(b"192.0.2.1"))) == Found("192.0.2.1")


def test_an_answer_is_final() -> None:
    parser = ClientHello()
    assert parser.feed(NAMED) == Found("a.example")
    assert parser.feed(hellos.hello(hellos.server_name(b"b.example"))) == Found("a.example")
    parser = ClientHello()
    bad = parser.feed(b"x")
    assert isinstance(bad, Bad)
    assert parser.feed(NAMED) == bad


def test_a_hello_that_never_ends_is_bounded() -> None:
    parser = ClientHello()
    start = b"\x01" + (LIMIT - 4).to_bytes(3, "big") + b"\0" * 12000
    assert parser.feed(hellos.records(start)) == NEED
    result: Result = NEED
    for _ in range(LIMIT):
        result = parser.feed(b"\x16\x03\x01\x00\x01\0")
        if result != NEED:
            break
    assert result == Bad(f"no TLS hello in the first {LIMIT} bytes")


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, len(NAMED)), st.integers(0, 60), st.data())
def test_garbage_is_answered_the_same_however_it_is_cut(
    garbage: bytes, at: int, gone: int, data: st.DataObject
) -> None:
    for stream in (garbage, NAMED[:at] + garbage + NAMED[at + gone :]):
        cuts = tuple(sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4))))
        whole, parts = read(stream), read(stream, cuts)
        assert whole == parts
        if isinstance(whole, Found):
            assert whole.name == whole.name.lower() != ""


@given(st.integers(5, len(NAMED) - 1), st.integers(0, 255))
def test_a_hello_with_one_byte_changed_never_raises_and_says_one_name_at_most(at: int, value: int) -> None:
    result = read(NAMED[:at] + bytes((value,)) + NAMED[at + 1 :])
    assert result == NEED or isinstance(result, (Bad, Found))
