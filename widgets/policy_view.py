"""What a box received: five answers, then claims with their proofs, then each value as it was enforced."""

from __future__ import annotations

from backends.snapshots import BoxStatus, Claim, EgressRow, Enforcement
from widgets import marks, units
from widgets.egress import egress_paragraphs
from widgets.ink import Line, line, tint
from widgets.lines import Document
from widgets.visible import fitted, runs

Paragraph = tuple[Line, int]


def heading(text: str) -> Paragraph:
    return line((text, "title")), 0


def answer_paragraphs(answers: tuple[tuple[str, str], ...]) -> list[Paragraph]:
    rows: list[Paragraph] = []
    for question, answer in answers:
        rows.append((line(("? ", "accent"), *runs(question, "quiet")), 2))
        rows.append((line("  ", *runs(answer, "strong")), 2))
    return rows


def claim_paragraph(claim: Claim) -> Paragraph:
    sign, ink = marks.RESULTS.get(claim.result, ("?", "look"))
    text = line((f"{sign} ", ink), (f"{claim.result:<8} ", ink), *runs(claim.text))
    proof = line(("  proof: ", "quiet"), *runs(claim.evidence, "quiet"))
    took = f"  {claim.duration * 1000:.1f} ms" if claim.duration else ""
    return line(*text, *proof, (took, "faint")), 11


def enforcement_paragraph(row: Enforcement, width: int) -> Paragraph:
    parts = line((f"{row.key:<{width}} ", "accent"), *runs(row.requested or "not set"))
    if row.enforced:
        parts = line(*parts, ("  enforced ", "live"), *runs(row.enforced))
    if row.missing:
        parts = line(*parts, ("  not enforced ", "look strong"), *tint(runs(row.missing), "look"))
    how = " · ".join(part for part in (row.mechanism, row.proof) if part)
    return line(*parts, ("  ", ""), *runs(how, "quiet")), width + 1


Origin = tuple[str, str, str]
"""Key, value, and the file and line (or the built-in profile) that the value came from."""


def origin_paragraph(origin: Origin, width: int) -> Paragraph:
    key, value, source = origin
    return line(
        *fitted(key, width, "accent"), " ", *runs(value), ("  ", ""), *runs(source, "quiet")
    ), width + 1


def status_paragraphs(
    status: BoxStatus, origins: tuple[Origin, ...] = (), egress: tuple[EgressRow, ...] | str = ""
) -> list[Paragraph]:
    """The whole policy tab as wrapped paragraphs."""
    row = status.row
    rows: list[Paragraph] = []
    if row.unconfined:
        rows.append(
            (
                line(
                    ("! nothing confines this box: ", "look strong"),
                    ("it runs as you, and its journal is within its reach", "look"),
                ),
                2,
            )
        )
        rows.append(((), 0))
    rows.append(heading("Five questions"))
    rows += answer_paragraphs(status.answers)
    rows.append(((), 0))
    if destinations := egress_paragraphs(egress):
        rows += [*destinations, ((), 0)]
    rows.append(heading(f"Claims of tier {row.tier}"))
    rows += [claim_paragraph(claim) for claim in status.claims] or [
        (line(("? not run: claims are proved when the box is launched", "idle")), 2)
    ]
    rows.append(((), 0))
    rows.append(heading("Values"))
    width = max((len(item.key) for item in status.enforcement), default=0)
    rows += [enforcement_paragraph(item, width) for item in status.enforcement] or [
        (line(("shown after the first launch", "idle")), 2)
    ]
    if origins:
        rows += [((), 0), heading("Where each value comes from")]
        width = max(len(key) for key, _, _ in origins)
        rows += [origin_paragraph(origin, min(width, 28)) for origin in origins]
    rows.append(((), 0))
    rows.append(
        (
            line(
                ("profile ", "quiet"),
                *runs(row.profile),
                ("  policy ", "quiet"),
                status.policy_digest,
                ("  tree ", "quiet"),
                status.tree_provider,
            ),
            2,
        )
    )
    if status.launch_host:
        rows.append((line(("launched on ", "quiet"), *runs(status.launch_host)), 2))
    rows.append((line(("made ", "quiet"), units.moment(row.created)), 2))
    return rows


class PolicyView(Document):
    """The Policy tab."""

    def set_status(
        self,
        status: BoxStatus,
        origins: tuple[Origin, ...] = (),
        egress: tuple[EgressRow, ...] | str = "",
    ) -> None:
        self.set_paragraphs(status_paragraphs(status, origins, egress))

    def say(self, text: str, ink: str = "idle") -> None:
        """A sentence in place of the policy: why it cannot be shown."""
        self.set_paragraphs([runs(text, ink)])
