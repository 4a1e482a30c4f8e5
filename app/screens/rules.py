"""The one key from a denial to the rule that would allow it: explained, shown as a change, accepted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

from app.screens.base import WorkbenchScreen
from app.screens.dialogs import ConfirmScreen, DetailScreen
from app.workers import rules
from backends.snapshots import BoxRow, DenialRow, Explanation, Proposal
from widgets.denial import Paragraph, denial_paragraphs, explanation_paragraphs, proposal_paragraphs
from widgets.lines import Document
from widgets.visible import visible


class ProposalScreen(ConfirmScreen):
    """A change of ``cloche.toml`` that a person accepts or not: all of it can be read, "No" has the focus."""

    def __init__(self, name: str, paragraphs: Sequence[Paragraph]) -> None:
        super().__init__(f"Allow this from now on? ({name})", paragraphs, "Accept")
        self.add_class("-proposal")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#what", Document).can_focus = True  # a long change is scrolled


class RuleVerbs(WorkbenchScreen):
    """Screens that have a denial in front of the person."""

    @abstractmethod
    def denied(self) -> tuple[BoxRow, DenialRow] | None:
        """The box and its refusal that the key is about."""

    def rule_accepted(self) -> None:
        """A change was accepted: what was explained before may be explained otherwise now."""

    def do_allow(self) -> None:
        about = self.denied()
        if about is None:
            return
        row, denial = about
        work = partial(rules.explain, self.workbench.engine, row.key, denial)
        self.ask(work, partial(self._propose, row, denial))

    def _propose(self, row: BoxRow, denial: DenialRow, explanation: Explanation) -> None:
        if self.app.screen is not self:  # the person went on meanwhile; nothing pops up over what they do
            return
        proposal = explanation.proposal
        if proposal is None:
            told = [*denial_paragraphs(denial), (), *explanation_paragraphs(denial, explanation)]
            self.app.push_screen(DetailScreen("No change would allow it", told))
            return
        dialog = ProposalScreen(row.name, proposal_paragraphs(proposal, row.name))

        def answered(yes: bool | None) -> None:
            if yes:
                self._accept(row, proposal)

        self.app.push_screen(dialog, answered)

    def _accept(self, row: BoxRow, proposal: Proposal) -> None:
        counts = "counts now" if proposal.live else "counts from its next start"

        def accepted(_: None) -> None:
            said = visible(f"{proposal.key} = {proposal.value}"[:300])
            self.notify(said, title=f"accepted, {counts}", markup=False)
            self.rule_accepted()

        self.ask(
            partial(rules.accept, self.workbench.engine, row.key, proposal),
            accepted,
            doing="a rule is being accepted",
            key=row.key,
        )
