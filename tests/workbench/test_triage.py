"""Triage: worst first, faults alone, one or all looked at again, remedies copied, boxes opened, bundles."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

from app.screens.box import BoxScreen
from app.screens.dialogs import ConfirmScreen, ErrorScreen
from app.screens.doctor import TriageScreen
from app.screens.fleet import FleetScreen
from app.screens.triage_file import BundleScreen, write_new
from app.screens.triage_text import proofs_of
from backends.boxes import liveness
from backends.engine import Engine, NewBox, Streams
from backends.errors import NoSuchBox, Refused
from backends.snapshots import Finding
from backends.snapshots_doctor import Triage
from tests.support import wait_until
from tests.workbench import frozen, frozen_host
from tests.workbench.frozen_host import BROKEN, FINDINGS, LOST, MODPROBE
from tests.workbench.stage import Play, play
from widgets.findings import FindingRows, counts, finding_paragraphs, worst_first
from widgets.ink import Line, plain
from widgets.lines import Document

SIZES = [(80, 24), (120, 40), (200, 50)]


def bundle(**changes: object) -> Triage:
    made = Triage(
        time.time() - 7200,
        {"kernel": "6.1.0-9"},
        (),
        tuple(proof._asdict() | {"changed": list(proof.changed)} for proof in frozen_host.PROOFS),
        FINDINGS,
        (),
    )
    return made._replace(**changes)  # type: ignore[arg-type]


async def opened(stage: Play) -> TriageScreen:
    await stage.until(lambda: stage.app.screen.focused is not None)
    await stage.press("exclamation_mark")
    await stage.until(lambda: isinstance(stage.app.screen, TriageScreen) and stage.app.screen.findings)
    screen = stage.app.screen
    assert isinstance(screen, TriageScreen)
    return screen


def row_texts(screen: TriageScreen) -> list[str]:
    return [row.text for row in screen.rows.rows]


def detail(screen: TriageScreen) -> str:
    return screen.query_one("#triage-detail", Document).plain()


async def at(stage: Play, screen: TriageScreen, subject: str, ident: str) -> None:
    screen.rows.select((subject, ident))
    await stage.until(lambda: screen.rows.selected is not None and screen.rows.selected.id == ident)
    await stage.handled(set())


@pytest.mark.parametrize("size", SIZES)
async def test_the_worst_comes_first_with_its_remedy_beside_it(size: tuple[int, int]) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, size) as stage:
        screen = await opened(stage)
        assert [row.verdict for row in screen.rows.rows] == ["fail", "warn", "warn", "note", "ok", "ok", "ok"]
        await stage.shows(
            "the policy was changed", "cloche rm --force fix-auth", "what is enforced is no longer"
        )
        assert "triage" in stage.header() and "1 fail" in stage.header() and "2 will hurt" in stage.header()
        assert engine.asked == [("doctor", (None, True, False, True))]


async def test_what_is_tried_shows_while_it_is_tried() -> None:
    engine = frozen.FrozenEngine()
    go = False

    def wait(verb: str, ref: str) -> None:
        if verb == "doctor":
            wait_until(lambda: go, "the test lets it go on")

    engine.wait = wait
    async with play(engine) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.pilot.press("exclamation_mark")
        await stage.until(lambda: "… tier supervised" in stage.header())
        await stage.shows("looking…")
        go = True
        await stage.shows("the policy was changed")
        await stage.until(lambda: "…" not in stage.header())


@pytest.mark.parametrize("fails", [False, True])
async def test_whoever_leaves_while_it_is_looked_leaves_nothing_behind(fails: bool) -> None:
    engine = frozen.FrozenEngine()
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    def wait(verb: str, ref: str) -> None:
        if verb == "doctor":
            began.set()
            go.wait(60)
            ended.set()
            if fails:
                raise Refused("nothing could be looked at", "the disk is gone", "mend it")

    engine.wait = wait
    async with play(engine) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.pilot.press("exclamation_mark")
        await stage.until(began.is_set)
        await stage.pilot.press("escape")
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
        go.set()
        await stage.until(ended.is_set)
        await stage.handled(set())
        assert isinstance(stage.app.screen, FleetScreen)


async def test_a_failed_claim_of_the_host_shows_its_proof_and_what_changed_since_it_held() -> None:
    async with play(frozen.FrozenEngine(), (200, 50)) as stage:
        screen = await opened(stage)
        await at(stage, screen, "host", "supervised")
        await stage.shows("does not hold: all of process")
        await stage.until(lambda: "kernel: 6.1.0 -> 6.12.3" in detail(screen))
        text = detail(screen)
        assert "failed in 18.0 ms" in text and "last held  1d ago" in text.replace("25h", "1d")
        assert MODPROBE in " ".join(text.split())


async def test_faults_alone_and_everything_again() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        screen = await opened(stage)
        await stage.press("f")
        await stage.until(lambda: {row.verdict for row in screen.rows.rows} == {"fail", "warn"})
        await stage.shows("Faults 3")
        await stage.press("f")
        await stage.until(lambda: len(screen.rows.rows) == len(FINDINGS))


async def test_without_a_fault_the_list_of_faults_says_so() -> None:
    engine = frozen.FrozenEngine()
    engine.findings = tuple(row for row in FINDINGS if row.verdict == "ok")
    async with play(engine) as stage:
        screen = await opened(stage)
        await stage.press("f")
        await stage.shows("nothing fails and nothing will hurt")
        assert detail(screen) == ""
        await stage.press("r")
        await stage.shows("no finding is selected")


async def test_one_box_is_looked_at_again_and_the_others_stay_as_they_were() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        screen = await opened(stage)
        engine.findings = tuple(
            row._replace(verdict="ok", text="its keeper is live") if row.subject == LOST else
            row._replace(text="something else")
            for row in FINDINGS
        )  # fmt: skip
        await at(stage, screen, LOST, f"{LOST}: keeper")
        await stage.press("r")
        await stage.until(lambda: "its keeper is live" in row_texts(screen))
        assert engine.asked[-1] == ("doctor", (LOST, False, False, True))
        assert "something else" not in row_texts(screen)
        selected = screen.rows.selected
        assert selected is not None and selected.id == f"{LOST}: keeper"


async def test_the_host_is_looked_at_again_without_its_boxes_and_everything_with_them() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        screen = await opened(stage)
        await at(stage, screen, "host", "supervised")
        await stage.press("r")
        await stage.until(lambda: engine.asked[-1] == ("doctor", (None, True, True, False)))
        await stage.until(lambda: not screen.looking)
        assert len(screen.findings) == len(FINDINGS)
        await stage.press("R")
        await stage.until(lambda: engine.asked[-1] == ("doctor", (None, True, True, True)))


async def test_a_box_that_is_gone_by_then_has_no_findings_any_more() -> None:
    engine = frozen.FrozenEngine()

    def gone(verb: str, ref: str) -> None:
        if verb == "doctor" and ref == LOST:
            raise NoSuchBox("there is no such box", LOST, "cloche ls")

    async with play(engine) as stage:
        screen = await opened(stage)
        engine.wait = gone
        await at(stage, screen, LOST, f"{LOST}: keeper")
        await stage.press("r")
        await stage.until(lambda: LOST not in {row.subject for row in screen.findings})
        await stage.until(lambda: screen.rows.selected is not None)


async def test_a_look_that_fails_is_told_and_can_be_made_again() -> None:
    engine = frozen.FrozenEngine()

    def broken(verb: str, ref: str) -> None:
        if verb == "doctor":
            raise Refused("nothing could be looked at", "the disk is gone", "mend it")

    engine.wait = broken
    async with play(engine) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.press("exclamation_mark")
        await stage.until(lambda: isinstance(stage.app.screen, ErrorScreen))
        await stage.shows("the disk is gone")
        engine.wait = lambda verb, ref: None
        await stage.press("enter", "R")
        await stage.shows("the policy was changed")


async def test_the_remedy_is_copied_with_its_escapes_written_out() -> None:
    engine = frozen.FrozenEngine()
    hostile = FINDINGS[3]._replace(remedy="cloche rm 'a\x1b]52;c;x\x07'")
    engine.findings = (hostile, FINDINGS[0])
    async with play(engine) as stage:
        await opened(stage)
        await stage.press("y")
        await stage.until(lambda: stage.app.clipboard == "cloche rm 'a\\x1b]52;c;x\\x07'")
        await stage.press("down", "y")
        await stage.shows("nothing has to be done about it")


async def test_enter_opens_the_box_and_says_why_there_is_none() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        screen = await opened(stage)
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))
        await stage.shows("fix-auth")
        await stage.press("escape")
        await stage.until(lambda: stage.app.screen is screen)
        await at(stage, screen, "host", "supervised")
        await stage.press("enter")
        await stage.shows("it is about the host, not about a box")


async def test_a_safe_repair_is_made_after_a_question_and_its_subject_looked_at_again() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        screen = await opened(stage)
        await stage.press("F")
        await stage.shows("no repair of it is safe to make unseen")
        await at(stage, screen, LOST, f"{LOST}: keeper")
        await stage.press("F")
        await stage.until(lambda: isinstance(stage.app.screen, ConfirmScreen))
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen is screen)
        assert "repair" not in {verb for verb, _ in engine.asked}
        await stage.press("F")
        await stage.until(lambda: isinstance(stage.app.screen, ConfirmScreen))
        await stage.press("tab", "enter")
        await stage.until(lambda: "repair" in {verb for verb, _ in engine.asked})
        await stage.until(lambda: engine.asked[-1] == ("doctor", (LOST, False, False, True)))
        findings, who = next(rest for verb, rest in engine.asked if verb == "repair")
        assert [row.id for row in findings] == [f"{LOST}: keeper"] and who


async def test_a_bundle_is_written_once_for_the_person_alone(tmp_path: Path) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, cwd=tmp_path) as stage:
        await opened(stage)
        for _ in range(2):
            await stage.press("b")
            await stage.until(lambda: isinstance(stage.app.screen, BundleScreen))
            await stage.press("enter", "enter")
            await stage.until(lambda: not isinstance(stage.app.screen, BundleScreen))
        await stage.until(lambda: isinstance(stage.app.screen, ErrorScreen))
        await stage.shows("File exists")
    written = tmp_path / "cloche-triage.json"
    assert written.read_bytes() == b"{}\n"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_a_bundle_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(Refused):
        write_new(tmp_path / "link", b"{}")
    assert (tmp_path / "target").read_text() == "mine"


async def test_a_bundle_of_another_host_opens_in_the_same_screen_and_nothing_of_it_is_acted_on() -> None:
    engine = frozen.FrozenEngine()
    hostile = FINDINGS[3]._replace(text="the policy \x1b[2Jwas changed", subject="x/evil\u202e")
    engine.bundle = bundle(findings=(hostile, *FINDINGS[:3]), versions={"kernel": "6.1\x1b[31m"})
    async with play(engine, (150, 45)) as stage:
        first = await opened(stage)
        await stage.press("o")
        await stage.until(lambda: isinstance(stage.app.screen, BundleScreen))
        await stage.type("sent.json")
        await stage.press("enter", "enter")
        await stage.shows(
            "triage › sent.json", "2h old, Linux 6.1\\x1b[31m", "the policy \\x1b[2Jwas changed"
        )
        screen = stage.app.screen
        assert isinstance(screen, TriageScreen) and screen.bundle is not None
        asked = len(engine.asked)
        for key in ("r", "R", "F", "b", "enter"):
            await stage.press(key)
            await stage.shows("a bundle tells of another host")
        assert len(engine.asked) == asked
        await at(stage, screen, "host", "supervised")
        await stage.until(lambda: "kernel: 6.1.0 -> 6.12.3" in detail(screen))
        await stage.press("escape")
        await stage.until(lambda: stage.app.screen is first)


@pytest.mark.parametrize(
    "change",
    [
        {"duration": "x"}, {"duration": True}, {"time": None}, {"id": 3}, {"changed": "abc"},
        {"changed": [1]}, {"text": ["x"]},
    ],
)  # fmt: skip
def test_a_proof_of_a_bundle_that_is_none_is_left_out(change: dict[str, object]) -> None:
    good = frozen_host.PROOFS[0]._asdict() | {"changed": []}
    assert set(proofs_of(bundle(proofs=(good,)))) == {"process"}
    assert proofs_of(bundle(proofs=(good | change,))) == {}
    assert proofs_of(bundle(proofs=({},))) == {}


def test_numbers_of_a_bundle_cannot_break_an_age() -> None:
    good = frozen_host.PROOFS[0]._asdict() | {"changed": [], "time": 1e300, "passed": float("nan")}
    finding = FINDINGS[0]
    found = proofs_of(bundle(proofs=(good,)))
    text = texts(finding_paragraphs(finding, found.get("process"), now=100.0))
    assert "proved" in text or not found


def texts(paragraphs: list[Line | tuple[Line, int]]) -> str:
    lines = [one[0] if len(one) == 2 and isinstance(one[1], int) else one for one in paragraphs]
    return "\n".join(plain(line) for line in lines)


def test_findings_are_ordered_by_severity_then_the_host_before_boxes() -> None:
    shuffled = tuple(reversed(FINDINGS))
    assert [(row.verdict, row.subject) for row in worst_first(shuffled)] == [
        ("fail", BROKEN),
        ("warn", "host"),
        ("warn", LOST),
        ("note", LOST),
        ("ok", "host"),
        ("ok", "host"),
        ("ok", BROKEN),
    ]
    assert counts(FINDINGS) == {"fail": 1, "warn": 2, "note": 1, "ok": 3}


def test_a_row_fits_whatever_its_texts_are() -> None:
    rows = FindingRows()
    wide = Finding("x", "fail", "漢" * 200, "e", "r", "w" * 300, "", "k/" + "名" * 40)
    rows.rows = (wide, FINDINGS[0])
    for width in (40, 80, 95, 96, 120, 200):
        for index, row in enumerate(rows.rows):
            line = rows.row_line(index, row, width)
            from widgets.ink import width_of

            assert width_of(line) <= width


async def test_from_a_box_its_own_worst_finding_is_selected() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        row = next(row for row in frozen.FLEET if row.key == LOST)
        stage.app.open_box(row)
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))
        await stage.press("exclamation_mark")
        await stage.until(lambda: isinstance(stage.app.screen, TriageScreen) and stage.app.screen.findings)
        screen = stage.app.screen
        assert isinstance(screen, TriageScreen)
        await stage.until(lambda: screen.rows.selected and screen.rows.selected.id == f"{LOST}: keeper")
        await stage.shows("cloche stop bench-io")
        await stage.press("escape")
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))


@pytest.mark.flow
async def test_a_killed_keeper_is_found_repaired_and_found_well(repo: Path) -> None:
    engine = Engine(repo)
    key = engine.create(NewBox(name="b", tier="process")).key
    null = os.open(os.devnull, os.O_RDWR)
    try:
        engine.run(key, ["true"], streams=Streams(null, null, null))
    finally:
        os.close(null)
    paths = engine.find(key)
    live = liveness.read(paths)
    assert live.keeper is not None
    os.kill(live.keeper.pid, signal.SIGKILL)
    wait_until(lambda: liveness.read(paths).kind != "live", "the keeper is gone")
    async with play(engine, (160, 45), cwd=repo) as stage:
        screen = await opened(stage)
        await stage.until(lambda: not screen.looking)
        found = next(row for row in screen.findings if row.id == f"{key}: keeper")
        assert found.verdict in ("warn", "fail") and found.remedy
        assert next(row for row in screen.findings if row.id == "process").verdict == "ok"
        await at(stage, screen, key, found.id)
        await stage.until(lambda: found.remedy in " ".join(detail(screen).split()))
        assert {row.subject for row in engine.doctor(boxes=False)} == {"host"}
        engine.stop(key)
        await stage.press("r")
        await stage.until(
            lambda: next(row for row in screen.findings if row.id == found.id).verdict in ("ok", "note")
        )
        await stage.until(lambda: not screen.looking)
        await stage.press("b")
        await stage.until(lambda: isinstance(stage.app.screen, BundleScreen))
        await stage.press("enter", "enter")
        await stage.until(lambda: (repo / "cloche-triage.json").exists())
        await stage.until(lambda: stage.app.screen is screen)
        await stage.press("o")
        await stage.until(lambda: isinstance(stage.app.screen, BundleScreen))
        await stage.type("cloche")
        await stage.press("minus")
        await stage.type("triage.json")
        await stage.press("enter", "enter")
        await stage.shows("triage › cloche-triage.json")
    assert json.loads((repo / "cloche-triage.json").read_bytes())["schema"] == "cloche.triage/1"
