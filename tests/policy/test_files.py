"""A file is read whole and strictly, or not at all; the error says where and what was probably meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.errors import UsageError
from backends.policy import files, prepared, schema
from backends.policy.settings import Settings, settings
from tests.policy.conftest import Write


def parse(text: str, kind: str = "repository") -> files.ProfileFile:
    return files.parse(text.encode(), "cloche.toml", kind, Path("/"))


@pytest.mark.parametrize(
    ("text", "path", "line", "near"),
    [
        ("[profile.web]\n", "profile", 1, None),
        ("\nprofil = 'x'\n", "profil", 2, "profile"),
        ("theme = 'x'\n", "theme", 1, ""),
        ("[profiles.web]\nteir = 'process'\n", "profiles.web.teir", 2, "profiles.web.tier"),
        ("[profiles.web]\n\nobserv = 'all'\n", "profiles.web.observ", 3, "profiles.web.observe"),
        ("[profiles.web]\nextend = 'x'\n", "profiles.web.extend", 2, "profiles.web.extends"),
        ("[profiles.web.fs]\nraed = ['/x']\n", "profiles.web.fs.raed", 2, "profiles.web.fs.read"),
        ("[profiles.web.resources]\nmem = 1\nmemory = 1\n", "profiles.web.resources.memory", 3, "mem"),
        ("[profiles.web.resources]\nfile-size = 1\n", "profiles.web.resources.file-size", 2, "file_size"),
        ("[profiles.web.network]\nmode = 'deny'\n", "profiles.web.network", 1, "profiles.web."),
        ("[profiles.web]\nmem = '2G'\n", "profiles.web.mem", 2, "profiles.web.resources.mem"),
        ("[profiles.web]\n\"fs.read\" = ['/x']\n", "profiles.web.fs.read", 2, "profiles.web.fs.read"),
        ("[profiles.web.fs.read]\nx = 1\n", "profiles.web.fs.read", 1, None),
        ("[profiles.web.env.set.deep]\nx = 'y'\n", "profiles.web.env.set.deep", 1, None),
    ],
)
def test_an_unknown_key_is_named_with_file_line_and_the_nearest_known_key(
    text: str, path: str, line: int, near: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert path in caught.value.what
    assert caught.value.why.startswith(f"cloche.toml:{line}: ")
    if near is None:
        assert caught.value.code == "bad-value"
    else:
        assert caught.value.code == "unknown-key"
        assert near in caught.value.why


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("profile = 3\n", 1, "profile"),
        ("profiles = 3\n", 1, "profiles"),
        ("[profiles]\nweb = 3\n", 2, "profiles.web"),
        ("[profiles.'a b']\n", 1, "profiles.a b"),
        ("[profiles.'../x']\n", 1, "profiles.../x"),
        ("[profiles.web]\nextends = ['default']\n", 2, "extends"),
        ("[profiles.web]\ntier = 'vm'\n", 2, "tier"),
        ("[profiles.web]\ndebug = 'yes'\n", 2, "debug"),
        ("[profiles.web]\nfs = '/x'\n", 2, "fs"),
        ("[profiles.web.fs]\nread = '/x'\n", 2, "fs.read"),
        ("[profiles.web.fs]\nread = [\n '/x',\n 7,\n]\n", 4, "fs.read"),
        ("[profiles.web.fs]\nread = ['']\n", 2, "fs.read"),
        ("[profiles.web.fs]\nread = ['/a\\u0000']\n".replace("'", '"'), 2, "fs.read"),
        ("[profiles.web.net]\nmode = 'none'\n", 2, "net.mode"),
        ("[profiles.web.env]\npass = ['A-B']\n", 2, "env.pass"),
        ("[profiles.web.env]\npass = ['HOME']\n", 2, "env.pass"),
        ("[profiles.web.env.set]\nA = 'x'\nB = 1\n", 3, "env.set.B"),
        ("[profiles.web.resources]\nmem = '2 gigs'\n", 2, "resources.mem"),
        ("[profiles.web.resources]\nfiles = 'none'\n", 2, "resources.files"),
        ("[profiles.web.resources]\nwall = '0s'\n", 2, "resources.wall"),
        ('[profiles.web]\nimage = "a\\nb"\n', 2, "image"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_file_and_line(text: str, line: int, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.code == "bad-value"
    assert named in caught.value.what
    assert caught.value.why.startswith(f"cloche.toml:{line}: ")


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("http://x", "scheme"),
        ("*", 'net.mode = "host"'),
        ("*.com", "whoever registers a name below .com"),
        ("*.co.uk", "whoever registers a name below .co.uk"),
        ("raw:*.example.com", "raw:"),
        ("127.0.0.1:8080", "loopback"),
        ("[::1]:8080", "loopback"),
        ("[::ffff:127.0.0.1]", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("224.0.0.0/4", "multicast"),
        ("[64:ff9b::a9fe:a9fe]", "NAT64 of 169.254.169.254"),
        ("2852039166", "four decimal numbers"),
        ("0xa9.0xfe.0xa9.0xfe", "four decimal numbers"),
        ("0251.0376.0251.0376", "four decimal numbers"),
    ],
)
@pytest.mark.parametrize("mark", ["", "!"])
def test_a_destination_that_cannot_be_enforced_is_refused_when_saved(
    rule: str, named: str, mark: str
) -> None:
    if mark + rule == "!*":
        return  # takes every entry away
    with pytest.raises(UsageError) as caught:
        parse(f"[profiles.web.net]\nmode = 'allow'\negress = [\n  'a.org',\n  '{mark}{rule}',\n]\n")
    assert caught.value.code == "bad-rule"
    assert caught.value.what == "profiles.web.net.egress: a destination cannot be enforced"
    assert caught.value.why.startswith(f"cloche.toml:5: '{rule}': ")
    assert named in caught.value.why


@pytest.mark.parametrize("data", [b"x = ", b"\xff", b"a = 1\na = 2\n", b"x = " + b"[" * 5000])
def test_what_is_not_toml_is_refused_as_a_whole(data: bytes) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        files.parse(data, "cloche.toml", "repository", Path("/"))


def test_every_key_of_the_schema_can_be_written() -> None:
    written: dict[str, Callable[[schema.Key], str]] = {
        "choice": lambda key: repr(key.choices[0]),
        "flag": lambda key: "true",
        "size": lambda key: "'2G'",
        "count": lambda key: "3",
        "duration": lambda key: "'30m'",
        "text": lambda key: "'x'",
        "filename": lambda key: "'x.md'",
        "paths": lambda key: "['/usr']",
        "names": lambda key: "['NAME']",
        "hosts": lambda key: "['example.com']",
        "table": lambda key: "{ NAME = 'x' }",
    }
    text = "[profiles.all]\n" + "".join(f"{key.path} = {written[key.kind](key)}\n" for key in schema.KEYS)
    stated = parse(text).profiles["all"].stated
    assert [one.path for one in stated] == [key.path for key in schema.KEYS]
    assert [one.where for one in stated] == [f"cloche.toml:{line}" for line in range(2, len(schema.KEYS) + 2)]


def test_a_file_that_is_missing_is_none_and_one_that_is_no_file_is_an_error(repository: Path) -> None:
    assert files.repository_file(repository, trusted=True) is None
    (repository / "cloche.toml").mkdir()
    with pytest.raises(UsageError, match="not a regular file"):
        files.repository_file(repository, trusted=True)


def test_foreign_code_cannot_make_cloche_read_through_a_link_or_wait_for_a_pipe(repository: Path) -> None:
    path = repository / "cloche.toml"
    path.symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="cannot be read"):
        files.repository_file(repository, trusted=False)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a regular file"):
        files.repository_file(repository, trusted=False)


def test_a_file_without_end_is_refused(project: Write) -> None:
    path = project("# " + "x" * (1 << 20))
    with pytest.raises(UsageError, match="longer"):
        files.read(path, "repository")


def test_the_users_own_file_also_holds_settings(user: Write) -> None:
    assert settings() == Settings("", "", ())
    user("profile = 'agent'\ntheme = 'dusk'\n[keymap]\nbox_stop = 'ctrl+s'\n")
    assert settings() == Settings("agent", "dusk", (("box_stop", "ctrl+s"),))


def test_the_built_in_profiles_are_default_agent_and_review() -> None:
    found = files.built_in()
    assert {name: set(file.profiles) for name, file in found.items()} == {
        "agent": {"agent"},
        "default": {"default"},
        "review": {"review"},
    }


def test_the_built_in_profiles_that_were_prepared_are_those_of_the_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = (files.BUILT_IN / prepared.FILE).read_text(encoding="utf-8")
    how = "run: python -m backends.policy.prepared > backends/policy/profiles/built-in.json"
    assert written == prepared.render(files.BUILT_IN), how
    monkeypatch.setattr(files, "_built_in", {})
    ready = files.built_in()
    monkeypatch.setattr(files, "_built_in", {})
    monkeypatch.setattr(prepared, "load", lambda _folder: {})
    assert files.built_in() == ready


def test_a_built_in_profile_that_was_changed_since_is_read_from_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for path in files.BUILT_IN.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with open(tmp_path / "review.toml", "a") as file:
        file.write('\n[profiles.added]\nobserve = "all"\n')
    monkeypatch.setattr(files, "BUILT_IN", tmp_path)
    monkeypatch.setattr(files, "_built_in", {})
    assert set(files.built_in()["review"].profiles) == {"review", "added"}
