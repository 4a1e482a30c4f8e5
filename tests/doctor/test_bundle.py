"""Triage bundles: what is private stays out, and whatever somebody sends is bounded, checked and escaped."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.boxes.layout import BoxPaths
from backends.doctor import bundle
from backends.engine import Engine, NewBox
from backends.errors import Refused
from backends.evidence.journal import Journal
from backends.snapshots import Finding
from tests import support
from tests.doctor.conftest import NOTHING

Cli = Callable[..., support.Done]
ROW = Finding("k/b: base", "fail", "gone", "seen", "cloche gc", "it matters", "base-ref", "k/b")


WHOLE = json.loads(bundle.made([], NOTHING, (ROW,)))


def made(**changes: Any) -> bytes:
    return json.dumps(WHOLE | changes).encode()


def test_a_bundle_is_read_back_and_offers_no_repair_of_another_host() -> None:
    opened = bundle.read(made())
    assert opened.findings == (ROW._replace(fix=""),)
    assert opened.versions["python"] and opened.versions["kernel"] == os.uname().release
    assert opened.boxes == () and opened.facts == ()


def test_secrets_home_user_and_host_name_are_not_in_it(engine: Engine, repo: Path, home: Any) -> None:
    (repo / "cloche.toml").write_text(
        '[profiles.default.env.set]\nDB = "sesame-open"\nGREETING = "hi-there"\n'
    )
    paths = engine.make(NewBox(name="b", purpose=f"for {home.home}/x with token=ghp_0123456789abcdefghij"))
    Journal(paths.journal).append(
        "session-start",
        {"argv": ["curl", "-u", "me:hunter2hunter2", f"{home.home}/f"], "api_key": "k1k2k3k4"},
    )
    data = bundle.made([paths], NOTHING, (ROW._replace(evidence=f"{home.home}/secret"),))
    text = data.decode("ascii")
    for private in ("sesame-open", "hi-there", "hunter2", "ghp_", "k1k2k3k4", str(home.home)):
        assert private not in text, private
    user = pwd.getpwuid(os.getuid())
    if user.pw_name != "root":
        assert user.pw_dir not in text and f'"{user.pw_name}"' not in text
    (box,) = bundle.read(data).boxes
    assert box["key"] == paths.key and box["manifest"]["state"] == "created"
    assert box["policy"]["env"]["set"] == {"DB": "[redacted]", "GREETING": "[redacted]"}
    assert [record["kind"] for record in box["journal"]] == ["created", "session-start"]
    assert box["journal"][1]["data"]["argv"] == ["curl", "-u", "[redacted]", "~/f"]


def test_of_a_long_journal_the_end_is_taken(box: BoxPaths) -> None:
    Journal(box.journal).append_many([("exec", {"n": n}) for n in range(bundle.TAIL + 50)])
    (told,) = bundle.read(bundle.made([box], NOTHING, ())).boxes
    assert len(told["journal"]) == bundle.TAIL and told["journal"][-1]["data"]["n"] == bundle.TAIL + 49


def test_what_is_made_can_be_read_back_however_long_the_records_are(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "ghp_0123456789abcdefghijklmnop"
    long = "x" * (bundle.LONGEST - 10) + " " + secret
    Journal(box.journal).append_many([("exec", {"path": long}) for _ in range(bundle.TAIL)])
    monkeypatch.setattr(bundle, "LARGEST", 200_000)
    data = bundle.made([box], NOTHING, ())
    (told,) = bundle.read(data).boxes
    assert len(data) <= bundle.LARGEST and len(told["journal"]) == bundle.TAIL // 10
    assert b"ghp_" not in data, "no half of a secret is left where a text is cut"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        made(schema="cloche.triage/9"),
        made(made="now"),
        made(findings=[{}]),
        made(findings=[dict(ROW._asdict(), verdict="[red]")]),
        made(findings=[dict(ROW._asdict(), text=7)]),
        made(facts=[["one", "two"]]),
        made(facts="abc"),
        made(versions=[]),
        made(boxes=[1]),
        made(facts=[["a", "b", "c"]] * (bundle.MOST_ROWS + 1)),
        b" " * (bundle.LARGEST + 1),
    ],
)
def test_what_is_no_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(Refused) as refused:
        bundle.read(data)
    assert refused.value.code == "bundle" and len(refused.value.why) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["made", "versions", "facts", "proofs", "findings", "boxes"]), JSON)
def test_any_member_is_read_or_refused(name: str, value: Any) -> None:
    try:
        opened = bundle.read(made(**{name: value}))
    except Refused:
        return
    assert all(isinstance(text, str) for row in opened.findings for text in row)


@pytest.mark.usefixtures("kept")
def test_the_command_line_writes_one_and_opens_it_escaped(box: BoxPaths, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "triage.json"
    done = cli("doctor", "b", "--bundle", str(file))
    assert done.code == 0 and "read it before you send it" in done.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert cli("doctor", "b", "--bundle", str(file)).code == 1, "a file that is there is not touched"
    value = json.loads(file.read_bytes())
    value["findings"].insert(0, dict(ROW._asdict(), text="\x1b]0;owned\x07 [bold]x[/]"))
    file.write_text(json.dumps(value))
    done = cli("doctor", "--open", str(file))
    assert done.code == 1 and "\x1b" not in done.out and "[bold]x[/]" in done.out
    assert "cloche doctor --fix" not in done.out
    opened = json.loads(cli("doctor", "--open", str(file), "--json").out)
    assert opened["bundle"]["boxes"][0]["key"] == box.key and not opened["ok"]
    done = cli("doctor", "--open", str(tmp_path / "none"))
    assert done.code == 3 and "cannot be read" in done.err
