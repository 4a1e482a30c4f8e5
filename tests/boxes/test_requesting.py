"""Requesting changes of a real box's proposal: the file, the traps at its name, the way back to work.

With both providers of a tree. The traps are laid from inside the box and looked at from outside.
"""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes.manifest import load
from backends.digest import sha256
from backends.engine import Engine, NewBox
from backends.errors import ClocheError, NoSuchBox, Refused, UsageError
from backends.evidence.journal import verify
from backends.gate.patch import ACCEPTED, REJECTED
from backends.snapshots_request import RequestOutcome
from backends.verbs.requesting import NEWEST
from backends.verbs.values import SessionHandle
from tests import support
from tests.boxes import provided
from tests.boxes.provided import ONCE, QUIET, run
from tests.support import Done

Cli = Callable[..., Done]
FILE = ".cloche-review.md"
FILES = {
    "lines": b"".join(b"line %d\n" % n for n in range(1, 41)),
    "other": b"other\n",
    "kept": b"kept\n",
}
CHANGE = "sed -i -e '3s/.*/LINE 3/' -e '30s/.*/LINE 30/' lines; echo more >> other; printf 'a\\nb\\n' > fresh"


repo = provided.repository(FILES)
engine = provided.engine_with("b", change=CHANGE)


def kinds(engine: Engine, *wanted: str) -> list[dict[str, object]]:
    return [dict(record.data) for record in engine.journal("b") if record.kind in wanted]


def proposed(engine: Engine) -> set[bytes]:
    return {change.path for change in engine.review("b").diff.changes}


def place(engine: Engine) -> Path:
    return engine.find("b").written / FILE


def test_what_was_said_is_read_inside_and_the_box_goes_on(engine: Engine) -> None:
    first = engine.review("b").snapshot.id
    with engine.decisions("b", "ann") as desk:
        desk.comment(b"lines", "new", 3, "keep \\d small\n# not a heading", b"LINE 3")
        desk.comment(b"other", "new", 0, "why at all?")
        desk.set([(b"lines", desk.file(b"lines").hunk(1))], REJECTED)
        desk.set([(b"fresh", desk.file(b"fresh").all)], REJECTED)
    done = engine.request_changes("b", "ann", summary="Almost.\x1b[2J")
    assert done._replace(digest="") == RequestOutcome(
        engine.find("b").key, first, FILE, "", 2, 2, "idle", None, ""
    )
    text = run(engine, f"cat {FILE}")
    assert sha256(text.encode()).hexdigest() == done.digest
    wanted = (
        f"A reviewer read the proposal {first}",
        "\n> Almost.\\x1b[2J\n",
        "```text\n  lines, line 3\n  LINE 3\n```\n\n> keep \\d small\n> # not a heading\n",
        "```text\n  other\n```\n\n> why at all?\n",
        "```text\n  lines, removed line 30, added line 30\n  -line 30\n  +LINE 30\n```\n",
        "```text\n  fresh, the whole change\n```\n",
    )
    for part in wanted:
        assert part in text, part
    assert "\x1b" not in text
    status = place(engine).lstat()
    assert stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o644
    assert status.st_uid == load(engine.find("b")).payload_uid
    assert load(engine.find("b")).snapshot is None
    (told,) = kinds(engine, "request")
    assert (told["who"], told["scripted"], told["comments"], told["rejected"], told["digest"]) == (
        "ann", False, 2, 2, done.digest,
    )  # fmt: skip
    assert "changes were requested" in [row["why"] for row in kinds(engine, "transition")]
    assert verify(engine.find("b").journal).problems == ()
    run(engine, f"echo mine >> {FILE}; rm {FILE}; echo again > {FILE}")


def test_the_file_is_never_part_of_a_proposal(engine: Engine) -> None:
    engine.request_changes("b", "ann", summary="more")
    assert run(engine, "git status --porcelain").split() == ["M", "lines", "M", "other", "??", "fresh"]
    run(engine, f"printf '!{FILE}\\n' > .gitignore; git add --all; git commit -qm all; git add -f {FILE}")
    engine.propose("b")
    assert proposed(engine) == {b"lines", b"other", b"fresh", b".gitignore"}
    engine.reopen("b")
    run(engine, f"rm {FILE}; mkdir {FILE}; echo x > {FILE}/x; mkdir kept.d; cp lines kept.d/{FILE}")
    engine.propose("b")
    assert proposed(engine) == {b"lines", b"other", b"fresh", b".gitignore", b"kept.d/" + FILE.encode()}


TRAPS = {
    "a link to a file": 'ln -s "$1" {f}',
    "a link to nothing": 'ln -s "$2" {f}',
    "a link to a folder": 'ln -s "$(dirname "$1")" {f}',
    "a relative link": "ln -s ../victim {f}",
    "a link to the box's own file": "ln -s kept {f}",
    "a pipe": "mkfifo {f}",
    "another name of a file": "ln kept {f}",
    "a link of two names": 'ln -s "$1" {f}; ln {f} twin',
    "a closed file": "echo x > {f}; chmod 0 {f}",
    "a socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{f}\")'",
    "a closed tree": 'ln -s "$1" {f}; chmod 0 .',
}


@pytest.mark.boundary
@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_at_the_name_catches_nothing(engine: Engine, tmp_path: Path, trap: str) -> None:
    victim, absent = tmp_path / "victim", tmp_path / "absent"
    victim.write_text("the host's\n")
    victim.chmod(0o640)
    beside = engine.find("b").root / "victim"
    beside.write_text("the box's folder's\n")
    before = victim.stat()
    engine.reopen("b")
    run(engine, f"set -- '{victim}' '{absent}'; {TRAPS[trap].format(f=FILE)}")
    engine.propose("b")
    engine.request_changes("b", "ann", summary="go on")
    after = victim.stat()
    assert victim.read_text() == "the host's\n" and beside.read_text() == "the box's folder's\n"
    wanted = (before.st_ino, before.st_mode, before.st_uid, before.st_mtime_ns, before.st_ctime_ns)
    assert (after.st_ino, after.st_mode, after.st_uid, after.st_mtime_ns, after.st_ctime_ns) == wanted
    assert not absent.exists()
    status = place(engine).lstat()
    assert stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    assert run(engine, "cat kept") == "kept\n"
    assert "> go on\n" in run(engine, f"cat {FILE}")


@pytest.mark.boundary
@pytest.mark.parametrize("script", ["mkdir {f}", "mkdir {f}; echo x > {f}/x", "mkdir {f}; chmod 0 {f}"])
def test_a_folder_at_the_name_is_refused_and_nothing_changes(engine: Engine, script: str) -> None:
    engine.reopen("b")
    run(engine, script.format(f=FILE))
    snapshot = engine.propose("b")
    with pytest.raises(Refused) as caught:
        engine.request_changes("b", "ann", summary="go on")
    assert caught.value.code == "feedback-blocked" and FILE in caught.value.why
    assert place(engine).is_dir()
    manifest = load(engine.find("b"))
    assert manifest.state == "proposed" and manifest.snapshot is not None
    assert manifest.snapshot["id"] == snapshot.id and manifest.request is None
    assert kinds(engine, "request") == []
    progress = engine.review("b").progress
    assert progress is not None and progress.summary == "go on"


def test_a_file_that_the_base_has_is_never_written(repo: Path) -> None:
    text = (repo / "cloche.toml").read_text()
    (repo / "cloche.toml").write_text(text + 'review.file = "kept"\n')
    engine = Engine(repo)
    engine.create(NewBox(name="b"))
    run(engine, "echo changed > kept")
    engine.propose("b")
    assert proposed(engine) == {b"kept"}
    with pytest.raises(Refused) as caught:
        engine.request_changes("b", "ann", summary="go on")
    assert caught.value.code == "feedback-tracked"
    assert load(engine.find("b")).state == "proposed"
    engine.reopen("b")
    assert run(engine, "cat kept; rm kept; mkdir kept; echo x > kept/x") == "changed\n"
    engine.propose("b")
    assert proposed(engine) == {b"kept", b"kept/x"}


@ONCE
def test_the_profile_names_the_file(repo: Path) -> None:
    text = (repo / "cloche.toml").read_text()
    (repo / "cloche.toml").write_text(text + 'review.file = "ASK.md"\n')
    engine = Engine(repo)
    engine.create(NewBox(name="b"))
    run(engine, f"echo x > {FILE}; echo y > ASK.md; git status --porcelain > seen; cat .git/info/exclude")
    engine.propose("b")
    assert engine.request_changes("b", "ann", summary="go on").file == "ASK.md"
    assert "> go on\n" in run(engine, "cat ASK.md") and run(engine, "grep -c ASK seen || :") == "0\n"
    engine.propose("b")
    assert proposed(engine) == {FILE.encode(), b"seen"}


@pytest.mark.boundary
def test_a_worktree_gets_the_file_and_its_proposal_does_not(repo: Path, tmp_path: Path) -> None:
    """Nothing confines such a box: what it left running can have put anything there meanwhile."""
    (repo / "cloche.toml").write_text("")
    victim = tmp_path / "victim"
    victim.write_text("the host's\n")
    engine = Engine(repo)
    engine.create(NewBox(name="b", tier="workspace"))
    run(engine, f"echo x > x; ln -s '{victim}' {FILE}")
    engine.propose("b")
    assert proposed(engine) == {b"x"}
    engine.request_changes("b", "ann", summary="go on")
    assert victim.read_text() == "the host's\n"
    assert "> go on\n" in run(engine, f"cat {FILE}; echo y > y")
    engine.propose("b")
    assert proposed(engine) == {b"x", b"y"}
    assert support.git(repo, "status", "--porcelain") == "?? cloche.toml"
    place(engine).unlink()
    away = engine.find("b").root / "away"
    engine.find("b").tree.rename(away)
    os.symlink(tmp_path, engine.find("b").tree)
    with pytest.raises(ClocheError) as caught:
        engine.request_changes("b", "ann", summary="again")
    assert caught.value.code == "no-tree" and not os.path.lexists(tmp_path / FILE)
    engine.find("b").tree.unlink()
    away.rename(engine.find("b").tree)


@ONCE
def test_a_request_says_something(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"other", desk.file(b"other").all)], ACCEPTED)
    for summary in (None, ""):
        with pytest.raises(Refused) as caught:
            engine.request_changes("b", "ann", summary=summary)
        assert caught.value.code == "nothing-to-request"
    monkeypatch.setenv("CLOCHE_BOX", "x/y")
    with pytest.raises(Refused) as caught:
        engine.request_changes("b", "ann", summary="go on")
    assert caught.value.code == "inside-box"
    assert load(engine.find("b")).state == "proposed" and not os.path.lexists(place(engine))


@ONCE
def test_a_box_that_goes_on_has_no_proposal_to_answer(engine: Engine) -> None:
    engine.reopen("b")
    for summary, session in (("x", None), (None, NEWEST), (None, None)):
        with pytest.raises(Refused) as caught:
            engine.request_changes("b", "ann", summary=summary, to_session=session)
        assert caught.value.code == "no-proposal"
    engine.propose("b")
    engine.request_changes("b", "ann", summary="x")
    with pytest.raises(Refused):  # a new summary needs a proposal that it is about
        engine.request_changes("b", "ann", summary="y", to_session=NEWEST)
    with pytest.raises(NoSuchBox) as missing:
        engine.request_changes("b", "ann", to_session=NEWEST)
    assert missing.value.code == "no-such-session"
    engine.propose("b")
    assert load(engine.find("b")).request is None


@ONCE
def test_the_request_is_typed_as_one_line_that_nothing_obeys(engine: Engine) -> None:
    hostile = "one\ntwo\x1b[201~\r;rm -rf /\x07\u202e\x9b31m end"
    done = engine.request_changes("b", "ann", summary=hostile, to_session=NEWEST)
    assert (done.state, done.session) == ("idle", None) and "no session of it is live" in done.untyped
    script = 'printf ready; IFS= read -r line; printf %s "$line" > typed; sleep 300'
    terminal = engine.open_shell("b", ["sh", "-c", script], rows=31, cols=97)
    try:
        seen = b""
        while b"ready" not in seen:
            seen += terminal.read()
        told = engine.request_changes("b", "ann", to_session=NEWEST)
        assert (told.session, told.state, told.snapshot) == (terminal.session, "running", done.snapshot)
        typed = engine.find("b").written / "typed"
        support.wait_until(lambda: typed.exists() and typed.stat().st_size > 0, "the line was read")
        line = typed.read_bytes()
        assert line == (
            b"\x1b[200~Changes are requested (0 comments, 0 rejected parts): read ./.cloche-review.md and "
            b"address every point. one two[201~ ;rm -rf /31m end\x1b[201~"
        )
        assert kinds(engine, "request-typed") == [
            {"who": "ann", "session": told.session, "snapshot": done.snapshot, "bytes": len(line) + 1}
        ]
        assert engine.request_changes("b", "ann", to_session=told.session).session == told.session
        with pytest.raises(NoSuchBox):
            engine.request_changes("b", "ann", to_session=told.session + 7 if told.session else 0)
    finally:
        terminal.close()


@ONCE
def test_nothing_is_typed_to_a_command_without_a_terminal(engine: Engine) -> None:
    engine.request_changes("b", "ann", summary="x")
    codes: list[str] = []

    def started(handle: SessionHandle) -> None:
        with pytest.raises(UsageError) as caught:
            engine.request_changes("b", "ann", to_session=handle.id)
        codes.append(caught.value.code)
        handle.signal(signal.SIGKILL)

    engine.run("b", ["sleep", "300"], streams=QUIET, on_session=started)
    assert codes == ["no-terminal"]


def test_the_next_proposal_shows_just_the_fix_and_keeps_the_marks(engine: Engine) -> None:
    with pytest.raises(Refused) as caught:
        engine.interdiff("b")
    assert caught.value.code == "no-earlier-review"
    with engine.decisions("b", "ann") as desk:
        for path in (b"lines", b"other", b"fresh"):
            desk.mark(path)
        desk.set([(b"lines", desk.file(b"lines").hunk(0))], ACCEPTED)
        desk.comment(b"other", "new", 2, "say it better", b"more")
    first = engine.request_changes("b", "ann").snapshot
    run(engine, "sed -i s/more/better/ other")
    second = engine.propose("b").id
    progress = engine.review("b").progress
    assert progress is not None and progress.since == first
    assert progress.moved == ((b"other", "changed"),)
    assert {row.path for row in progress.files if row.reviewed} == {b"lines", b"fresh"}
    assert {row.path: row.accepted for row in progress.files}[b"lines"] == 2
    assert progress.stale == (1,)
    found = engine.interdiff("b")
    assert (found.base, found.tree) == (first, second)
    assert [(change.path, change.status, change.added, change.deleted) for change in found.changes] == [
        (b"other", "M", 1, 1)
    ]
    assert found.patch.endswith(b"\n@@ -1,2 +1,2 @@\n other\n-more\n+better\n")
    again = engine.request_changes("b", "ann")
    text = run(engine, f"cat {FILE}")
    assert again.comments == 1 and "The file has changed since this was said." in text


def test_what_a_part_took_is_not_shown_as_new(engine: Engine) -> None:
    """The base moves on with an applied part; the difference is still the fix alone."""
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"lines", desk.file(b"lines").all)], ACCEPTED)
        desk.mark(b"other")
    engine.apply("b", part=True)
    run(engine, "echo c >> fresh")
    engine.propose("b")
    found = engine.interdiff("b")
    assert [change.path for change in found.changes] == [b"fresh"]
    assert found.patch.endswith(b"@@ -1,2 +1,3 @@\n a\n b\n+c\n")


def test_what_the_branch_gained_is_not_shown_as_new(engine: Engine, repo: Path) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.mark(b"other")
    engine.request_changes("b", "ann", summary="one more line")
    (repo / "kept").write_bytes(b"kept, and more\n")
    (repo / "lines").write_bytes(FILES["lines"] + b"line 41\n")
    support.git(repo, "commit", "-qam", "meanwhile")
    assert not engine.rebase("b", as_name="t").conflicts
    run(engine, "echo c >> fresh")
    engine.propose("b")
    assert proposed(engine) == {b"lines", b"other", b"fresh"}
    progress = engine.review("b").progress
    assert progress is not None
    assert {row.path for row in progress.files if row.reviewed} == {b"other"}
    paths = {change.path for change in engine.interdiff("b").changes}
    assert b"kept" not in paths and b"other" not in paths and b"fresh" in paths


@ONCE
def test_request_and_interdiff_by_words(engine: Engine, cli: Cli) -> None:
    done = cli("request", "b", "--to-session", "x")
    assert done.code == 2
    done = cli("request", "b", "-m", "please", "--type", "--as", "bot")
    assert done.code == 0, done.err
    assert done.out == (
        f"changes are requested of b: 0 comments, 0 rejected parts in ./{FILE}; it is idle again\n"
    )
    assert "no session of it is live" in done.err and "cloche request b --type" in done.err
    (told,) = kinds(engine, "request")
    assert (told["who"], told["scripted"], told["summary"]) == ("bot", True, True)
    run(engine, "echo fix >> fresh")
    engine.propose("b")
    done = cli("interdiff", "b")
    assert done.code == 0 and done.out.endswith(" a\n b\n+fix\n")
    done = cli("interdiff", "b", "--stat")
    assert done.out.splitlines()[1].split() == ["M", "1", "0", "fresh"]
    value = json.loads(cli("interdiff", "b", "--json").out)
    assert value["since"] == told["snapshot"] and value["patch"].endswith("+fix\n")


@pytest.mark.boundary
def test_an_error_of_the_disk_is_told_and_the_box_stays_proposed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(ClocheError) as caught:
        engine.request_changes("b", "ann", summary="x")
    assert caught.value.code == "not-written" and "No space left" in caught.value.why
    assert load(engine.find("b")).state == "proposed"
