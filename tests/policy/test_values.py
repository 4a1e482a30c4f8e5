"""What a person may write for a value, and what is refused instead of guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.policy import schema, values
from backends.policy.model import EnvPolicy


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("2G", 2 << 30),
        ("512M", 512 << 20),
        ("1T", 1 << 40),
        ("3K", 3072),
        ("4GiB", 4 << 30),
        ("4GB", 4 << 30),
        ("100", 100),
        (4096, 4096),
    ],
)
def test_sizes_are_in_units_of_1024(raw: object, wanted: int) -> None:
    assert values.size(raw) == wanted


@pytest.mark.parametrize(
    "raw", ["", "G", "2g", "-1", "1.5G", "2 G", "1E3", "²", "9999999T", 0, -5, True, 1.5, None, []]
)
def test_other_sizes_are_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"size|range"):
        values.size(raw)


@pytest.mark.parametrize(
    ("raw", "wanted"), [("30m", 1800), ("90s", 90), ("1h30m", 5400), ("2d", 172800), ("45", 45), (60, 60)]
)
def test_durations_are_seconds(raw: object, wanted: int) -> None:
    assert values.duration(raw) == wanted


@pytest.mark.parametrize("raw", ["", "m", "30 m", "30m1h", "1w", "0s", 0, False, 2.5, None])
def test_other_durations_are_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"duration|range"):
        values.duration(raw)


@given(st.integers(1, values.LARGEST))
def test_a_size_reads_back_as_it_is_shown(number: int) -> None:
    assert values.size(values.show_size(number)) == number


@given(st.integers(1, values.LARGEST))
def test_a_duration_reads_back_as_it_is_shown(number: int) -> None:
    assert values.duration(values.show_duration(number)) == number


def test_a_destination_is_kept_in_its_one_spelling() -> None:
    key = schema.BY_PATH["net.egress"]
    assert values.entry(key, "API.Example.COM.:443") == "api.example.com"
    assert values.entry(key, "!API.Example.COM") == "!api.example.com"
    assert values.entry(key, "!*") == "!*"


def test_every_key_shows_its_default_in_words_that_it_reads_back() -> None:
    for key in schema.KEYS:
        if not key.is_list and key.kind != "table":
            shown = values.show(key, key.default)
            assert values.scalar(key, shown) == key.default, key.path


def test_variables_of_the_box_can_neither_be_passed_nor_set() -> None:
    with pytest.raises(ValueError, match="box's own"):
        values.entry(schema.BY_PATH["env.pass"], "HOME")
    with pytest.raises(ValueError, match="box's own"):
        values.pair(schema.BY_PATH["env.set"], "SHELL", "/bin/sh")


def test_a_pass_list_passes_names_and_beginnings_and_never_the_boxs_own() -> None:
    env = EnvPolicy(passed=("LANG", "LC_*"), set=())
    assert [name for name in ("LANG", "LANGUAGE", "LC_ALL", "LC_", "XLC_A") if env.passes(name)] == [
        "LANG",
        "LC_ALL",
        "LC_",
    ]
    everything = EnvPolicy(passed=("*",), set=())
    assert everything.passes("AWS_SECRET")
    assert not any(everything.passes(name) for name in ("HOME", "USER", "LOGNAME", "SHELL"))


@pytest.mark.parametrize("name", [".cloche-review.md", "REVIEW.md", "a", "...", "x" * 100, "a+b_c-1"])
def test_the_file_of_a_review_has_a_plain_name(name: str) -> None:
    assert values.scalar(schema.BY_PATH["review.file"], name) == name


@pytest.mark.parametrize(
    "raw",
    [
        "", ".", "..", "/etc/passwd", "a/b", "../a", "-rf", "+x", "a b", "a\n", "a\0", "x" * 101, "\u00e9",
        ".git", ".GIT", ".gitignore", ".gitattributes", ".gitModules", "*", "!a", "#a", "a\\b", 3, None, True,
    ],
)  # fmt: skip
def test_another_name_for_the_file_of_a_review_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="top of the tree"):
        values.scalar(schema.BY_PATH["review.file"], raw)
