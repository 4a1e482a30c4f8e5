"""A person's file changes by one element and keeps every other byte of what they wrote."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import Refused
from backends.policy.amend import amend, unified

MINE = """\
# mine
profile = "agent"

[profiles.agent]   # for work
observe = "all" # see

[profiles.agent.net]
mode = "allow"
egress = [
  "a.example", # one
  "b.example",   # two
  # last
]
[profiles.agent.resources]
procs = 12  # few
mem = "4G"
"""


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that are gone, and those that are new."""
    lines = unified("f", before, after).split("\n")[2:]
    return [one[1:] for one in lines if one[:1] == "-"], [one[1:] for one in lines if one[:1] == "+"]


@pytest.mark.parametrize(
    ("key", "value", "gone", "new"),
    [
        ("net.egress", "c.example:80", [], ['  "c.example:80",']),
        ("resources.procs", "24", ["procs = 12  # few"], ["procs = 24  # few"]),
        ("resources.mem", "8G", ['mem = "4G"'], ['mem = "8G"']),
        ("resources.wall", "2h", [], ['wall = "2h"']),
        ("debug", "true", [], ["debug = true"]),
        ("fs.read", '/opt/x y"z', [], ["", "[profiles.agent.fs]", 'read = ["/opt/x y\\"z"]']),
        ("net.unix", "false", [], ["unix = false"]),
        ("review.file", "NOTES.md", [], ["", "[profiles.agent.review]", 'file = "NOTES.md"']),
    ],
)
def test_one_line_changes_and_comments_stay(key: str, value: str, gone: list[str], new: list[str]) -> None:
    assert changed(MINE, amend(MINE, "agent", key, value)) == (gone, new)


def test_what_is_said_already_changes_nothing() -> None:
    assert amend(MINE, "agent", "net.egress", "a.example") is MINE
    assert amend(MINE, "agent", "resources.procs", "12") is MINE
    assert unified("f", MINE, MINE) == ""


@pytest.mark.parametrize(
    "before",
    [
        "",
        "profile = 'x'",
        '[profiles.default]\nfs.deny = ["/x"]\nfs.read = ["/a", "/b"] # c\n',
        'profiles.default.fs = {read=["/a"]}\n',
        'profiles = {default={fs={read=["/a"]}}}\n',
        '[profiles.default.fs]\nread = [ "/a",\n  "/b" ]\n\n[profiles.default.net]\nunix=false\n',
        '[profiles.default.fs]\r\nread = [\r\n  "/a",\r\n]\r\n',
        '[profiles."default"]\n"fs".read = []\n',
        "[profiles.default.fs] # none yet\n",
        '[profiles.default.net]\nunix = true\n[profiles.other]\n[profiles.default.fs]\ndeny = ["/q"]\n',
    ],
)
def test_however_a_profile_is_written_the_file_says_what_it_said_and_one_entry_more(before: str) -> None:
    after = amend(before, "default", "fs.read", "/new")
    wanted: dict[str, Any] = tomllib.loads(before)
    wanted.setdefault("profiles", {}).setdefault("default", {}).setdefault("fs", {}).setdefault("read", [])
    wanted["profiles"]["default"]["fs"]["read"].append("/new")
    assert tomllib.loads(after) == wanted
    assert "\r\n" not in before or "\n" not in after.replace("\r\n", "")
    for line in before.splitlines():
        assert "#" not in line or line.partition("#")[2] in after


@pytest.mark.parametrize("text", ["[profiles", "profiles = 3\n", "[profiles]\ndefault = 1\n"])
def test_a_file_that_cannot_be_read_is_refused_and_not_repaired(text: str) -> None:
    with pytest.raises(Refused):
        amend(text, "default", "fs.read", "/new")


def test_a_new_file_shows_as_made_and_a_missing_final_newline_is_marked() -> None:
    made = unified("/p/cloche.toml", None, amend("", "default", "fs.read", "/opt"))
    assert made.split("\n")[:2] == ["--- /dev/null", "+++ /p/cloche.toml"]
    before = 'profile = "x"'
    assert "\\ No newline at end of file" in unified("f", before, amend(before, "x", "debug", "true"))


keys = st.sampled_from(["fs.read", "fs.write", "net.egress", "resources.procs", "resources.mem", "debug"])
entries = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
comments = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=12)


@given(st.lists(st.tuples(keys, entries), min_size=1, max_size=6), st.lists(comments, max_size=4))
def test_changes_one_after_the_other_all_hold_and_no_comment_is_lost(
    asked: list[tuple[str, str]], said: list[str]
) -> None:
    text = "".join(f"# {comment}\n" for comment in said)
    wanted: dict[str, Any] = {}
    for key, entry in asked:
        room, _, name = key.rpartition(".")
        value: Any = {"resources.procs": 7, "resources.mem": "7G", "debug": True}.get(key, entry)
        text = amend(text, "p", key, str(value).lower() if key == "debug" else str(value))
        table = wanted.setdefault(room, {}) if room else wanted
        if key in ("resources.procs", "resources.mem", "debug"):
            table[name] = value
        elif value not in table.setdefault(name, []):
            table[name].append(value)
    assert tomllib.loads(text)["profiles"]["p"] == wanted
    assert all(f"# {comment}\n" in text for comment in said)
