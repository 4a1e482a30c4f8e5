"""What stands beside a diff, as pure rules: test runs, lock files, change times, generated files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.evidence.chain import GENESIS
from backends.gate.evidence import locks, runs, told
from backends.gate.evidence.bulk import Attributes, bulk_of
from backends.gate.evidence.runs import inner_tests
from backends.gate.evidence.witness import covers, outside_of, witness
from backends.snapshots import JournalRecord
from backends.snapshots_evidence import InnerEnd, InnerRun, InnerTest
from backends.testruns import interprets, is_test, may_be

# ----------------------------------------------------------------------------------------------- test runs

TESTS = [
    ["pytest"], ["/usr/bin/python3", "-m", "pytest", "-q"], ["python", "-m", "unittest"], ["npm", "test"],
    ["npm", "run", "test:unit"], ["yarn", "test"], ["cargo", "test", "--all"], ["cargo", "nextest", "run"],
    ["go", "test", "./..."], ["make", "-j4", "check"], ["tox"], ["npx", "jest"], ["uv", "run", "pytest"],
    ["sh", "-c", "cd src && npm ci && npm test"], ["bash", "-lc", "FOO=1 pytest -x; echo done"],
    ["./run_tests.sh"], ["sh", "./scripts/test.sh"], ["env", "CI=1", "timeout", "60", "make", "test"],
    ["python", "-m", "coverage", "run", "-m", "pytest"], ["gradle", ":app:test"], ["node", "--test"],
    ["sh", "-c", "if pytest; then echo ok; fi"],
]  # fmt: skip
OTHERS = [
    [], ["claude", "--resume"], ["sh", "-c", "echo pytest"], ["cat", "test.py"], ["npm", "ci"], ["make"],
    ["sh"], ["bash", "-l"], ["git", "commit", "-m", "npm test"], ["python", "setup.py", "build"],
    ["ls", "tests"], ["sh", "-c", "'unfinished"], ["latest"], ["attest"], ["python", "-c", "import pytest"],
    ["env"],    ["sh", "-c"],
]  # fmt: skip


@pytest.mark.parametrize("argv", TESTS, ids=" ".join)
def test_a_test_run_is_known_by_its_command_line(argv: list[str]) -> None:
    assert is_test(argv)


@pytest.mark.parametrize("argv", OTHERS, ids=" ".join)
def test_other_commands_are_none(argv: list[str]) -> None:
    assert not is_test(argv)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_command_line_is_judged(argv: list[str]) -> None:
    assert is_test(argv) in (True, False)
    assert is_test(["sh", "-c", *argv]) in (True, False)


# ----------------------------------------------------------------------------------------------- lock files

OLD_NPM = {
    "lockfileVersion": 3,
    "packages": {
        "": {"name": "app"},
        "node_modules/left": {"version": "1.0.0", "resolved": "r/left-1", "integrity": "sha512-a"},
        "node_modules/right": {"version": "2.0.0", "integrity": "sha512-b"},
        "node_modules/right/node_modules/left": {"version": "0.9.0", "integrity": "sha512-c"},
    },
}
NEW_NPM = {
    "lockfileVersion": 3,
    "packages": {
        "node_modules/left": {"version": "1.0.0", "resolved": "elsewhere/left-1", "integrity": "sha512-z"},
        "node_modules/right": {"version": "2.1.0", "integrity": "sha512-d"},
        "node_modules/right/node_modules/left": {"version": "0.9.0", "integrity": "sha512-c"},
        "node_modules/@scope/new": {"version": "3.0.0"},
    },
}
PAIRS: dict[str, tuple[bytes, bytes]] = {
    "package-lock.json": (
        b'{"lockfileVersion":1,"dependencies":{"a":{"version":"1","dependencies":{"b":{"version":"1"}}}}}',
        b'{"lockfileVersion":1,"dependencies":{"a":{"version":"2","dependencies":{"c":{"version":"1"}}}}}',
    ),
    "yarn.lock": (
        b'# v1\n\na@^1, "a@^1.0":\n  version "1"\n  resolved "r"\n\nb@^1:\n  version "1"\n',
        b'"a@npm:^1":\n  version: 2\n  checksum: x\n\n"c@npm:^1":\n  version: 1\n',
    ),
    "pnpm-lock.yaml": (
        b"lockfileVersion: 5\n\npackages:\n\n  /a/1:\n    resolution: {integrity: x}\n\n"
        b"  /b/1:\n    dev: true\n",
        b"packages:\n\n  a@2:\n    resolution: {integrity: y}\n\n  'c@1':\n    dev: true\n\n"
        b"snapshots:\n\n  z@1: {}\n",
    ),
    "uv.lock": (
        b'[[package]]\nname = "a"\nversion = "1"\n[[package]]\nname = "b"\nversion = "1"\n',
        b'[[package]]\nname = "a"\nversion = "2"\n[[package]]\nname = "c"\nversion = "1"\n',
    ),
    "Cargo.lock": (
        b'[[package]]\nname = "a"\nversion = "1"\nchecksum = "x"\n[[package]]\nname = "b"\nversion = "1"\n',
        b'[[package]]\nname = "a"\nversion = "2"\nchecksum = "y"\n[[package]]\nname = "c"\nversion = "1"\n',
    ),
    "Pipfile.lock": (
        b'{"_meta":{},"default":{"a":{"version":"==1"},"b":{"version":"==1"}}}',
        b'{"_meta":{},"default":{"a":{"version":"==2"}},"develop":{"c":{"version":"==1"}}}',
    ),
    "composer.lock": (
        b'{"packages":[{"name":"a","version":"1"},{"name":"b","version":"1"}]}',
        b'{"packages":[{"name":"a","version":"2"}],"packages-dev":[{"name":"c","version":"1"}]}',
    ),
    "go.sum": (
        b"a 1 h1:x\na 1/go.mod h1:y\nb 1 h1:z\n",
        b"a 2 h1:x\na 2/go.mod h1:y\nc 1 h1:z\nd 1/go.mod h1:q\n",
    ),
    "requirements.txt": (
        b"a==1 \\\n    --hash=sha256:aa\nb == 1 # why\n",
        b"A==2 \\\n    --hash=sha256:bb\nc[x]==1; python_version > '3'\n",
    ),
    "Gemfile.lock": (
        b"GEM\n  remote: r\n  specs:\n    a (1)\n      dep (>= 1)\n    b (1)\n",
        b"GEM\n  remote: r\n  specs:\n    a (2)\n    c (1)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_what_a_lock_file_brings_and_drops_is_read(name: str) -> None:
    old, new = PAIRS[name]
    rows = [["c", "added", "", "1"], ["a", "changed", "1", "2"], ["b", "removed", "1", ""]]
    assert locks.change(name, old, new) == {
        "counts": {"added": 1, "changed": 1, "removed": 1}, "rows": rows, "note": ""
    }  # fmt: skip
    assert locks.change(name, new, new)["rows"] == []
    assert locks.change(name, None, new)["counts"] == {"added": 2}
    assert locks.change(name, old, None)["counts"] == {"removed": 2}


def test_the_same_version_from_elsewhere_or_with_another_hash_comes_first() -> None:
    said = locks.change("package-lock.json", json.dumps(OLD_NPM).encode(), json.dumps(NEW_NPM).encode())
    assert said["rows"] == [
        ["left", "rewritten", "0.9.0, 1.0.0", "0.9.0, 1.0.0"],
        ["@scope/new", "added", "", "3.0.0"],
        ["right", "changed", "2.0.0", "2.1.0"],
    ]
    hashed = b"a==1 --hash=sha256:aa\n", b"a==1 --hash=sha256:bb\n"
    assert locks.change("requirements.lock", *hashed)["rows"] == [["a", "rewritten", "1", "1"]]


@pytest.mark.parametrize("bad", [b'{"packages":{"x":1},"packages":{}}', b"[]", b"{", b"\xff"])
def test_what_cannot_be_read_is_said_and_counts_as_nothing_known(bad: bytes) -> None:
    said = locks.change("package-lock.json", b"{}", bad)
    assert said["rows"] == [] and said["note"].startswith("the one of the proposal cannot be read: ")
    after = locks.change("package-lock.json", bad, json.dumps(NEW_NPM).encode())
    assert after["counts"] == {"added": 3} and after["note"].startswith("the one of the base cannot be read")


def test_a_flood_of_packages_is_counted_and_not_listed() -> None:
    text = b"".join(b"m%d 1 h1:x\n" % number for number in range(1000))
    said = locks.change("go.sum", None, text)
    assert said["counts"] == {"added": 1000} and len(said["rows"]) == locks.MOST_ROWS


@settings(deadline=None)
@given(st.sampled_from([*locks.names(), "requirements.txt"]), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(name: str, text: bytes) -> None:
    said = locks.change(name, b"", text)
    assert set(said) == {"counts", "rows", "note"}
    assert sum(said["counts"].values()) == len(said["rows"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["packages", "dependencies", "package", "version", "name", "default", "x"]),
        inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None)
@given(st.sampled_from(["package-lock.json", "pipfile.lock", "composer.lock"]), JSON)
def test_any_shape_of_json_is_read_or_refused(name: str, value: object) -> None:
    said = locks.change(name, None, json.dumps(value).encode())
    assert said["rows"] == [] or said["note"] == ""


# ----------------------------------------------------------------------------------------------- change times


def record(time: float, kind: str, **data: object) -> JournalRecord:
    return JournalRecord(1, time, kind, data, GENESIS)


def started(time: float, *argv: str, **data: object) -> JournalRecord:
    return record(time, "exec", argv=list(argv), path=argv[0], **data)


def journal() -> list[JournalRecord]:
    return [
        record(10.0, "transition", **{"from": "idle", "to": "running"}),
        record(11.0, "session-start", session=1, argv=["claude"]),
        record(12.0, "exec", argv=["npm", "test"], path="/usr/bin/npm"),
        record(13.0, "exec", argv=["npm", "test"], path="/usr/bin/npm"),
        record(14.0, "exec", argv=["ls"], path="/bin/ls"),
        record(20.0, "session-exit", session=1, exit=0),
        record(30.0, "session-start", session=2, argv=["pytest"]),
        record(30.1, "exec", argv=["pytest"], path="/usr/bin/pytest"),
        record(31.0, "session-exit", session=2, exit=0),
        record(40.0, "transition", **{"from": "running", "to": "idle"}),
    ]


def inner(kept: dict[str, Any], last: float | None = None) -> tuple[InnerTest, ...]:
    kept = json.loads(json.dumps(kept))
    return inner_tests(kept, lambda began, ended: covers(last, began, ended))


def test_a_file_that_changed_outside_of_every_session_is_named() -> None:
    changed = {b"in": 15.0, b"between": 25.0, b"after": 50.0, b"gone": None, b"edge": 31.05}
    kept = json.loads(json.dumps(witness(journal(), changed)))
    assert [(one.path, one.alive) for one in outside_of(kept)] == [(b"after", False), (b"between", True)]
    assert (kept["last"], kept["untimed"], kept["more"], kept["since"]) == (50.0, 1, 0, 0.0)
    assert [(one.argv, one.times) for one in inner(kept)] == [(("npm", "test"), 2)]


def test_a_session_whose_end_was_never_written_ends_with_the_box() -> None:
    records = [one for one in journal() if one.kind != "session-exit"]
    kept = witness(records, {b"late": 60.0, b"early": 35.0})
    assert [one.path for one in outside_of(kept)] == [b"late"]


def test_a_new_base_begins_anew() -> None:
    kept = witness([*journal(), record(45.0, "base", base="x")], {})
    assert kept["since"] == 45.0 and kept["runs"] == [] and kept["last"] is None


def test_a_flood_of_files_is_counted() -> None:
    kept = witness([], {b"%04d" % number: 1.0 for number in range(500)})
    assert len(kept["outside"]) == 200 and kept["more"] == 300
    long = witness([], {b"%04d" % number + b"x" * 4000: 1.0 for number in range(100)})
    assert len(json.dumps(long)) < 32 << 10 and len(long["outside"]) + long["more"] == 100
    words = [record(1.0, "exec", argv=["pytest", *["x" * 10_000] * 100, str(n)]) for n in range(100)]
    assert len(json.dumps(witness(words, {}))) < 64 << 10


INIT = ("launch", {"init": [40, 1], "not_observed": []})


def runs_of(*records: JournalRecord) -> dict[str, Any]:
    return witness([record(1.0, INIT[0], **INIT[1]), *records], {})


def ended(time: float, number: int, status: int | None, **data: object) -> JournalRecord:
    return record(time, "test-end", test=number, pid=7, argv=[], status=status, **data)


def test_runs_inside_have_the_end_of_their_own_process_in_whatever_order_they_end() -> None:
    kept = runs_of(
        started(10.0, "pytest", "-q", test=1, at=9.9, parent=50),
        started(11.0, "pytest", "-q", test=2, parent=50),
        started(12.0, "pytest", "-q", test=3, parent=50),
        ended(13.0, 3, 0, at=12.5),
        ended(14.0, 1, 1 << 8),
        ended(15.0, 2, 139),
    )
    (one,) = inner(kept, last=11.5)
    assert (one.argv, one.times) == (("pytest", "-q"), 3)
    assert one.ends == (
        InnerEnd(0, "", "", 1), InnerEnd(1, "", "", 1), InnerEnd(139, "SIGSEGV", "", 1)
    )  # fmt: skip
    assert one.last == InnerRun(0, "", "", 0.5, "after")
    assert told.inner_words(one) == (
        "1 exit 0, 1 exit 1, 1 SIGSEGV; the last: exit 0, 0.5 s, after the last change"
    )


def test_a_chain_of_programs_is_one_run_under_the_name_of_its_test() -> None:
    kept = runs_of(
        started(10.0, "sh", "-c", "exec npm test", test=1),
        started(10.1, "npm", "test", test=1),
        started(10.2, "node", "/usr/bin/npm", "test", test=1),
        ended(11.0, 1, 2 << 8, ran=["true", "--so"]),
    )
    (one,) = inner(kept)
    assert (one.argv, one.times, one.ends) == (("npm", "test"), 1, (InnerEnd(2, "", "", 1),))
    assert one.last is not None and one.last.ran == ("true", "--so")
    assert told.inner_words(one) == "exit 2, 1.0 s, of what it executed in the end: true --so"


def test_a_sessions_own_run_is_no_run_inside_and_the_same_words_again_are() -> None:
    kept = runs_of(
        record(9.0, "session-start", session=1, argv=["make", "test"]),
        started(9.5, "make", "test", test=1, parent=50),  # of another session's process, just then
        started(10.0, "make", "test", test=2, parent=40),
        started(10.1, "pytest", test=3, parent=60),
        ended(11.0, 3, 0),
        ended(11.1, 2, 0),
        record(11.2, "session-exit", session=1, exit=0),
        started(12.0, "make", "test", test=4, parent=40),  # an orphan
        ended(13.0, 4, 9),
        ended(14.0, 1, 0),
    )
    found = {one.argv: one for one in inner(kept)}
    assert set(found) == {("make", "test"), ("pytest",)}
    assert found["make", "test"].ends == (InnerEnd(137, "SIGKILL", "", 1), InnerEnd(0, "", "", 1))


def test_an_end_that_is_not_known_says_why() -> None:
    kept = runs_of(
        started(1.0, "pytest", test="512 others were followed at that time"),
        started(2.0, "tox", test=1),
        ended(3.0, 1, None, why="the kernel does not tell, which needs Linux 6.15"),
        started(4.0, "go", "test", test=2),
        record(5.0, "keeper-lost"),
        record(5.5, "launch", init=[90, 1], not_observed=[["execs", "not seen here"], ["dns", "x"]]),
        started(6.0, "npm", "test", test=1),
        started(7.0, "jest"),
        record(8.0, "lost", what="execs", count=3),
        record(8.0, "lost", what="opens", count=9),
    )
    whys = {one.argv[0]: one.ends for one in inner(kept)}
    assert whys == {
        "pytest": (InnerEnd(None, "", "512 others were followed at that time", 1),),
        "tox": (InnerEnd(None, "", "the kernel does not tell, which needs Linux 6.15", 1),),
        "go": (InnerEnd(None, "", runs.KEEPER, 1),),
        "npm": (InnerEnd(None, "", runs.BEFORE, 1),),
        "jest": (InnerEnd(None, "", runs.EARLIER, 1),),
    }
    assert kept["unseen"] == ["not seen here", "3 programs were started that could not be looked at"]


def test_a_proposal_that_was_frozen_before_ends_were_recorded_says_so() -> None:
    (one,) = inner({"tests": [[["pytest"], 2]]})
    assert one == InnerTest(("pytest",), 2, (InnerEnd(None, "", runs.EARLIER, 2),))
    assert told.inner_words(one).startswith("2 end not recorded: the version of Cloche")


def test_many_ends_and_commands_are_bounded_and_counted() -> None:
    many = [started(1.0, "pytest", str(n), test=n) for n in range(runs.MOST_TESTS + 30)]
    kept = runs_of(*many, *(ended(2.0, n, 0) for n in range(runs.MOST_TESTS + 30)))
    assert len(inner(kept)) == runs.MOST_TESTS and kept["more_runs"] == 30
    codes = [one for n in range(256) for one in (started(1.0, "tox", test=n), ended(2.0, n, n << 8))]
    (one,) = inner(runs_of(*codes))
    assert one.times == 256 == sum(end.times for end in one.ends)
    assert len(one.ends) == runs.MOST_ENDS + 1 and one.ends[-1].why == runs.OTHER


WORDS = (
    "sh bash -c -lc pytest npm run test t make check cd x && ; python -m node --test ./run_tests.sh cargo go",
    "mvn verify env X=1 echo tox jest :app:t t:unit gradle uv timeout 60 coverage unittest doctest ls",
)
PLAIN = st.lists(st.sampled_from(" ".join(WORDS).split()), max_size=7)


@given(PLAIN, st.booleans())
def test_what_may_be_a_test_run_covers_all_that_are(words: list[str], script: bool) -> None:
    argv = ["sh", "-c", " ".join(words)] if script else words
    assert may_be(argv) or not is_test(argv)


@pytest.mark.parametrize(
    ("argv", "script", "said"),
    [
        (["python3", "./pytest", "-q"], ["./pytest", "-q"], True),
        (["/usr/bin/env", "python3", "/usr/bin/pytest"], ["pytest"], True),
        (["node", "/usr/lib/npm-cli.js", "test"], ["npm", "test"], False),
        (["node", "/usr/bin/npm", "test"], ["npm", "test"], True),
        (["true", "pytest"], ["pytest"], False), ([], ["pytest"], False), (["sh"], [], False),
    ],
)  # fmt: skip
def test_an_interpreter_is_known_by_the_script_that_it_is_given(
    argv: list[str], script: list[str], said: bool
) -> None:
    assert interprets(argv, script) is said


@pytest.mark.parametrize(
    ("started", "ended", "said"),
    [(10.0, 11.0, "after"), (9.0, 10.5, "during"), (9.0, 9.8, "before"), (9.0, None, "")],
)
def test_a_session_lies_before_during_or_after_the_last_change(
    started: float, ended: float | None, said: str
) -> None:
    assert covers(10.0, started, ended) == said and covers(None, started, ended) == ""


# ----------------------------------------------------------------------------------------------- bulk


@pytest.mark.parametrize(
    ("path", "head", "kind"),
    [
        (b"node_modules/a/index.js", b"", "vendored"),
        (b"lib/vendor/x.c", b"", "vendored"),
        (b"app.min.js", b"", "generated"),
        (b"web/package-lock.json", b"", "generated"),
        (b"api_pb2.py", b"", "generated"),
        (b"x.go", b"// Code generated by protoc. DO NOT EDIT.\n", "generated"),
        (b"src/main.py", b"print(1)\n", ""),
        (b"vendored.py", b"", ""),
        (b"src/distance/x.py", b"", ""),
    ],
)
def test_bulk_is_known_by_name_and_by_what_a_generator_writes(path: bytes, head: bytes, kind: str) -> None:
    found = bulk_of(path, head, None)
    assert (found.kind if found else "") == kind


def test_the_attributes_of_the_base_decide_by_pattern() -> None:
    rules = Attributes(
        b"# c\n*.api linguist-generated\nkeep.api -linguist-generated\nlib/** linguist-vendored=true\n"
        b'"quoted" linguist-generated\n*.txt text\nhand/* linguist-generated=false\n'
    )
    kinds = {
        path: rules.kind_of(path) for path in (b"x/y.api", b"keep.api", b"lib/a/b.c", b"n.txt", b"hand/x")
    }
    assert kinds == {
        b"x/y.api": "generated", b"keep.api": "", b"lib/a/b.c": "vendored", b"n.txt": "", b"hand/x": ""
    }  # fmt: skip


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(min_size=1, max_size=30))
def test_any_attributes_and_any_path_are_judged(text: bytes, path: bytes) -> None:
    assert Attributes(text).kind_of(path) in ("", "generated", "vendored")
