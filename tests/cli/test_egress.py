"""``cloche egress`` tells where a live box's packets may go, and why where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support import Done

Cli = Callable[..., Done]

LISTED = """
[profiles.listed]
net.mode = "allow"
net.egress = ["1.1.1.1", "2001:4860::/32:8443", "*.w.example"]
"""


def test_the_destinations_of_a_live_box_are_shown_and_looked_up_again(cli: Cli, repo: Path) -> None:
    (repo / "cloche.toml").write_text(LISTED)
    assert cli("new", "b", "--profile", "listed").code == 0
    gone = cli("egress", "b")
    assert (gone.code, gone.out) == (4, "")
    assert "is not live" in gone.err
    assert cli("run", "b", "--", "true").code == 0
    shown = cli("egress", "b")
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[0] == [
        "RULE", "NAME", "PORT", "STATE", "ADDRESSES", "CONNECTIONS", "SENT", "RECEIVED", "REFUSED",
    ]  # fmt: skip
    assert [row[:3] for row in rows[1:]] == [
        ["*.w.example", "-", "443"],
        ["1.1.1.1", "-", "443"],
        ["2001:4860::/32:8443", "-", "8443"],
    ]
    assert rows[2][3:] == ["open", "1.1.1.1", "0", "0B", "0B", "0"]
    again = cli("egress", "b", "--repin")
    assert again.out == shown.out
    assert "0 names looked up, none leads elsewhere" in again.err
    assert "Where its packets may go" in cli("status", "b").out
    assert "repin" in cli("log", "b").out
    assert cli("stop", "b").code == 0


def test_a_box_of_a_tier_without_a_list_says_so(cli: Cli, repo: Path) -> None:
    assert cli("new", "b", "--tier", "process").code == 0
    assert cli("run", "b", "--", "true").code == 0
    refused = cli("egress", "b")
    assert (refused.code, refused.out) == (3, "")
    assert "the process tier holds none" in refused.err
    assert "Where its packets may go" not in cli("status", "b").out
    assert cli("stop", "b").code == 0
