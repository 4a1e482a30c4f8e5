"""One box: its process tree, what was refused, what changed, its terminal, its journal, its policy."""

from __future__ import annotations

import signal
from collections import deque
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import ContentSwitcher

from app.action import Situation
from app.actions import bindings
from app.screens.base import sentence_of
from app.screens.box_parts import box_line, box_tabs, kill_paragraphs
from app.screens.denial import DenialScreen
from app.screens.dialogs import ConfirmScreen, DetailScreen
from app.screens.rules import RuleVerbs
from app.screens.sessions import SessionPane
from app.screens.verbs import BoxVerbs
from app.workers import rules
from backends.snapshots import (
    BoxRow,
    BoxStatus,
    BoxView,
    DenialRow,
    EgressRow,
    JournalRecord,
    ProcessRow,
)
from widgets import marks
from widgets.diff_view import DiffView
from widgets.header import Header
from widgets.lines import RowView
from widgets.output import OutputTail
from widgets.patch import EMPTY, PatchIndex
from widgets.policy_view import Origin, PolicyView
from widgets.process_tree import ProcessTree
from widgets.tabs import TabBar
from widgets.tally import TallyRow, TallyView
from widgets.timeline import Timeline, record_paragraphs
from widgets.visible import runs

TABS = ("denials", "changes", "sessions", "timeline", "policy")
RECORDS = 5000
"""Journal records that the timeline holds, the newest."""

NARROW = 100


class BoxScreen(BoxVerbs, RuleVerbs):
    """Everything about one box. ``with_shell`` opens a shell at once."""

    CONTEXTS = ("box", "denials")
    BINDINGS: ClassVar[list[BindingType]] = bindings("box", "denials", "anywhere")

    def __init__(self, row: BoxRow, tab: str = "denials", with_shell: bool = False) -> None:
        super().__init__()
        self.row = row
        self.view: BoxView | None = None
        self.tab = tab
        self.trouble = ""
        self._with_shell = with_shell
        self._changes: tuple[int, int] | None = None

    def compose(self) -> ComposeResult:
        yield Header()
        with Vertical(id="box-body"):
            with Horizontal(id="box-upper"):
                tree = ProcessTree(id="tree", classes="frame")
                with Vertical(id="box-left"):
                    yield tree
                with Vertical(id="box-right", classes="frame"):
                    yield TabBar(id="tabs")
                    with ContentSwitcher(id="box-tabs", initial=self.tab):
                        yield TallyView(id="denials")
                        yield DiffView(id="changes")
                        yield SessionPane(self.row.key, id="sessions")
                        yield Timeline(id="timeline")
                        yield PolicyView(id="policy")
            output = OutputTail(id="box-output", classes="frame")
            output.border_title = "Output"
            yield output
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        self.query_one(DiffView).set_index(EMPTY, note="reading the changes…")
        self.query_one(ProcessTree).focus()
        self._fit()
        self.show_tab(self.tab, focus=self.tab != "denials")
        self.show_all()
        known = self.workbench.views.get(self.row.key)
        if known is not None:
            self.view_changed(known)
        self.set_interval(2.0, self._read_slow)
        if self._with_shell:
            self.do_terminal()

    def on_screen_resume(self) -> None:
        self.want()
        self.show_footer()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")
        self.set_class(self.size.height < 30, "-low")

    def want(self) -> None:
        if self.app.screen is self:
            self.workbench.want((self.row.key,), (self.row.key,) if self.tab == "changes" else ())

    # ------------------------------------------------------------ values in

    def boxes_changed(self, rows: tuple[BoxRow, ...]) -> None:
        row = next((row for row in rows if row.key == self.row.key), None)
        if row is not None and row != self.row:
            self.row = row
            self.show_all()

    def view_changed(self, view: BoxView) -> None:
        if view.row.key != self.row.key:
            return
        self.view = view
        self.row = view.row
        self.trouble = ""
        why = (
            "nothing runs" if view.row.live != "lost" else "the keeper ended, and the box's processes with it"
        )
        self.query_one(ProcessTree).set_processes(view.processes, why)
        self.query_one(TallyView).set_tally(view.tally, view.row.state != "created")
        if self.app.screen is self:
            self.workbench.look(view.row)
        self.query_one(OutputTail).set_output(view.output)
        self.show_all()

    def box_failed(self, key: str, why: str) -> None:
        if key == self.row.key and why != self.trouble:
            self.trouble = why
            self.show_all()

    def patch_changed(self, key: str, patch: PatchIndex) -> None:
        if key == self.row.key:
            added = patch.kinds.count(b"+")
            self._changes = (added, patch.kinds.count(b"-"))
            self.query_one(DiffView).set_index(patch, note="no changes against the base")
            self.show_all()

    def _read_slow(self) -> None:
        """What is read less often, and only while it is looked at."""
        if self.app.screen is not self:
            return
        engine, key = self.workbench.engine, self.row.key
        if self.tab == "timeline":

            def read() -> tuple[JournalRecord, ...]:
                return tuple(deque(engine.journal(key), maxlen=RECORDS))

            self.ask(read, self.query_one(Timeline).set_records, failed=self._note)
        elif self.tab == "policy":
            row = self.row
            self.ask(
                lambda: (engine.status(key), engine.policy_explain(key), rules.egress(engine, row)),
                self._show_status,
                failed=self._policy_failed,
            )

    def _show_status(self, value: tuple[BoxStatus, tuple[Origin, ...], tuple[EgressRow, ...] | str]) -> None:
        self.query_one(PolicyView).set_status(*value)

    def _policy_failed(self, error: Exception) -> None:
        self.query_one(PolicyView).say(sentence_of(error), "look")

    def _note(self, error: Exception) -> None:
        self.box_failed(self.row.key, sentence_of(error))

    # ------------------------------------------------------------ what is shown

    def show_all(self) -> None:
        self.query_one(Header).show(box_line(self.row, self.trouble), marks.base(self.row))
        self._show_tabs()
        self.show_footer()

    def _show_tabs(self) -> None:
        tabs = box_tabs(self.row, self._changes, self.query_one(SessionPane).session)
        self.query_one(TabBar).show(tabs, self.tab)

    def show_tab(self, tab: str, focus: bool = True) -> None:
        self.tab = tab
        self.query_one(ContentSwitcher).current = tab
        self._show_tabs()
        if focus:
            target = self.query_one(f"#{tab}")
            (target.view if isinstance(target, SessionPane) else target).focus()
        self.want()
        self._read_slow()

    def on_tab_bar_clicked(self, event: TabBar.Clicked) -> None:
        self.show_tab(event.tab)

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        row = event.view.selected
        if isinstance(row, TallyRow) and row.denial is not None:
            self.app.push_screen(DenialScreen(self.row, row.denial))
        elif isinstance(row, TallyRow) and row.detail:
            self.app.push_screen(DetailScreen("Denials", [runs(row.detail)]))
        elif isinstance(row, JournalRecord):
            self.app.push_screen(DetailScreen(f"Record {row.seq}", record_paragraphs(row)))

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        if isinstance(event.view, TallyView):
            self.show_footer()

    def on_session_pane_changed(self, event: SessionPane.Changed) -> None:
        self._show_tabs()
        self.show_footer()

    # ------------------------------------------------------------ the person

    def subject(self) -> BoxRow:
        return self.row

    def denied(self) -> tuple[BoxRow, DenialRow] | None:
        denial = self.query_one(TallyView).denial if self.tab == "denials" else None
        return (self.row, denial) if denial is not None else None

    def situation(self) -> Situation:
        about = self.denied()
        tree = self.query_one(ProcessTree)
        return Situation(
            box=self.row,
            process=tree.process,
            process_ended=tree.lost,
            terminal=self.query_one(SessionPane).session is not None,
            denial=about[1] if about is not None else None,
            busy=self.workbench.busy.get(self.row.key, ""),
        )

    def footer_contexts(self) -> tuple[str, ...]:
        if self.query_one(SessionPane).view.takes_keys:
            return ("terminal",)
        if isinstance(self.focused, TallyView):
            return ("denials", "box")
        return ("box", "tree") if isinstance(self.focused, ProcessTree) else ("box",)

    def on_descendant_focus(self) -> None:
        self.show_footer()

    def on_descendant_blur(self) -> None:
        self.show_footer()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a terminal takes the keys, none of them is ours."""
        if action == "act" and self.is_mounted and self.query_one(SessionPane).view.takes_keys:
            return False
        return super().check_action(action, parameters)

    def do_denials(self) -> None:
        self.show_tab("denials")

    def do_changes(self) -> None:
        self.show_tab("changes")

    def do_sessions(self) -> None:
        self.show_tab("sessions")

    def do_timeline(self) -> None:
        self.show_tab("timeline")

    def do_policy(self) -> None:
        self.show_tab("policy")

    def do_doctor(self) -> None:
        from app.screens.doctor import TriageScreen

        self.app.push_screen(TriageScreen(at=self.row.key))

    def do_matrix(self) -> None:
        from app.screens.matrix import MatrixScreen

        self.app.push_screen(MatrixScreen(self.row))

    def do_sides(self) -> None:
        view = self.query_one(DiffView)
        view.set_split(not view.sides)

    def do_terminal(self) -> None:
        self.show_tab("sessions")
        self.query_one(SessionPane).open_shell()

    def do_attach(self) -> None:
        self.show_tab("sessions")
        self.query_one(SessionPane).attach()

    def do_full(self) -> None:
        self.toggle_class("-wide-terminal")

    def do_kill(self) -> None:
        process = self.query_one(ProcessTree).process
        if process is not None:
            self._ask_kill(process)

    def _ask_kill(self, process: ProcessRow) -> None:
        """Confirms with the identity that was selected; whatever stands there later is not touched."""
        text = kill_paragraphs(process, self.row)

        def answered(yes: bool | None) -> None:
            if yes:
                self.ask(
                    partial(self.workbench.engine.kill, self.row.key, process.ident, int(signal.SIGKILL)),
                    lambda _: self.notify(f"killed {process.ident.pid}", markup=False),
                    key=self.row.key,
                )

        self.app.push_screen(ConfirmScreen(f"Kill {process.ident.pid}", text, "Kill"), answered)

    def removed(self, row: BoxRow) -> None:
        super().removed(row)
        if self.app.screen is self:
            self.app.pop_screen()
