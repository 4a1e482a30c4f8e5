"""The isolation matrix says nothing that is not in its table, and marks nothing that was not proved."""

from __future__ import annotations

import datetime
from collections import Counter

import pytest

from backends import tiers
from backends.host import claims, matrix, matrix_reference
from backends.host.matrix_explained import EXPLAINED
from backends.host.matrix_projects import PROJECTS
from backends.host.matrix_technologies import TECHNOLOGIES
from backends.host.matrix_tiers import TIERS
from backends.host.matrix_words import COLUMNS, MEASURED, READ, Row
from backends.keeper import init_proofs
from backends.policy import model
from backends.policy.escapes import BY_ID, DELETIONS, Deleted
from backends.policy.fit import IMAGE_TIERS
from backends.snapshots_matrix import MatrixCell, MatrixRow
from backends.values import Claim
from tests.support import ROOT

STATED = tuple(one for one in claims.stated("process") if one.id not in ("", "started"))
CLAIMS = tuple(Claim(f"process.{one.id}", one.text, "proved", "tried", 0.001) for one in STATED)
VERDICT = Claim("process", "holds", "proved", "a box ended", 0.8)
STARTED = Claim("process.started", "starts", "proved", "true ended", 0.0384)
WRITTEN = [ident for ident, _ in COLUMNS if ident != MEASURED]


def row_of(ident: str, *proved: Claim) -> MatrixRow:
    rows = matrix.rows(proved, ("workspace", "process", "supervised"))
    return next(row for row in rows if row.id == ident)


def cell_of(row: MatrixRow, column: str) -> MatrixCell:
    return next(cell for cell in row.cells if cell.column == column)


def test_the_document_is_made_from_the_tables() -> None:
    text = (ROOT / "docs" / "matrix.md").read_text()
    assert text == matrix_reference.render(), "run: python -m backends.host.matrix_reference > docs/matrix.md"


def test_every_tier_and_every_way_that_people_compare_has_one_row() -> None:
    assert tuple(row.id for row in TIERS) == model.TIERS
    assert [row.name for row in TECHNOLOGIES] == [
        "a plain process",
        "rootful container",
        "rootless container",
        "gVisor",
        "Firecracker",
        "Kata Containers",
    ]
    assert [row.name for row in EXPLAINED] == ["WASM, V8 isolates", "bubblewrap, nsjail", "full VM"]
    assert len(matrix.NAMES) == len(matrix.ROWS)


@pytest.mark.parametrize("row", matrix.ROWS, ids=lambda row: row.id)
def test_a_row_fills_each_column_with_a_sentence(row: Row) -> None:
    assert [cell.column for cell in row.cells] == WRITTEN
    for cell in row.cells:
        assert 0 < len(cell.short) <= 20
        assert cell.text.endswith(".") and len(cell.text) > len(cell.short)


def test_cells_rest_on_claims_that_a_launch_proves_and_name_deletions_that_are_explained() -> None:
    by_init = {ident for ident, _ in init_proofs.CLAIMS}
    for row in TIERS:
        tried = {one.id for one in claims.stated(row.id)} if row.id in tiers.MODULES else set()
        launched = tried - {"", "started"} if row.id in IMAGE_TIERS else by_init
        for cell in row.cells:
            assert set(cell.claims) <= launched
            assert set(cell.probed) <= tried - launched
    used = {ident for row in matrix.ROWS for cell in row.cells for ident in cell.deleted_by}
    assert used == set(BY_ID) and len(BY_ID) == len(DELETIONS)


@pytest.mark.parametrize("row", matrix.ROWS, ids=lambda row: row.id)
def test_a_cell_is_deleted_only_by_what_deletes_its_column(row: Row) -> None:
    wrong = [
        (cell.column, ident)
        for cell in row.cells
        for ident in cell.deleted_by
        if cell.column not in BY_ID[ident].columns
    ]
    assert wrong == []


def test_only_our_own_tiers_are_proved_and_all_else_has_its_pages() -> None:
    for row in (*TECHNOLOGIES, *EXPLAINED):
        assert not any(cell.claims for cell in row.cells)
        assert all(source.startswith("https://") for source in row.sources)
        assert row.sources or row.id == "plain-process"
        made = row_of(row.id, VERDICT, *CLAIMS)
        assert (made.state, {cell.result for cell in made.cells}) == ("", {""})
        assert made.read == (READ if row.sources else "")


def test_a_cell_is_proved_when_everything_that_it_rests_on_is() -> None:
    row = row_of("process", VERDICT, *CLAIMS)
    assert (row.state, row.evidence) == ("proved", "a box ended")
    assert [(cell.column, cell.result) for cell in row.cells] == [
        ("filesystem", "proved"),
        ("network", "proved"),
        ("kernel", "proved"),
        ("privilege", "proved"),
        ("portability", ""),
        ("start", ""),
        ("observability", ""),
    ]
    names = [claim.id for claim in cell_of(row, "filesystem").claims]
    assert names == [
        "process.write-outside",
        "process.absent",
        "process.mount",
        "process.inherited",
        "process.denied",
        "process.landlock",
    ]


@pytest.mark.parametrize(
    ("result", "expected"), [("failed", "failed"), ("not run", "not run"), (None, "not run")]
)
def test_one_claim_that_does_not_hold_unmarks_its_cells_and_no_other(
    result: str | None, expected: str
) -> None:
    others = [claim for claim in CLAIMS if claim.id != "process.inherited"]
    if result is not None:
        others.append(Claim("process.inherited", "follows", result, "why", 0.0))
    row = row_of("process", VERDICT, *others)
    found = {cell.column: cell.result for cell in row.cells}
    assert (found["filesystem"], found["kernel"]) == (expected, expected)
    assert (found["network"], found["privilege"]) == ("proved", "proved")


def test_proofs_of_one_tier_mark_no_other() -> None:
    rows = matrix.rows((VERDICT, *CLAIMS), ("workspace", "process", "supervised"))
    marked = Counter(row.id for row in rows for cell in row.cells if cell.result == "proved")
    assert marked == {"process": 4}


def test_a_refused_tier_stays_with_the_reason() -> None:
    row = row_of("supervised", Claim("supervised", "", "failed", "nf_tables: no such file", 0.0))
    assert (row.state, row.evidence) == ("failed", "nf_tables: no such file")
    assert {cell.result for cell in row.cells} == {"", "not run"}


def test_a_tier_that_this_version_lacks_says_so() -> None:
    row = row_of("microvm")
    assert row.state == "not in this version"
    assert cell_of(row, "kernel").short == "own kernel"


def test_a_start_is_measured_here_or_not_at_all() -> None:
    start = cell_of(row_of("process", VERDICT, STARTED), "start")
    assert (start.short, start.result) == ("38 ms", "")
    for made in (
        row_of("process"),
        row_of("process", VERDICT, STARTED._replace(result="failed")),
        row_of("supervised", VERDICT, STARTED),
        row_of("firecracker", STARTED._replace(id="firecracker.started")),
    ):
        assert cell_of(made, "start").short == "not measured"


def test_a_boxs_row_has_its_own_proofs_and_what_deletes_a_cell() -> None:
    found = (
        Deleted("host-network", ("network",), "net.mode", "host", "all is reached", "cloche.toml:7"),
        Deleted("home-bind", ("filesystem", "privilege"), "fs.read", "/home/ada", "files in reach", ""),
    )
    launched = [Claim(ident, text, "proved", "tried", 0.001) for ident, text in init_proofs.CLAIMS]
    row = matrix.of_box("process", launched, found, (VERDICT, STARTED), "the host's")
    deleted = {cell.column: [one.key for one in cell.deleted_by] for cell in row.cells if cell.deleted_by}
    assert deleted == {"filesystem": ["fs.read"], "network": ["net.mode"], "privilege": ["fs.read"]}
    (why,) = cell_of(row, "network").deleted_by
    assert why == ("host-network", "all is reached", "net.mode", "host", "cloche.toml:7")
    assert cell_of(row, "network").short == "the host's"
    assert cell_of(row, "kernel").result == "proved"


def test_a_box_that_never_ran_has_proved_nothing() -> None:
    row = matrix.of_box("process", (), (), (VERDICT, STARTED, *CLAIMS), "none")
    assert [cell.result for cell in row.cells[:4]] == ["not run"] * 4
    assert (row.state, cell_of(row, "start").short) == ("proved", "38 ms")
    assert all(cell.deleted_by == () for cell in row.cells)


def test_the_seven_products_are_named_each_statement_with_its_page_or_unverified() -> None:
    assert [one.name for one in PROJECTS] == [
        "Agent Substrate",
        "E2B",
        "Modal",
        "OpenHands",
        "Claude Code",
        "Codex",
        "Daytona",
    ]
    for one in PROJECTS:
        assert one.rows and set(one.rows) <= set(matrix.NAMES)
        assert one.sandbox.verified
        for said in (one.sandbox, one.snapshot, one.remark):
            assert said.source.startswith("https://") if said.verified else said.text == "unverified"
        assert datetime.date.fromisoformat(one.read) <= datetime.date.fromisoformat(READ)
