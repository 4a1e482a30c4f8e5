"""The isolation matrix of this host: the table's rows, with what the proofs of the tiers say of each cell.

Pure: the table and claims in, rows out. No score: a row is a set of promises, each with what it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backends.host import proofs_talk
from backends.host.matrix_explained import EXPLAINED
from backends.host.matrix_technologies import TECHNOLOGIES
from backends.host.matrix_tiers import TIERS
from backends.host.matrix_words import COLUMNS, MEASURED, READ, Cell, Row
from backends.policy.escapes import BY_ID, NETWORK, Deleted
from backends.snapshots_matrix import MatrixCell, MatrixDeletion, MatrixRow
from backends.values import Claim

ROWS: tuple[Row, ...] = (*TIERS, *TECHNOLOGIES, *EXPLAINED)
NAMES: dict[str, str] = {row.id: row.name for row in ROWS}
PROVED, FAILED, NOT_RUN = "proved", "failed", "not run"
ABSENT = "not in this version"
NOT_MEASURED = "not measured"
STARTED = proofs_talk.STARTED_CLAIM[0]


def rows(claims: Sequence[Claim], built: Iterable[str]) -> tuple[MatrixRow, ...]:
    """Every row. A claim's id is a tier's name (its verdict) or ``tier.claim``; ``built``: known tiers."""
    have = frozenset(built)
    return tuple(_row(row, claims, have, probed=True) for row in ROWS)


def of_box(
    tier: str, claims: Sequence[Claim], deleted: Sequence[Deleted], host: Sequence[Claim], network: str
) -> MatrixRow:
    """The row of one box.

    ``claims`` are those of its last launch (ids without the tier), ``deleted`` what its policy deletes,
    ``host`` what this host proves now (as for :func:`rows`), ``network`` what the policy asks for.
    """
    row = next(one for one in TIERS if one.id == tier)
    own = [claim._replace(id=f"{tier}.{claim.id.removeprefix(f'{tier}.')}") for claim in claims]
    everything = [claim for claim in host if claim.id in (tier, f"{tier}.{STARTED}")] + own
    made = _row(row, everything, frozenset((tier,)), probed=False)
    cells = []
    for cell in made.cells:
        found = tuple(
            MatrixDeletion(one.id, one.text, one.key, one.value, one.where)
            for one in deleted
            if cell.column in one.columns
        )
        short = network if cell.column == NETWORK else cell.short
        cells.append(cell._replace(short=short, deleted_by=found))
    return made._replace(cells=tuple(cells))


def _row(row: Row, claims: Sequence[Claim], built: frozenset[str], *, probed: bool) -> MatrixRow:
    state, evidence = "", ""
    known = {claim.id: claim for claim in claims}
    if row.kind == "tier":
        verdict = known.get(row.id)
        state = NOT_RUN if verdict is None else verdict.result
        evidence = "" if verdict is None else verdict.evidence
        if row.id not in built:
            state = ABSENT
    written = {cell.column: cell for cell in row.cells}
    cells = tuple(
        _measured(row, known.get(f"{row.id}.{STARTED}"))
        if column == MEASURED
        else _cell(row, written[column], known, probed)
        for column, _ in COLUMNS
    )
    read = READ if row.sources else ""
    return MatrixRow(row.id, row.name, row.kind, cells, state, evidence, row.sources, read)


def _cell(row: Row, cell: Cell, known: dict[str, Claim], probed: bool) -> MatrixCell:
    """A cell of the host rests on what a probe tries as well, a box's on what its own init tried."""
    names = (*cell.claims, *cell.probed) if probed else cell.claims
    wanted = [f"{row.id}.{ident}" for ident in names]
    held = tuple(known[ident] for ident in wanted if ident in known)
    deletions = tuple(MatrixDeletion(ident, BY_ID[ident].what, "", "", "") for ident in cell.deleted_by)
    return MatrixCell(cell.column, cell.short, cell.text, held, _result(wanted, held), deletions)


def _result(wanted: Sequence[str], held: Sequence[Claim]) -> str:
    """A cell is proved when everything that it rests on is; one failure is enough to fail it."""
    if not wanted:
        return ""
    if any(claim.result == FAILED for claim in held):
        return FAILED
    if len(held) == len(wanted) and all(claim.result == PROVED for claim in held):
        return PROVED
    return NOT_RUN


def _measured(row: Row, started: Claim | None) -> MatrixCell:
    if row.kind != "tier" or started is None or started.result != PROVED:
        text = "Nothing of it was started on this host."
        return MatrixCell(MEASURED, NOT_MEASURED, text, (), "", ())
    took = f"{started.duration * 1000:.0f} ms"
    text = f"{took} on this host until a minimal box had started, run a program and ended."
    return MatrixCell(MEASURED, took, text, (), "", ())
