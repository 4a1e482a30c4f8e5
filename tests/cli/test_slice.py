"""One box from end to end through the command line: made, run in, reviewed, carried out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.support import Done

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]

WORK = (
    "printf 'def add(a, b):\\n    return b + a\\n' > src/add.py; echo new > notes.txt; "
    "cat /root/.ssh/id_rsa ~/.ssh/id_rsa; echo x > /usr/escaped; git add -A; git commit -qm inside; exit 7"
)


def ok(done: Done) -> Done:
    assert done.code == 0, done.err
    return done


def doc(done: Done) -> dict[str, Any]:
    """The JSON document of a command that succeeded."""
    value: dict[str, Any] = json.loads(ok(done).out)
    return value


def test_a_result_is_carried_from_a_box_to_its_branch(cli: Cli, repo: Path, home: object) -> None:
    before = support.git(repo, "rev-parse", "main")
    assert ok(cli("new", "fix", "--purpose", "swap the order")).out == "fix\n"
    ran = cli("run", "fix", "--", "sh", "-c", WORK)
    assert ran.code == 7
    assert not Path("/usr/escaped").exists()
    assert support.git(repo, "status", "--porcelain") == "", "the checkout is not touched by the box"

    tally = doc(cli("denials", "fix", "--json"))
    assert [(row["kind"], row["object"], row["count"]) for row in tally["rows"]] == [
        ("fs-write", "/usr/escaped", 1)
    ]
    assert tally["total"] == 1
    assert {row["kind"] for row in tally["not_observed"]} >= {"dns"}, "what cannot be seen is named, not zero"

    patch = ok(cli("diff", "fix")).out
    assert "+    return b + a" in patch and "notes.txt" in patch
    proposed = doc(cli("propose", "fix", "--json"))
    assert proposed["snapshot"]["stat"] == {"files": 2, "added": 2, "deleted": 1}

    out = repo.parent / "out"
    ok(cli("export", "fix", "--out", str(out)))
    assert (out / "patch.diff").read_text() == patch
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["tally"]["total"] == 1, "report, receipt and screen count the same"
    assert ok(cli("verify", str(out))).code == 0

    applied = doc(cli("apply", "fix", "--as", "the-test", "--json"))
    assert (applied["branch"], applied["old"], applied["mode"]) == ("refs/heads/main", before, "fast-forward")
    assert support.git(repo, "rev-parse", "main") == applied["new"]
    assert support.git(repo, "rev-parse", "main^{tree}") == proposed["snapshot"]["id"]
    assert (repo / "notes.txt").read_text() == "new\n"
    assert support.git(repo, "status", "--porcelain") == ""
    assert support.git(repo, "log", "-1", "--format=%B").splitlines()[0] == "swap the order"

    kinds = [r["kind"] for r in doc(cli("log", "fix", "--json"))["records"]]
    for kind in ("created", "session-start", "exec", "denial", "session-exit", "proposal", "export", "apply"):
        assert kind in kinds
    moves = [
        (r["data"]["from"], r["data"]["to"])
        for r in doc(cli("log", "fix", "--json"))["records"]
        if r["kind"] == "transition"
    ]
    assert moves == [
        ("created", "running"),
        ("running", "idle"),
        ("idle", "running"),  # its own Git tells its commits
        ("running", "idle"),
        ("idle", "proposed"),
        ("proposed", "applied"),
    ]
    apply_record = next(r for r in doc(cli("log", "fix", "--json"))["records"] if r["kind"] == "apply")
    assert apply_record["data"]["scripted"] is True and apply_record["data"]["who"] == "the-test"

    assert ok(cli("rm", "fix")).out == "fix: removed\n"
    assert support.git(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert doc(cli("ls", "--json")) == {"schema": "cloche.ls/1", "boxes": []}


def test_a_changed_export_is_found_out(cli: Cli, repo: Path) -> None:
    ok(cli("new", "fix"))
    ok(cli("run", "fix", "--", "sh", "-c", "echo x > a"))
    ok(cli("propose", "fix"))
    out = repo.parent / "out"
    ok(cli("export", "fix", "--out", str(out)))
    again = cli("export", "fix", "--out", str(out))
    assert again.code == 3 and "--force" in again.err
    ok(cli("export", "fix", "--out", str(out), "--force"))
    (out / "patch.diff").write_bytes((out / "patch.diff").read_bytes().replace(b"+x", b"+y"))
    found = cli("verify", str(out), "--json")
    assert found.code == 1
    value = found.json()
    assert isinstance(value, dict) and value["ok"] is False
    assert [row["id"] for row in value["findings"] if row["verdict"] == "fail"] == ["patch.diff"]


def test_streams_and_exit_codes_pass_through(cli: Cli) -> None:
    ok(cli("new", "b"))
    echoed = cli("run", "b", "--", "sh", "-c", "cat; echo err >&2", stdin=b"\x00\xff bytes\n")
    assert (echoed.code, echoed.err) == (0, "err\n")
    assert echoed.out == "\x00\ufffd bytes\n"
    assert cli("run", "b", "--", "sh", "-c", "kill -TERM $$").code == 128 + 15
    missing = cli("run", "b", "--", "no-such-program")
    assert missing.code == 127 and "no-such-program" in missing.err
    with_json = cli("run", "--json", "b", "--", "sh", "-c", "echo out; exit 9")
    assert (with_json.code, with_json.out) == (9, "out\n")
    value = json.loads(with_json.err.splitlines()[-1])
    assert value["schema"] == "cloche.run/1" and value["exit"] == 9 and value["session"] == 4


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_an_empty_one(cli: Cli, repo: Path, closing: str) -> None:
    ok(cli("new", "b"))
    words = " ".join(
        shlex.quote(word) for word in support.cloche_argv("run", "b", "--", "sh", "-c", "cat; exit 4")
    )
    assert support.run(["sh", "-c", f"{words} {closing}"], cwd=repo).code == 4
    listing = " ".join(shlex.quote(word) for word in support.cloche_argv("ls"))
    assert support.run(["sh", "-c", f"{listing} {closing}"], cwd=repo).code == 0


def test_a_wall_limit_ends_the_tree_with_124(cli: Cli, repo: Path) -> None:
    (repo / "cloche.toml").write_text('[profiles.short]\nresources.wall = "1s"\n')
    ok(cli("new", "b", "--profile", "short"))
    done = cli("run", "b", "--", "sh", "-c", "sleep 60 & setsid sleep 60 & wait")
    assert done.code == 124
    support.wait_until(
        lambda: doc(cli("ps", "b", "--json"))["processes"] == [],
        "the whole tree has ended",
    )


def test_the_box_goes_on_where_it_was_after_it_cost_only_disk(cli: Cli) -> None:
    ok(cli("new", "b"))
    ok(cli("run", "b", "--", "sh", "-c", "echo kept > kept; echo home > ~/home"))
    stopped = doc(cli("stop", "b", "--json"))
    assert stopped["results"][0]["stopped"] is True
    assert doc(cli("stop", "b", "--json"))["results"][0]["stopped"] is False
    assert ok(cli("run", "b", "--", "cat", "kept", "/home/box/home")).out == "kept\nhome\n"


def test_a_proposal_is_taken_back_and_changed(cli: Cli) -> None:
    ok(cli("new", "b"))
    refused = cli("propose", "b")
    assert refused.code == 3 and "cloche run b" in refused.err
    ok(cli("run", "b", "--", "sh", "-c", "echo 1 > a"))
    first = doc(cli("propose", "b", "--json"))
    frozen = cli("run", "b", "--", "true")
    assert frozen.code == 3 and "cloche reopen b" in frozen.err
    ok(cli("reopen", "b"))
    ok(cli("run", "b", "--", "sh", "-c", "echo 2 > a"))
    second = doc(cli("propose", "b", "--json"))
    assert first["snapshot"]["id"] != second["snapshot"]["id"]
    wrong = cli("apply", "b", "--as", "t", "--expect", first["snapshot"]["id"])
    assert wrong.code == 3 and "reviewed" in wrong.err
    ok(cli("apply", "b", "--as", "t", "--expect", second["snapshot"]["id"]))


def test_propose_waits_for_nobody_and_can_stop_what_runs(cli: Cli) -> None:
    ok(cli("new", "b"))
    ok(cli("run", "b", "--", "sh", "-c", "echo 1 > a; setsid sleep 300 >/dev/null 2>&1 </dev/null &"))
    busy = cli("propose", "b")
    assert busy.code == 5 and "cloche stop b" in busy.err
    ok(cli("propose", "b", "--stop"))


def test_a_detached_box_is_exported_and_never_applied(cli: Cli, repo: Path) -> None:
    ok(cli("new", "e", "--empty"))
    ok(cli("run", "e", "--", "sh", "-c", "git log --format=%s; echo x > made"))
    ok(cli("propose", "e"))
    refused = cli("apply", "e", "--as", "t")
    assert refused.code == 3 and "detached" in refused.err and "cloche export e" in refused.err
    out = repo.parent / "out"
    ok(cli("export", "e", "--out", str(out)))
    assert "+x" in (out / "patch.diff").read_text()

    ok(cli("new", "c", "--clone", str(repo)))
    row = next(r for r in doc(cli("ls", "--json"))["boxes"] if r["name"] == "c")
    assert row["profile"] == "review", "foreign code gets the profile for foreign code"
    assert row["repository"] == "" and row["base"] == support.git(repo, "rev-parse", "main")
    assert "README.md" in ok(cli("run", "c", "--", "ls")).out
    assert support.git(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main", (
        "the source knows nothing"
    )
    ok(cli("rm", "e", "c"))


@pytest.mark.parametrize(
    "url", ["ext::sh -c touch% marker", "http://example.invalid/x", "git://x/y", "-u", "/nowhere"]
)
def test_an_address_that_could_run_something_or_be_changed_on_the_way_is_refused(
    cli: Cli, repo: Path, url: str
) -> None:
    refused = cli("new", "c", f"--clone={url}")
    assert refused.code == 2 and "cannot be cloned" in refused.err
    assert not (repo / "marker").exists()
    assert doc(cli("ls", "--json", "--all"))["boxes"] == []
