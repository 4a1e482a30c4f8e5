"""Opening the apply dialog, undoing the last apply, and bringing a box onto its branch; each asks first."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

from app.screens.apply import ApplyScreen
from app.screens.apply_calls import ApplyEnd
from app.screens.apply_text import Paragraph, said, short
from app.screens.base import WorkbenchScreen
from app.screens.dialogs import ConfirmScreen
from backends.snapshots import ApplyOutcome, BoxRow, ReviewView, UnapplyOutcome
from backends.snapshots_moved import RebaseOutcome, UnapplyPlan
from widgets.ink import Line, line
from widgets.visible import runs, visible

LISTED = 5  # files in conflict that a notification names


def unapply_paragraphs(plan: UnapplyPlan, name: str) -> list[Paragraph]:
    """Exactly what goes back: the branch, the commits that leave it, the checkout, and the box."""
    branch = runs(short(plan.branch), "strong")
    back: Line = line((plan.new[:12], "accent")) if plan.new else line(("gone: apply had made it", "look"))
    commits = "1 commit leaves it" if plan.commits == 1 else f"{plan.commits} commits leave it"
    files = "1 file" if plan.files == 1 else f"{plan.files} files"
    rows: list[Paragraph] = [
        said("branch", branch, ("  at ", "quiet"), (plan.old[:12], "accent"), ("  becomes ", "quiet"), *back),
        said("", commits, ("; it is nowhere else unless you named it", "quiet")),
        said("commit", (plan.old, "accent")),
        said("", runs(plan.subject)),
    ]
    if plan.work_tree:
        rows.append(said("checkout", (f"{files} in ", ""), *runs(plan.work_tree), " go back as well"))
    else:
        rows.append(
            said("checkout", ("the branch is checked out nowhere: no file of yours changes", "quiet"))
        )
    if plan.base is not None:
        now, then = plan.base
        rows += [
            said("box", (plan.state, "strong"), ": compared with ", (then[:12], "accent"), " again"),
            said("", ("not with ", "quiet"), (now[:12], "accent")),
            said("", ("what was accepted counts as its change again; its files stay as they are", "quiet")),
        ]
    else:
        rows.append(said("box", (plan.state, "strong"), ": the same proposal waits again"))
    return rows


class ApplyVerbs(WorkbenchScreen):
    """Actions on :meth:`subject` that move a branch or what the box is compared with."""

    @abstractmethod
    def subject(self) -> BoxRow | None:
        """The box that an action is about, ``None`` when there is none."""

    # ------------------------------------------------------------ apply

    def open_apply(self, review: ReviewView) -> None:
        """The dialog; what it comes to goes to :meth:`apply_ended`."""

        def ended(end: ApplyEnd | None) -> None:
            if end is not None:
                self.apply_ended(end)

        self.app.push_screen(ApplyScreen(review), ended)

    def apply_ended(self, end: ApplyEnd) -> None:
        """Says what was done. Screens that show the proposal leave, or read it again."""
        if end.outcome is not None:
            self._say_applied(end.outcome)
        if end.rebased is not None:
            self._say_rebased(end.rebased)

    def _say_applied(self, done: ApplyOutcome) -> None:
        told = f"{short(done.branch)} is now {done.new[:10]} ({done.mode})"
        if done.partial:
            told += f"; {done.accepted} accepted, {done.left} left in the box; {done.combination}"
        elif done.combination:
            told += f"; merged: {done.combination}"
        self.notify(visible(told), title="applied", markup=False, timeout=10)
        for note in done.notes:
            self.notify(visible(note), severity="warning", markup=False, timeout=15)

    # ------------------------------------------------------------ undo

    def do_unapply(self) -> None:
        row = self.subject()
        if row is None:
            return
        self.ask(partial(self.workbench.engine.plan_unapply, row.key), partial(self._ask_unapply, row))

    def _ask_unapply(self, row: BoxRow, plan: UnapplyPlan) -> None:
        if self.app.screen is not self:  # the person went on meanwhile; nothing pops up over what they do
            return
        engine = self.workbench.engine

        def answered(yes: bool | None) -> None:
            if yes:
                self.ask(
                    partial(engine.unapply, row.key, seen=plan),
                    partial(self.unapplied, row),
                    doing="the apply is being undone",
                    key=row.key,
                )

        dialog = ConfirmScreen(
            f"Undo the last apply of {row.name}", unapply_paragraphs(plan, row.name), "Undo"
        )
        self.app.push_screen(dialog, answered)

    def unapplied(self, row: BoxRow, done: UnapplyOutcome) -> None:
        """Says what went back."""
        where = f"is at {done.new[:10]} again" if done.new else "is gone again"
        told = f"{short(done.branch)} {where}; {row.name} is {done.state}"
        self.notify(visible(told), title="undone", markup=False, timeout=10)

    # ------------------------------------------------------------ rebase

    def do_rebase(self) -> None:
        row = self.subject()
        if row is None:
            return
        branch = runs(short(row.base_ref), "strong")
        gained = (
            f"{row.drift} commits" if row.drift and row.drift > 1 else "1 commit" if row.drift else "what it"
        )
        rows: list[Paragraph] = [
            line("Merges ", gained, " gained on ", *branch, " since ", (row.base[:12], "accent")),
            line("into the box's files; from then on the box is compared with the branch's tip."),
            (),
            line(
                ("Your branch and your checkout stay. Where both changed the same lines the box's", "quiet")
            ),
            line(("files get conflict marks, to be solved in the box. A proposal is taken back.", "quiet")),
        ]
        engine = self.workbench.engine

        def answered(yes: bool | None) -> None:
            if yes:
                self.ask(
                    partial(engine.rebase, row.key),
                    partial(self.rebased, row),
                    doing="the box is being brought onto its branch",
                    key=row.key,
                )

        self.app.push_screen(ConfirmScreen(f"Rebase {row.name}", rows, "Rebase"), answered)

    def rebased(self, row: BoxRow, done: RebaseOutcome) -> None:
        """Says what the box holds now."""
        self._say_rebased(done)

    def _say_rebased(self, done: RebaseOutcome) -> None:
        told = f"on {short(done.branch)} at {done.new[:10]}: {done.written} files of the box changed"
        if not done.conflicts:
            self.notify(visible(told), title="rebased", markup=False, timeout=10)
            return
        names = ", ".join(visible(path) for path, _ in done.conflicts[:LISTED])
        more = f" and {len(done.conflicts) - LISTED} more" if len(done.conflicts) > LISTED else ""
        self.notify(
            f"{visible(told)}; to be solved in the box: {names}{more}",
            title="rebased, with conflicts",
            severity="warning",
            markup=False,
            timeout=20,
        )
