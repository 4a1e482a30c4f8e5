"""Attacks on what reads hostile texts for the gate: bombs end that alone, and secrets stay out."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.gate.checks import run_checks
from backends.gate.evidence import examiner as examiner_process
from backends.gate.evidence import examining, gathering
from backends.gate.evidence.examining import Examining
from backends.gate.evidence.finding import masked
from tests import support
from tests.gate.world import World

pytestmark = pytest.mark.real

# Taken apart so that nothing takes this file itself for one that gives secrets away.
AWS = "AKIA" + "IOSFODNN7EXAMPLD"
GITHUB = "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789"
PASSWORD = "correct" + "-horse-battery"
RANDOM = "8f14e45fceea167a5a36" + "dedd4bea2543"


@pytest.fixture
def examiner() -> Iterator[Examining]:
    before = support.children()
    with Examining() as made:
        yield made
    assert support.children() <= before


def found(examiner: Examining, text: bytes, old: bytes = b"") -> list[list[object]]:
    said = examiner.ask("secret", "a.py", old, text, entropy=True)
    assert said["note"] == ""
    rows: list[list[object]] = said["rows"]
    return rows


def test_secrets_are_found_by_form_name_and_randomness_and_never_told(examiner: Examining) -> None:
    text = (
        f'aws = "{AWS}"\npassword = "{PASSWORD}"\nplain = 1\ntoken = "{GITHUB}"\nseed = "{RANDOM}"\n'
        "-----BEGIN RSA PRIVATE KEY-----\nurl = 'https://me:" + PASSWORD + "@host.example/'\n"
    ).encode()
    rows = found(examiner, text)
    assert [(line, kind, named) for line, kind, _, named in rows] == [
        (1, "AWS Access Key", True),
        (2, "Secret Keyword", True),
        (4, "GitHub Token", True),
        (5, "Hex High Entropy String", False),
        (6, "Private Key", True),
        (7, "Basic Auth Credentials", True),
    ]
    for secret in (AWS, PASSWORD, GITHUB, RANDOM):
        assert secret not in repr(rows) and secret[5:] not in repr(rows)
    assert "Landlock" in examiner.confined and "seccomp" in examiner.confined


def test_a_comment_that_asks_to_be_passed_over_is_not_heard(examiner: Examining) -> None:
    assert len(found(examiner, f'aws = "{AWS}"  # pragma: allowlist secret\n'.encode())) == 1
    assert len(found(examiner, f'# pragma: allowlist nextline secret\naws = "{AWS}"\n'.encode())) == 1


def test_only_added_lines_are_searched_and_told_by_their_own_number(examiner: Examining) -> None:
    old = f'a = "{AWS}"\n'.encode()
    assert found(examiner, b"x\n\n" + old, old) == []
    assert [row[0] for row in found(examiner, b"x\n" + old + f'key = "{GITHUB}"\n'.encode(), old)] == [3]


def test_placeholders_are_no_secrets(examiner: Examining) -> None:
    text = b'password = "${PASSWORD}"\npassword = "{{ password }}"\npassword = ""\nsecret = "********"\n'
    assert found(examiner, text) == []


@pytest.mark.parametrize("secret", ["", "abc", "hunter2", AWS, "x" * 500])
def test_what_is_shown_of_a_secret_is_no_more_than_a_sixth(secret: str) -> None:
    shown = masked(secret).partition("…")[0]
    assert secret.startswith(shown) and len(shown) <= min(4, len(secret) / 6)


BOMBS = {
    "deep list": ("package-lock.json", b"[" * 5_000_000),
    "deep object": ("package-lock.json", b'{"a":' * 1_000_000),
    "wide list": ("package-lock.json", b"[" + b"[]," * 6_000_000 + b"1]"),
    "large number": ("package-lock.json", b'{"packages":' + b"9" * 3_000_000 + b"}"),
    "deep table": ("uv.lock", b"a=" + b"[" * 300_000),
    "long key": ("uv.lock", b"a" + b".a" * 300_000 + b"=1"),
    "one line": ("yarn.lock", b'"a@' + b"a," * 5_000_000),
    "spaces": ("requirements.txt", b"a" + b" " * 5_000_000 + b"b"),
    "dots": ("gemfile.lock", b"    a" * 2_000_000),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_told_of_and_the_next_text_is_read(
    examiner: Examining, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "PATIENCE", 4.0)
    name, text = BOMBS[bomb]
    said = examiner.ask("lock", name, b"", text)
    assert said["rows"] == [] and (said["note"] or bomb in ("one line", "spaces", "dots"))
    assert len(said["note"]) < 400
    after = examiner.ask("lock", "go.sum", None, b"a 1 h1:x\n")
    assert after["counts"] == {"added": 1}


def test_a_text_of_200_megabytes_is_not_even_sent(examiner: Examining) -> None:
    said = examiner.ask("lock", "package-lock.json", None, bytes(200 << 20))
    assert "too large" in said["note"] and examiner.searches is None, "nothing was started for it"


TRAPS = [
    b"a" * 3_000_000,
    b'password = "' + b"a" * 2_000_000,
    (b"password" * 100 + b"=") * 2_000,
    b"://" + b"a:" * 500_000 + b"@",
    b"AKIA" * 400_000,
    b"eyJ" + b"a." * 500_000,
    b"https://" * 200_000 + b"@",
    b"".join(b'key%d = "' % number + b"\\" * 200 + b'"\n' for number in range(3000)),
    (b"'" + b" " * 300) * 3000,
]


@pytest.mark.parametrize("number", range(len(TRAPS)))
def test_text_that_makes_patterns_go_back_and_forth_ends_in_time(
    examiner: Examining, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "PATIENCE", 4.0)
    said = examiner.ask("secret", "a.py", b"", TRAPS[number], entropy=True)
    assert set(said) >= {"rows", "note"}
    assert len(found(examiner, f'aws = "{AWS}"\n'.encode())) == 1, "and the next text is searched"


def test_texts_that_end_the_examiner_again_and_again_end_the_examination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examining, "PATIENCE", 0.3)
    monkeypatch.setattr(examining, "STARTS", 2)
    with Examining() as made:
        trap = b"a" + b".a" * 300_000 + b"=1"
        notes = [made.ask("lock", "uv.lock", b"", trap)["note"] for _ in range(3)]
    assert notes == [examining.BEYOND, examining.BEYOND, examining.USED_UP]
    assert examiner_process.BEYOND == examining.BEYOND


def test_the_examiner_reaches_no_file_and_no_network(examiner: Examining) -> None:
    examiner.ask("lock", "go.sum", None, b"a 1 h1:x\n")
    child = examiner._child
    assert child is not None
    with open(f"/proc/{child.pid}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file if ":" in line)
    assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
    assert examiner.confined.startswith("Landlock ABI")
    with open(f"/proc/{child.pid}/limits", encoding="ascii") as file:
        limits = file.read()
    assert str(1 << 30) in limits.split("Max address space")[1].splitlines()[0]


# ------------------------------------------------------------------------------- on the objects of a box


def test_what_the_gate_says_of_secrets_and_lock_files(world: World) -> None:
    tree = world.changed(
        {
            b"conf.py": f'aws = "{AWS}"\n'.encode(),
            b"go.sum": b"a 1 h1:x\n",
            b"requirements.txt": b"six==1.0 --hash=sha256:aa\n",
            b"bad": {b"package-lock.json": b'{"packages":{},"packages":{}}'},
            b"blob": b"\0" + AWS.encode(),
        }
    )
    rows = world.checks(tree)
    said = {(row.id, row.path): row.reason for row in rows if row.id in ("secret", "lock-file") and row.path}
    assert (
        said.pop(("secret", b"conf.py")) == "line 1 may hold a secret: AWS Access Key, AKI… (20 characters)"
    )
    assert said.pop(("lock-file", b"requirements.txt")) == "pins what is installed: 1 added"
    assert ("lock-file", b"go.sum") in said
    assert any("a key is there twice" in row.reason for row in rows if row.path == b"bad/package-lock.json")
    assert all(row.id != "secret" for row in rows if row.path == b"blob")
    assert all(AWS not in row.reason for row in rows)


def test_a_moved_file_gives_nothing_away_anew(world: World) -> None:
    text = f'aws = "{AWS}"\n'.encode()
    before = world.changed({b"one.py": text})
    after = world.changed({b"two.py": text})
    rows = run_checks(world.quarantine, before, after)
    assert all(row.verdict == "pass" for row in rows if row.id == "secret")


def test_a_library_that_is_not_there_is_a_warning(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_answers", OrderedDict())
    monkeypatch.setattr(gathering, "_examined", OrderedDict())
    start = Examining._start

    def without(self: Examining) -> None:
        start(self)
        self.searches = False

    monkeypatch.setattr(Examining, "_start", without)
    monkeypatch.setattr(
        Examining, "_exchange", lambda self, request, seconds: (
            {"rows": [], "counts": {}, "note": "no library", "confined": "", "lack": "", "searches": False}
        )
    )  # fmt: skip
    rows = world.checks(world.changed({b"a.py": b"x = 1\n", b"b.py": b"y = 1\n"}))
    assert [(row.verdict, row.path, row.reason) for row in rows if row.id == "secret"] == [
        ("warn", None, "no library")
    ]


UNCONFINED = """
import sys
sys.path.insert(0, {root!r})
from backends.trees import confine
def refuse(*args):
    raise OSError(1, "Operation not permitted")
confine.enter = refuse
from backends.gate.evidence import examiner
examiner.main(int(sys.argv[1]), sys.argv[2])
"""


def test_what_cannot_be_confined_reads_nothing_and_that_is_a_warning(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_answers", OrderedDict())
    monkeypatch.setattr(gathering, "_examined", OrderedDict())
    program = tmp_path / "unconfined.py"
    program.write_text(UNCONFINED.format(root=str(support.ROOT)))
    monkeypatch.setattr(examining, "EXAMINER", program)
    lock = b'[[package]]\nname = "a"\nversion = "1"\n'
    rows = world.checks(world.changed({b"a.py": f'aws = "{AWS}"\n'.encode(), b"uv.lock": lock}))
    why = "no text is examined here: what would read it cannot be confined (Operation not permitted)"
    assert [(row.verdict, row.path, row.reason) for row in rows if row.id == "secret"] == [
        ("warn", None, why)
    ]
    told = [row.reason for row in rows if row.id == "lock-file" and row.path == b"uv.lock"]
    assert f"what it changes is not known: {why}" in told


def test_answers_are_kept_by_what_they_are_about(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = world.changed({b"a.py": os.urandom(8).hex().encode() + b"\n"})
    first = world.checks(tree)
    monkeypatch.setattr(gathering, "_examined", OrderedDict())

    def never(self: Examining) -> None:
        raise AssertionError("the examiner was started for what is known")

    monkeypatch.setattr(Examining, "_start", never)
    assert world.checks(tree) == first
