"""Triage: what the host and every box no longer keep, worst first, with the proof and the remedy.

A bundle of another host opens in the same screen; nothing of it can be looked at again or repaired here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message

from app.action import Situation
from app.actions import bindings
from app.screens.base import WorkbenchScreen
from app.screens.dialogs import ConfirmScreen
from app.screens.triage_file import BundleScreen, write_new
from app.screens.triage_text import bundle_line, proofs_of, repair_paragraphs, triage_line
from backends.errors import NoSuchBox
from backends.snapshots import BoxRow, Finding
from backends.snapshots_doctor import Repair, Triage
from backends.snapshots_host import HostReport, Proof
from widgets.findings import FAULTS, HOST, FindingRows, finding_paragraphs, name_of, worst_first
from widgets.header import Header
from widgets.lines import Document, RowView
from widgets.visible import visible

NARROW = 150
TRUTH = 110
"""Columns from which on the header has room for the host in a few words beside its figures."""
FILE = "cloche-triage.json"
Found = tuple[tuple[Finding, ...], Mapping[str, Proof]]
"""Findings, and the host's proofs by their id."""


class TriageScreen(WorkbenchScreen):
    """Looks at everything when it is opened, and again only when it is asked to."""

    CONTEXTS = ("triage",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("triage", "anywhere")

    class Looking(Message):
        """What is being tried now; comes from the engine's thread."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self, bundle: Triage | None = None, name: str = "", *, at: str = "") -> None:
        """``at``: the key of the box whose worst finding is selected at first."""
        super().__init__()
        self._at = at
        self.bundle = bundle
        self.name_of_bundle = name
        self.findings: tuple[Finding, ...] = ()
        self.proofs: Mapping[str, Proof] = {}
        self.faults = False
        self.looking = ""  # what is under way, "": nothing

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal(id="triage-body"):
            rows = FindingRows(id="triage-rows", classes="frame")
            rows.border_title = "Findings"
            yield rows
            detail = Document(id="triage-detail", classes="frame")
            detail.border_title = "Proof and remedy"
            yield detail
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        super().on_mount()
        self.on_resize()
        self.rows.focus()
        self.workbench.want((), ())
        if self.bundle is not None:
            self._show((self.bundle.findings, proofs_of(self.bundle)))
        else:
            self._look("everything", self._all)

    def on_resize(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")
        self.show_header()

    def on_screen_resume(self) -> None:
        self.workbench.want((), ())

    @property
    def rows(self) -> FindingRows:
        return self.query_one(FindingRows)

    # ------------------------------------------------------------ looking

    def _progress(self, what: str) -> None:
        self.post_message(self.Looking(what))

    def on_triage_screen_looking(self, event: Looking) -> None:
        if self.looking:
            self.looking = event.what
            self.show_header()

    def _all(self, *, fresh: bool = False) -> Found:
        engine = self.workbench.engine
        found = engine.doctor(everywhere=True, fresh=fresh, progress=self._progress)
        return found, _by_id(engine.host())

    def _subject(self, subject: str) -> Found:
        """What is found of one subject now, beside what is known of the others."""
        engine = self.workbench.engine
        others = tuple(row for row in self.findings if row.subject != subject)
        if subject == HOST:
            seen = engine.doctor(everywhere=True, fresh=True, boxes=False, progress=self._progress)
        else:
            try:
                seen = engine.doctor(subject, progress=self._progress)
            except NoSuchBox:
                seen = ()
        return others + tuple(row for row in seen if row.subject == subject), _by_id(engine.host())

    def _look(self, what: str, work: Callable[[], Found]) -> None:
        if self.looking:
            return
        self.looking = what
        self.show_header()
        self.show_footer()
        self.ask(work, self._show, failed=self._failed)

    def _failed(self, error: Exception) -> None:
        self._ended()
        self.rows.why_empty = "nothing could be looked at; R looks again"
        self.rows.refresh()
        self.workbench.show_error(error)

    def _ended(self) -> None:
        self.looking = ""
        self.rows.again = frozenset()
        self.show_header()
        self.show_footer()

    # ------------------------------------------------------------ what is shown

    def _show(self, found: Found) -> None:
        self.findings, self.proofs = worst_first(found[0]), found[1]
        self._ended()
        self._fill()
        first = next((row for row in self.rows.rows if row.subject == self._at), None)
        if first is not None:
            self.rows.select(self.rows.key_of(first))
        self._at = ""

    def _fill(self) -> None:
        rows = self.rows
        kept = tuple(row for row in self.findings if not self.faults or row.verdict in FAULTS)
        rows.why_empty = "nothing fails and nothing will hurt" if self.faults else "nothing was looked at"
        rows.claims = frozenset(self.proofs)
        rows.set_rows(kept)
        if rows.lost and kept:
            rows.action_move(0)
        rows.border_title = f"Faults {len(kept)}" if self.faults else f"Findings {len(kept)}"
        self._describe()
        self.show_header()
        self.show_footer()

    def _describe(self) -> None:
        chosen = self.rows.selected
        detail = self.query_one("#triage-detail", Document)
        if chosen is None:
            detail.set_paragraphs([])
            return
        proof = self.proofs.get(chosen.id) if chosen.subject == HOST else None
        detail.set_paragraphs(finding_paragraphs(chosen, proof))
        detail.action_move_to(0)

    def show_header(self) -> None:
        if self.bundle is not None:
            left = bundle_line(self.bundle, self.name_of_bundle, self.findings)
        else:
            left = triage_line(self.findings, self.looking)
        truth = self.workbench.host_truth if self.bundle is None and self.size.width >= TRUTH else ()
        self.query_one(Header).show(left, truth)

    # ------------------------------------------------------------ the person

    def situation(self) -> Situation:
        chosen = self.rows.selected if self.is_mounted else None
        busy = f"{self.looking}: being looked at" if self.looking else ""
        return Situation(finding=chosen, elsewhere=self.bundle is not None, busy=busy)

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        self._describe()
        self.show_footer()

    async def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        await self.action_act("visit")

    def do_visit(self) -> None:
        chosen = self.rows.selected
        if chosen is None:
            return
        subject, engine = chosen.subject, self.workbench.engine

        def find() -> BoxRow | None:
            return next((row for row in engine.boxes(True) if row.key == subject), None)

        def show(row: BoxRow | None) -> None:
            if row is None:
                self.notify(
                    f"{visible(subject)} cannot be listed: its finding tells why",
                    severity="warning", markup=False,
                )  # fmt: skip
            elif self.app.screen is self:
                self.workbench.open_box(row, tab="policy")

        self.ask(find, show)

    def do_faults(self) -> None:
        self.faults = not self.faults
        self._fill()

    def do_rerun(self) -> None:
        chosen = self.rows.selected
        if chosen is None:
            return
        self.rows.again = frozenset(
            self.rows.key_of(row) for row in self.findings if row.subject == chosen.subject
        )
        self.rows.refresh()
        self._look(visible(name_of(chosen.subject)), partial(self._subject, chosen.subject))

    def do_rerun_all(self) -> None:
        self.rows.again = frozenset(self.rows.key_of(row) for row in self.findings)
        self.rows.refresh()
        self._look("everything", partial(self._all, fresh=True))

    def do_remedy(self) -> None:
        chosen = self.rows.selected
        if chosen is not None:
            text = visible(chosen.remedy)
            self.app.copy_to_clipboard(text)
            self.notify(text, title="copied", markup=False)

    def do_repair(self) -> None:
        chosen = self.rows.selected
        if chosen is None:
            return
        from backends.verbs.passage import person

        engine = self.workbench.engine

        def answered(yes: bool | None) -> None:
            if yes:
                self.ask(partial(engine.repair, (chosen,), person()), repaired, doing="being repaired")

        def repaired(rows: Sequence[Repair]) -> None:
            for row in rows:
                self.notify(
                    visible(row.text),
                    title="repaired" if row.done else "not repaired",
                    severity="information" if row.done else "warning",
                    markup=False,
                )
            self._look(visible(name_of(chosen.subject)), partial(self._subject, chosen.subject))

        question = ConfirmScreen("Repair", repair_paragraphs(chosen), "Repair it", danger=False)
        self.app.push_screen(question, answered)

    # ------------------------------------------------------------ bundles

    def do_bundle(self) -> None:
        def answered(path: Path | None) -> None:
            if path is not None:
                self.ask(partial(self._write, path), self._written, doing="the bundle is being made")

        said = "Findings, facts, proofs and tails of journals, without secrets, your name and the host's."
        question = BundleScreen("Triage bundle", said, "Write it", self.workbench.cwd, FILE)
        self.app.push_screen(question, answered)

    def _write(self, path: Path) -> Path:
        return write_new(path, self.workbench.engine.triage(everywhere=True))

    def _written(self, path: Path) -> None:
        self.notify(visible(str(path)), title="written, read it before you send it", markup=False, timeout=10)

    def do_bundle_open(self) -> None:
        engine = self.workbench.engine

        def answered(path: Path | None) -> None:
            if path is not None:
                self.ask(partial(engine.open_triage, path), partial(opened, path))

        def opened(path: Path, bundle: Triage) -> None:
            self.app.push_screen(TriageScreen(bundle, path.name))

        said = "What another host said of itself. All of it is its own claim."
        question = BundleScreen("Open a triage bundle", said, "Open it", self.workbench.cwd)
        self.app.push_screen(question, answered)


def _by_id(report: HostReport) -> dict[str, Proof]:
    return {proof.id: proof for proof in report.proofs}
