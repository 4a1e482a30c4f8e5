"""The sample repository: what it holds, and that only our own is ever removed."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from app.demo import cast, sample
from backends.errors import Refused
from backends.policy.check import check_file
from tests.conftest import Home
from tests.support import git


@pytest.fixture
def place(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(home.root / "d"))
    sample.make(sample.folder())
    return sample.folder()


def test_it_lies_in_the_data_folder_of_the_user(place: Path, home: Home) -> None:
    assert place == home.root / "d" / "cloche" / "demo" / "greenhouse"


def test_it_is_committed_whole_on_main(place: Path) -> None:
    assert git(place, "status", "--porcelain") == ""
    assert git(place, "symbolic-ref", "--short", "HEAD") == "main"
    assert git(place, "rev-list", "--count", "HEAD") == "2"


def test_every_script_of_the_cast_is_in_it(place: Path) -> None:
    tracked = set(git(place, "ls-files").splitlines())
    for part in cast.parts():
        assert next(word for word in part.brief if word.startswith("agents/")) in tracked


def test_its_first_test_run_fails_on_the_bug_that_the_agent_fixes(place: Path) -> None:
    words = [sys.executable, "-m", "unittest", "discover", "-s", "checks", "-p", "*_check.py"]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=60)
    assert "test_rain_does_the_work" in done.stderr
    assert "FAILED (failures=1)" in done.stderr


def test_a_release_is_packed_to_the_same_bytes_each_time_and_as_npm_lays_it_out() -> None:
    assert sample.pack("1.1.0") == sample.pack("1.1.0")
    with tarfile.open(fileobj=io.BytesIO(sample.pack("1.1.0"))) as archive:
        assert archive.getnames() == ["package/index.js", "package/package.json", "package/setup.js"]


def test_the_lock_file_names_the_packed_bytes(place: Path) -> None:
    lock = json.loads((place / "package-lock.json").read_text())
    digest = hashlib.sha512((place / "vendor" / "plant-label-1.0.0.tgz").read_bytes()).digest()
    entry = lock["packages"]["node_modules/plant-label"]
    assert entry["integrity"] == "sha512-" + base64.b64encode(digest).decode()


def test_only_the_new_release_runs_a_script_when_it_is_installed() -> None:
    scripts = {}
    for release in sample.RELEASES:
        manifest = json.loads((sample.SOURCE / f"label-{release}" / "package.json").read_text())
        scripts[release] = manifest.get("scripts", {})
    assert scripts == {"1.0.0": {}, "1.1.0": {"postinstall": "node setup.js"}}


def test_a_folder_that_it_did_not_make_is_neither_overwritten_nor_removed(place: Path) -> None:
    (place / ".git" / sample.MARK).unlink()
    with pytest.raises(Refused, match="cannot be made"):
        sample.make(place)
    with pytest.raises(Refused, match="not removed"):
        sample.remove(place)
    assert (place / "README.md").is_file()


def test_a_link_in_its_place_is_not_followed(place: Path, home: Home) -> None:
    moved = home.root / "elsewhere"
    place.rename(moved)
    place.symlink_to(moved)
    with pytest.raises(Refused):
        sample.remove(place)
    assert (moved / "README.md").is_file()


def test_removal_leaves_nothing_of_it(place: Path, home: Home) -> None:
    assert sample.remove(place) is True
    assert list((home.root / "d").iterdir()) == []
    assert sample.remove(place) is False


def test_a_program_that_a_box_cannot_see_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    part = cast.parts()[2]
    monkeypatch.setattr("shutil.which", lambda name, path=None: None if path else f"/home/me/.nvm/{name}")
    why = "npm lies in /home/me/.nvm/npm, where a box does not look"
    assert cast.absent(part) == f"without bump-label: {why}. To see it: apt install npm"


def test_its_profiles_count_every_refused_look_and_grant_nothing_of_their_own(place: Path) -> None:
    found = {profile.name: profile.problem for profile in check_file(place / "cloche.toml")}
    assert found == {"demo": None, "emulated": None}
    text = (place / "cloche.toml").read_text()
    assert 'observe = "all"' in text
    assert not any(key in text for key in ("read =", "write =", "mode =", "pass ="))
