"""Exit codes, usage errors, and outside text made visible wherever it is printed for people."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes import liveness, store
from backends.engine import Engine
from tests.support import Done, cloche_argv, git, make_repo, wait_until

Cli = Callable[..., Done]


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["zzzzzz"], "no such verb"),
        (["stauts", "b"], "status"),
        (["policy"], "policy check"),
        (["policy", "nope"], "policy check"),
        (["run"], "no box"),
        (["run", "b"], "no command"),
        (["run", "b", "--"], "no command"),
        (["run", "--", "b"], "no box"),
        (["run", "--nope", "b", "--", "x"], "--nope"),
        (["run", "--cwd"], "--cwd"),
        (["new", "--tier", "steel"], "steel"),
        (["new", "a", "b"], "b"),
        (["new", "UPPER"], "lower-case"),
        (["new", ""], "empty"),
        (["new", "x", "--expires", "soon"], "duration"),
        (["export", "b"], "--out"),
        (["log", "b", "-n", "x"], "number"),
        (["rm"], "BOX"),
        (["ls", "--al"], "--al"),
    ],
)
def test_words_that_cannot_be_read_end_with_2_and_a_way_on(cli: Cli, words: list[str], word: str) -> None:
    done = cli(*words)
    assert done.code == 2, done.err
    assert word in done.err and "next:" in done.err and done.out == ""
    as_json = cli(*words[:1], "--json", *words[1:])
    assert as_json.code == 2 and json.loads(as_json.err.splitlines()[-1])["exit"] == 2


@pytest.mark.parametrize(
    "verb", ["status", "ps", "denials", "log", "watch", "diff", "propose", "reopen", "stop", "abort"]
)
def test_no_such_box_is_4(cli: Cli, verb: str) -> None:
    assert cli(verb, "gone").code == 4


def test_no_such_box_is_4_also_for_the_quick_path(cli: Cli) -> None:
    done = cli("run", "gone", "--", "true")
    assert done.code == 4 and "no box" in done.err
    assert cli("run", "../x", "--", "true").code == 4


def test_an_ambiguous_name_is_2_and_names_the_candidates(cli: Cli, repo: Path) -> None:
    other = make_repo(repo.parent / "other")
    assert cli("new", "b").code == 0 and cli("new", "b", cwd=other).code == 0
    done = cli("status", "b", cwd=repo.parent)
    assert done.code == 2 and done.err.count("/b") >= 2
    assert cli("rm", "b").code == 0
    assert cli("status", "b").code == 0, "the only one left of that name"


def test_busy_is_5(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    with store.lock(Engine(repo).find("b"), "export"):
        for words in (["rm", "b"], ["rm", "--force", "b"], ["run", "b", "--", "true"], ["abort", "b"]):
            done = cli(*words)
            assert done.code == 5 and "export" in done.err, words


@pytest.mark.usefixtures("kept")
def test_a_policy_that_was_changed_is_3(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    paths = Engine(repo).find("b")
    paths.policy.write_text(paths.policy.read_text().replace('"deny"', '"host"'))
    done = cli("run", "b", "--", "true")
    assert done.code == 3 and "digest" in done.err
    assert not paths.live.exists()
    found = cli("doctor", "b", "--json")
    assert found.code == 1
    assert [
        f["id"].rpartition(": ")[2] for f in json.loads(found.out)["findings"] if f["verdict"] == "fail"
    ] == ["policy"]


@pytest.mark.usefixtures("kept")
def test_doctor_finds_a_base_that_is_no_longer_kept_and_a_cut_journal(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    assert cli("run", "b", "--", "true").code == 0
    assert cli("stop", "b").code == 0
    git(repo, "update-ref", "-d", "refs/cloche/b/base")
    journal = Engine(repo).find("b").journal
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    done = cli("doctor", "b", "--json")
    assert done.code == 1
    failed = {
        f["id"].rpartition(": ")[2]: f for f in json.loads(done.out)["findings"] if f["verdict"] == "fail"
    }
    assert set(failed) == {"base", "journal"}
    assert "missing from the end" in failed["journal"]["evidence"]
    assert "update-ref" in failed["base"]["remedy"]


def test_a_reader_that_leaves_early_is_no_error(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    assert cli("run", "b", "--", "sh", "-c", "seq 100000 > big").code == 0
    for words in (["diff", "b"], ["log", "b"]):
        command = " ".join(f"'{word}'" for word in cloche_argv(*words))
        done = subprocess.run(
            ["sh", "-c", f"{command} | head -1"], cwd=repo, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr and done.stderr == ""


def test_an_interrupt_ends_quietly(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    watch = subprocess.Popen(
        cloche_argv("watch", "b"), cwd=repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def tells() -> bool:
        assert cli("run", "b", "--", "true").code == 0
        assert watch.stdout is not None
        return bool(select.select([watch.stdout], [], [], 0.5)[0])

    try:
        wait_until(tells, "it is past its start; interrupted before, Python itself ends as loudly")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=60) == 130
        assert watch.stderr is not None and watch.stderr.read() == b""
    finally:
        watch.kill()
        watch.communicate()


def test_a_keeper_that_takes_its_time_is_not_called_slow_by_who_asks_once(cli: Cli, repo: Path) -> None:
    assert cli("new", "b", "--", "sh", "-c", "exit 7").code == 7
    keeper = liveness.read(Engine(repo).find("b")).keeper
    assert keeper is not None
    for words, wanted in (
        (("ls", "--json"), '"needs": "its last command failed (7)"'),
        (("status", "b"), "live"),
    ):
        os.kill(keeper.pid, signal.SIGSTOP)
        goes_on = threading.Timer(1.5, os.kill, (keeper.pid, signal.SIGCONT))
        goes_on.start()
        said = cli(*words).out
        goes_on.join()
        assert wanted in said and "not answer" not in said


HOSTILE = "\x1b]0;title\x07\u202eevil\u009b31m\r[red]x[@click=app.apply]"


def test_hostile_text_is_visible_and_never_obeyed(cli: Cli, repo: Path) -> None:
    """Kinds U1 and U2 on the command line: file name, argv, output, purpose."""
    assert cli("new", "b", "--purpose", HOSTILE).code == 0
    cli("run", "b", "--", "sh", "-c", 'printf x > "$1"; echo x > "/usr/$1"', "sh", HOSTILE)
    git(repo, "checkout", "-q", "-b", "bidi\u202e")
    for words in (
        ["ls"],
        ["status", "b"],
        ["log", "b"],
        ["denials", "b"],
        ["diff", "b", "--stat"],
        ["propose", "b"],
    ):
        done = cli(*words)
        for char in ("\x1b", "\u202e", "\u009b", "\r", "\x07"):
            assert char not in done.out + done.err, words
    tally = cli("denials", "b").out
    assert "\\x1b]0;title\\x07" in tally and "[red]x[@click=app.apply]" in tally
    assert "\\u202e" in cli("diff", "b", "--stat").out


def test_help_and_version_need_nothing(tmp_path: Path) -> None:
    for words in (
        ["--help"],
        ["help"],
        ["run", "--help"],
        ["new", "-h"],
        ["policy", "show", "--help"],
        ["--version"],
    ):
        done = subprocess.run(cloche_argv(*words), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout and not done.stderr


def test_run_imports_nothing_that_only_other_verbs_need(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    program = (
        "import sys; from app.cli import main\n"
        "code = main(['run', 'b', '--', 'true'])\n"
        "heavy = {'argparse', 'rich', 'tomllib', 'subprocess', 'dataclasses', 'asyncio', 'textual',\n"
        "         'psutil', 'pyroute2', 'git', 'watchfiles', 'backends.policy.schema',\n"
        "         'backends.gate.apply'}\n"
        "print(code, sorted(heavy & set(sys.modules)))\n"
    )
    import sys

    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=repo, capture_output=True, text=True, check=False
    )
    assert done.stdout == "0 []\n", done


def test_a_box_whose_keeper_cannot_start_says_why(cli: Cli, repo: Path) -> None:
    assert cli("new", "b").code == 0
    paths = Engine(repo).find("b")
    written = paths.written
    written.rename(paths.root / "elsewhere")
    done = cli("run", "b", "--", "true")
    assert done.code == 3 and "next:" in done.err
    assert not liveness.alive(liveness.read(paths).keeper)
    (paths.root / "elsewhere").rename(written)
    assert cli("run", "b", "--", "true").code == 0


@pytest.mark.usefixtures("kept")
def test_an_unconfined_box_says_so_wherever_its_evidence_is_shown(cli: Cli, repo: Path) -> None:
    new = cli("new", "w", "--tier", "workspace")
    assert cli("run", "w", "--", "sh", "-c", "echo x > x").code == 0
    said = [new.err, cli("ls").out, cli("status", "w").out, cli("ps", "w").err, cli("denials", "w").err]
    for words in (["log"], ["diff"], ["propose"], ["export", "--out", str(repo.parent / "out")]):
        done = cli(words[0], "w", *words[1:])
        assert done.code == 0, done.err
        said.append(done.err)
    said += [(repo.parent / "out" / "report.md").read_text()]
    for text in said:
        assert "unconfined" in text or "nothing confines" in text or "confines nothing" in text, text
    finding = next(
        f for f in json.loads(cli("doctor", "w", "--json").out)["findings"] if f["id"].endswith(": journal")
    )
    assert finding["verdict"] == "warn"
