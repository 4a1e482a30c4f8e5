"""A draft grants what was used, keeps what nobody looked at, and resolves to exactly that."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from backends.evidence.visible import hidden, visible
from backends.policy.delta import carried, origins
from backends.policy.learned import Host, Use, destinations, profile, uses
from backends.policy.resolve import resolve
from backends.verbs.learning import interpreter
from tests.policy.conftest import Write
from tests.policy.test_canonical import EXAMPLE

HOST = Host(lambda path: not path.endswith("/gone"), lambda path: path.replace("/bin/", "/usr/bin/", 1) if path.startswith("/bin/") else path)  # fmt: skip  # noqa: E501
ALL = EXAMPLE._replace(
    observe="all",
    fs=EXAMPLE.fs._replace(read=("/bin", "/opt", "/srv", "/usr"), write=("/cache",), deny=("/srv/keep",)),
)


def test_a_grant_is_narrowed_to_the_places_that_were_used() -> None:
    seen = {("fs.read", "/usr"): {"lib", "gone"}, ("fs.read", "/srv"): {""}}
    rows = uses(ALL, seen, {"/usr/share/x/run"}, None, HOST)
    assert rows[:5] == (
        Use("fs.read", "/bin", False, ()),
        Use("fs.read", "/opt", False, ()),
        Use("fs.read", "/srv", True, ("/srv",)),
        Use("fs.read", "/usr", True, ("/usr/lib", "/usr/share")),
        Use("fs.write", "/cache", False, ()),
    )


def test_what_was_used_through_a_link_is_granted_where_it_leads() -> None:
    rows = uses(ALL, {}, {"/bin/sh"}, None, HOST)
    assert rows[0] == Use("fs.read", "/bin", True, ("/bin/sh",))
    assert rows[3] == Use("fs.read", "/usr", True, ("/usr/bin",))


def test_without_reads_observed_what_was_not_seen_is_kept_and_nothing_is_narrowed() -> None:
    rows = uses(ALL._replace(observe="writes"), {}, {"/usr/bin/cc"}, None, HOST)
    assert rows[1] == Use("fs.read", "/opt", None, ("/opt",))
    assert rows[3] == Use("fs.read", "/usr", True, ("/usr",))
    assert rows[4] == Use("fs.write", "/cache", False, ())


def test_many_places_are_the_grant_itself() -> None:
    many = {str(n) for n in range(30)}
    assert uses(ALL, {("fs.read", "/usr"): many}, set(), None, HOST)[3].places == ("/usr",)
    assert uses(ALL, {("fs.read", "/usr"): {"*", "lib"}}, set(), None, HOST)[3].places == ("/usr",)


def test_destinations_that_nobody_counted_are_kept() -> None:
    listed = ALL._replace(net=ALL.net._replace(mode="allow", egress=("a.example", "b.example")))
    rows = {row.entry: row for row in uses(listed, {}, set(), {"a.example": {"a.example"}}, HOST)}
    assert (rows["a.example"].used, rows["b.example"].used) == (True, False)
    assert rows["a.example"].places == ("a.example",)
    assert rows["b.example"].places == ()
    rows = {row.entry: row for row in uses(listed, {}, set(), None, HOST)}
    assert (rows["b.example"].used, rows["b.example"].places) == (None, ("b.example",))


def test_the_draft_resolves_to_what_was_used_and_nothing_of_the_default(
    project: Write, repository: Path
) -> None:
    wanted = resolve("default", repository=repository, tier="process").policy
    rows = [Use("fs.read", "/usr", True, ("/usr/bin", "/usr/lib")), Use("env.pass", "LANG", None, ("LANG",))]
    project(profile("learned", wanted, rows, "from a test\nin two lines"))
    got = resolve("learned", repository=repository).policy
    assert got.fs.read == ("/usr/bin", "/usr/lib")
    assert got.env.passed == ("LANG",)
    assert (got.tier, got.net, got.resources) == ("process", wanted.net, wanted.resources)


@pytest.mark.parametrize(
    "name",
    [
        "x\", '~', #",
        'x"]\n[profiles.default.net]\nmode = "host"',
        "a\\",
        'quote"',
        "tab\tbell\x07 escape\x1b[31m delete\x7f c1\x85",
        "line\u2028right\u202eblank\u3164tag\U000e0041",
        "letters \u00e9 \U0001f600 ' # \u0065\u0301",
    ],
)
def test_no_name_of_a_file_says_anything_but_itself_in_a_draft(name: str) -> None:
    place = f"/srv/{name}"
    text = profile("lean", ALL, [Use("fs.read", "/srv", True, (place, "/srv/z"))], "about")
    assert tomllib.loads(text)["profiles"]["lean"]["fs"]["read"] == ["!*", *sorted((place, "/srv/z"))]
    assert set(tomllib.loads(text)["profiles"]) == {"lean"}
    assert [visible(line) for line in text.split("\n") if "\\" not in line] == [
        line for line in text.split("\n") if "\\" not in line
    ]
    assert not hidden(text, keep="\n")


def test_a_name_that_toml_cannot_say_leaves_the_grant_as_it_was() -> None:
    rows = uses(ALL, {("fs.read", "/usr"): {"lib", "\udcff"}}, set(), None, HOST)
    assert rows[3] == Use("fs.read", "/usr", True, ("/usr",))


def test_names_below_what_a_box_writes_are_never_granted_by_themselves() -> None:
    """It could have made them links, and the draft's next box would be granted where they lead."""
    rows = uses(ALL, {("fs.write", "/cache"): {"link"}}, {"/cache/run"}, None, HOST)
    assert rows[4] == Use("fs.write", "/cache", True, ("/cache",))


def test_a_link_that_leads_out_of_all_grants_is_not_granted() -> None:
    away = Host(lambda _path: True, lambda path: "/home/u/.ssh" if path == "/srv/link" else path)
    seen = {("fs.read", "/srv"): {"link", "file"}, ("fs.read", "/opt"): {"x"}}
    rows = uses(ALL, seen, {"/srv/link/run"}, None, away)
    assert rows[2] == Use("fs.read", "/srv", True, ("/srv/file",))


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"#!/bin/sh -e\n", b"/bin/sh"),
        (b"#! /usr/bin/env python3\n", b"/usr/bin/env"),
        (b"#!relative\n", b""),
        (b"#!", b""),
        (b"", b""),
        (b"\x7fELF\x02\x01" + b"\xff" * 80, b""),
        (Path("/usr/bin/env").read_bytes()[:4096], None),
    ],
)
def test_the_interpreter_that_a_program_names(head: bytes, found: bytes | None) -> None:
    if found is None:
        assert interpreter(head).startswith(b"/lib")
    else:
        assert interpreter(head) == found


def test_only_the_change_is_carried_over_to_an_older_policy() -> None:
    box = ALL._replace(fs=ALL.fs._replace(read=("/old", "/usr")), resources=ALL.resources._replace(procs=5))
    before = ALL
    after = ALL._replace(
        fs=ALL.fs._replace(read=(*ALL.fs.read, "/z")), resources=ALL.resources._replace(mem=9)
    )
    got = carried(box, before, after)
    assert got.fs.read == ("/old", "/usr", "/z")
    assert got.resources == box.resources._replace(mem=9)
    assert got._replace(fs=box.fs, resources=box.resources) == box
    where = origins({"a": "f:1", "fs.read[/q]": "f:2"}, {"a": "f:9", "fs.read[/q]": "f:2"},
                    {"a": "f:10", "fs.read[/z]": "f:11"}, "resources.mem")  # fmt: skip
    assert where == {"a": "f:1", "fs.read[/z]": "f:11"}


def test_a_wildcard_is_narrowed_to_the_names_and_a_network_to_the_addresses_that_were_reached() -> None:
    listed = ("*.a.example", "b.example", "c.example:80", "raw:db.example:5432", "10.0.0.0/8:22", "8.8.8.8")
    traffic = [
        ("93.184.216.34", 443, "x.a.example"),
        ("93.184.216.34", 443, "y.a.example"),
        ("93.184.216.35", 443, "c.example"),
        ("93.184.216.36", 5432, ""),
        ("10.1.2.3", 22, ""),
        ("9.9.9.9", 443, ""),
    ]
    assert destinations(listed, traffic, {"93.184.216.36": {"db.example"}}) == {
        "*.a.example": {"x.a.example", "y.a.example"},
        "raw:db.example:5432": {"raw:db.example:5432"},
        "10.0.0.0/8:22": {"10.1.2.3:22"},
    }
