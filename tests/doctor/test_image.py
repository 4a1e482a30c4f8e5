"""An image is what the policy pins by digest, or the box is told of."""

from __future__ import annotations

import pytest

from backends.boxes.layout import BoxPaths
from backends.doctor import examine, image
from backends.policy import canonical
from backends.policy.model import Policy

PIN = "registry.example/dev@sha256:" + "0" * 64


@pytest.mark.parametrize(("name", "verdict"), [(PIN, ["ok"]), ("dev:latest", ["fail"]), ("", [])])
def test_an_image_without_its_digest_is_told(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch, name: str, verdict: list[str]
) -> None:
    policy: Policy = canonical.decode(box.policy.read_bytes())._replace(image=name)
    monkeypatch.setattr(image, "trusted", lambda *_: policy)
    rows = image.check(examine.opened(box, None))
    assert [row.verdict for row in rows] == verdict
    assert all(row.evidence == name for row in rows)
