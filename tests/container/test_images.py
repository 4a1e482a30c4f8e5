"""Images: made without a network, one digest for one content, named by their person, kept while needed."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from backends.container import images, images_export
from backends.container.images_entries import Entry, folder, link, text, write_archive
from tests import support
from tests.container.imaging import listed, made
from tests.container.world import World


@pytest.fixture(scope="module")
def tools(world: World) -> str:
    """An image of this host's programs; its digest."""
    return made(world, "image", "build", "--from-host", "python3", "git", "--name", "tools")


def members(world: World, digest: str) -> dict[str, tarfile.TarInfo]:
    """The files of an image as a guest would get them."""
    code = f"from backends.container.images_export import export_rootfs as e; print(e({digest!r}, 'tar'))"
    done = support.run(["python3", "-c", code], env=world.env)
    assert done.code == 0, done.err
    with tarfile.open(done.out.strip()) as tar:
        return {one.name.removeprefix("./"): one for one in tar}


# ---------------------------------------------------------------- of the host's own programs


def small(world: World, name: str, *programs: str) -> str:
    return made(world, "image", "build", "--from-host", *programs, "--no-shell", "--name", name)


def test_the_same_programs_make_the_same_digest_and_a_name_goes_alone(world: World) -> None:
    digest = small(world, "once", "cat", "ls")
    assert small(world, "again", "cat", "ls") == digest
    assert small(world, "turned", "ls", "cat") != digest  # the recipe is part of it
    names = listed(world)["localhost/again:latest"]["names"]
    assert names == ["localhost/again:latest", "localhost/once:latest"]
    done = world.cloche("image", "rm", "again", "turned")
    assert (done.code, "it is still once" in done.out) == (0, True)
    assert listed(world)["localhost/once:latest"]["names"] == ["localhost/once:latest"]
    assert world.cloche("image", "rm", "again").code == 3
    assert world.cloche("image", "rm", digest).code == 0


def test_an_image_of_the_host_holds_what_everybody_may_read_and_roots_alone(world: World, tools: str) -> None:
    found = members(world, tools)
    assert {"usr/bin/python3", "usr/bin/git", "etc/passwd", "tmp", "work"} <= set(found)
    for name, one in found.items():
        assert (one.uid, one.gid) == (0, 0), name
        assert one.isreg() or one.isdir() or one.issym(), name
        assert not one.mode & (stat.S_ISUID | stat.S_ISGID), name
        if not one.issym():
            assert one.mode & 0o004 and (not one.mode & 0o022 or name in ("tmp", "var/tmp")), name
    for secret in ("etc/shadow", "etc/gitconfig", "etc/hostname", "etc/machine-id", "etc/ssl/private"):
        assert secret not in found
    host = Path("/etc/hostname").read_text().strip() if Path("/etc/hostname").exists() else "no name"
    assert not any(host in name for name in found if name.startswith("etc/"))


def test_programs_of_the_image_run_with_all_that_they_need(world: World, tools: str) -> None:
    world.new("tooled", image="tools")
    told = world.python(
        "tooled",
        "import json, ssl, sqlite3, ctypes, zlib, readline, venv, ensurepip, subprocess\n"
        "git = subprocess.run(['git', 'status', '--short'], capture_output=True, text=True)\n"
        "roots = ssl.create_default_context().cert_store_stats()['x509_ca']\n"
        "print(json.dumps([git.returncode, git.stderr, roots]))",
    )
    assert told[:2] == [0, ""]
    if Path("/etc/ssl/certs/ca-certificates.crt").exists():
        assert told[2] > 0
    assert world.cloche("rm", "--force", "tooled").code == 0


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        (("no-such-program",), "it is in none of the system's folders"),
        (("/etc/shadow",), "it is in none of the system's folders"),
        (("../../etc/passwd",), "it is in none of the system's folders"),
        (("python3; true",), "it is in none of the system's folders"),
    ],
)
def test_only_programs_of_the_system_are_taken(world: World, programs: tuple[str, ...], why: str) -> None:
    done = world.cloche("image", "build", "--from-host", *programs, "--name", "never")
    assert done.code == 2
    assert why in done.err
    assert "localhost/never:latest" not in listed(world)


# ---------------------------------------------------------------- out of a file


def archive(path: Path, named: str, content: str) -> Path:
    """A Docker archive that calls itself ``named``."""
    entries = {"/etc": folder(), "/etc/who": text(content), "/bin": link("etc")}
    write_archive(entries, path, name=named, machine="x86_64", labels={})
    return path


def test_an_archive_cannot_take_the_name_of_another_image(world: World, tmp_path: Path, tools: str) -> None:
    hostile = archive(tmp_path / "a.tar", "localhost/tools:latest", "not the tools\n")
    digest = made(world, "image", "import", str(hostile), "--name", "other")
    rows = listed(world)
    assert rows["localhost/other:latest"]["digest"] == digest != tools
    assert rows["localhost/other:latest"]["names"] == ["localhost/other:latest"]
    assert any("localhost/tools:latest" in row["names"] and row["digest"] == tools for row in rows.values())
    assert world.cloche("image", "rm", "other").code == 0


def test_a_name_that_nobody_has_is_not_taken_from_an_archive_either(world: World, tmp_path: Path) -> None:
    foreign = archive(tmp_path / "a.tar", "registry.example/team/thing:3", "foreign\n")
    made(world, "image", "import", str(foreign), "--name", "mine")
    assert listed(world)["localhost/mine:latest"]["names"] == ["localhost/mine:latest"]
    assert world.cloche("image", "rm", "mine").code == 0


@pytest.mark.parametrize("kind", ["xz", ""])
def test_a_root_in_a_tar_file_has_the_digest_of_its_content(world: World, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "root.tar"
    write: Any = f"w:{kind}"
    with tarfile.open(path, write) as tar:
        one = tarfile.TarInfo("./usr/x")
        one.size = 2
        tar.addfile(one, io.BytesIO(b"ab"))
    digest = made(world, "image", "import", str(path), "--name", "root")
    assert made(world, "image", "import", str(path), "--name", "root") == digest
    assert members(world, digest)["usr/x"].size == 2
    row = listed(world)["localhost/root:latest"]
    assert row["source"] == "root: root.tar"
    if kind:
        plain = tmp_path / "plain.tar"
        with tarfile.open(path) as source, tarfile.open(plain, "w", format=source.format) as tar:
            for member in source:
                tar.addfile(member, source.extractfile(member))
        assert made(world, "image", "import", str(plain), "--name", "plain") == digest
        assert world.cloche("image", "rm", digest).code == 0
    else:
        assert world.cloche("image", "rm", "root").code == 0


def _nothing(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("hello\n" * 1000)


def _zstd(path: Path) -> None:
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))


def _no_root(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo("letter.txt"))


def _two(path: Path) -> None:
    data = json.dumps([{"Config": "a"}, {"Config": "b"}]).encode()
    with tarfile.open(path, "w") as tar:
        one = tarfile.TarInfo("manifest.json")
        one.size = len(data)
        tar.addfile(one, io.BytesIO(data))


def _deep(path: Path) -> None:
    data = b"[" * 100_000
    with tarfile.open(path, "w") as tar:
        one = tarfile.TarInfo("manifest.json")
        one.size = len(data)
        tar.addfile(one, io.BytesIO(data))


def _cut(path: Path) -> None:
    _no_root(path)
    os.truncate(path, 300)


@pytest.mark.parametrize("write", [_nothing, _text, _zstd, _no_root, _two, _deep, _cut])
def test_what_is_no_image_is_refused_by_name(world: World, tmp_path: Path, write: Any) -> None:
    path = tmp_path / "file"
    write(path)
    done = world.cloche("image", "import", str(path), "--name", "never")
    assert done.code == 2, done.err
    assert "is not imported" in done.err
    assert "Traceback" not in done.err


def test_an_archive_whose_layer_reaches_outside_leaves_nothing_there(world: World, tmp_path: Path) -> None:
    """What Podman unpacks stays below its store, whatever names and links the layer holds."""
    victim = tmp_path / "victim"
    victim.mkdir()
    root = tmp_path / "root.tar"
    with tarfile.open(root, "w") as tar:
        for name, target in (
            ("usr/out", str(victim)),
            ("usr/up", f"../../../../../../../..{victim}"),
        ):
            one = tarfile.TarInfo(name)
            one.type, one.linkname = tarfile.SYMTYPE, target
            tar.addfile(one)
        for name in (
            "usr/out/planted",
            "usr/up/planted",
            f"../../../../../../../..{victim}/planted",
        ):
            one = tarfile.TarInfo(name)
            one.size = 1
            tar.addfile(one, io.BytesIO(b"x"))
    done = world.cloche("image", "import", str(root), "--name", "hostile")
    assert list(victim.iterdir()) == []
    if done.code == 0:
        assert world.cloche("image", "rm", "hostile").code == 0


# ---------------------------------------------------------------- names, and the end


def test_an_image_is_kept_while_a_box_needs_it(world: World) -> None:
    world.new("needs")
    digest = listed(world)["localhost/box:latest"]["digest"]
    box = json.loads(next((world.root / "s" / "cloche").glob("*/needs/policy.json")).read_text())
    assert box["image"].endswith("@" + digest)
    [user] = listed(world)["localhost/box:latest"]["boxes"]
    assert user.endswith("/needs")
    for ref in ("box", digest, digest[:20]):
        done = world.cloche("image", "rm", ref)
        assert done.code == 5
        assert "needs" in done.err
    assert world.cloche("rm", "--force", "needs").code == 0
    assert listed(world)["localhost/box:latest"]["boxes"] == []


def test_a_removed_image_leaves_no_file_system_of_a_guest(world: World, tmp_path: Path) -> None:
    digest = made(
        world, "image", "import", str(archive(tmp_path / "a.tar", "x:1", "gone\n")), "--name", "gone"
    )
    members(world, digest)
    kept = world.root / "k" / "cloche" / "rootfs"
    assert [path.name for path in kept.glob(f"{digest[7:]}*")] == [f"{digest[7:]}.tar"]
    assert world.cloche("image", "rm", "gone").code == 0
    assert list(kept.glob(f"{digest[7:]}*")) == []
    assert world.cloche("image", "rm", "gone").code == 3


def test_a_file_system_for_a_guest_is_one_and_belongs_to_root_inside(world: World, tools: str) -> None:
    code = f"from backends.container.images_export import export_rootfs as e; print(e({tools!r}))"
    done = support.run(["python3", "-c", code], env=world.env)
    assert done.code == 0, done.err
    path = Path(done.out.strip())
    said = support.run(["/sbin/debugfs", "-R", "stat /usr/bin/git", str(path)])
    assert "Type: regular" in said.out and "Mode:  0755" in said.out
    assert "User:     0   Group:     0" in said.out
    before = path.stat().st_mtime_ns
    assert support.run(["python3", "-c", code], env=world.env).out.strip() == str(path)
    assert path.stat().st_mtime_ns == before


def test_no_process_of_podman_stays(world: World) -> None:
    """``podman pause`` would keep a user namespace for ever."""
    listed(world)
    run = os.fsencode(world.root)
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if words.startswith(b"podman") and run in environment:
            found.append(pid)
    assert found == []
    assert list((world.root / "s" / "cloche" / ".podman" / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("x", "localhost/x:latest"),
        ("x:3", "localhost/x:3"),
        ("team/x", "localhost/team/x:latest"),
        ("localhost/x", "localhost/x:latest"),
        ("registry.example/a/b:1.2", "registry.example/a/b:1.2"),
    ],
)
def test_a_name_has_one_whole_form(name: str, whole: str) -> None:
    assert images.full_name(name) == whole


@pytest.mark.parametrize(
    "name",
    [
        "",
        "X",
        "a b",
        "-x",
        "x-",
        "a//b",
        "/a",
        "a/",
        "a:",
        ":a",
        "a:b:c",
        "a@b",
        "a" * 129,
        "../x",
        "a\n",
        "--all",
        "0" * 64,
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    from backends.errors import UsageError

    with pytest.raises(UsageError):
        images.full_name(name)


def test_an_export_of_another_kind_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="squashfs"):
        images_export.export_rootfs("sha256:0", "squashfs")


def test_a_file_that_shrinks_while_it_is_read_makes_no_image(tmp_path: Path) -> None:
    source = tmp_path / "short"
    source.write_bytes(b"12345")
    entries = {"/f": Entry("file", source=str(source), size=10)}
    with pytest.raises(OSError):
        write_archive(entries, tmp_path / "out.tar", name="localhost/x:latest", machine="x", labels={})
    assert [path.name for path in tmp_path.glob("*.layer")] == []


def test_gc_takes_nothing_that_somebody_is_at(world: World) -> None:
    """A build on its way is not swept away beside itself."""
    scratch = world.root / "s" / "cloche" / ".podman" / "tmp" / "half"
    code = (
        "import sys; from backends.container import images_sweep as s\n"
        "from backends.container.podman import prepare\n"
        "with s.working(prepare()):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    argv = ["python3", "-c", code]
    with subprocess.Popen(
        argv, env={**os.environ, **world.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        scratch.write_text("half an image")
        assert world.cloche("gc").code == 0
        assert scratch.exists()
        child.communicate(b"")
    assert world.cloche("gc").code == 0
    assert not scratch.exists()


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_a_saved_image_comes_back_with_the_same_files(world: World, tmp_path: Path, kind: str) -> None:
    first = made(
        world, "image", "import", str(archive(tmp_path / "a.tar", "x:1", "who\n")), "--name", "first"
    )
    saved = tmp_path / "saved.tar"
    code = (
        "import subprocess, sys; from backends.container import podman; p = podman.prepare();"
        f"sys.exit(subprocess.call(p.outside('save', '--format', {kind!r}, '-o', {str(saved)!r}, "
        f"'localhost/first:latest'), env=p.environment(), cwd='/'))"
    )
    assert support.run(["python3", "-c", code], env=world.env).code == 0
    back = made(world, "image", "import", str(saved), "--name", "back")
    # An OCI archive has a configuration of another form, so its digest is another; the layers are the same.
    assert (back == first) is (kind == "docker-archive")
    assert {name: one.size for name, one in members(world, back).items()} == {
        name: one.size for name, one in members(world, first).items()
    }
    row = next(row for row in listed(world).values() if "localhost/back:latest" in row["names"])
    assert row["source"].endswith("archive: saved.tar")
    assert world.cloche("image", "rm", "back", "first").code == 0


def test_images_made_at_the_same_time_are_all_there(world: World) -> None:
    names = ["one", "two", "three"]
    children = [
        subprocess.Popen(
            support.cloche_argv("image", "build", "--from-host", "busybox", "--no-shell", "--name", name),
            env={**os.environ, **world.env},
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    [row] = [row for row in listed(world).values() if "localhost/one:latest" in row["names"]]
    assert row["names"] == sorted(f"localhost/{name}:latest" for name in names)
    assert world.cloche("image", "rm", row["digest"]).code == 0
