"""A refusal is explained, one change accepted, and the box follows it: real boxes, checked from outside."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.boxes import generations, liveness
from backends.boxes.manifest import load
from backends.engine import Engine, NewBox, Streams
from backends.errors import Busy, Refused, UsageError
from backends.evidence import journal
from backends.keeper import client
from backends.policy import canonical
from backends.snapshots import Explanation, Proposal
from backends.verbs import authority

pytestmark = pytest.mark.boundary


@pytest.fixture
def null() -> Iterator[Streams]:
    fd = os.open(os.devnull, os.O_RDWR)
    yield Streams(fd, fd, fd)
    os.close(fd)


@pytest.fixture
def sdk() -> Iterator[Path]:
    """A file of the host that the box is refused at first. Not below /tmp, which is the box's own inside."""
    path = Path(tempfile.mkdtemp(prefix="cloche-test-", dir=pwd.getpwuid(os.geteuid()).pw_dir))
    path.chmod(0o755)
    (path / "lib.txt").write_text("host\n")
    yield path / "lib.txt"
    shutil.rmtree(path)


@pytest.fixture
def engine(repo: Path) -> Engine:
    (repo / "cloche.toml").write_text('# mine\n[profiles.default]\nobserve = "all"   # see all\n')
    return Engine(repo)


def refused(engine: Engine, null: Streams, path: Path) -> Explanation:
    """The explanation of a read that the box ``b`` tried."""
    assert engine.run("b", ["cat", str(path)], streams=null).exit == 1
    row = next(row for row in engine.tally("b").rows if row.object == str(path))
    assert row.kind == "fs-read"
    return engine.explain_denial("b", row.kind, row.object, row.rule)


def policies(engine: Engine) -> list[dict[str, Any]]:
    return [dict(record.data) for record in engine.journal("b") if record.kind == "policy"]


def test_an_accepted_read_is_written_journalled_and_holds_from_the_next_start(
    engine: Engine, repo: Path, sdk: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    before = load(engine.find("b"))
    found = refused(engine, null, sdk)
    assert found.proposal is not None and not found.proposal.live
    assert (found.proposal.key, found.proposal.value) == ("fs.read", str(sdk))
    assert f'+read = ["{sdk}"]' in found.proposal.diff.split("\n")
    assert "fs.read or fs.write" in found.where
    text = (repo / "cloche.toml").read_text()
    engine.accept_rule("b", found.proposal, "ada")
    assert (repo / "cloche.toml").read_text() == text + f'\n[profiles.default.fs]\nread = ["{sdk}"]\n'

    # The keeper still holds the box to what it began with, and everything on disk agrees with that.
    assert engine.run("b", ["cat", str(sdk)], streams=null).exit == 1
    assert load(engine.find("b")).policy_digest == before.policy_digest
    assert [one for one in engine.doctor("b") if one.verdict == "fail"] == []
    again = engine.explain_denial("b", found.kind, found.object, found.rule)
    assert again.proposal is None and "next start" in again.why_not

    engine.stop("b")
    assert engine.run("b", ["cat", str(sdk)], streams=null).exit == 0
    after = load(engine.find("b"))
    assert after.generation == before.generation + 1
    (told,) = policies(engine)
    assert told["who"] == "ada" and told["scripted"] is False
    assert (told["key"], told["value"], told["file"]) == ("fs.read", str(sdk), str(repo / "cloche.toml"))
    assert (told["before"], told["digest"]) == (before.policy_digest, after.policy_digest)
    assert told["generation"] == after.generation
    assert canonical.digest(engine.find("b").policy.read_bytes()) == after.policy_digest
    source = {(key, value): where for key, value, where in engine.policy_explain("b")}
    assert source["fs.read", str(sdk)] == f"{repo / 'cloche.toml'}:6"
    engine.create(NewBox(name="c"))
    assert engine.run("c", ["cat", str(sdk)], streams=null).exit == 0
    for name in ("b", "c"):
        engine.stop(name)


def test_an_idle_box_takes_it_at_once_and_its_export_tells(
    engine: Engine, repo: Path, sdk: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    found = refused(engine, null, sdk)
    engine.run("b", ["sh", "-c", "echo x > x"], streams=null)
    engine.stop("b")
    assert found.proposal is not None
    engine.accept_rule("b", found.proposal, "bot", scripted=True)
    manifest = load(engine.find("b"))
    assert manifest.generation == 2
    assert not (engine.find("b").root / generations.NEXT).exists()
    engine.propose("b")
    out = repo.parent / "out"
    engine.export("b", out)
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["policy"]["digest"] == manifest.policy_digest
    assert str(sdk) in receipt["policy"]["resolved"]["fs"]["read"]
    (told,) = receipt["policy"]["generations"]
    assert (told["who"], told["scripted"], told["generation"]) == ("bot", True, 2)
    assert f"generation 2: fs.read {sdk}, accepted by the script bot" in (out / "report.md").read_text()
    assert {one.verdict for one in engine.verify(out)} == {"ok"}


def test_what_is_executed_and_written_can_be_accepted_too(engine: Engine, sdk: Path, null: Streams) -> None:
    tool = sdk.parent / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    cache = sdk.parent / "cache"
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    engine.create(NewBox(name="b"))
    engine.run("b", ["sh", "-c", f"{tool}; echo x > {cache}/x"], streams=null)
    rows = {row.kind: row for row in engine.tally("b").rows}
    assert rows["exec"].object == str(tool) and rows["fs-write"].object == f"{cache}/x"
    found = engine.explain_denial("b", "exec", str(tool), rows["exec"].rule)
    assert found.proposal is not None and found.proposal.key == "fs.read"
    absent = engine.explain_denial("b", "fs-write", f"{cache}/x", rows["fs-write"].rule)
    assert absent.proposal is None, "a grant of what is not there would be one of its folder"
    assert "does not exist" in absent.why_not
    engine.stop("b")
    engine.accept_rule("b", found.proposal, "ada")
    engine.accept_rule("b", engine.propose_rule("b", "fs.write", str(cache)), "ada")
    assert engine.run("b", ["sh", "-c", f"{tool} && echo x > {cache}/x"], streams=null).exit == 0
    assert (cache / "x").read_text() == "x\n"
    engine.stop("b")


def test_only_one_acceptance_of_what_was_shown_happens(
    engine: Engine, repo: Path, sdk: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    found = refused(engine, null, sdk)
    assert found.proposal is not None
    text = (repo / "cloche.toml").read_text()
    (repo / "cloche.toml").write_text(text + "# an editor was here\n")
    with pytest.raises(Busy, match="no longer what was shown"):
        engine.accept_rule("b", found.proposal, "ada")
    forged = found.proposal._replace(file=str(repo / "other.toml"))
    with pytest.raises(Busy):
        engine.accept_rule("b", forged, "ada")
    assert (repo / "cloche.toml").read_text() == text + "# an editor was here\n"
    assert sorted(path.name for path in repo.iterdir() if path.name.startswith("cloche")) == ["cloche.toml"]
    assert policies(engine) == []
    engine.stop("b")


def test_nothing_that_names_credentials_or_opens_a_closed_network_is_accepted(
    engine: Engine, repo: Path
) -> None:
    engine.create(NewBox(name="b"))
    text = (repo / "cloche.toml").read_text()
    home = Path.home()
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("k")
    for key, value in (
        ("fs.read", "/etc/shadow"),
        ("fs.read", str(home / ".ssh" / "id_rsa")),
        ("fs.read", str(home)),
        ("fs.write", "/"),
        ("net.egress", "pypi.org"),
        ("net.mode", "host"),
        ("tier", "workspace"),
        ("fs.deny", "/usr"),
        ("env.pass", "API_TOKEN"),
    ):
        with pytest.raises(Refused):
            engine.propose_rule("b", key, value)
        forged = Proposal(key, value, str(repo / "cloche.toml"), "", False)
        with pytest.raises(Refused):
            engine.accept_rule("b", forged, "ada")
    with pytest.raises(UsageError):
        engine.propose_rule("b", "fs.reed", "/opt")
    with pytest.raises(UsageError):
        engine.propose_rule("b", "resources.procs", "many")
    assert (repo / "cloche.toml").read_text() == text
    assert load(engine.find("b")).generation == 1


def test_no_link_makes_credentials_look_like_something_else(
    engine: Engine, sdk: Path, null: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home whose folders lie elsewhere, as dotfiles may, and a link that leads to one."""
    home, kept = sdk.parent / "home", sdk.parent / "dotfiles"
    (kept / "kube").mkdir(parents=True)
    (kept / "kube" / "conf").write_text("key\n")
    (home / ".gnupg").mkdir(parents=True)
    (home / ".gnupg" / "conf").write_text("key\n")
    (home / ".kube").symlink_to(kept / "kube")
    (home / "link").symlink_to(home / ".gnupg")
    (home / "plain").write_text("key\n")
    engine.create(NewBox(name="b"))
    monkeypatch.setenv("HOME", str(home))
    for path in (kept / "kube" / "conf", kept, home / "link" / "conf"):
        with pytest.raises(Refused, match="never proposed"):
            engine.propose_rule("b", "fs.read", str(path))
    assert engine.propose_rule("b", "fs.read", str(home / "plain")).value == str(home / "plain")


def test_a_box_takes_what_the_file_said_after_it_was_made_and_the_file_stays_as_it_is(
    engine: Engine, repo: Path, sdk: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    with open(repo / "cloche.toml", "a") as file:
        file.write(f'fs.read = ["/etc/passwd", "{sdk}"] # later\nresources.procs = 77\n')
    text = (repo / "cloche.toml").read_text()
    found = refused(engine, null, sdk)
    assert found.proposal is not None and found.proposal.diff == ""
    engine.stop("b")
    engine.accept_rule("b", found.proposal, "ada")
    assert (repo / "cloche.toml").read_text() == text
    assert engine.run("b", ["cat", str(sdk)], streams=null).exit == 0
    policy = canonical.decode(engine.find("b").policy.read_bytes())
    assert "/etc/passwd" not in policy.fs.read and policy.resources.procs == 512, (
        "and nothing else that moved since"
    )
    engine.stop("b")


def test_a_linked_file_is_not_written_through(engine: Engine, repo: Path, sdk: Path, null: Streams) -> None:
    engine.create(NewBox(name="b"))
    real = repo.parent / "real.toml"
    (repo / "cloche.toml").rename(real)
    (repo / "cloche.toml").symlink_to(real)
    found = refused(engine, null, sdk)
    assert found.proposal is None and "symbolic link" in found.why_not
    engine.stop("b")


def test_nobody_inside_a_box_accepts_anything(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.create(NewBox(name="b"))
    proposal = engine.propose_rule("b", "resources.procs", "9")
    text = (repo / "cloche.toml").read_text()
    monkeypatch.setenv(authority.VARIABLE, "k/b")
    with pytest.raises(Refused, match="not for callers inside a box"):
        engine.accept_rule("b", proposal, "ada")
    assert (repo / "cloche.toml").read_text() == text


def test_a_cut_short_acceptance_is_finished_by_whoever_takes_the_lock(
    engine: Engine, sdk: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    found = refused(engine, null, sdk)
    assert found.proposal is not None
    engine.accept_rule("b", found.proposal, "ada")
    paths = engine.find("b")
    engine.stop("b")
    # As if the host had crashed after the policy was written and before the manifest was.
    waiting = json.loads((paths.root / generations.NEXT).read_bytes())
    paths.policy.write_bytes(waiting["policy"].encode())
    assert engine.run("b", ["cat", str(sdk)], streams=null).exit == 0
    assert load(paths).generation == 2
    assert journal.verify(paths.journal).problems == ()
    engine.stop("b")


class Keeper:
    """The keeper's side of ``allow``, as far as the engine sees it."""

    def __init__(self, error: Refused | UsageError | None) -> None:
        self.error = error
        self.asked: list[tuple[str, dict[str, object]]] = []

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def call(self, op: str, **fields: object) -> dict[str, object]:
        self.asked.append((op, fields))
        if self.error is not None:
            raise self.error
        return {}


def supervised(engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch, keeper: Keeper) -> None:
    """The box ``b``, told to the engine as a live one of tier supervised with a list of destinations."""
    (repo / "cloche.toml").write_text('[profiles.default]\nnet.mode = "allow"\nnet.egress = ["a.example"]\n')
    engine.create(NewBox(name="b", tier="supervised"))
    real = liveness.read

    def live(paths: Any) -> Any:
        return real(paths)._replace(kind="live")

    monkeypatch.setattr(liveness, "read", live)
    monkeypatch.setattr(client, "connect", lambda *_a, **_k: keeper)


def test_a_live_supervised_box_is_told_the_rule_and_who(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(None)
    supervised(engine, repo, monkeypatch, keeper)
    found = engine.explain_denial("b", "net", "b.example:8443", "no rule allows it")
    assert found.proposal is not None and found.proposal.live
    engine.accept_rule("b", found.proposal, "ada")
    assert ("allow", {"rule": "b.example:8443", "who": "ada"}) in keeper.asked
    assert 'net.egress = ["a.example", "b.example:8443"]' in (repo / "cloche.toml").read_text()
    monkeypatch.undo()


def test_a_keeper_that_cannot_take_a_rule_leaves_everything_as_it_was(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(UsageError("the keeper does not know 'allow'", "old", "stop", code="unknown-operation"))
    supervised(engine, repo, monkeypatch, keeper)
    text = (repo / "cloche.toml").read_text()
    found = engine.explain_denial("b", "dns", "b.example", "no rule allows it")
    assert found.proposal is not None
    with pytest.raises(Refused) as refusal:
        engine.accept_rule("b", found.proposal, "ada")
    assert "cloche stop b" in refusal.value.next_step
    assert (repo / "cloche.toml").read_text() == text
    assert sorted(path.name for path in repo.iterdir() if "cloche" in path.name) == ["cloche.toml"]
    assert load(engine.find("b")).generation == 1
    assert not (engine.find("b").root / generations.NEXT).exists()
    monkeypatch.undo()


def test_a_draft_of_what_was_used_runs_the_same_work_without_a_refusal(
    engine: Engine, repo: Path, sdk: Path, null: Streams
) -> None:
    engine.create(NewBox(name="b"))
    work = [
        "sh",
        "-c",
        'python3 -c "import json, ssl; print(json.dumps([1]))" > out && git status && test -s out',
    ]
    assert engine.run("b", work, streams=null).exit == 0
    learned = engine.learn("b", "lean")
    used = {row.entry: row for row in learned.grants if row.key == "fs.read"}
    assert used["/usr"].used is True and "/usr/bin" in used["/usr"].places
    unused = [row.entry for row in learned.grants if row.used is False]
    assert "/etc/services" in unused and "/usr" not in unused
    with open(repo / "cloche.toml", "a") as file:
        file.write("\n" + learned.profile)
    engine.create(NewBox(name="c", profile="lean"))
    granted = canonical.decode(engine.find("c").policy.read_bytes()).fs
    assert set(granted.read).isdisjoint(unused) and "/usr" not in granted.read and granted.write == ()
    assert engine.run("c", work, streams=null).exit == 0
    assert engine.tally("c").rows == ()
    for name in ("b", "c"):
        engine.stop(name)


def test_without_reads_observed_a_draft_says_so_and_keeps_every_grant(
    engine: Engine, repo: Path, null: Streams
) -> None:
    (repo / "cloche.toml").write_text("")
    engine.create(NewBox(name="b"))
    assert engine.run("b", ["true"], streams=null).exit == 0
    learned = engine.learn("b")
    assert any(text.startswith("reads:") for text in learned.not_observed)
    policy = canonical.decode(engine.find("b").policy.read_bytes())
    assert {row.entry for row in learned.grants if row.key == "fs.read" and row.places} == set(policy.fs.read)
    engine.stop("b")


CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()
except OSError:
    sys.exit(7)
"""


def test_a_live_box_reaches_what_was_accepted_without_a_restart(
    engine: Engine, repo: Path, null: Streams
) -> None:
    text = '[profiles.default]\ntier = "supervised"\nnet.mode = "allow"\nnet.egress = ["8.8.8.8"]\n'
    (repo / "cloche.toml").write_text(text)
    engine.create(NewBox(name="b"))
    # Nobody answers there: that the relay took the connection is what shows.
    there = ["python3", "-c", CONNECT, "10.255.255.1", "5432"]
    assert engine.run("b", there, streams=null).exit == 7
    (row,) = engine.tally("b").rows
    assert (row.kind, row.object, row.count) == ("net", "10.255.255.1:5432", 1)
    found = engine.explain_denial("b", row.kind, row.object, row.rule)
    assert found.where == f"{repo / 'cloche.toml'}:3" and found.proposal is not None and found.proposal.live
    keeper = engine.view("b").row.live
    engine.accept_rule("b", found.proposal, "ada")
    assert engine.run("b", there, streams=null).exit == 0
    assert (keeper, engine.view("b").row.live) == ("live", "live")
    assert engine.tally("b").rows[0].count == 1
    told = [record.data for record in engine.journal("b") if record.kind in ("egress-rule", "policy")]
    assert [(one["who"], one.get("live")) for one in told] == [("ada", None), ("ada", True)]
    engine.stop("b")
    assert engine.run("b", there, streams=null).exit == 0, "and it holds after the next start"
    assert canonical.decode(engine.find("b").policy.read_bytes()).net.egress == (
        "10.255.255.1:5432",
        "8.8.8.8",
    )
    used = {row.entry: row.used for row in engine.learn("b").grants if row.key == "net.egress"}
    assert used["8.8.8.8"] is False
    engine.stop("b")


def test_a_closed_network_is_not_opened_while_it_runs(engine: Engine, repo: Path, null: Streams) -> None:
    (repo / "cloche.toml").write_text('[profiles.default]\ntier = "supervised"\n')
    engine.create(NewBox(name="b"))
    there = ["python3", "-c", CONNECT, "10.255.255.1", "5432"]
    assert engine.run("b", there, streams=null).exit == 7
    row = next(row for row in engine.tally("b").rows if row.kind == "net")
    found = engine.explain_denial("b", row.kind, row.object, row.rule)
    assert found.proposal is None and "never widened" in found.why_not
    with pytest.raises(Refused, match="never widened"):
        engine.propose_rule("b", "net.egress", "10.255.255.1:5432")
    with client.connect(engine.find("b")) as keeper, pytest.raises(Refused):
        keeper.call("allow", rule="10.255.255.1:5432", who="ada")
    assert engine.run("b", there, streams=null).exit == 7
    engine.stop("b")
