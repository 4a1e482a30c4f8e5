"""What a box promises less than its tier is one sentence, which travels with it to wherever it is shown."""

from __future__ import annotations

import pytest

from backends.policy.caveat import EMULATED, ROOTFUL, caveat
from tests.policy.test_canonical import EXAMPLE


@pytest.mark.parametrize(
    ("tier", "rootful", "accelerator", "said"),
    [
        ("container", False, "hardware", ""),
        ("container", True, "hardware", ROOTFUL),
        ("microvm", False, "hardware", ""),
        ("microvm", False, "tcg", EMULATED),
        ("process", True, "tcg", ""),  # neither key means anything there, and is refused
    ],
)
def test_less_than_the_tier_promises_is_said(tier: str, rootful: bool, accelerator: str, said: str) -> None:
    assert caveat(EXAMPLE._replace(tier=tier, rootful=rootful, accelerator=accelerator)) == said
