"""A person applies: callers inside a box are refused, scripts must give their name (product rule 8)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.engine import Engine, NewBox, Streams
from backends.errors import Refused
from backends.verbs import authority
from tests import support
from tests.support import ROOT, Done

Cli = Callable[..., Done]
NULL = os.open(os.devnull, os.O_RDWR)


def inside(engine: Engine, box: str, script: str) -> Done:
    """Run a script in a box and return what it printed."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as out:
        code = engine.run(box, ["sh", "-c", script], streams=Streams(NULL, writer, writer)).exit
        os.close(writer)
        return Done(code, out.read().decode(), "")


@pytest.fixture
def proposed(repo: Path) -> Engine:
    """A confined box that is proposed, and a live box of tier workspace beside it."""
    engine = Engine(repo)
    engine.create(NewBox(name="good"))
    engine.run("good", ["sh", "-c", "echo x > x"], streams=Streams(NULL, NULL, NULL))
    engine.propose("good")
    engine.create(NewBox(name="loose", tier="workspace"))
    return engine


@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("act", ["apply", "export", "allow", "accept"])
@pytest.mark.parametrize("how", ["", "setsid -w "])
def test_a_caller_in_an_unconfined_box_is_refused(
    proposed: Engine, repo: Path, act: str, variable: bool, how: str
) -> None:
    tip = support.git(repo, "rev-parse", "main")
    hidden = "" if variable else "env -u CLOCHE_BOX -u CLOCHE_SESSION "
    exports = " ".join(
        f"{name}={os.environ[name]}"
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "PYTHONPATH")
    )
    words = {
        "apply": "apply good --as agent",
        "export": f"export good --out {repo.parent}/out",
        "allow": "allow good resources.procs=9 --yes --as agent",
        "accept": "accept good x --as agent",
    }[act]
    entry = "import sys; from app.cli import main; sys.exit(main())"
    done = inside(
        proposed,
        "loose",
        f"cd {repo} && {how}{hidden}env {exports} {sys.executable} -P -c '{entry}' {words}",
    )
    assert done.code == 3, done.out
    assert "not for callers inside a box" in done.out
    assert support.git(repo, "rev-parse", "main") == tip
    assert not (repo.parent / "out").exists()
    assert not (repo / "cloche.toml").exists()
    assert not proposed.find("good").review.exists()
    proposed.stop("loose")


def test_a_daemon_of_an_unconfined_box_still_descends_from_it(proposed: Engine, repo: Path) -> None:
    tip = support.git(repo, "rev-parse", "main")
    answer = repo.parent / "answer"
    kept = {name: os.environ[name] for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
    program = (
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "time.sleep(0.3)\n"
        f"os.environ.update({kept!r})\n"
        "os.environ.pop('CLOCHE_BOX', None)\n"
        "from pathlib import Path; from backends.engine import Engine\n"
        "from backends.errors import ClocheError\n"
        f"try: Engine(Path({str(repo)!r})).apply('good', as_name='x'); said = 'applied'\n"
        "except ClocheError as error: said = error.code\n"
        f"open({str(answer)!r}, 'w').write(said)\n"
    )
    script = repo.parent / "daemon.py"
    script.write_text(program)
    inside(proposed, "loose", f"{sys.executable} {script}")
    support.wait_until(lambda: answer.exists() and answer.read_text() != "", "the daemon tried")
    assert answer.read_text() == "inside-box"
    assert support.git(repo, "rev-parse", "main") == tip
    proposed.stop("loose")


@pytest.mark.boundary
def test_inside_a_confined_box_there_is_nothing_to_apply(proposed: Engine, repo: Path) -> None:
    proposed.create(NewBox(name="inner"))
    state, runtime = os.environ["XDG_STATE_HOME"], os.environ["XDG_RUNTIME_DIR"]
    done = inside(
        proposed,
        "inner",
        f"ls -d {state} {runtime} {repo} 2>/dev/null; git -C {repo} log 2>/dev/null; echo end",
    )
    assert done.out == "end\n"


def test_a_process_of_the_host_is_outside() -> None:
    authority.require_outside("apply")
    chain = authority.ancestors()
    assert chain[0].pid == os.getpid() and chain[1].pid == os.getppid()
    assert all(liveness.alive(one) for one in chain[:2])


def test_the_variable_alone_is_enough_to_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_BOX", "k/b")
    with pytest.raises(Refused, match="inside a box"):
        authority.require_outside("apply")


def test_without_a_person_or_a_name_nothing_is_applied(proposed: Engine, repo: Path, cli: Cli) -> None:
    tip = support.git(repo, "rev-parse", "main")
    silent = cli("apply", "good", stdin=b"yes\n")
    assert silent.code == 3 and "--as" in silent.err
    empty = cli("apply", "good", "--as", " ")
    assert empty.code == 3
    assert support.git(repo, "rev-parse", "main") == tip
    named = cli("apply", "good", "--as", "nightly", "--json")
    assert named.code == 0 and json.loads(named.out)["who"] == "nightly"


def test_status_answers_the_fifth_question_honestly(proposed: Engine) -> None:
    loose = dict(proposed.status("loose").answers)
    good = dict(proposed.status("good").answers)
    question = "Can the agent write the accepted result directly?"
    assert loose[question].startswith("Yes, it can")
    assert good[question].startswith("No.")
    assert proposed.status("loose").row.unconfined is True


def test_a_live_unconfined_neighbour_qualifies_the_fifth_answer_of_every_box(proposed: Engine) -> None:
    """S10: it runs as the user who owns the records of all boxes."""
    question = "Can the agent write the accepted result directly?"
    proposed.run("loose", ["true"], streams=Streams(NULL, NULL, NULL))
    said = dict(proposed.status("good").answers)[question]
    assert not said.startswith("No.")
    assert "/loose" in said and "unconfined" in said and "records" in said
    assert dict(proposed.status("loose").answers)[question].startswith("Yes, it can")
    proposed.stop("loose")
    assert dict(proposed.status("good").answers)[question].startswith("No.")


def test_a_confined_neighbour_qualifies_nothing(proposed: Engine) -> None:
    proposed.create(NewBox(name="other"))
    proposed.run("other", ["true"], streams=Streams(NULL, NULL, NULL))
    said = dict(proposed.status("good").answers)["Can the agent write the accepted result directly?"]
    assert said.startswith("No.")
    proposed.stop("other")
