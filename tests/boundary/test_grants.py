"""From paths to steps: what is shown, hidden, replaced, and what a mount below a grant changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.kernel.mounts import MountPoint
from backends.policy.identity import identify
from backends.tiers import grants
from backends.tiers.grants import Empty, File, Folder, Layer, Link, Mask, Overlay
from tests import support
from tests.boundary import harness


@pytest.fixture
def host(tmp_path: Path) -> Path:
    tmp_path = tmp_path.resolve()
    for folder in ("sdk/lib", "sdk/bin", "cache/private", "mnt/disk", "mnt/plain"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sdk/bin/tool").write_text("x")
    (tmp_path / "mnt/file").write_text("x")
    (tmp_path / "link").symlink_to("sdk")
    return tmp_path


def plan(
    read: list[str],
    write: list[str] | None = None,
    deny: list[str] | None = None,
    mounts: list[MountPoint] | None = None,
    files: dict[str, bytes] | None = None,
    folders: list[str] | None = None,
) -> grants.Plan:
    hidden = dict(harness.hidden(write or [], deny or []))
    return grants.plan(read, write or [], deny or [], mounts or [], files or {}, folders or [], hidden)


def test_folders_files_and_links_each_become_their_step(host: Path) -> None:
    made = plan([f"{host}/sdk", f"{host}/mnt/file", f"{host}/link"])
    assert set(made.steps) == {
        Overlay(f"{host}/sdk"),
        File(f"{host}/mnt/file", False),
        Link(f"{host}/link", "sdk"),
    }
    assert made.left_out == ()


def test_what_a_granted_folder_holds_already_is_not_shown_twice(host: Path) -> None:
    assert plan([f"{host}/sdk/bin/tool", f"{host}/sdk", f"{host}/sdk/lib"]).steps == (Overlay(f"{host}/sdk"),)


def test_what_is_hidden_becomes_a_whiteout_at_the_first_part_that_is_missing(host: Path) -> None:
    made = plan([f"{host}/sdk"], deny=[f"{host}/sdk/bin/tool", f"{host}/sdk/etc/secret/key", f"{host}/other"])
    assert made.steps == (Overlay(f"{host}/sdk", (Layer("bin/tool", "hide"), Layer("etc", "hide"))),)


def test_the_boxs_own_files_and_folders_are_laid_over_a_grant_that_covers_their_place(host: Path) -> None:
    own = {f"{host}/sdk/passwd": b"box"}
    made = plan([f"{host}/sdk"], deny=[f"{host}/sdk/passwd"], files=own, folders=[f"{host}/sdk/work"])
    assert made.steps == (Overlay(f"{host}/sdk", (Layer("passwd", "file", b"box"), Layer("work", "folder"))),)
    assert plan([f"{host}/sdk/passwd"], files=own).steps == ()


def test_a_denied_grant_is_left_out_by_name(host: Path) -> None:
    assert plan([f"{host}/sdk/bin"], deny=[f"{host}/sdk"]).left_out == (
        (f"{host}/sdk/bin", "fs.deny hides it"),
    )


def test_missing_and_special_paths_are_left_out_with_the_reason(host: Path) -> None:
    os.mkfifo(host / "fifo")
    made = plan([f"{host}/gone", f"{host}/fifo", f"{host}/link/bin"])
    assert dict(made.left_out) == {
        f"{host}/gone": "No such file or directory",
        f"{host}/fifo": "neither a file, a folder nor a link",
        f"{host}/link/bin": "a folder above it has become a link since the box was made",
    }
    assert made.steps == ()


def test_write_grants_are_binds_and_mask_what_is_denied(host: Path) -> None:
    made = plan([], write=[f"{host}/cache", f"{host}/mnt/file"], deny=[f"{host}/cache/private"])
    assert made.steps == (
        Folder(f"{host}/cache"),
        Mask(f"{host}/cache/private", f"{host}/cache", identify(f"{host}/cache", f"{host}/cache/private")),
        File(f"{host}/mnt/file", True),
    )


def test_below_a_write_grant_what_does_not_exist_cannot_be_hidden(host: Path) -> None:
    with pytest.raises(Refused) as refused:
        plan([], write=[f"{host}/cache"], deny=[f"{host}/cache/later"])
    assert f"{host}/cache/later" in refused.value.why


def test_nothing_is_made_in_a_folder_of_the_host_that_is_writable(host: Path) -> None:
    (host / "cache" / "soft").symlink_to("private")
    (host / "cache" / "plain").write_text("x")
    made = plan([f"{host}/cache/soft", f"{host}/cache/plain"], write=[f"{host}/cache"])
    assert made.steps == (Folder(f"{host}/cache"),)


def test_a_mount_below_a_grant_is_shown_entry_by_entry(host: Path) -> None:
    points = [MountPoint(os.fsencode(host / "mnt/disk"), "ext4", False), MountPoint(b"/proc", "proc", False)]
    made = plan([f"{host}/mnt"], mounts=points)
    assert made.steps == (
        Empty(f"{host}/mnt"),
        Overlay(f"{host}/mnt/disk"),
        File(f"{host}/mnt/file", False),
        Overlay(f"{host}/mnt/plain"),
    )


def test_views_of_the_kernel_below_a_grant_are_left_out(host: Path) -> None:
    points = [MountPoint(os.fsencode(host / "mnt/disk"), "proc", False)]
    made = plan([f"{host}/mnt"], mounts=points)
    assert made.left_out == ((f"{host}/mnt/disk", "a proc mount"),)


def test_bound_sockets_are_found_by_their_folder(host: Path) -> None:
    table = host / "unix"
    table.write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        f"0000000000000000: 00000002 00000000 00010000 0001 01 12345 {host}/cache/a socket\n"
        f"0000000000000000: 00000002 00000000 00000000 0002 01   346 {host}/sdk/d\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 12347 @/abstract\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03  1514\n"
    )
    found = grants.listening_below([f"{host}/cache"], str(table))
    assert found == (f"{host}/cache/a socket",)
    assert grants.listening_below([str(host)], str(table)) == (f"{host}/cache/a socket", f"{host}/sdk/d")


BELOW = """
import os, socket, subprocess, sys
from tests.boundary import harness
granted = sys.argv[1]
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", granted + "/sub"], check=True)
open(granted + "/sub/inner", "w").write("inner")
listener = socket.socket(socket.AF_UNIX)
listener.bind(granted + "/sub/socket")
listener.listen()
os.chmod(granted + "/sub/socket", 0o777)
with harness.box(harness.policy(read=[granted])) as box:
    result = box.sh(f"ls {granted} {granted}/sub; cat {granted}/sub/inner; echo x > {granted}/sub/new")
    print(result.out.split(), "Read-only" in result.err)
    script = f"import socket; socket.socket(socket.AF_UNIX).connect('{granted}/sub/socket')"
    print(box.python(script).err.splitlines()[-1])
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_a_file_system_mounted_below_a_grant_is_there_and_read_only(tmp_path: Path) -> None:
    granted = tmp_path / "granted"
    (granted / "sub").mkdir(parents=True)
    (granted / "beside").write_text("beside")
    for folder in (granted, tmp_path, tmp_path.parent):
        folder.chmod(0o755)
    flags = ["-m"] if os.geteuid() == 0 else ["-U", "--map-current-user", "--keep-caps", "-m"]
    result = subprocess.run(
        ["unshare", *flags, sys.executable, "-c", BELOW, str(granted)],
        capture_output=True,
        text=True,
        cwd=support.ROOT,
        check=False,
    )
    assert result.stdout.splitlines() == [
        f"['{granted}:', 'beside', 'sub', '{granted}/sub:', 'inner', 'socket', 'inner'] True",
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ], result.stderr
