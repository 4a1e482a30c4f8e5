"""From a refusal on screen to its events, to the rule, to the change that a person accepts."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from app.looked import FILE, Looked
from app.screens.box import BoxScreen
from app.screens.denial import DenialScreen
from app.screens.dialogs import Choice, ConfirmScreen, DetailScreen, ErrorScreen
from app.screens.fleet import FleetScreen
from app.screens.fleet_parts import ordered
from app.screens.rules import ProposalScreen
from app.workers import rules
from backends.boxes.layout import state_dir
from backends.engine import Engine, NewBox
from backends.errors import Refused
from backends.snapshots import EgressRow, Explanation, JournalRecord, Proposal
from tests import support
from tests.conftest import Home
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from widgets.denial import EventsView, diff_paragraphs, event_of
from widgets.ink import plain
from widgets.pane import BoxPane
from widgets.tally import TallyView

SIZES = [(80, 24), (120, 40), (200, 50)]
ME = pwd.getpwuid(os.getuid()).pw_name
KEY = frozen.FLEET[0].key


async def at_denials(stage: Play, what: str = "telemetry.example:443") -> BoxScreen:
    """Opens the first box, its Denials tab, and stands on the row of ``what``."""
    await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
    await stage.press("enter", "1")
    return await at_row(stage, what)


async def at_row(stage: Play, what: str) -> BoxScreen:
    screen = stage.app.screen
    assert isinstance(screen, BoxScreen)
    view = screen.query_one(TallyView)

    def there() -> list[tuple[str, str]]:
        return [row.key for row in view.rows if row.denial is not None and row.denial.object == what]

    await stage.until(there)
    view.select(there()[0])
    await stage.pilot.pause()
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_enter_leads_from_a_row_to_its_events_and_again_to_the_rule(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        await at_denials(stage)
        await stage.press("enter")
        screen = stage.app.screen
        assert isinstance(screen, DenialScreen)
        events = screen.query_one(EventsView)
        await stage.until(lambda: events.rows)
        assert [(row.count, row.pid, row.command) for row in events.rows] == [
            (10, 4242, "node"),
            (1, 4242, "node"),
        ]
        assert stage.app.focused is events
        await stage.shows("fix-auth › net telemetry.example:443", "11 in 2 records")
        await stage.shows("is none of the 4 destinations", "/home/dev/acme/shop/cloche.toml:13")
        await stage.press("enter")
        assert stage.app.focused is screen.query_one("#why")
        await stage.press("end")
        await stage.shows('+egress = ["npm-mirror.example", "telemetry.example"]')
        await stage.press("escape")
        assert isinstance(stage.app.screen, BoxScreen)


async def test_events_of_a_denial_grow_with_it_and_are_read_when_it_did() -> None:
    engine = frozen.FrozenEngine()
    asked: list[str] = []
    engine.wait = lambda verb, ref: asked.append(verb) if verb == "journal" else None
    async with play(engine) as stage:
        await at_denials(stage)
        await stage.press("enter")
        screen = stage.app.screen
        assert isinstance(screen, DenialScreen)
        events = screen.query_one(EventsView)
        await stage.until(lambda: len(events.rows) == 2)
        engine.records = (
            *frozen.RECORDS,
            JournalRecord(
                99, frozen.NOW, "denial", frozen.refusal("net", "telemetry.example:443", 5, "curl"), ""
            ),
        )
        before = len(asked)
        await stage.pilot.pause(1.2)
        assert len(asked) == before  # the tally says the same, so nothing was read again
        view = engine.view(KEY)
        row = next(row for row in view.tally.rows if row.kind == "net")
        grown = frozen.tally(*(one for one in view.tally.rows if one is not row), row._replace(count=16))
        engine.views[KEY] = view._replace(tally=grown)
        await stage.until(lambda: len(events.rows) == 3)
        assert (events.rows[0].count, events.rows[0].command) == (5, "curl")
        await stage.shows("16 times")


def test_events_are_bounded_and_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = frozen.FrozenEngine()
    data = frozen.refusal("net", "a.example:443", 3)
    engine.records = tuple(JournalRecord(n, frozen.NOW + n, "denial", data, "") for n in range(40))
    monkeypatch.setattr(rules, "MOST", 10)
    found = rules.events(engine, KEY, frozen.denial("net", "a.example:443", 120))
    assert (len(found.rows), found.records, found.refusals) == (10, 40, 120)
    assert [row.seq for row in found.rows][:2] == [39, 38]
    view = EventsView()
    view._events = found
    assert view.foot() == "120 in 40 records, 30 older records left out"


def test_only_records_of_the_same_row_count_as_its_events() -> None:
    engine = frozen.FrozenEngine()
    same = frozen.refusal("net", "a.example:443", 1)
    others = [
        {**same, "object": "b"},
        {**same, "rule": "x"},
        {**same, "lane": "box"},
        {**same, "kind": "dns"},
    ]
    records = [JournalRecord(n, 0.0, "denial", data, "") for n, data in enumerate([same, *others])]
    engine.records = (*records, JournalRecord(9, 0.0, "exec", same, ""))
    found = rules.events(engine, KEY, frozen.denial("net", "a.example:443"))
    assert [row.seq for row in found.rows] == [0]


def test_an_event_of_a_tampered_record_still_stands_for_one_refusal() -> None:
    event = event_of(
        JournalRecord(3, 5.0, "denial", {"count": "many", "pid": [], "first": None, "last": {}}, "")
    )
    assert (event.count, event.pid, event.first, event.last, event.command) == (1, 0, 5.0, 5.0, "")


@pytest.mark.parametrize("size", SIZES)
async def test_one_key_proposes_and_only_a_deliberate_yes_accepts_in_the_persons_name(
    size: tuple[int, int],
) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, size) as stage:
        await at_denials(stage)
        assert "a propose" in stage.footer()
        await stage.press("a")
        await stage.until(lambda: isinstance(stage.app.screen, ProposalScreen))
        await stage.shows('+egress = ["npm-mirror.example", "telemetry.example"]', "No", "Accept")
        await stage.shows("now: fix-auth runs on and takes it without a restart")
        assert isinstance(stage.app.focused, Choice)
        assert stage.app.focused.id == "no"
        await stage.press("enter")
        assert isinstance(stage.app.screen, BoxScreen)
        assert engine.asked == []
        await stage.press("a")
        await stage.until(lambda: isinstance(stage.app.screen, ProposalScreen))
        await stage.press("right", "enter")
        await stage.until(lambda: engine.asked)
        assert engine.asked == [("accept_rule", (KEY, frozen.PROPOSAL, ME))]
        await stage.shows("accepted, counts now")


async def test_a_change_that_the_running_box_cannot_take_counts_from_its_next_start() -> None:
    engine = frozen.FrozenEngine()
    engine.explanation = frozen.EXPLANATION._replace(proposal=frozen.PROPOSAL._replace(live=False))
    async with play(engine) as stage:
        await at_denials(stage)
        await stage.press("enter", "a")
        await stage.until(lambda: isinstance(stage.app.screen, ProposalScreen))
        await stage.shows("from its next start: fix-auth runs on under the rules it has")
        engine.explanation = frozen.EXPLANATION._replace(proposal=None, why_not="it was accepted already")
        await stage.press("right", "enter")
        await stage.shows("accepted, counts from its next start")
        await stage.shows("by no change: it was accepted already")


async def test_what_no_change_allows_says_why_and_offers_nothing_to_accept() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await at_denials(stage, "/home/dev/.ssh/id_ed25519")
        await stage.press("a")
        await stage.shows("by no change: credentials are not granted by a path")
        assert isinstance(stage.app.screen, DetailScreen)
        assert not stage.app.screen.query(Choice)
        await stage.press("escape")
        assert engine.asked == []


async def test_a_rule_that_the_engine_refuses_is_told_in_its_words() -> None:
    engine = frozen.FrozenEngine()

    def refuse(ref: str, proposal: Proposal, who: str) -> None:
        raise Refused("the rule was not accepted", "cloche.toml changed meanwhile", "propose it again")

    engine.accept_rule = refuse  # type: ignore[method-assign]
    async with play(engine) as stage:
        await at_denials(stage)
        await stage.press("a")
        await stage.until(lambda: isinstance(stage.app.screen, ProposalScreen))
        await stage.press("right", "enter")
        await stage.until(lambda: isinstance(stage.app.screen, ErrorScreen))
        await stage.shows("cloche.toml changed meanwhile", "propose it again")


async def test_a_denial_that_cannot_be_explained_still_shows_its_events() -> None:
    engine = frozen.FrozenEngine()

    def refuse(ref: str, kind: str, object: str, rule: str) -> Explanation:
        raise Refused("the denial cannot be explained", "its policy is damaged", "cloche doctor")

    engine.explain_denial = refuse  # type: ignore[method-assign]
    async with play(engine) as stage:
        await at_denials(stage)
        await stage.press("enter")
        await stage.shows("the denial cannot be explained: its policy is damaged", "11 in 2 records")


async def test_sentences_in_the_tally_say_all_of_it_and_propose_nothing() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, (80, 24)) as stage:
        screen = await at_denials(stage)
        await stage.press("end")
        assert screen.situation().denial is None
        await stage.press("a")
        await stage.shows("no denial is selected")
        await stage.press("enter")
        await stage.shows("dns is not observed at this tier: the process tier has no resolver")
        assert isinstance(stage.app.screen, DetailScreen)


async def test_what_a_box_named_itself_is_escaped_on_the_way_to_the_rule() -> None:
    nasty = "a\x1b]52;c;aGk=\x07[@click=app.quit]x[/]\u202e.example:443"
    engine = frozen.FrozenEngine()
    diff = frozen.PROPOSAL.diff + f"+# {nasty}\r\n"
    proposal = frozen.PROPOSAL._replace(value=nasty, file=f"/tmp/{nasty}/cloche.toml", diff=diff)
    engine.explanation = Explanation("net", nasty, nasty, nasty, nasty, proposal, "")
    engine.records = (JournalRecord(1, 0.0, "denial", frozen.refusal("net", nasty, 3, nasty), ""),)
    view = engine.view(KEY)
    engine.views[KEY] = view._replace(tally=frozen.tally(frozen.denial("net", nasty, 3, nasty)))
    async with play(engine) as stage:
        await at_denials(stage, nasty)
        await stage.press("enter")
        await stage.shows("a\\x1b]52;c;aGk=\\x07[@click=app.quit]x[/]\\u202e.example:443", "3 in 1 record")
        clean(stage)
        await stage.press("a")
        await stage.until(lambda: isinstance(stage.app.screen, ConfirmScreen))
        await stage.shows("/tmp/a\\x1b]52")
        clean(stage)
        await stage.press("right", "enter")
        await stage.until(lambda: engine.asked)
        clean(stage)
    assert engine.asked[0][1][1].value == nasty  # what is accepted is what was proposed, unescaped


def clean(stage: Play) -> None:
    assert all(char.isprintable() or char == "\n" for char in stage.text())


def test_a_diff_is_cut_at_line_feeds_only() -> None:
    shown = [plain(one[0]) for one in diff_paragraphs("+a\rb\u2028c\n-d\n")]  # type: ignore[arg-type]
    assert shown == ["+a\\rb\\u2028c", "-d"]


# ---------------------------------------------------------------- since the last look


def test_what_is_new_is_what_was_refused_since_the_last_look(tmp_path: Path) -> None:
    looked = Looked(tmp_path / FILE)
    row = frozen.box("a", denied=4)
    assert looked.fresh(row) == 4
    assert looked.look(row)
    assert not looked.look(row)
    assert looked.fresh(row) == 0
    assert looked.fresh(row._replace(denied=9)) == 5
    looked.save(looked.text())
    again = Looked(tmp_path / FILE)
    assert again.fresh(row._replace(denied=9)) == 5
    assert again.fresh(row._replace(created=row.created + 60, denied=2)) == 2  # another box of that name
    assert os.stat(tmp_path / FILE).st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == [FILE]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"k": 1}', '{"k": [1, "x"]}', '{"k": [[], 2]}', "[" * 100_000]
)
def test_a_damaged_file_of_looks_makes_everything_new(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert Looked(tmp_path / FILE).fresh(frozen.box("k", denied=3)) == 3


def test_the_order_by_denials_puts_the_most_new_ones_first_and_is_stable() -> None:
    rows = tuple(
        frozen.box(name, denied=denied, created=frozen.NOW + place)
        for place, (name, denied) in enumerate([("a", 9), ("b", 0), ("c", 5), ("d", 5), ("e", 9)])
    )
    fresh = {rows[2].key: 5, rows[3].key: 5, rows[4].key: 1}
    assert [row.name for row in ordered(rows, fresh, True)] == ["c", "d", "e", "a", "b"]
    assert ordered(rows, fresh, False) == rows


async def test_the_fleet_marks_and_orders_by_what_is_new_and_a_look_ends_it() -> None:
    rows = (*frozen.FLEET[1:], frozen.FLEET[0])
    async with play(frozen.FrozenEngine(rows)) as stage:
        await stage.shows("+17 new", "1 with new denials")
        screen = stage.app.screen
        assert isinstance(screen, FleetScreen)
        assert screen.panes()[0].row.name == "deps-bump"
        await stage.press("o")
        await stage.until(lambda: screen.panes()[0].row.name == "fix-auth")
        await stage.shows("1 with new denials ▾")
        assert isinstance(stage.app.focused, BoxPane)
        assert stage.app.focused.row.name == "deps-bump"  # the cursor stays on its box
        await stage.press("v")
        await stage.shows("+17")
        screen.table.select(frozen.FLEET[0].key)
        await stage.press("enter")
        await stage.until(lambda: stage.app.looked.fresh(frozen.FLEET[0]) == 0)
        await stage.press("escape")
        await stage.until(lambda: "new denials" not in stage.text())
        assert "+17" not in stage.text()
        await stage.until(lambda: (state_dir() / FILE).exists())
    assert json.loads((state_dir() / FILE).read_text())[KEY][1] == 17
    async with play(frozen.FrozenEngine()) as stage:
        await stage.shows("denied 17")
        assert "+17 new" not in stage.text()


# ---------------------------------------------------------------- egress


async def test_a_supervised_box_shows_its_destinations_with_pins_and_bytes() -> None:
    row = frozen.FLEET[0]._replace(tier="supervised")
    async with play(frozen.FrozenEngine((row,)), (120, 60)) as stage:
        await stage.press("enter", "5")
        await stage.shows("Where packets may go", "npm-mirror.example:443", "104.16.1.34 104.16.2.34")
        await stage.shows("↑18K ↓6.1M  12 connections", "by *.githubusercontent.com", "refused 1")
        await stage.shows("its only answer 10.0.0.7 is private")


async def test_egress_that_nobody_can_tell_is_a_sentence_and_other_tiers_have_none() -> None:
    def refuse(ref: str) -> tuple[EgressRow, ...]:
        raise Refused("the egress cannot be read", "its keeper was lost", "cloche doctor")

    engine = frozen.FrozenEngine((frozen.FLEET[0]._replace(tier="supervised"), frozen.FLEET[1]))
    engine.egress = refuse  # type: ignore[method-assign]
    async with play(engine, (120, 60)) as stage:
        await stage.press("enter", "5")
        await stage.shows("the egress cannot be read: its keeper was lost", "Where each value comes from")
    assert rules.egress(engine, frozen.FLEET[1]) == ""


# ---------------------------------------------------------------- a real box

ATTEMPTS = """
python3 -c 'open("/usr/lib/os-release", "r+")' 2>/dev/null
cat /etc/shadow /nowhere-at-all/x 2>/dev/null
for i in 1 2 3; do touch /etc/cloche-was-here; done 2>/dev/null
python3 - <<'END'
import socket
for _ in range(4):
    try:
        socket.create_connection(("203.0.113.9", 4433), 1)
    except OSError:
        pass
END
echo done
"""


@pytest.mark.flow
@pytest.mark.real
@pytest.mark.usefixtures("kept")
async def test_refusals_of_a_real_box_are_drilled_from_fleet_to_event(
    repo: Path, home: Home, cli: Callable[..., support.Done]
) -> None:
    engine = Engine(repo)
    key = engine.create(NewBox(name="trier", tier="process")).key
    done = cli("run", "trier", "--", "sh", "-c", ATTEMPTS)
    assert "done" in done.out
    tally = engine.tally(key)
    net = next(row for row in tally.rows if row.kind == "net")
    assert (net.object, net.count) == ("203.0.113.9:4433", 4)
    write = next(row for row in tally.rows if row.kind == "fs-write" and "cloche-was-here" in row.object)
    assert write.count == 3
    async with play(engine, cwd=repo) as stage:
        await stage.until(lambda: f"+{engine.tally(key).total} new" in stage.text())
        await at_denials(stage, net.object)
        await stage.shows("dns      not observed: this tier runs no resolver that could see names")
        await stage.shows("not observed: reads are counted only")
        await stage.press("enter")
        screen = stage.app.screen
        assert isinstance(screen, DenialScreen)
        events = screen.query_one(EventsView)
        await stage.until(lambda: events.rows)
        assert sum(row.count for row in events.rows) == 4
        assert all(row.pid > 1 and "python" in row.command for row in events.rows)
        await stage.shows('net.mode = "deny": the box has no network', "by no change: ")
        await stage.press("escape", "home")
        await at_row(stage, "/usr/lib/os-release")
        await stage.press("a")
        await stage.shows('+write = ["/usr/lib/os-release"]', "from its next start: trier runs on")
        assert not (repo / "cloche.toml").exists()
        await stage.press("right", "enter")
        await stage.shows("accepted, counts from its next start")
        assert (
            repo / "cloche.toml"
        ).read_text() == '[profiles.default.fs]\nwrite = ["/usr/lib/os-release"]\n'
        await stage.press("escape")
        await stage.until(lambda: "new denials" not in stage.text())
    change = next(record for record in engine.journal(key) if record.kind == "policy")
    assert (change.data["who"], change.data["key"], change.data["scripted"]) == (ME, "fs.write", False)


LISTED = """
[profiles.default]
tier = "supervised"
net.mode = "allow"
net.egress = ["203.0.113.0/28:8443"]
"""
ASKING = """
import socket, time
for _ in range(3):
    try:
        socket.create_connection(("203.0.113.9", 4433), 1)
    except OSError:
        pass
try:
    socket.getaddrinfo("telemetry.example", 443)
except OSError:
    pass
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.flow
@pytest.mark.real
@pytest.mark.usefixtures("kept")
async def test_a_live_supervised_box_takes_an_accepted_destination_at_once(repo: Path) -> None:
    (repo / "cloche.toml").write_text(LISTED)
    engine = Engine(repo)
    key = engine.create(NewBox(name="asker")).key
    argv = support.cloche_argv("run", "asker", "--", "python3", "-c", ASKING)
    with subprocess.Popen(argv, cwd=repo, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            async with play(engine, (120, 60), cwd=repo) as stage:
                await at_denials(stage, "203.0.113.9:4433")
                await stage.shows("telemetry.example", "×3")
                await stage.press("5")
                await stage.shows("Where packets may go", "open 203.0.113.0/28:8443")
                assert "open 203.0.113.9:4433" not in stage.text()
                await stage.press("1", "a")
                await stage.shows("now: asker runs on and takes it without a restart")
                await stage.press("right", "enter")
                await stage.shows("accepted, counts now")
                await stage.press("5")
                await stage.shows("open 203.0.113.9:4433")
            assert '"203.0.113.9:4433"' in (repo / "cloche.toml").read_text()
            assert engine.view(key).row.processes > 0  # it ran on
        finally:
            engine.stop(key)
            process.wait(20)
