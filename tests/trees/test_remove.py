"""Removal takes everything below a folder, whatever a box left there, and nothing outside."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from backends.errors import Busy, ClocheError
from backends.trees.remove import remove


@pytest.mark.boundary
def test_a_link_in_a_read_only_folder_opens_no_host_file(tmp_path: Path) -> None:
    """S17: removal that changes modes by name would open the secret to everybody."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o400)
    vault = tmp_path / "vault"
    vault.mkdir(mode=0o500)
    doomed = tmp_path / "doomed" / "d"
    doomed.mkdir(parents=True)
    os.symlink(secret, doomed / "link")
    os.symlink(vault, doomed / "folder")
    doomed.chmod(0o555)
    remove(tmp_path / "doomed")
    assert not (tmp_path / "doomed").exists()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o400
    assert stat.S_IMODE(vault.stat().st_mode) == 0o500
    assert secret.read_text() == "secret"


def test_folders_without_any_permission_are_removed(tmp_path: Path) -> None:
    work = tmp_path / "doomed" / "work" / "work"
    work.mkdir(parents=True)
    (work / "f").write_text("x")
    work.chmod(0)
    (tmp_path / "doomed" / "work").chmod(0o111)
    remove(tmp_path / "doomed")
    assert not (tmp_path / "doomed").exists()


@pytest.mark.boundary
def test_a_nesting_deeper_than_paths_and_descriptors_reach_is_removed(tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    fd = os.open(doomed, os.O_RDONLY)
    for number in range(3000):
        os.mkdir("folder", dir_fd=fd)
        if number % 100 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        below = os.open("folder", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.fchmod(fd, 0)
    os.close(fd)
    remove(doomed)
    assert list(tmp_path.iterdir()) == []


def test_a_link_itself_goes_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "f").write_text("x")
    os.symlink(tmp_path / "target", tmp_path / "link")
    remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (tmp_path / "target" / "f").exists()


def test_what_is_gone_already_is_fine(tmp_path: Path) -> None:
    remove(tmp_path / "nothing")


def test_every_kind_of_file_is_removed(tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    os.mkfifo(doomed / "pipe")
    with open(os.fsencode(doomed) + b"/\xff\n-rf", "w"):
        pass
    os.symlink("/", doomed / "root")
    remove(doomed)
    assert not doomed.exists()


@pytest.mark.boundary
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_mount_below_refuses_removal(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that nothing stays mounted on this host."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("x")
    (tmp_path / "doomed" / "a b").mkdir(parents=True)
    code = "from pathlib import Path; from backends.trees.remove import remove; remove(Path('doomed'))"
    script = f"mount --bind outside 'doomed/a b' && exec {sys.executable} -c \"{code}\""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert "Busy" in done.stderr
    assert "a b" in done.stderr
    assert (tmp_path / "outside" / "precious").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an unprivileged user")
def test_what_cannot_go_is_said(tmp_path: Path) -> None:
    holder = tmp_path / "holder"
    (holder / "doomed").mkdir(parents=True)
    holder.chmod(0o555)
    with pytest.raises(ClocheError) as error:
        remove(holder / "doomed")
    assert "Permission denied" in error.value.why
    holder.chmod(0o755)
    assert not isinstance(error.value, Busy)
