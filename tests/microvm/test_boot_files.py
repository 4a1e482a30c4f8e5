"""A guest's kernel is found and unpacked, its initramfs holds what runs in it, links of a tree are mapped."""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from backends.container import podman
from backends.errors import Refused
from backends.microvm import initrd, kernels, launching, links, qemu, rootfs
from backends.microvm.kernels import NoKernel
from backends.trees import mapped

RELEASE = "6.1.0-1-amd64"


def bzimage(payload: bytes) -> bytes:
    """A kernel image around ``payload`` (Documentation/arch/x86/boot.rst)."""
    head = bytearray(1024)
    head[0x1F1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 16, len(payload))
    return bytes(head) + bytes(16) + payload


def module(needs: str = "", before: str = "") -> bytes:
    text = f"\0depends={needs}\0"
    return b"\x7fELF" + (text + (f"softdep=pre: {before}\0" if before else "")).encode()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as an unpacked package makes it."""
    folder = tmp_path / "lib" / "modules" / RELEASE / "kernel" / "drivers"
    folder.mkdir(parents=True)
    for name in kernels.WANTED:
        (folder / f"{name.replace('_', '-')}.ko").write_bytes(module())
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / f"vmlinuz-{RELEASE}").write_bytes(bzimage(lzma.compress(b"\x7fELFkernel")))
    monkeypatch.setenv(kernels.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_kernel_with_all_modules_is_found_and_unpacked(place: Path) -> None:
    found = kernels.find()
    assert found.release == RELEASE
    assert kernels.extract(found.image) == b"\x7fELFkernel"


def test_the_newest_of_several_is_taken(place: Path) -> None:
    newer = "6.12.3-1-amd64"
    shutil.copytree(place / "lib" / "modules" / RELEASE, place / "lib" / "modules" / newer)
    shutil.copy(place / "boot" / f"vmlinuz-{RELEASE}", place / "boot" / f"vmlinuz-{newer}")
    assert kernels.find().release == newer


def test_a_kernel_without_a_module_is_refused_by_the_modules_name(place: Path) -> None:
    (place / "lib" / "modules" / RELEASE / "kernel" / "drivers" / "9p.ko").unlink()
    with pytest.raises(NoKernel, match="has no module 9p"):
        kernels.find()
    (place / "lib" / "modules" / RELEASE / "modules.builtin").write_text("kernel/fs/9p/9p.ko\n")
    assert kernels.find().release == RELEASE


def test_without_a_kernel_the_remedy_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kernels.VARIABLE, str(tmp_path))
    with pytest.raises(NoKernel, match="no kernel in"):
        kernels.find()
    [lack] = [one for one in qemu.VMM.obstacles("tcg") if "no kernel" in one.why]
    assert "dpkg-deb -x" in lack.remedy
    assert str(kernels.place()) in lack.remedy


@pytest.mark.parametrize(
    "image", [b"", b"MZ" + bytes(2000), bzimage(b"unknown"), bzimage(lzma.compress(b"none"))]
)
def test_what_is_no_kernel_is_refused(tmp_path: Path, image: bytes) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(image)
    with pytest.raises(NoKernel):
        kernels.extract(path)


def test_modules_come_after_those_they_need(place: Path) -> None:
    folder = place / "lib" / "modules" / RELEASE / "kernel" / "drivers"
    (folder / "virtio.ko").write_bytes(module())
    (folder / "virtio-ring.ko").write_bytes(module("virtio"))
    (folder / "virtio-pci.ko").write_bytes(module("virtio-ring,virtio", before="9p"))
    order = [name for name, _ in kernels.modules(kernels.find())]
    assert order[:4] == ["virtio", "virtio_ring", "9p", "virtio_pci"]
    assert len(order) == len(set(order))


def test_the_initramfs_holds_the_first_process_and_its_interpreter(place: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("no cpio is installed")
    made = initrd.prepare(kernels.find())
    listed = subprocess.run(
        ["cpio", "-tv", "--quiet"], stdin=made.initrd.open("rb"), capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert {"init", "dev/console", "modules/order", "modules/9p", "proc"} <= names
    assert "cloche/backends/microvm/guest/agent.pyc" in names
    assert not [name for name in names if name.endswith(".py") or "tests" in name or "policy" in name]
    again = initrd.prepare(kernels.find())
    assert again == made


def test_a_monitor_gets_no_network_card_and_its_share_are_mapped(tmp_path: Path) -> None:
    from backends.microvm.vmm import GuestSpec, Image, Share

    spec = GuestSpec(
        "box", tmp_path, Image("i", "sha256:0", tmp_path / "disk"),
        (Share("work", tmp_path, "/work", True), Share("objects0", tmp_path, "/o", False)),
        "tcg", 256 << 20, 1, None, 1, 1, 1000, 1000, "/home/box", (), None, (),
    )  # fmt: skip
    words = qemu.arguments(spec)
    assert not [word for word in words if "net" in word.split(",")[0] and "virtio" in word]
    assert "-nodefaults" in words
    assert "-no-user-config" in words
    shared = [word for word in words if word.startswith("local,")]
    assert len(shared) == 2
    assert all("security_model=mapped-xattr" in word for word in shared)
    assert [word.endswith("readonly=on") for word in shared] == [False, True]
    sandbox = words[words.index("-sandbox") + 1]
    assert {"spawn=deny", "elevateprivileges=deny"} <= set(sandbox.split(","))


def test_an_image_that_is_not_pinned_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        rootfs.image("tools")
    assert caught.value.code == "image-unpinned"


def test_links_of_a_tree_become_files_that_say_so(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "d" / "link").symlink_to("../../outside")
    (tree / "dangling").symlink_to(b"\xff\xfe".decode("utf-8", "surrogateescape"))
    (tree / "to-folder").symlink_to("d")
    (tmp_path / "outside").write_text("the host's")
    assert links.map_links(str(tree), None) == 3
    for name, target in (("d/link", b"../../outside"), ("dangling", b"\xff\xfe"), ("to-folder", b"d")):
        assert stat.S_ISREG((tree / name).lstat().st_mode)
        assert (tree / name).read_bytes() == target
        fd = os.open(tree / name, os.O_RDONLY)
        try:
            assert mapped.mode(fd) == stat.S_IFLNK | 0o777
        finally:
            os.close(fd)
    assert (tmp_path / "outside").read_text() == "the host's"
    assert links.map_links(str(tree), None) == 0


def test_gc_removes_the_files_of_launches_that_no_live_box_has(home: object) -> None:
    from backends.boxes.layout import runtime_dir

    folder = runtime_dir() / launching.FOLDERS / f"{podman.state_mark()}-0123456789"
    folder.mkdir(parents=True)
    other = folder.with_name("ffffffff-0123456789")  # of another state folder, whose boxes are not known here
    other.mkdir()
    (folder / "console.log").write_text("")
    assert launching.sweep(()) == 1
    assert not folder.exists()
    assert other.exists()
    assert launching.sweep(()) == 0
