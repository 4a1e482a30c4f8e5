"""Where ``msb`` is, what it is called with, and the images that its own store holds for boxes.

Nothing of the person's own microsandbox is read or written: ``MSB_HOME`` is a folder of ours, and no other
name of its environment is set, so that no profile of it, and no machine elsewhere, is ever used.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from backends.boxes.layout import cache_dir
from backends.errors import Refused
from backends.microvm import msb_answers, msb_words
from backends.microvm.vmm import Image
from backends.record import NamedTuple

WHEEL = "microsandbox/_bundled/bin/msb"
PLACES = ("/usr/local/bin/msb", "/usr/bin/msb")
_LOAD = 300.0  # seconds
_CALL = 20.0
# Below it lies run/sandboxes/<24 digits>/agent.sock, and a unix socket's path has 107 bytes (unix(7)).
_LONGEST_HOME = 60
REMEDY = "pip install microsandbox, beside cloche"


class Answer(NamedTuple):
    """What a call printed. Its code decides nothing: 1 stands for everything."""

    code: int
    out: str
    said: str


def find() -> str:
    """The program: of the wheel that is installed beside Cloche, else a system's own; "" without one."""
    from backends.keeper import libraries

    for folder in libraries.places():
        path = f"{folder}/{WHEEL}"
        if os.access(path, os.X_OK):
            return path
    return next((path for path in PLACES if os.access(path, os.X_OK)), "")


def home() -> Path:
    """Its store. ``Refused`` where sockets below it would have too long a name."""
    path = cache_dir() / "msb"
    if len(os.fsencode(path)) > _LONGEST_HOME:
        raise Refused(
            "microsandbox cannot be used",
            f"its folder {path} has more than {_LONGEST_HOME} bytes, and its sockets lie below it",
            "set XDG_CACHE_HOME to a shorter folder",
            code="msb-home",
        )
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def environment() -> dict[str, str]:
    """The whole environment of every call."""
    place = os.fspath(home())
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": place, "MSB_HOME": place}


def call(words: list[str], patience: float = _CALL) -> Answer:
    """Run it and wait. ``OSError`` where it cannot be run, or said nothing within ``patience`` seconds."""
    try:
        done = subprocess.run(
            [find(), *words],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"msb {words[0]}: no answer within {patience:.0f} s") from error
    out, said = (
        part[: msb_answers.LARGEST].decode("utf-8", "replace") for part in (done.stdout, done.stderr)
    )
    return Answer(done.returncode, out, said)


def version() -> str:
    """Its one line, "" where it is absent."""
    if not find():
        return ""
    try:
        return msb_answers.printable(call(["--version"]).out)[:60]
    except (OSError, Refused):
        return ""


def load(image: Image, folder: Path) -> str:
    """Have the box's image in msb's store; the name it has there. ``Refused`` where it cannot be had.

    It holds the very bytes of the pinned image's files: their digest is asked back.
    """
    tar = proof(folder) if image.rootfs == Path() else _files(image)
    from backends.container.images_entries import wrap

    digest = _digest(tar)
    reference = f"localhost/cloche:{digest[:32]}"
    if msb_answers.diffs(call(msb_words.image(reference)).out) == (f"sha256:{digest}",):
        return reference
    archive = folder / "image.tar"
    try:
        wrap(tar, archive, name=reference, machine=os.uname().machine, labels={}, newest=0)
        answer = call(msb_words.load(os.fspath(archive), reference), _LOAD)
    finally:
        archive.unlink(missing_ok=True)
    got = msb_answers.diffs(call(msb_words.image(reference)).out)
    if got != (f"sha256:{digest}",):
        raise Refused(
            "the image cannot be given to microsandbox",
            msb_answers.complaint(answer.said) or f"it shows the layers {got} instead of sha256:{digest}",
            'state vmm = "qemu"',
            code="msb-image",
        )
    return reference


def _files(image: Image) -> Path:
    from backends.container.images_export import export_rootfs

    return image.rootfs if image.rootfs.suffix == ".tar" else export_rootfs(image.digest, "tar")


def proof(folder: Path) -> Path:
    """The files of a guest that proves a boot: the host's own shell with what it loads, and ``/init``."""
    from backends.container import images_entries
    from backends.container.images_host import Collection

    made = Collection()
    for link in ("/bin", "/lib", "/lib64"):
        if os.path.lexists(link):
            made.add(link)
    for program in ("/bin/sh", "/bin/sleep", "/usr/bin/env", "/bin/uname", "/bin/kill"):
        made.add(program)
    made.add_libraries()
    script = b"#!/bin/sh\necho cloche-proof\n"
    made.put("/init", images_entries.Entry("file", 0o755, size=len(script), data=script))
    for path in ("/dev", "/proc", "/sys", "/tmp", msb_words.ORDERS, msb_words.TOLD):  # noqa: S108 (in an image)
        made.put(path, images_entries.folder())
    out = folder / "proof.tar"
    images_entries.write_layer(made.entries, out)
    return out


def _digest(path: Path) -> str:
    from backends.digest import sha256

    made = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            made.update(block)
    return made.hexdigest()
