"""An image is what the policy pins by digest, or the box is told of."""

from __future__ import annotations

import pytest

from backends.boxes.layout import BoxPaths
from backends.doctor import examine, image
from backends.policy import canonical
from backends.policy.model import Policy
from backends.snapshots import Finding

PIN = "registry.example/dev@sha256:" + "0" * 64


def looked_at(box: BoxPaths, monkeypatch: pytest.MonkeyPatch, name: str) -> list[Finding]:
    policy: Policy = canonical.decode(box.policy.read_bytes())._replace(image=name)
    monkeypatch.setattr(image, "trusted", lambda *_: policy)
    return image.check(examine.opened(box, None))


def test_an_image_without_its_digest_is_told(box: BoxPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = looked_at(box, monkeypatch, "dev:latest")
    assert (row.verdict, row.evidence) == ("fail", "dev:latest")
    assert looked_at(box, monkeypatch, "") == []


def test_an_image_that_the_store_has_no_more_is_told(box: BoxPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = looked_at(box, monkeypatch, PIN)
    assert row.verdict == "fail" and f"{PIN.partition('@')[2][:19]} is gone" in row.text
    assert "cloche image ls" in row.remedy
