"""A rule has one spelling, and what nothing could enforce is no rule."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from backends.egress import addresses, hostnames, suffixes
from backends.egress.matcher import Matcher
from backends.egress.networks import NEVER, Network, network, unusable
from backends.egress.rules import BadRule, Rule, parse, parse_all
from backends.errors import EXIT_USAGE

labels = st.from_regex(r"[a-z0-9_]([a-z0-9_-]{0,8}[a-z0-9_])?", fullmatch=True)
names = st.lists(labels, min_size=1, max_size=5).map(".".join)
ports = st.integers(1, 65535)
packed = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
anything = st.text(max_size=40) | st.text("ab.*:/[]0x18rw%- é", max_size=24)


def parsed(text: str) -> Rule | None:
    try:
        return parse(text)
    except BadRule:
        return None


@given(anything | names | st.tuples(names, ports).map(lambda pair: f"{pair[0]}:{pair[1]}"))
@example("raw:raw:a")
@example("[::]:1")
@example("\u212a.example")
@example("\u0130.example")
@example("*.")
@example("xn--.example")
def test_a_text_is_a_rule_that_parses_to_itself_or_is_refused(text: str) -> None:
    rule = parsed(text)
    if rule is None:
        return
    assert parse(rule.text) == rule
    assert rule.text.isascii() and rule.text == rule.text.lower() == rule.text.strip()
    assert 1 <= rule.port <= 65535
    assert (rule.network is None) is (rule.kind != "network") is (rule.host != "")


@given(names, ports, st.booleans(), st.sampled_from(["", "*.", "raw:"]), st.data())
def test_case_a_final_dot_and_the_usual_port_do_not_count(
    name: str, port: int, dot: bool, prefix: str, data: st.DataObject
) -> None:
    plain = f"{prefix}{name}:{port}"
    rule = parsed(plain)
    assume(rule is not None)
    mixed = "".join(data.draw(st.sampled_from([char.lower(), char.upper()])) for char in prefix + name)
    assert parsed(f" {mixed}{'.' if dot else ''}:{port} ") == rule
    assert (parsed(mixed) == rule) is (port == 443)


@given(packed, st.integers(0, 128), ports)
def test_every_network_that_is_kept_is_the_one_that_was_written(raw: bytes, bits: int, port: int) -> None:
    bits = min(bits, len(raw) * 8)
    shown = ipaddress.ip_network((raw, bits), strict=False)
    rule = parsed(f"{shown}:{port}")
    if rule is None:
        assert unusable(network(str(shown)))
        return
    assert rule.network is not None
    family = socket.AF_INET6 if rule.network.version == 6 else socket.AF_INET
    kept = ipaddress.ip_network((rule.network.packed, rule.network.bits))
    assert socket.inet_ntop(family, rule.network.packed) == str(kept.network_address)
    if kept.version == shown.version:
        assert kept == shown
    else:
        assert isinstance(shown, ipaddress.IPv6Network) and shown[0].ipv4_mapped == kept[0]
    assert (rule.kind, rule.port, rule.raw) == ("network", port, True)


@given(packed, st.integers(0, 128), packed)
def test_a_network_covers_what_the_library_says_and_opens_nothing_that_is_never_reached(
    raw: bytes, bits: int, other: bytes
) -> None:
    bits = min(bits, len(raw) * 8)
    library = ipaddress.ip_network((raw, bits), strict=False)
    found = Network(library.network_address.packed, bits)
    target = addresses.plain(other)
    assert found.covers(target) is (len(raw) == len(target) and ipaddress.ip_address(target) in library)
    opened = found.opens(target)
    special = addresses.special(target)
    if opened.allowed:
        assert found.covers(target)
        assert special is None or (special.reason not in NEVER and found.bits >= special.bits)
    elif found.covers(target):
        assert special is not None
        assert special.reason in opened.reason


@given(packed)
def test_a_rule_for_one_address_opens_exactly_that_address_or_does_not_exist(raw: bytes) -> None:
    text = str(ipaddress.ip_address(raw))
    rule = parsed(f"[{text}]" if len(raw) == 16 else text)
    verdict = rule is not None and Matcher([rule]).destination(text, 443).allowed
    assert verdict is (rule is not None)
    if addresses.classify(text).allowed:
        assert rule is not None


@pytest.mark.parametrize(
    "row", [*addresses.IPV4, *addresses.IPV6], ids=lambda row: f"{row.start:x}/{row.bits}"
)
def test_each_special_range_may_be_named_unless_nothing_is_there(row: addresses.Range) -> None:
    width = 4 if row in addresses.IPV4 else 16
    text = str(Network(row.start.to_bytes(width, "big"), row.bits))
    shown = f"[{text}]" if ":" in text and "/" not in text else text
    if row.reason in NEVER or text == "fe80::/10":
        with pytest.raises(BadRule, match="no box reaches another host there"):
            parse(shown)
    else:
        assert parse(shown).text == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2130706433", "four decimal numbers"),
        ("0x7f000001", "four decimal numbers"),
        ("0177.0.0.1", "four decimal numbers"),
        ("127.1", "four decimal numbers"),
        ("1.2.3.4.5", "four decimal numbers"),
        ("1.2.3.256", "four decimal numbers"),
        ("host.0x1", "four decimal numbers"),
        ("host.1", "four decimal numbers"),
        ("*.1", "four decimal numbers"),
        ("127.0.0.0/8", "loopback"),
        ("127.8.0.0/16", "loopback"),
        ("0.0.0.0/8", "this network"),
        ("255.255.255.255", "broadcast"),
        ("240.0.0.0/4", "reserved"),
        ("ff02::/16", "multicast"),
        ("[::]", "unspecified"),
        ("::/96", "outside"),
        ("[2002:7f00:1::]", "6to4 of 127.0.0.1"),
        ("[::169.254.169.254]", "IPv4-compatible of 169.254.169.254"),
        ("fe80::/64", "zone"),
        ("sub.localhost", "loopback"),
        ("*.localhost", "loopback"),
        ("[a.example]", "brackets"),
        ("[::1", "brackets"),
        ("[2606::1]443", ":PORT"),
        ("2606::/129", "from 0 to 128"),
        ("8.8.8.0/33", "from 0 to 32"),
        ("8.8.8.0/", "from 0 to 32"),
        ("8.8.8.0/255.255.255.0", "from 0 to 32"),
        ("a.example:٤٤٣", "port"),
        ("a.example:+443", "port"),
        ("a.example:443:443", "brackets"),
        ("user@a.example", "letters, digits"),
        ("a b.example", "letters, digits"),
        ("-a.example", "letters, digits"),
        ("a" * 64 + ".example", "at most 63"),
        (".".join(["a" * 60] * 5), "at most 253"),
        ("a" * 600, "at most 512"),
        ("", "a name is missing"),
        ("raw:", "a name is missing"),
        (".", "a name is missing"),
        ("a\u3002example", "two standards"),
        ("fa\u00df.example", "two standards"),
        ("a\u200d.example", "two standards"),
        ("\u212a.example", "two standards"),
        ("a\u115fb.example", "two standards"),  # a filler that the newer standard drops
        ("\u13a0.example", "two standards"),  # Cherokee had one case only
        ("\U0001f680.example", "two standards"),  # newer than Unicode 3.2
        ("\ufb01.example", "two standards"),
    ],
)
def test_what_nothing_could_enforce_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(BadRule) as caught:
        parse(text)
    assert why in caught.value.why
    assert caught.value.why.startswith(repr(text[:512]))
    assert (caught.value.code, caught.value.exit_code) == ("bad-rule", EXIT_USAGE)


def test_names_outside_ascii_become_the_labels_that_dns_and_tls_say() -> None:
    assert parse("BÜCHER.example").text == "xn--bcher-kva.example"
    assert parse("bu\u0308cher.example").text == "xn--bcher-kva.example"  # composed first (RFC 5198)
    assert parse("*.пример.example:22").text == "*.xn--e1afmkfd.example:22"


@given(st.text(min_size=1, max_size=12))
def test_a_name_outside_ascii_is_read_as_the_newer_standard_reads_it_or_not_at_all(text: str) -> None:
    idna = pytest.importorskip("idna")
    folded = hostnames.folded(text)
    if text.isascii() or not folded:
        return
    try:
        newer = idna.encode(text, uts46=True, transitional=False).decode("ascii").removesuffix(".")
    except idna.IDNAError:
        return  # not a name there, such as one of symbols: nobody registers it
    assert newer == folded


def test_a_list_of_rules_holds_each_once() -> None:
    assert [rule.text for rule in parse_all(["b.org", "A.org:443", "a.org", "b.org."])] == ["b.org", "a.org"]
    with pytest.raises(BadRule):
        parse_all(["a.org", "*"])


@pytest.mark.parametrize("name", ["com", "uk", "co.uk", "com.au", "or.jp", "gv.at", "internal"])
def test_a_registry_is_known(name: str) -> None:
    assert suffixes.is_public(name)


@pytest.mark.parametrize("name", ["t.co", "example.com", "co.example.uk", "a.co.uk", "go.com", "bbc.uk"])
def test_a_company_is_no_registry(name: str) -> None:
    assert not suffixes.is_public(name)


def test_a_hoster_of_strangers_is_known_from_above_and_below() -> None:
    assert suffixes.shared("github.io") == "github.io"
    assert suffixes.shared("eu-west-1.amazonaws.com") == "amazonaws.com"
    assert suffixes.shared("googleapis.com") == "storage.googleapis.com"
    assert suffixes.shared("notgithub.io") == ""
