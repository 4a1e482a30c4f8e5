"""The journal shows every change: in the middle by its chain, at the end by an anchor kept elsewhere."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import Busy, Refused
from backends.evidence import journal as module
from backends.evidence.chain import GENESIS, canonical
from backends.evidence.journal import Anchor, Journal, head, read, verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def filled(path: Path, count: int = 4) -> Path:
    journal = Journal(path)
    for n in range(count):
        journal.append("exec", {"n": n})
    return path


def test_records_come_back_in_order_and_the_chain_holds(path: Path) -> None:
    journal = Journal(path)
    first = journal.append("created", {"who": "me"}, sync=True)
    second, third = journal.append_many([("exec", {"path": "/bin/true"}), ("exit", {"status": 0})])
    assert list(read(path)) == [first, second, third]
    assert [r.seq for r in read(path)] == [1, 2, 3]
    assert verify(path) == (3, third.hash, (), 0)
    assert head(path) == Anchor(3, third.hash)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_journal_that_was_never_written_is_empty(path: Path) -> None:
    assert list(read(path)) == []
    assert verify(path) == (0, GENESIS, (), 0)
    assert head(path) == Anchor(0, GENESIS)


def test_the_first_record_follows_64_zeros_and_hashes_are_reproducible(path: Path) -> None:
    filled(path, 1)
    line = json.loads(path.read_bytes())
    assert line["prev"] == "0" * 64
    given_hash = line.pop("hash")
    assert hashlib.sha256(canonical(line)).hexdigest() == given_hash


def test_bytes_that_are_no_text_survive(path: Path) -> None:
    name = os.fsdecode(b"bad-\xff\x9b\x1b[31m\n")
    Journal(path).append("exec", {"path": name})
    assert path.read_bytes().count(b"\n") == 1
    (record,) = read(path)
    assert os.fsencode(str(record.data["path"])) == b"bad-\xff\x9b\x1b[31m\n"


def test_a_torn_last_line_is_left_out_then_mended_and_said(path: Path) -> None:
    filled(path, 2)
    with open(path, "ab") as stream:
        stream.write(b'{"seq":3,"data":{"half')
    assert [r.seq for r in read(path)] == [1, 2]
    assert verify(path).torn == 22
    assert head(path).count == 2
    Journal(path).append("exec", {"n": 9})
    assert [(r.kind, dict(r.data)) for r in read(path)][2:] == [("torn", {"dropped": 22}), ("exec", {"n": 9})]
    assert verify(path).problems == ()


def test_a_torn_first_line_is_mended(path: Path) -> None:
    path.write_bytes(b"{")
    Journal(path).append("created", {})
    assert [r.kind for r in read(path)] == ["torn", "created"]
    assert verify(path)[:1] + verify(path)[2:] == (2, (), 0)


def test_a_torn_line_longer_than_one_block_is_mended(path: Path) -> None:
    filled(path, 1)
    Journal(path).append("big", {"text": "y" * 200_000})
    before = path.stat().st_size
    with open(path, "ab") as stream:
        stream.write(b"x" * 200_000)
    Journal(path).append("exec", {})
    assert [r.kind for r in read(path)] == ["exec", "big", "torn", "exec"]
    assert path.stat().st_size > before
    assert verify(path).problems == ()


def test_a_writer_that_cached_the_end_sees_what_others_appended(path: Path) -> None:
    ours, theirs = Journal(path), Journal(path)
    for n in range(3):
        ours.append("ours", {"n": n})
        theirs.append("theirs", {"n": n})
    assert [r.kind for r in read(path)] == ["ours", "theirs"] * 3
    assert verify(path).problems == ()


def test_a_replaced_file_is_noticed(path: Path) -> None:
    journal = Journal(path)
    journal.append("a", {})
    path.rename(path.with_suffix(".old"))
    journal.append("b", {})
    assert [(r.seq, r.kind) for r in read(path)] == [(1, "b")]


def _append_fifty(path: Path, who: int) -> None:
    journal = Journal(path)
    for n in range(50):
        journal.append_many([("work", {"who": who, "n": n}), ("more", {"who": who, "n": n})])


def test_many_processes_and_threads_write_one_unbroken_chain(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_append_fifty, args=(path, who)) for who in range(3)]
    shared = Journal(path)
    threads = [
        threading.Thread(target=lambda: [shared.append("thread", {"n": n}) for n in range(50)])
        for _ in range(3)
    ]
    for process in workers:
        process.start()
    for thread in threads:
        thread.start()
    for process in workers:
        process.join()
    for thread in threads:
        thread.join()
    result = verify(path)
    assert (result.count, result.problems) == (3 * 100 + 150, ())
    records = list(read(path))
    for first, second in itertools.pairwise(records):
        if first.kind == "work":  # append_many lets nobody in between
            assert (second.kind, second.data) == ("more", first.data)


def test_a_stuck_writer_is_busy_and_not_a_hang(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_PATIENCE", 0.05)
    filled(path, 1)
    with open(path, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(Busy) as caught:
            Journal(path).append("x", {})
    assert caught.value.code == "journal-busy"


def test_a_full_disk_adds_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, 2)
    before = path.read_bytes()
    real = os.write
    calls: list[int] = []

    def write(descriptor: int, data: bytes) -> int:
        calls.append(1)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(data)[:10])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        Journal(path).append("x", {"n": 1})
    assert path.read_bytes() == before


def test_a_journal_that_is_a_symlink_is_refused(path: Path, tmp_path: Path) -> None:
    target = filled(tmp_path / "elsewhere")
    path.symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(OSError):
        Journal(path).append("x", {})
    with pytest.raises(Refused):
        list(read(path))
    assert target.read_bytes() == before


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_an_edited_record_is_found(path: Path) -> None:
    lines = _lines(filled(path))
    lines[1] = lines[1].replace(b'"n":1', b'"n":7')
    path.write_bytes(b"".join(lines))
    assert verify(path).problems[0] == "line 2: was changed: its hash does not fit"


def test_an_edited_record_with_a_new_hash_breaks_the_link_after_it(path: Path) -> None:
    lines = _lines(filled(path))
    body = json.loads(lines[1])
    body.pop("hash")
    body["data"] = {"n": 7}
    body["hash"] = hashlib.sha256(canonical(body)).hexdigest()
    lines[1] = canonical(body) + b"\n"
    path.write_bytes(b"".join(lines))
    assert verify(path).problems == ("line 3: does not follow the line before it",)


@pytest.mark.parametrize("change", ["drop", "swap", "repeat"])
def test_a_dropped_swapped_or_repeated_record_is_found(path: Path, change: str) -> None:
    lines = _lines(filled(path))
    if change == "drop":
        del lines[1]
    elif change == "swap":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines.insert(1, lines[1])
    path.write_bytes(b"".join(lines))
    assert verify(path).problems != ()


def test_a_dropped_tail_is_found_by_the_anchor_and_only_by_it(path: Path) -> None:
    anchor = head(filled(path, 6))
    path.write_bytes(b"".join(_lines(path)[:4]))
    assert verify(path).problems == ()
    assert verify(path, anchor).problems == ("2 of 6 anchored records are missing from the end",)


def test_a_tail_rewritten_with_a_new_chain_is_found_by_the_anchor(path: Path) -> None:
    anchor = head(filled(path, 6))
    path.write_bytes(b"".join(_lines(path)[:4]))
    journal = Journal(path)
    for n in range(3):
        journal.append("forged", {"n": n})
    assert verify(path).problems == ()
    assert verify(path, anchor).problems == ("record 6 is not the one that was anchored",)


def test_a_journal_that_grew_after_the_anchor_is_fine(path: Path) -> None:
    anchor = head(filled(path, 3))
    Journal(path).append("later", {})
    assert verify(path, anchor).problems == ()
    assert verify(path, Anchor(0, GENESIS)).problems == ()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"not json\n", "is not JSON"),
        (b"[" * 100_000 + b"\n", "is not JSON"),
        (b"[1]\n", "is not a journal record"),
        (b'{"seq":1}\n', "is not a journal record"),
        (
            b'{"data":{},"hash":"","kind":"x","prev":"","seq":true,"time":1}\n',
            "has a field of the wrong type",
        ),
        (
            b'{"data":{"x":NaN},"hash":"","kind":"x","prev":"","seq":1,"time":1}\n',
            "holds a number that JSON does not know",
        ),
        (
            b'{"data":{}, "hash":"","kind":"x","prev":"","seq":1,"time":1}\n',
            "is not in canonical form",
        ),
        (
            b'{"data":{},"data":{},"hash":"","kind":"x","prev":"","seq":1,"time":1}\n',
            "is not in canonical form",
        ),
    ],
)
def test_a_line_that_is_no_record_is_named_and_hides_nothing_after_it(
    path: Path, line: bytes, why: str
) -> None:
    filled(path, 2)
    with open(path, "ab") as stream:
        stream.write(line)
    assert head(path).count == 3
    Journal(path).append("after", {"n": 1})
    kinds = [(r.seq, r.kind) for r in read(path)]
    assert kinds == [(1, "exec"), (2, "exec"), (3, "unreadable"), (4, "damaged"), (5, "after")]
    assert verify(path).problems == (f"line 3: {why}",)


@given(st.lists(st.tuples(st.text(max_size=8), st.dictionaries(st.text(max_size=8), st.text(max_size=8)))))
def test_whatever_is_written_is_read_back_and_verifies(items: list[tuple[str, dict[str, str]]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        Journal(path).append_many(items)
        assert [(r.kind, dict(r.data)) for r in read(path)] == items
        assert verify(path).problems == ()


@pytest.mark.parametrize("name", ["journal", "redact", "tally"])
def test_the_modules_that_the_keeper_imports_are_lean(name: str) -> None:
    code = (
        f"import sys, backends.evidence.{name}\n"
        "heavy = {'asyncio', 'dataclasses', 'subprocess', 'argparse', 'textual', 'rich', 'git', 'psutil'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == "[]"
