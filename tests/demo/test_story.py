"""The demonstration from end to end: real boxes, told as text, then removed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.demo import cast, sample
from tests.conftest import Home
from tests.support import Done, cloche_argv, live_records, run

pytestmark = [pytest.mark.flow]


def section(story: str, box: str) -> str:
    """What the story tells of one box."""
    parts = re.split(r"^--- \d\. ([\w-]+):", story, flags=re.M)
    return parts[parts.index(box) + 1]


@pytest.fixture
def story(home: Home, monkeypatch: pytest.MonkeyPatch) -> Done:
    monkeypatch.setenv("XDG_DATA_HOME", str(home.root / "d"))
    return run(cloche_argv("demo", "--text"), cwd=home.root, timeout=120)


def test_the_story_shows_trees_refusals_and_diffs_and_then_goes_away(story: Done, home: Home) -> None:
    assert story.code == 0, story.err
    assert [part for part in cast.parts() if cast.absent(part)] == [], "every part has to be played here"

    fix = section(story.out, "fix-watering")
    assert "http.server" in fix, "the daemon that left its parent is in the tree"
    assert "+        return 0" in fix
    tidy = section(story.out, "tidy-notes")
    assert "GOT IT" not in tidy
    for tried in ("/etc/shadow", "198.51.100.7"):
        assert tried in tidy.split("$ cloche denials")[1]
    bump = section(story.out, "bump-label")
    assert "node setup.js" in bump, "the report shows the script that nobody typed"
    assert "/etc/shadow" in bump
    warned = "package-lock.json: node_modules/plant-label runs a program when it is installed"
    assert f"warn: {warned}" in bump and f"warn    package-script  {warned}" in bump
    changed = [line for line in bump.splitlines() if line.startswith("diff --git")]
    assert {line.rpartition(" b/")[2] for line in changed} == {"package.json", "package-lock.json"}

    removed = run(cloche_argv("demo", "--remove", "--json"), cwd=home.root)
    assert json.loads(removed.out)["removed"] is True
    assert list((home.root / "d").iterdir()) == []
    assert list(live_records(home.state)) == []
    assert list(home.state.glob("cloche/*/*/manifest.json")) == []


def test_removal_without_a_demonstration_says_so(home: Home) -> None:
    done = run(cloche_argv("demo", "--remove"), cwd=home.root)
    assert (done.code, done.out) == (0, "there is no demonstration to remove\n")


def test_a_second_demonstration_begins_anew(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(home.root / "d"))
    for _ in range(2):
        done = run(cloche_argv("demo", "--json"), cwd=home.root)
        assert done.code == 0, done.err
        Path(sample.folder(), "left-by-hand").write_text("x")
    assert run(cloche_argv("demo", "--remove"), cwd=home.root).code == 0
    assert not sample.folder().exists()
