"""Failure kinds from the field, through the command line: G8, G10, H2, P1, P2 and many commands at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.engine import Engine
from tests import support
from tests.support import Done, cloche_argv

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]


def ok(done: Done) -> Done:
    assert done.code == 0, done.err
    return done


def test_g8_protected_files_that_do_not_exist_leave_no_placeholder(
    cli: Cli, repo: Path, home: object
) -> None:
    hidden = [repo / ".env.secret", Path(os.environ["HOME"]) / ".config/app/token"]
    listed = ", ".join(json.dumps(str(path)) for path in [*hidden, repo / "src" / "later.key"])
    (repo / "cloche.toml").write_text(f"[profiles.default]\nfs.deny = [{listed}]\n")
    ok(cli("new", "b"))
    ok(
        cli(
            "run", "b", "--", "sh", "-c", "git add . && git status --porcelain > ~/status; test ! -s ~/status"
        )
    )
    paths = Engine(repo).find("b")
    keeper = liveness.read(paths).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    support.wait_until(lambda: liveness.read(paths).kind == "lost", "the keeper died")
    ok(cli("stop", "b"))
    names = {path.name for path in paths.written.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert names == set() if paths.layers.exists() else {"README.md", "add.py", "test_add.py", "run.sh"}
    assert not any(path.exists() for path in hidden)
    ok(cli("propose", "b"))
    assert ok(cli("diff", "b")).out == ""
    assert ok(cli("ls", "--json")).json()["boxes"][0]["stat"]["files"] == 0  # type: ignore[index]


def test_g10_a_conflict_changes_nothing_and_strands_nobody(cli: Cli, repo: Path) -> None:
    for name in ("b", "sibling"):
        ok(cli("new", name))
    ok(cli("run", "sibling", "--", "sh", "-c", "setsid sleep 300 >/dev/null 2>&1 </dev/null &"))
    ok(cli("run", "b", "--", "sh", "-c", "echo theirs > README.md"))
    (repo / "README.md").write_text("ours\n")
    support.git(repo, "commit", "-qam", "ours")
    ok(cli("propose", "b"))
    before = (
        support.git(repo, "rev-parse", "HEAD"),
        support.git(repo, "status", "--porcelain"),
        support.git(repo, "for-each-ref"),
        (repo / "README.md").read_text(),
    )
    conflict = cli("apply", "b", "--as", "t")
    assert conflict.code == 5 and "README.md" in conflict.err
    assert "clean" not in conflict.err.lower().replace("clean tree", ""), "no clean-up is offered"
    assert before == (
        support.git(repo, "rev-parse", "HEAD"),
        support.git(repo, "status", "--porcelain"),
        support.git(repo, "for-each-ref"),
        (repo / "README.md").read_text(),
    )
    assert not list((repo / ".git").glob("*.lock")) and not (repo / ".git" / "MERGE_HEAD").exists()
    assert support.git(repo, "fsck", "--no-dangling") == ""
    ok(cli("reopen", "b"))
    ok(cli("run", "b", "--", "sh", "-c", "git checkout -q -- README.md; echo fine > other"))
    ok(cli("propose", "b"))
    ok(cli("apply", "b", "--as", "t"))
    assert (repo / "other").read_text() == "fine\n" and (repo / "README.md").read_text() == "ours\n"
    ok(cli("rm", "b"))
    assert ok(cli("run", "sibling", "--", "git", "fsck", "--no-dangling")).out == ""
    assert len(ok(cli("ps", "sibling", "--json")).json()["processes"]) == 1  # type: ignore[index]
    assert support.git(repo, "fsck", "--no-dangling") == ""


@pytest.mark.boundary
def test_p2_neither_a_descriptor_nor_a_token_of_the_caller_gets_in(
    cli: Cli, repo: Path, home: object
) -> None:
    secret = repo.parent / "secret"
    secret.write_text("k3y-material")
    low, high = os.open(secret, os.O_RDONLY), 2048
    try:
        os.dup2(low, high)
    except OSError:
        high = 200
        os.dup2(low, high)
    os.set_inheritable(low, True)
    os.set_inheritable(high, True)
    ok(cli("new", "b"))
    script = (
        "ls /proc/self/fd | tr '\\n' ' '; echo;"
        "cat /proc/self/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n';"
        "for f in /proc/[0-9]*/fd/*; do cat $f 2>/dev/null </dev/null & done;"
        "sleep 0.2; kill $(jobs -p) 2>/dev/null"
    )
    env = {**os.environ, "API_TOKEN": "t0k3n-value", "SSH_AUTH_SOCK": "/run/agent", "LANG": "C.UTF-8"}
    for _ in range(2):  # the run that starts the keeper, and one that finds it
        done = subprocess.run(
            cloche_argv("run", "b", "--", "sh", "-c", script),
            cwd=repo,
            env=env,
            pass_fds=(low, high),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        text = done.stdout + done.stderr
        assert "k3y-material" not in text and "t0k3n" not in text and "SSH_AUTH_SOCK" not in text
        assert done.stdout.splitlines()[0].split()[:3] == ["0", "1", "2"]
        assert len(done.stdout.splitlines()[0].split()) == 4, "and the one that ls opened"
        assert "LANG=C.UTF-8" in text, "what the policy passes does arrive"
    os.close(low)
    os.close(high)
    record = (Engine(repo).find("b").journal).read_text()
    assert "t0k3n" not in record and "k3y-material" not in record


@pytest.mark.boundary
def test_p1_daemons_are_shown_and_none_survives_a_stop(cli: Cli, repo: Path) -> None:
    ok(cli("new", "b"))
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(300)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    ok(cli("run", "b", "--", "python3", "-c", program))
    quiet = ">/dev/null 2>&1 </dev/null &"
    ok(cli("run", "b", "--", "sh", "-c", f"nohup sleep 301 {quiet} setsid sleep 302 {quiet}"))
    rows = ok(cli("ps", "b", "--json")).json()["processes"]  # type: ignore[index]
    assert len(rows) == 3
    idents = [row["ident"] for row in rows]
    assert ok(cli("ls", "--json")).json()["boxes"][0]["state"] == "running"  # type: ignore[index]
    ok(cli("stop", "b"))
    assert not any(support.is_alive(ident) for ident in idents)
    assert ok(cli("ls", "--json")).json()["boxes"][0]["state"] == "idle"  # type: ignore[index]


def test_h2_a_limit_that_is_not_enforced_says_so_and_removal_works(cli: Cli, repo: Path) -> None:
    (repo / "cloche.toml").write_text('[profiles.default]\nresources.mem = "64M"\n')
    ok(cli("new", "b"))
    ok(cli("run", "b", "--", "sh", "-c", "touch f; chown 1000:1000 f; chown 0:0 f; chmod 000 .; true"))
    found = ok(cli("status", "b", "--json")).json()
    row = next(e for e in found["enforcement"] if e["key"] == "resources.mem")  # type: ignore[index]
    if "cgroup" not in row["mechanism"]:
        assert row["missing"], "what cannot be held is named, not listed as active"
    ok(cli("rm", "b"))
    assert ok(cli("ls", "--json")).json()["boxes"] == []  # type: ignore[index]


def test_git_works_inside_and_the_source_is_out_of_its_reach(cli: Cli, repo: Path) -> None:
    before = support.git(repo, "for-each-ref"), support.git(repo, "rev-parse", "HEAD")
    ok(cli("new", "b"))
    script = (
        "set -e; git log --oneline; git status --porcelain; echo x > x; git add x; git commit -qm x;"
        "git branch side; git rebase -q side; git gc -q; git diff main --stat; git fsck"
    )
    done = ok(cli("run", "b", "--", "sh", "-c", script))
    assert "1 file changed" in done.out
    assert (support.git(repo, "for-each-ref"), support.git(repo, "rev-parse", "HEAD")) == (
        before[0],
        before[1],
    ) or "refs/cloche/b/base" in support.git(repo, "for-each-ref")
    assert "refs/heads/side" not in support.git(repo, "for-each-ref")


def test_a_hundred_pipelines_at_once_complete(cli: Cli) -> None:
    ok(cli("new", "b"))
    ok(cli("run", "b", "--", "true"))

    def one(number: int) -> tuple[int, str]:
        done = cli("run", "b", "--", "sh", "-c", f"echo abc{number} | gzip | gunzip | cat", timeout=120)
        return done.code, done.out

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, range(100)))
    assert results == [(0, f"abc{number}\n") for number in range(100)]


def test_large_streams_pass_whole_in_both_directions(cli: Cli) -> None:
    ok(cli("new", "b"))
    data = os.urandom(1 << 20).hex().encode()
    done = cli("run", "b", "--", "cat", stdin=data)
    assert done.code == 0 and done.out.encode() == data
    head = cli("run", "b", "--", "head", "-c", "10", stdin=data)
    assert head.code == 0 and head.out.encode() == data[:10], "a reader that leaves early is no failure"


def test_the_second_starter_uses_the_first_ones_keeper(cli: Cli, repo: Path) -> None:
    ok(cli("new", "b"))
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda _: cli("run", "b", "--", "true"), range(6)))
    assert [one.code for one in done] == [0] * 6, [one.err for one in done]
    launches = [r for r in json.loads(cli("log", "b", "--json").out)["records"] if r["kind"] == "launch"]
    assert len(launches) == 1
