"""A peer that cannot be had is a row with the reason, whatever the reason is."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from bench import peer, peer_sandlock, peers, rows
from bench.peer import Absent, Command, Unavailable
from bench.peer_podman import write_image


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_without_any_peer_every_row_of_theirs_has_its_reason(tmp_path: Path, nothing_installed: None) -> None:
    found = peers.Peers(tmp_path / "cache", tmp_path, install=False)
    assert found.once() == {}
    assert found.absent == {
        rows.BWRAP: "bwrap is not installed (Debian: apt-get install bubblewrap)",
        rows.SRT: "it needs bwrap, socat, rg (Debian: apt-get install bubblewrap socat ripgrep)",
        rows.SANDLOCK: peer.NOT_INSTALLED,
        rows.SANDLOCK_COLD: peer.NOT_INSTALLED,
        rows.PODMAN: "podman is not installed (Debian: apt-get install podman)",
        rows.PODMAN_EXEC: "podman is not installed (Debian: apt-get install podman)",
    }
    assert set(found.absent) < rows.NAMES
    found.close()


def test_a_peer_is_present_only_after_it_ran_once(tmp_path: Path) -> None:
    good = Command((script(tmp_path / "good", "exit 0"),), {}, "1")
    assert peer.found(lambda: good) == good
    bad = Command((script(tmp_path / "bad", "echo first; echo 'no such feature' >&2; exit 3"),), {}, "1")
    assert peer.found(lambda: bad) == Absent("bad ended with 3: no such feature")
    silent = Command((script(tmp_path / "silent", "exit 1"),), {}, "1")
    assert peer.found(lambda: silent) == Absent("silent ended with 1: without a word")
    gone = Command((str(tmp_path / "gone"),), {}, "1")
    assert peer.found(lambda: gone) == Absent("gone is not installed")


def test_a_peer_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="slow did not end within"):
        peer.call([script(tmp_path / "slow", "exec sleep 60")], limit=0.2)


def test_an_interpreter_without_sandlock_is_refused_with_its_own_words(tmp_path: Path) -> None:
    python = script(
        tmp_path / "python", "echo \"ModuleNotFoundError: No module named 'sandlock'\" >&2; exit 1"
    )
    with pytest.raises(Unavailable, match="No module named 'sandlock'"):
        peer_sandlock.Sandlock(Path(python))


def test_a_sandlock_that_answers_with_words_is_refused(tmp_path: Path) -> None:
    python = script(
        tmp_path / "python",
        'case "$2" in *import*Sandbox*) echo 0.1; read x; echo failed: no Landlock;; esac',
    )
    with pytest.raises(Unavailable, match="failed: no Landlock"):
        peer_sandlock.Sandlock(Path(python))


def test_an_image_holds_two_programs_and_what_they_load(tmp_path: Path) -> None:
    write_image(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as image:
        names = image.getnames()
        assert all(member.isfile() for member in image)
    assert {"usr/bin/true", "usr/bin/sleep"} <= set(names)
    assert any("ld-linux" in name for name in names)
