"""Attacks on grants by renaming: masks follow what was denied, links are not followed at launch (S2)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.errors import Refused
from backends.tiers import grants
from tests.boundary import harness


@pytest.fixture
def granted() -> Iterator[Path]:
    """A folder of the host that the payload may write in, with a secret beside it."""
    top = Path(tempfile.mkdtemp(prefix="cloche-masks-"))
    top.chmod(0o755)
    for name in ("W/sub", "W/a/b", "secret/b"):
        (top / name).mkdir(parents=True)
    (top / "W/sub/secret").write_text("DENIEDSECRET")
    (top / "W/a/b/key").write_text("innocent")
    (top / "secret/b/key").write_text("OUTSIDE")
    for folder, _, files in os.walk(top):
        os.chmod(folder, 0o755 if folder == str(top) else 0o777)
        for name in files:
            os.chmod(f"{folder}/{name}", 0o666)
    yield top
    shutil.rmtree(top)


def test_a_renamed_parent_and_a_decoy_do_not_uncover_what_was_denied(granted: Path, tmp_path: Path) -> None:
    write = granted / "W"
    wanted = harness.spec(
        harness.policy(write=[str(write)], deny=[str(write / "sub/secret")]), tmp_path / "boxes"
    )
    with harness.launched(wanted) as box:
        assert "DENIED" not in box.sh(f"cat {write}/sub/secret").out
        moved = box.sh(
            f"cd {write} && mv sub sub2 && mkdir sub && echo decoy > sub/secret && cat sub2/secret"
        )
        assert "DENIED" not in moved.out
        assert (write / "sub2/secret").read_text() == "DENIEDSECRET"
    with pytest.raises(Refused) as refused, harness.launched(wanted):
        pass
    assert refused.value.code == "deny-moved"
    assert str(write / "sub/secret") in refused.value.why
    shutil.rmtree(write / "sub")
    (write / "sub2").rename(write / "sub")
    with harness.launched(wanted) as box:
        assert "DENIED" not in box.sh(f"cat {write}/sub/secret").out


def test_a_decoy_that_comes_after_the_plan_stops_the_launch(
    granted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = granted / "W"

    def exchange() -> None:
        (write / "sub").rename(write / "sub2")
        (write / "sub").mkdir()
        (write / "sub/secret").write_text("decoy")

    _after_plan(monkeypatch, exchange)
    chosen = harness.policy(write=[str(write)], deny=[str(write / "sub/secret")])
    with pytest.raises(Refused) as refused, harness.launched(harness.spec(chosen, tmp_path / "boxes")):
        pass
    assert refused.value.code == "launch-grant"


def _after_plan(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Does ``act``, what another live box could do, between the judging of the grants and their mounting."""
    real = grants.plan

    def plan(*args: Any, **named: Any) -> grants.Plan:
        made = real(*args, **named)
        act()
        return made

    monkeypatch.setattr(grants, "plan", plan)


@pytest.mark.parametrize(
    ("read", "write"),
    [(["W/a/b"], []), ([], ["W/a/b"]), (["W/a/b/key"], []), ([], ["W/a/b/key"]), ([], ["W", "W/a/b"])],
)
def test_a_link_swapped_in_between_plan_and_mount_is_not_followed(
    read: list[str], write: list[str], granted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (granted / "W/a").rename(granted / "W/aside")
        (granted / "W/a").symlink_to(granted / "secret")

    chosen = harness.policy(
        read=[str(granted / name) for name in read], write=[str(granted / name) for name in write]
    )
    _after_plan(monkeypatch, swap)
    with pytest.raises(Refused) as refused, harness.launched(harness.spec(chosen, tmp_path / "boxes")):
        pass
    assert refused.value.code in ("launch-grant", "launch-overlay")
    assert "W/a/b" in refused.value.why
    assert sorted(path.name for path in (granted / "secret").rglob("*")) == ["b", "key"]


def test_nothing_is_made_on_the_host_where_a_link_below_a_write_grant_leads(
    granted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of a grant below a write grant lies in the host's folder, where a box puts links."""

    def swap() -> None:
        shutil.rmtree(granted / "W/a")
        (granted / "W/a").symlink_to(granted / "secret")

    chosen = harness.policy(write=[str(granted / "W"), str(granted / "W/a/deep")])
    (granted / "W/a/deep").mkdir()
    _after_plan(monkeypatch, swap)
    with pytest.raises(Refused), harness.launched(harness.spec(chosen, tmp_path / "boxes")):
        pass
    assert not (granted / "secret/deep").exists()


def test_a_grant_above_cloches_own_records_launches_without_them(home: object) -> None:
    """The records hide twice, as a whole and as the box's repository key: one whiteout serves both."""
    state = Path(os.environ["XDG_STATE_HOME"])
    boxes = state / "cloche"
    boxes.mkdir(parents=True, exist_ok=True)
    for folder in (state.parent, state):
        folder.chmod(0o755)
    (state / "beside").write_text("shown")
    wanted = harness.spec(harness.policy(read=[str(state.parent)]), boxes)
    with harness.launched(wanted) as box:
        assert box.sh(f"cat {state}/beside").out == "shown"
        assert "No such file" in box.sh(f"ls {boxes}").err
