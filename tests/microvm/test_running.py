"""A box of tier ``microvm`` runs commands like any other box, in a guest that stays for the next one."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper import client
from backends.kernel import procfs
from backends.trees.mapped import MODE
from tests import support
from tests.microvm.world import Guests, monitors


@pytest.fixture(scope="module")
def box(world: Guests) -> Path:
    return world.new("plain")


def test_commands_run_under_another_kernel_and_status_says_which(world: Guests, box: Path) -> None:
    done = world.run("plain", "uname -r; pwd; id -u")
    assert done.code == 0, done.err
    kernel, place, uid = done.out.split()
    assert kernel != os.uname().release
    assert place == "/work"
    assert int(uid) == box.joinpath("tree").stat().st_uid != 0
    facts = world.live(box)["facts"]
    assert facts["kernel"] == kernel
    assert facts["accelerator"] == "tcg: emulated, about 13 times slower, no isolation promised"
    assert facts["image_digest"].startswith("sha256:")
    [image] = [row for row in world.live(box)["enforcement"] if row[0] == "image"]
    assert image[3] == "it has no git"
    shown = world.cloche("status", "plain").out
    assert "no isolation promised" in shown
    assert kernel in shown
    assert facts["image_digest"] in shown
    [claim] = world.live(box)["claims"]
    assert (claim[0], claim[2]) == ("guest-kernel", "proved")


def test_streams_and_the_exit_code_pass_through(world: Guests, box: Path) -> None:
    done = world.run("plain", "cat; echo err >&2; exit 7", stdin=b"in\n")
    assert (done.code, done.out, done.err) == (7, "in\n", "err\n")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("false",), 1),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
        (("/work",), 126),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
    ],
)
def test_a_command_ends_as_it_would_on_the_host(
    world: Guests, box: Path, argv: tuple[str, ...], code: int
) -> None:
    assert world.cloche("run", "plain", "--", *argv).code == code


def test_much_passes_both_ways_without_loss(world: Guests, box: Path) -> None:
    data = os.urandom(1 << 20)
    done = world.run("plain", "md5sum; head -c 1500000 /dev/zero | tr '\\0' x", stdin=data)
    import hashlib

    assert done.out.startswith(hashlib.md5(data).hexdigest())
    assert done.out.count("x") == 1500000
    assert done.code == 0


def test_the_environment_is_the_boxs_own(world: Guests, box: Path) -> None:
    world.env["AWS_SECRET_ACCESS_KEY"] = "hush"
    names = {line.partition("=")[0] for line in world.cloche("run", "plain", "--", "env").out.splitlines()}
    assert "AWS_SECRET_ACCESS_KEY" not in names
    assert {"HOME", "PATH", "CLOCHE_BOX"} <= names


def test_sessions_run_beside_each_other(world: Guests, box: Path) -> None:
    first = world.run("plain", "mkfifo /tmp/meet; (cat /tmp/meet >/tmp/met &) ; echo there")
    assert first.out == "there\n"
    assert world.run("plain", "echo hello >/tmp/meet; sleep 0.2; cat /tmp/met").out == "hello\n"


def test_what_a_command_left_keeps_the_box_busy_and_is_shown(world: Guests, box: Path) -> None:
    assert world.run("plain", "(setsid sleep 4716 &); sleep 0.2").code == 0
    support.wait_until(
        lambda: "what ended commands left running" in world.cloche("ps", "plain").out,
        "it is shown",
        timeout=20,
    )
    assert world.run("plain", "killall sleep").code == 0
    support.wait_until(
        lambda: "left running" not in world.cloche("ps", "plain").out, "it is gone", timeout=20
    )


def test_a_frozen_box_has_a_stopped_monitor_and_goes_on_afterwards(
    world: Guests, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, world.env[name])
    script = "while :; do date >ticks; usleep 20000; done & echo $! >pid; usleep 200000"
    assert world.run("plain", script).code == 0
    ticks = box / "tree" / "ticks"
    [pid] = monitors(world.root)
    with client.connect(BoxPaths(box), timeout=30) as keeper:
        assert keeper.call("freeze")["count"] >= 1
        support.wait_until(
            lambda: (stopped := procfs.read_stat(pid)) is not None and stopped.state == "T", "it is stopped"
        )
        before = ticks.stat().st_mtime_ns
        time.sleep(0.3)
        assert ticks.stat().st_mtime_ns == before
    support.wait_until(lambda: ticks.stat().st_mtime_ns > before, "the box goes on", timeout=20)
    assert world.run("plain", "kill $(cat pid); echo on").out == "on\n"


def test_modes_and_links_are_the_guests_and_plain_files_of_the_persons(world: Guests, box: Path) -> None:
    script = "printf x >run; chmod 755 run; ln -s /etc/shadow out; mkfifo pipe; ls -l | cut -c1-10,60-"
    done = world.run("plain", script)
    assert done.code == 0, done.err
    for name in ("run", "out", "pipe"):
        status = (box / "tree" / name).lstat()
        assert stat.S_ISREG(status.st_mode)
        assert stat.S_IMODE(status.st_mode) & 0o7111 == 0
        assert status.st_uid == (box / "tree").stat().st_uid
    told = int.from_bytes(os.getxattr(box / "tree" / "out", MODE), "little")
    assert stat.S_ISLNK(told)
    assert (
        world.run("plain", "readlink out; ./run; test -p pipe && echo pipe").out.split()[0] == "/etc/shadow"
    )


def test_git_works_inside_and_its_folder_is_not_there_outside(world: Guests, box: Path) -> None:
    assert "HEAD" in world.run("plain", "ls .git").out.split()
    assert not list((box / "tree" / ".git" / "objects").iterdir())


def test_a_proposal_is_what_the_box_holds(world: Guests) -> None:
    box = world.new("proposed")
    script = (
        "rm run.sh; mkdir d; echo x >d/f; ln -s f d/link; echo y >>README.md; echo z >go; chmod +x go; sync"
    )
    done = world.run("proposed", script)
    assert done.code == 0, done.err
    assert world.run("proposed", "cat d/link").out == "x\n"
    done = world.cloche("propose", "proposed")
    assert done.code == 0, done.err
    assert "5 files" in done.out
    diff = world.cloche("diff", "proposed").out
    assert "new file mode 120000" in diff
    assert "new file mode 100755" in diff
    out = world.root / "exported"
    assert world.cloche("export", "proposed", "--out", str(out)).code == 0
    (launch,) = json.loads((out / "receipt.json").read_text())["launches"]
    assert launch["facts"]["kernel"] not in ("", os.uname().release)
    assert launch["host"]["kernel"] == os.uname().release
    assert launch["facts"]["accelerator"].startswith("tcg: emulated")
    assert launch["facts"]["image_digest"].startswith("sha256:")
    assert f"kernel {launch['facts']['kernel']}" in (out / "report.md").read_text()
    done = world.cloche("apply", "proposed", "--as", "test", "--acknowledge", "all")
    assert done.code == 0, done.err
    assert (world.repo / "d" / "link").is_symlink()
    assert not (box / "tree" / "d" / "link").is_symlink()
    assert world.cloche("stop", "proposed").code == 0


def test_what_files_claim_is_read_as_a_claim_and_nothing_is_followed(world: Guests, box: Path) -> None:
    assert world.run("plain", "echo ran").code == 0
    secret = world.root / "secret"
    secret.write_text("the host's")

    def claim(name: str, mode: int, content: bytes) -> None:
        path = box / "tree" / name
        path.write_bytes(content)
        os.chown(path, *(box / "tree").stat()[4:6])
        os.setxattr(path, MODE, mode.to_bytes(4, "little"))

    claim("link", stat.S_IFLNK | 0o777, os.fsencode(secret))
    claim("runs", stat.S_IFREG | 0o755, b"#!/bin/sh\n")
    claim("empty-link", stat.S_IFLNK | 0o777, b"")
    claim("nul-link", stat.S_IFLNK | 0o777, b"a\0b")
    claim("long-link", stat.S_IFLNK | 0o777, b"x" * 5000)
    claim("device", stat.S_IFBLK | 0o666, b"")
    claim("folder", stat.S_IFDIR | 0o755, b"")
    claim("strange", 0o170000 | 0o777, b"")
    claim(".gitignore", stat.S_IFLNK | 0o777, b"*")
    os.setxattr(box / "tree" / "README.md", MODE, b"odd")
    done = world.cloche("propose", "plain")
    diff = world.cloche("diff", "plain").out
    reopened = world.cloche("reopen", "plain")
    assert reopened.code == 0, reopened.err
    assert "the host's" not in diff
    assert f"+{secret}" in diff
    shown = {line.split()[-1] for line in diff.splitlines() if line.startswith("+++ b/")}
    assert {"b/link", "b/runs", "b/.gitignore"} <= shown
    assert not {"b/empty-link", "b/nul-link", "b/long-link", "b/device", "b/folder", "b/strange"} & shown
    said = done.out + done.err
    for name, why in (
        ("empty-link", "without a target"),
        ("nul-link", "without a target"),
        ("long-link", "without a target"),
        ("device", "a block device"),
        ("folder", "no file"),
        ("strange", "no file"),
    ):
        assert f"{name}: it is " in said, name
        assert why in said


def test_a_stopped_box_leaves_nothing_and_its_files_are_there_when_it_starts_again(
    world: Guests, box: Path
) -> None:
    assert world.run("plain", "echo kept >file; echo home >$HOME/file; ln -sfn /etc/shadow out").code == 0
    assert world.cloche("stop", "plain").code == 0
    assert world.left() == []
    assert world.run("plain", "cat file $HOME/file; readlink out").out == "kept\nhome\n/etc/shadow\n"
