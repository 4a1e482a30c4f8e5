"""Every verb's JSON document has the members that its documentation names, and holds no secret."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.table import BY_NAME, VERBS
from backends.snapshots import ApplyPlan, BoxRow, EgressRow, Explanation, ReviewedFile, Trial
from backends.snapshots_compare import ComparedBox, ComparedFile, Version
from tests.support import Done, cloche_argv, git, wait_until

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]

SECRET = "hunter2-s3cret"


def check(name: str, text: str) -> dict[str, Any]:
    """One line, ASCII, of the documented schema with exactly the documented members."""
    assert text.endswith("\n") and "\n" not in text[:-1]
    assert text.isascii()
    value: dict[str, Any] = json.loads(text)
    verb = BY_NAME[name]
    assert value.pop("schema") == verb.schema
    assert set(value) == {field.name for field in verb.fields}, name
    assert SECRET not in text
    return value


@pytest.mark.usefixtures("kept")
def test_every_document_is_as_documented(cli: Cli, repo: Path) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def do(name: str, *args: str, code: int = 0) -> dict[str, Any]:
        done = cli(*name.split(), *args, "--json")
        assert done.code == code, (name, done.err)
        seen[name] = check(name, done.out)
        return seen[name]

    listed = '[profiles.listed]\nnet.mode = "allow"\nnet.egress = ["1.1.1.1", "2001:4860::/32"]\n'
    (repo / "cloche.toml").write_text("[profiles.mine]\nresources.procs = 99\n" + listed)
    box = do("new", "b")["box"]
    assert set(box) == set(BoxRow._fields)
    script = "echo x > x; echo x > /usr/no; sh -c 'sleep 300 & wait' >/dev/null 2>&1 </dev/null &"
    script += f" : --token={SECRET}"
    ran = cli("run", "--json", "b", "--", "sh", "-c", script)
    seen["run"] = check("run", ran.err.splitlines()[-1] + "\n")
    rows = do("ps", "b")["processes"]
    assert rows and set(rows[0]) == {
        "ident", "parent", "depth", "state", "cpu", "rss", "age", "name", "command", "session",
    }  # fmt: skip
    assert do("ls", "--all")["boxes"][0]["live"] == "live"
    do("status", "b")
    do("diff", "b")
    assert do("propose", "b", "--stop")["checks"]
    assert do("accept", "b", "x:@1", "--as", "t")["accepted"] == 1
    assert set(do("review", "b")["files"][0]) == set(ReviewedFile._fields)
    tried = cli("try", "b", "--json", "--as", "t", "--", "sh", "-c", f"cat x; : --token={SECRET}")
    assert tried.out == "x\n"
    seen["try"] = check("try", tried.err.splitlines()[-1] + "\n")
    (trial,) = do("review", "b")["tried"]
    assert set(trial) == set(Trial._fields)
    assert do("denials", "b")["total"] == 1
    (explained,) = do("explain", "b", "/usr/no")["explanations"]
    assert set(explained) == {*Explanation._fields, "count"}
    assert do("learn", "b")["profile"]
    assert do("log", "b")["records"][0]["kind"] == "created"
    do("export", "b", "--out", str(repo.parent / "out"))
    do("verify", str(repo.parent / "out"))
    assert do("request", "b", "-m", "more", "--as", "t")["file"] == ".cloche-review.md"
    assert cli("run", "b", "--", "sh", "-c", "echo y > y").code == 0
    assert cli("propose", "b").code == 0
    assert [one["path"] for one in do("interdiff", "b")["changes"]] == ["y"]
    do("reopen", "b")
    assert cli("run", "b", "--", "rm", "y").code == 0
    assert do("allow", "b", "resources.procs=199", "--yes", "--as", "t")["live"] is False
    do("propose", "b")
    plan = do("apply", "b", "--dry-run", "-m", "take it", "--onto", "made")["plan"]
    assert set(plan) == set(ApplyPlan._fields)
    assert do("apply", "b", "--as", "t")["plan"] is None
    do("unapply", "b", "--as", "t")
    git(repo, "commit", "-q", "--allow-empty", "-m", "moved on")
    assert do("rebase", "b", "--as", "t")["conflicts"] == []
    do("propose", "b")
    do("apply", "b", "--as", "t")
    do("stop", "b")
    do("new", "c")
    compared = do("compare", "b", "c")
    assert set(compared["boxes"][0]) == {"box", *ComparedBox._fields} - {"row"}
    assert set(compared["files"][0]) == set(ComparedFile._fields)
    assert set(compared["files"][0]["versions"][0]) == set(Version._fields)
    do("abort", "c")
    do("gc")
    do("new", "d", "--profile", "listed")
    assert cli("run", "d", "--", "true").code == 0
    found = do("egress", "d", "--repin")
    assert [row["state"] for row in found["rows"]] == ["open", "open"]
    assert set(found["rows"][0]) == set(EgressRow._fields)
    assert found["repinned"] == {"names": 0, "changed": [], "kept": []}
    assert do("status", "d")["egress"] == found["rows"]
    assert do("stop", "d")["results"][0]["stopped"]
    do("rm", "d")
    do("policy check")
    do("policy show", "--profile", "mine")
    do("policy explain")
    do("policy digest")
    assert do("matrix")["projects"] is None
    do("probe")
    do("doctor")
    images = {"image ls", "image build", "image import", "image rm"}  # in tests/container/test_documents.py
    tested_elsewhere = {"shell", "attach", "watch", "demo", "checkpoint", "restore", *images}
    assert set(seen) == {verb.name for verb in VERBS} - tested_elsewhere


class Watching:
    """``cloche watch b``, surely ended afterwards; its output is read without waiting."""

    def __init__(self, repo: Path, *extra: str) -> None:
        self.process = subprocess.Popen(
            cloche_argv("watch", "b", *extra), cwd=repo, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdout is not None
        self._fd = self.process.stdout.fileno()
        os.set_blocking(self._fd, False)
        self._rest = b""

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def lines(self) -> list[str]:
        """The whole lines that came."""
        try:
            while data := os.read(self._fd, 65536):
                self._rest += data
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode() + "\n" for line in lines]


@pytest.mark.parametrize(
    ("extra", "kinds"),
    [([], {"session-start", "exec", "denial", "session-exit"}), (["--deny-only"], {"denial"})],
)
def test_watch_prints_one_document_a_record(cli: Cli, repo: Path, extra: list[str], kinds: set[str]) -> None:
    assert cli("new", "b").code == 0
    with Watching(repo, "--json", *extra) as watch:
        seen: set[str] = set()

        def again() -> bool:
            # It follows from when it started, which nothing tells: make the records until they are seen.
            cli("run", "b", "--", "sh", "-c", "echo x > /usr/no")
            seen.update(check("watch", line)["kind"] for line in watch.lines())
            return kinds <= seen

        wait_until(again, "all kinds were printed")
        watch.process.terminate()
        assert watch.process.wait(timeout=60) == 128 + 15
    if extra:
        assert seen == {"denial"}


def test_watch_ends_with_its_box(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    with Watching(repo) as watch:

        def followed() -> bool:
            cli("run", "b", "--", "true")
            return watch.lines() != []

        wait_until(followed, "it follows")
        assert cli("rm", "b", "--force").code == 0
        assert watch.process.wait(timeout=60) == 0


def test_a_failure_is_one_document_on_standard_error(cli: Cli) -> None:
    done = cli("status", "gone", "--json")
    assert (done.code, done.out) == (4, "")
    value = json.loads(done.err)
    assert value["schema"] == "cloche.error/1"
    assert set(value) == {"schema", "code", "what", "why", "next", "exit"}
    assert (value["code"], value["exit"]) == ("no-such-box", 4)


def test_verbs_on_several_boxes_tell_of_each(cli: Cli) -> None:
    assert cli("new", "a").code == 0
    done = cli("stop", "gone", "a", "--json")
    assert done.code == 4
    results = json.loads(done.out)["results"]
    assert [(r["box"].rpartition("/")[2], r["error"] and r["error"]["code"]) for r in results] == [
        ("gone", "no-such-box"),
        ("a", None),
    ]
    removed = cli("rm", "gone", "a", "--json")
    assert removed.code == 4
    assert [r["removed"] for r in json.loads(removed.out)["results"]] == [False, True]


def test_raw_bytes_of_names_survive_json(cli: Cli) -> None:
    assert cli("new", "b").code == 0
    assert cli("run", "b", "--", "sh", "-c", "echo x > \"$(printf 'n\\377\\033]0;t\\007')\"").code == 0
    done = cli("diff", "b", "--json")
    (change,) = check("diff", done.out)["changes"]
    assert change["path"].encode("utf-8", "surrogateescape") == b"n\xff\x1b]0;t\x07"
    shown = cli("diff", "b", "--stat").out
    assert "n\\xff\\x1b]0;t\\x07" in shown and "\x1b" not in shown
