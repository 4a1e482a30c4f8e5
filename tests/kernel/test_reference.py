"""The written table of refusals is the one that runs."""

from __future__ import annotations

from backends.kernel.denied import DENIED
from backends.tiers import reference
from tests import support


def test_the_document_is_what_the_code_says() -> None:
    written = (support.ROOT / "docs" / "tiers.md").read_text(encoding="utf-8")
    assert written == reference.render(), "run: python -m backends.tiers.reference > docs/tiers.md"


def test_every_refused_call_has_a_reason_and_stands_once_in_order() -> None:
    names = [row.name for row in DENIED]
    assert names == sorted(set(names))
    assert all(row.reason for row in DENIED)
