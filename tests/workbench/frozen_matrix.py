"""What the frozen engine answers about the isolation matrix: the real table, with claims of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.host import matrix
from backends.host.claims import stated
from backends.host.matrix_projects import PROJECTS
from backends.host.matrix_words import COLUMNS
from backends.keeper.init_proofs import CLAIMS
from backends.policy.escapes import Deleted
from backends.snapshots import Claim
from backends.snapshots_matrix import Matrix, Project

PROVED = (
    Claim("process", "the process tier holds", "proved", "a box started and ended", 0.018),
    *(
        Claim(f"process.{one.id}", one.text, "proved", "refused", 0.001)
        for one in stated("process")
        if one.id
    ),
    Claim("supervised", "", "failed", "nf_tables cannot be loaded", 0.0),
)
DELETED = (
    Deleted(
        "credentials",
        ("privilege",),
        "fs.read",
        "/home/dev/.ssh",
        "gives the box your SSH keys",
        "cloche.toml:9",
    ),
    Deleted(
        "host-network", ("network",), "net.mode", "host", "every destination is reached", "cloche.toml:12"
    ),
)


class FrozenMatrix:
    """The verbs of this, for the frozen engine."""

    wait: Callable[[str, str], None]
    asked: list[tuple[str, Any]]
    matrix_claims: tuple[Claim, ...] = PROVED

    def matrix(self, ref: str | None = None) -> Matrix:
        self.asked.append(("matrix", ref))
        self.wait("matrix", ref or "")
        if ref is None:
            rows = matrix.rows(self.matrix_claims, ("workspace", "process", "supervised"))
            return Matrix(COLUMNS, rows, "", 1.0, False)
        claims = tuple(Claim(ident, text, "proved", "refused", 0.001) for ident, text in CLAIMS)
        row = matrix.of_box("process", claims, DELETED, self.matrix_claims, "the host's")
        return Matrix(COLUMNS, (row,), ref, 1.0, True, ("hang=process",))

    def projects(self) -> tuple[Project, ...]:
        return PROJECTS
