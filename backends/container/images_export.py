"""An image's files as one file system for a guest with a kernel of its own, kept in the cache by digest.

Made by mke2fs(8) ``-d`` or tar(1) inside the user namespace in which the files have the owners that the image
gives them, so that nobody need be root.

Run as a file, inside that namespace: ``python -I -S images_export.py KIND OUT IMAGE PODMAN-WORD...``.
"""

from __future__ import annotations

import os
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("ext4", "tar")
PATIENCE = 900.0  # seconds
_SPARE = 64 << 20  # bytes of an ext4 file system beside files and tables
_FAILED = 125


def export_rootfs(digest: str, kind: str = "ext4") -> Path:
    """The files of the image ``digest`` as an ext4 image or a tar file, made when it is not there yet.

    Whoever uses it opens it read-only: it is one for all boxes of the image. ``Refused`` code "image-gone"
    for an image that the store does not hold, ``ClocheError`` with the reason when it cannot be made.
    """
    import fcntl
    import shutil

    from backends.boxes.layout import cache_dir
    from backends.container import images
    from backends.container.podman import SEARCH, prepare
    from backends.errors import Refused

    if kind not in KINDS:
        raise ValueError(f"{kind!r} is none of {KINDS}")
    podman = prepare()
    image = images.pinned(digest, podman)
    made = cache_dir() / "rootfs" / f"{image.hex}.{kind}"
    if made.exists():
        return made
    if kind == "ext4" and shutil.which("mke2fs", path=SEARCH) is None:
        raise Refused(
            "the image's file system is not made",
            "there is no mke2fs",
            "as root: apt-get install e2fsprogs",
            code="no-mke2fs",
        )
    made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(made.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one is made at a time; the others find it
        if made.exists():
            return made
        fresh = made.with_name(f".{made.name}")
        own = [sys.executable, "-I", "-S", __file__, kind, str(fresh), image.hex, *podman.argv()]
        try:
            done = subprocess.run(
                [*podman.around(), *own],
                env=podman.environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
                cwd="/",
            )
            if done.returncode:
                raise images.failure("making the image's file system", done.stderr)
            fresh.rename(made)
        finally:
            fresh.unlink(missing_ok=True)
        return made
    finally:
        os.close(lock)


def forget(hexadecimal: str) -> None:
    """Remove what was kept of an image that is removed."""
    from backends.boxes.layout import cache_dir

    for kind in KINDS:
        (cache_dir() / "rootfs" / f"{hexadecimal}.{kind}").unlink(missing_ok=True)


def _main(kind: str, out: str, image: str, podman: list[str]) -> None:
    """The part inside: the files are mounted, read and let go."""
    told = subprocess.run([*podman, "image", "mount", image], capture_output=True, check=False)
    if told.returncode:
        raise OSError(told.stderr.decode("utf-8", "replace"))
    root = told.stdout.decode().strip().split("\n")[-1]
    try:
        command = _ext4(root, out) if kind == "ext4" else _tar(root, out)
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise OSError(f"{command[0]}: {done.stderr.decode('utf-8', 'replace')}")
    finally:
        subprocess.run([*podman, "image", "umount", image], capture_output=True, check=False)


def _tar(root: str, out: str) -> list[str]:
    return ["tar", "--create", "--file", out, "--numeric-owner", "--sort=name", "--directory", root, "."]


def _ext4(root: str, out: str) -> list[str]:
    size, count = _measured(root)
    blocks = (size + size // 8 + count * 512 + _SPARE) >> 12
    with open(out, "wb") as file:
        file.truncate(blocks << 12)
    own = ["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-N", str(count + 1024)]
    return ["mke2fs", *own, "-O", "^has_journal", "-E", "root_owner=0:0", "-d", root, out, str(blocks)]


def _measured(root: str) -> tuple[int, int]:
    """Bytes, each file rounded up to a block, and number of files."""
    size = count = 0
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            size += (os.lstat(os.path.join(folder, name)).st_size + 4095) & ~4095
            count += 1
    return size, count


if __name__ == "__main__":
    try:
        _main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    except OSError as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(_FAILED)
