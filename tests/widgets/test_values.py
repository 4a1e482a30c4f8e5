"""What the other widgets say about the values they are given."""

from __future__ import annotations

import time
from collections import deque

import pytest

from backends.snapshots import CheckRow, FileChange, JournalRecord, NotObserved, Tally
from tests.widgets.drawn import bench, text_of
from tests.workbench import frozen
from widgets import marks, units
from widgets.box_table import BoxTable, shown_columns
from widgets.checks import count_verdicts
from widgets.evidence import evidence_parts
from widgets.file_list import FileList
from widgets.header import Footer, FooterItem, Header
from widgets.ink import Run, line, plain, width_of
from widgets.output import OutputTail
from widgets.pane import VIEWS, BoxPane, bars
from widgets.patch import index_patch
from widgets.policy_view import status_paragraphs
from widgets.tabs import Tab, TabBar
from widgets.tally import TallyView, summary, tally_rows
from widgets.timeline import Timeline, sentence


def texts(paragraphs: list[object]) -> str:
    return "\n".join(
        plain(one[0] if len(one) == 2 and isinstance(one[1], int) else one)  # type: ignore
        for one in paragraphs
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (units.size(0), "0B"),
        (units.size(4 << 20), "4.0M"),
        (units.size(1023 << 20), "1.0G"),
        (units.span(59), "59s"),
        (units.span(3599), "59m"),
        (units.span(90_000), "25h"),
        (units.span(-3), "0s"),
        (units.percent(0.2), "<1%"),
        (units.percent(140), "140%"),
        (units.count(12_345), "12k"),
    ],
)
def test_figures_fit_their_cells(made: str, said: str) -> None:
    assert made == said


def test_every_state_has_a_mark_of_its_own_and_a_word() -> None:
    states = [marks.state(frozen.box("x", state=state, live="live")) for state in marks.STATES]
    states += [marks.state(frozen.box("x", live=live)) for live in ("slow", "lost")]
    shown = [plain(one) for one in states]
    assert len({one[0] for one in shown}) == len(shown)
    assert all(len(one) > 3 for one in shown)


def test_an_unconfined_box_says_so() -> None:
    assert "UNCONFINED" in plain(marks.tier(frozen.box("x", tier="workspace", unconfined=True)))


def test_a_kind_that_is_not_observed_is_never_zero() -> None:
    tally = Tally((), 0, 0, (NotObserved("dns", "no resolver"),))
    assert plain(summary(tally, 80)) == "denied 0  not observed at this tier: dns"
    rows = tally_rows(tally)
    assert [plain(row.sentence) for row in rows] == [
        "none     fs-read · fs-write · exec · net · socket · syscall · limit  watched, nothing refused",
        "dns      not observed: no resolver",
    ]
    assert "dns is not observed at this tier: no resolver" in rows[1].detail


def test_before_the_first_launch_no_kind_is_called_none() -> None:
    rows = tally_rows(Tally((), 0, 0, ()), launched=False)
    assert [plain(row.sentence) for row in rows] == ["nothing has run yet, so nothing was watched"]


def test_what_was_refused_is_not_among_the_kinds_that_were_not() -> None:
    none = next(row for row in tally_rows(frozen.DENIED) if row.key == ("", "none"))
    assert plain(none.sentence) == "none     exec · socket · limit  watched, nothing refused"


def test_what_happened_and_was_not_seen_is_told_below_the_denials() -> None:
    tally = Tally((), 0, 0, (), (("opens", 9),))
    assert plain(tally_rows(tally)[-1].sentence) == "lost 9  opens happened and could not be looked at"
    assert plain(summary(tally, 80)) == "denied 0  lost 9"


def test_a_peak_that_cannot_be_told_is_not_shown_as_none() -> None:
    data = {"session": 1, "exit": 0, "wall": 1.0, "cpu": 0.5, "peak_rss": None}
    said = plain(sentence(JournalRecord(1, 0.0, "session-exit", data, "")))
    assert said == "#1 exit 0  1.0s wall  0.5s cpu"


@pytest.mark.parametrize(
    ("status", "said"), [(0, "exit 0"), (256, "exit 1"), (9, "signal 9"), (None, "end not recorded: it went")]
)
def test_how_a_test_run_ended_stands_in_the_journal_s_row(status: int | None, said: str) -> None:
    data = {"test": 1, "pid": 7, "argv": ["pytest", "-q"], "status": status, "why": "it went"}
    assert plain(sentence(JournalRecord(1, 0.0, "test-end", data, ""))) == f"7 pytest -q  {said}"


def test_the_summary_names_what_was_refused_most_and_keeps_to_its_room() -> None:
    assert plain(summary(frozen.DENIED, 100)).startswith(
        "denied 17  net telemetry.example:443 ×11 · fs-write"
    )
    for width in range(20, 140):
        assert width_of(summary(frozen.DENIED, width)) <= width


def test_refusals_counted_after_the_table_was_full_are_said() -> None:
    rows = tally_rows(frozen.tally(frozen.denial("net", "a:1"), others=9))
    others = next(row for row in rows if row.key == ("", "others"))
    assert plain(others.sentence) == "others   9 more were counted after the table was full"


@pytest.mark.parametrize("width", [50, 76, 120])
async def test_the_denials_tab_shows_kind_object_count_times_and_process(width: int) -> None:
    view = TallyView()
    async with bench(view, (width, 10)):
        view.set_tally(frozen.DENIED)
        shown = text_of(view)
        assert "total 17" in shown[0]
        assert [row.split()[0] for row in shown[1:7]] == [
            "fs-read",
            "fs-write",
            "net",
            "syscall",
            "none",
            "dns",
        ]
        net = frozen.DENIED.rows[0]
        assert "telemetry.example:443" in shown[3]
        assert "×11" in shown[3]
        assert units.when(net.last) in shown[3]
        if width >= 76:
            assert units.when(net.first).rpartition(":")[0] in shown[3]
            assert "node" in shown[3]
        assert "not observed" in shown[6]


def test_a_time_of_another_day_is_not_shown_as_a_time_of_today() -> None:
    now = time.mktime((2026, 11, 29, 16, 0, 0, 0, 0, -1))
    assert units.when(now - 60, now) == "15:59:00"
    assert units.when(now - 3 * 86400, now) == "Nov 26"
    assert units.when(now - 400 * 86400, now) == "2025-10"


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "height"), [(20, 3), (40, 6), (58, 9), (76, 8), (190, 24)])
def test_a_pane_fills_exactly_its_body(view: str, width: int, height: int) -> None:
    engine = frozen.FrozenEngine()
    for row in frozen.FLEET:
        pane = BoxPane(row, view)
        pane.view = engine.view(row.key)
        pane.patch = index_patch(frozen.PATCH)
        lines = pane.compose_lines(width, height)
        assert len(lines) == height
        assert all(width_of(one) <= width for one in lines)


def test_a_pane_says_what_was_refused_what_changed_and_what_was_said_last() -> None:
    row = frozen.FLEET[0]
    pane = BoxPane(row)
    pane.view = frozen.FrozenEngine().view(row.key)
    shown = [plain(one) for one in pane.compose_lines(76, 12)]
    assert shown[0].startswith("▾ claude --resume")
    assert shown[-3].startswith("denied 17  net telemetry.example:443 ×11")
    assert shown[-2].startswith("+182 -40 in 9 files")
    assert shown[-1] == "› FAIL src/auth.test.ts (3)"


def test_a_pane_says_why_its_box_could_not_be_asked() -> None:
    pane = BoxPane(frozen.FLEET[1])
    pane.trouble = "the keeper has not answered yet; still asking"
    shown = [plain(one) for one in pane.compose_lines(60, 9)]
    assert "~ the keeper has not answered yet; still asking" in shown


def test_bars_rise_with_the_load() -> None:
    assert bars(deque([0.0, 50.0, 100.0, 0.2])) == "▁▄█▁"
    assert bars(deque([400.0, 100.0])) == "█▂"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 150, 200])
async def test_the_table_fits_and_shows_more_where_there_is_room(width: int) -> None:
    view = BoxTable()
    async with bench(view, (width, 12)):
        view.set_boxes(frozen.FLEET)
        shown = text_of(view)
        assert all(len(row) <= width for row in shown)
        assert "fix-auth" in shown[1]
        assert "17" in shown[1]
        assert "! " in shown[2]
    assert ("base" in shown_columns(width, False)) == (width >= 130)


async def test_the_output_follows_its_end_until_the_person_scrolls_up() -> None:
    view = OutputTail()
    async with bench(view, (40, 6)) as pilot:
        view.set_output(b"".join(b"%d\n" % n for n in range(50)))
        await pilot.pause()
        assert text_of(view)[-1] == "49"
        view.set_output(b"".join(b"%d\n" % n for n in range(60)))
        await pilot.pause()
        assert text_of(view)[-1] == "59"
        await pilot.press("pageup")
        await pilot.pause()
        top = text_of(view)[0]
        view.set_output(b"".join(b"%d\n" % n for n in range(70)))
        await pilot.pause()
        assert text_of(view)[0] == top


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (
            "transition",
            {"from": "idle", "to": "proposed", "who": "person", "why": "x"},
            "idle → proposed  by person  x",
        ),
        ("session-start", {"session": 3, "argv": ["npm", "test"]}, "#3 npm test"),
        ("exec", {"pid": 12, "argv": ["sh", "-c", "x"], "path": "/bin/sh"}, "12 sh -c x"),
        ("denial", {"kind": "net", "object": "a:1", "count": 3, "command": "node"}, "net a:1 ×3  by node"),
        ("lost", {"what": "execs", "count": 7}, "7 execs were lost"),
        (
            "apply",
            {"branch": "main", "old": "a" * 40, "new": "b" * 40, "who": "dev"},
            "main  aaaaaaa → bbbbbbb  by dev",
        ),
        ("stop", {}, ""),
    ],
)
def test_a_record_is_a_sentence(kind: str, data: dict[str, object], said: str) -> None:
    assert plain(sentence(JournalRecord(1, 0.0, kind, data, ""))) == said


async def test_executions_can_be_hidden_from_the_timeline() -> None:
    view = Timeline()
    async with bench(view, (100, 20)) as pilot:
        view.set_records(frozen.RECORDS)
        assert any("npm test" in row for row in text_of(view))
        await pilot.press("e")
        assert not any("npm test" in row for row in text_of(view))
        assert "executions hidden" in text_of(view)[0]


def test_what_was_lost_is_told_in_amber_beside_the_denials() -> None:
    for tally in (frozen.DENIED, frozen.tally(unseen=frozen.DENIED.not_observed)):
        lost = tally._replace(lost=(("opens", 9), ("execs", 2)))
        short = summary(lost, 100)
        assert Run("lost 11", "look strong") in short
        assert plain(short).startswith(f"denied {tally.total}  lost 11  ")
        rows = [row.sentence for row in tally_rows(lost)]
        assert any(Run("lost 9", "look strong") in row and "opens happened" in plain(row) for row in rows)
        assert "lost" not in plain(summary(tally, 100))


def test_the_policy_tab_begins_with_the_five_answers_and_shows_what_is_not_enforced() -> None:
    shown = texts(list(status_paragraphs(frozen.STATUS)))
    questions = [row for row in shown.split("\n") if row.startswith("? ")]
    assert len(questions) == 5
    assert shown.index("Five questions") < shown.index("Claims of tier process") < shown.index("Values")
    assert f"policy {frozen.STATUS.policy_digest}  tree" in shown
    assert "resources.mem 2G  not enforced no cgroup delegation for this user" in shown
    assert "✓ proved   a write outside the grants fails  proof: open(/etc/cloche-probe) gave EACCES" in shown


def test_the_policy_tab_of_an_unconfined_box_says_so_first() -> None:
    status = frozen.STATUS._replace(row=frozen.FLEET[3])
    assert plain(status_paragraphs(status)[0][0]).startswith("! nothing confines this box")


def test_evidence_puts_the_worst_first_and_counts_verdicts() -> None:
    engine = frozen.FrozenEngine()
    review = engine.review(frozen.FLEET[2].key)
    refused = CheckRow("nested-git", "refuse", "a nested repository", b"vendor/.git")
    review = review._replace(checks=(*review.checks, refused))
    parts = evidence_parts(review)
    assert plain(parts[0].title) == "Gate 1 refuse 2 warn"
    shown = "\n".join(plain(item.text) for part in parts for item in part.items)
    assert shown.startswith("✗ nested-git  a nested repository  vendor/.git\n! ci-file")
    assert count_verdicts(review.checks) == {"pass": 3, "warn": 2, "refuse": 1}
    assert "npm test  exit 0" in shown
    assert "net      telemetry.example:443 ×11" in shown
    assert "not observed" in shown


async def test_files_show_status_verdict_and_what_was_reviewed() -> None:
    view = FileList()
    async with bench(view, (60, 8)) as pilot:
        changes = (
            *frozen.CHANGES,
            FileChange(b"run.sh", None, "M", 0o100644, 0o100755, "1", "1", None, None),
        )
        view.set_files(changes, frozen.CHECKS)
        assert text_of(view)[1].startswith("  ! A .github/workflows/x.yml")
        assert text_of(view)[3].endswith("644→755 binary")
        view.set_reviewed({b"src/auth/refresh.ts"})
        view.step_unread()
        await pilot.pause()
        assert text_of(view)[0].startswith("✓   M src/auth/refresh.ts")
        assert view.selected is not None
        assert view.selected.path == b".github/workflows/x.yml"


async def test_the_header_gives_up_the_right_side_before_the_left_is_hidden() -> None:
    header = Header()
    async with bench(header, (40, 3)):
        header.show(line("fleet"), line("x" * 38))
        assert header.render_line(0).text.rstrip() == " ⌂ fleet"
        header.show(line("fleet › " + "n" * 60), line("! 2 warn"))
        assert header.render_line(0).text.endswith(" ! 2 warn ")


async def test_the_footer_keeps_help_in_sight_whatever_does_not_fit() -> None:
    footer = Footer()
    items = tuple(FooterItem(f"a{n}", "k", f"action{n}", False, "") for n in range(20))
    tail = (FooterItem("help", "?", "help", False, ""),)
    async with bench(footer, (60, 3)):
        footer.show(items, tail)
        shown = footer.render_line(0).text
        assert shown.rstrip().endswith("? help")
        assert "action0" in shown
        assert "action9" not in shown


async def test_the_active_tab_is_told_without_colour_and_stays_named_in_little_room() -> None:
    bar = TabBar()
    tabs = tuple(
        Tab(name, str(n), name.title()) for n, name in enumerate(("denials", "changes", "policy"), 1)
    )
    async with bench(bar, (80, 3)) as pilot:
        bar.show(tabs, "changes")
        assert "[2 Changes]" in bar.render_line(0).text
        await pilot.resize_terminal(18, 3)
        await pilot.pause()
        assert "[2 Changes]" in bar.render_line(0).text
