"""Attacks on files: what was not granted is absent, what was is read-only, links lead nowhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.tiers import process
from backends.tiers.protocol import LaunchSpec
from backends.trees import inert
from tests.boundary import harness
from tests.boundary.harness import Box


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A host folder that the box's user could enter, were it there."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/") and str(folder) != "/tmp":
            folder.chmod(folder.stat().st_mode | 0o755)
    return tmp_path


def test_the_persons_home_and_keys_are_absent(confined: Box, home: object) -> None:
    person = Path(os.path.expanduser("~tester" if os.geteuid() else "~root"))
    paths = [str(person), str(person / ".ssh"), "/home/tester", "/root", "/etc/shadow", "/var/lib", "/srv"]
    result = confined.python(
        f"""
import os
for path in {paths!r}:
    try:
        os.lstat(path)
    except FileNotFoundError:
        continue
    print(path)
"""
    )
    assert (result.out, result.exit) == ("", 0)


def test_keys_below_a_granted_home_are_absent_when_denied(open_folder: Path) -> None:
    """fs.deny hides what exists and what is made only later."""
    person = open_folder / "person"
    (person / ".ssh").mkdir(parents=True)
    (person / ".ssh" / "id_ed25519").write_text("KEY")
    (person / "notes").write_text("fine")
    person.chmod(0o755)
    deny = [str(person / ".ssh"), str(person / ".aws"), str(person / ".config" / "gh" / "hosts")]
    with harness.box(harness.policy(read=[str(person)], deny=deny)) as box:
        assert box.sh(f"cat {person}/notes").out == "fine"
        assert box.sh(f"ls -A {person}").out.split() == ["notes"]
        assert "No such file" in box.sh(f"cat {person}/.ssh/id_ed25519").err
        (person / ".aws").mkdir()
        (person / ".aws" / "credentials").write_text("LATER")
        (person / ".config" / "gh" / "hosts").mkdir(parents=True)
        assert "No such file" in box.sh(f"cat {person}/.aws/credentials").err
        assert "No such file" in box.sh(f"ls {person}/.config/gh/hosts").err


def test_nothing_outside_the_boxs_own_folders_can_be_written_removed_or_changed(open_folder: Path) -> None:
    granted = open_folder / "granted"
    granted.mkdir()
    (granted / "file").write_text("host")
    granted.chmod(0o777)
    (granted / "file").chmod(0o666)
    with harness.box(harness.policy(read=[str(granted)])) as box:
        result = box.python(
            f"""
import os
g = {str(granted)!r}
def attempt(name, call, *args, **kw):
    try:
        call(*args, **kw)
    except OSError:
        return
    print(name)
attempt("create", open, g + "/new", "w")
attempt("write", open, g + "/file", "w")
attempt("append", open, g + "/file", "a")
attempt("truncate", os.truncate, g + "/file", 0)
attempt("remove", os.unlink, g + "/file")
attempt("rename", os.rename, g + "/file", g + "/other")
attempt("steal", os.rename, g + "/file", "/work/stolen")
attempt("link", os.link, g + "/file", "/work/linked")
attempt("link2", os.link, g + "/file", g + "/linked")
attempt("mkdir", os.mkdir, g + "/dir")
attempt("chmod", os.chmod, g + "/file", 0o600)
attempt("chown", os.chown, g + "/file", 1000, 1000)
attempt("utime", os.utime, g + "/file")
attempt("xattr", os.setxattr, g + "/file", "user.x", b"1")
attempt("symlink", os.symlink, "/", g + "/s")
attempt("fifo", os.mkfifo, g + "/f")
for path in ("/x", "/etc/x", "/usr/x", "/usr/bin/x", "/dev/x", "/proc/x", "/home/x", "/var/x"):
    attempt(path, open, path, "w")
attempt("sysctl", open, "/proc/sys/kernel/core_pattern", "w")
attempt("sysrq", open, "/proc/sysrq-trigger", "w")
"""
        )
        assert (result.out, result.exit) == ("", 0), result.err
    assert [entry.name for entry in granted.iterdir()] == ["file"]
    assert (granted / "file").read_text() == "host"
    assert stat.S_IMODE((granted / "file").stat().st_mode) == 0o666


def test_a_link_in_the_tree_leads_only_to_what_the_box_has(confined: Box, open_folder: Path) -> None:
    secret = open_folder / "secret"
    secret.write_text("HOST")
    secret.chmod(0o666)
    result = confined.sh(
        f"""
ln -sf {secret} /work/link; ln -sfn / /work/all; ln -sf ../../../../../../..{secret} /work/up
cat /work/link /work/all{secret} /work/up; echo x > /work/link; ls -A /work/all
cat /proc/1/root{secret} /proc/self/root{secret}
"""
    )
    assert "HOST" not in result.out
    assert set(result.out.split()) <= {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc",
                                       "run", "sbin", "tmp", "usr", "var", "work"}  # fmt: skip
    assert secret.read_text() == "HOST"
    assert (confined.paths.tree / "link").is_symlink()


def test_other_boxes_records_are_absent_even_below_a_grant(home: object, open_folder: Path) -> None:
    state = Path(os.environ["XDG_STATE_HOME"])
    records = state / "cloche" / "other-repository" / "box"
    records.mkdir(parents=True)
    (records / "policy.json").write_text("{}")
    for folder in (state.parent, state):
        folder.chmod(0o755)
    with harness.box(harness.policy(read=[str(state)])) as box:
        assert box.sh(f"ls -A {state}").out == ""
        assert "No such file" in box.sh(f"ls {state}/cloche").err


def test_a_write_grant_reaches_its_folder_and_masks_what_is_denied_below(open_folder: Path) -> None:
    cache = open_folder / "cache"
    (cache / "private").mkdir(parents=True)
    (cache / "private" / "key").write_text("KEY")
    cache.chmod(0o777)
    with harness.box(harness.policy(write=[str(cache)], deny=[str(cache / "private")])) as box:
        assert box.sh(f"echo made > {cache}/new").exit == 0
        masked = box.sh(f"cat {cache}/private/key; ls -A {cache}/private")
        assert "KEY" not in masked.out
        assert masked.out == ""
        assert box.sh(f"echo x > {cache}/private/y").exit != 0
    assert (cache / "new").read_text() == "made\n"
    assert [entry.name for entry in (cache / "private").iterdir()] == ["key"]


def test_a_single_file_is_granted_without_its_folder(open_folder: Path) -> None:
    (open_folder / "one").write_text("1")
    (open_folder / "two").write_text("2")
    for name in ("one", "two"):
        (open_folder / name).chmod(0o644)
    with harness.box(harness.policy(read=[str(open_folder / "one")])) as box:
        assert box.sh(f"cat {open_folder}/one").out == "1"
        assert box.sh(f"ls -A {open_folder}").out.split() == ["one"]
        assert box.sh(f"echo x > {open_folder}/one").exit != 0
    assert (open_folder / "one").read_text() == "1"


def test_a_grant_that_became_a_link_shows_nothing_else(open_folder: Path) -> None:
    """The policy named a real folder; by now the name leads to a secret."""
    (open_folder / "secret").mkdir()
    (open_folder / "secret" / "file").write_text("SECRET")
    (open_folder / "sdk").symlink_to(open_folder / "secret")
    (open_folder / "deep").symlink_to(open_folder / "secret")
    chosen = harness.policy(read=[str(open_folder / "sdk"), str(open_folder / "deep" / "file")])
    with harness.box(chosen) as box:
        result = box.sh(f"cat {open_folder}/sdk/file {open_folder}/deep/file")
        assert "SECRET" not in result.out
        row = next(row for row in box.live.enforcement if row.key == "fs.read")
        assert "has become a link" in row.missing


def test_git_folder_of_the_tree_is_the_private_repository_only_inside() -> None:
    """S5: on disk .git is an inert repository of nothing, whatever the box writes into it."""
    with harness.box(repo=True) as box:
        assert box.sh("echo evil > /work/.git/config; mkdir /work/.git/hooks").exit == 0
        result = box.sh("rm -rf /work/.git; mv /work/.git /work/x; rmdir /work/.git; ln -sfn /tmp /work/.git")
        assert "Device or resource busy" in result.err
        on_disk = {path.name for path in (box.paths.tree / ".git").iterdir()}
        assert on_disk == {*inert.FILES, *inert.FOLDERS}
        assert not (box.paths.tree / ".git").is_symlink()
        box.sh("echo evil > /work/.git/config")
        assert (box.paths.repo / "config").read_text() == "evil\n"


def test_a_link_in_place_of_the_git_mount_point_stops_the_launch(tmp_path: Path) -> None:
    uid = harness.PAYLOAD if os.geteuid() == 0 else os.geteuid()
    paths = harness.make_paths(tmp_path / "key" / "box", uid, uid, repo=True)
    (paths.tree / ".git").rmdir()
    (paths.tree / ".git").symlink_to("/tmp")
    spec = LaunchSpec(paths, harness.policy(), "box", uid, uid, detached=True)
    with pytest.raises(Refused) as refused:
        process.TIER.launch(spec)
    assert refused.value.code == "launch-tree"


def test_devices_are_the_harmless_ones_and_none_can_be_made(confined: Box) -> None:
    result = confined.sh(
        "cd /dev; ls; mknod /work/disk b 254 0; mknod /tmp/mem c 1 1; echo; ls /work/disk /tmp/mem"
    )
    assert result.out.split() == ["fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
                                  "stdout", "tty", "urandom", "zero"]  # fmt: skip
    assert (
        confined.sh("head -c 3 /dev/zero | wc -c; echo x > /dev/null; head -c 1 /dev/urandom | wc -c").out
        == "3\n1\n"
    )


@pytest.fixture(params=["1", "2", "3"])
def forced_abi(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CLOCHE_LANDLOCK_ABI", request.param)
    yield request.param


def test_an_older_landlock_denies_the_same_or_the_tier_refuses(forced_abi: str, open_folder: Path) -> None:
    """P4: truncate outside, rename across folders inside, ioctl on a device outside."""
    if forced_abi == "1":
        refusals = process.TIER.refusals(harness.policy())
        assert [refusal.key for refusal in refusals] == ["tier"]
        assert "ABI 2 is needed, this kernel offers 1" in refusals[0].why
        with pytest.raises(Refused), harness.box():
            pass
        return
    target = open_folder / "file"
    target.write_text("content")
    target.chmod(0o666)
    with harness.box(harness.policy(read=[str(target)])) as box:
        result = box.python(
            f"""
import fcntl, os
try:
    os.truncate({str(target)!r}, 0)
except OSError as error:
    print(error.errno in (13, 30))
os.makedirs("/work/a"); os.makedirs("/work/b"); open("/work/a/f", "w").close()
os.rename("/work/a/f", "/work/b/f")
print(os.path.exists("/work/b/f"))
try:
    fcntl.ioctl(os.open("/usr", os.O_RDONLY), 0x5412, b"x")
except OSError as error:
    print(error.errno)
"""
        )
        assert result.out.split() == ["True", "True", "1"], result.err
        rights = next(row for row in box.live.enforcement if row.key == "landlock")
        assert rights.mechanism == f"Landlock ABI {forced_abi}"
        assert ("TRUNCATE" in rights.enforced) == (forced_abi == "3")
    assert target.read_text() == "content"


def test_the_hosts_network_needs_a_landlock_that_scopes_abstract_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLOCHE_LANDLOCK_ABI", "5")
    refusals = process.TIER.refusals(harness.policy(net="host"))
    assert [refusal.key for refusal in refusals] == ["net.mode"]
    assert process.TIER.refusals(harness.policy()) == ()
