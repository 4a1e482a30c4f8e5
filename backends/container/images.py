"""Images in Cloche's own store: found, loaded, removed, and unpacked for a tier with a kernel of its own.

An image is named by people and pinned by its **digest**: that of its configuration, which holds the digest of
each layer. It is what Podman calls the image's id; equal digests are equal files, whatever the name says now.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from backends import injected
from backends.container import images_export
from backends.container.podman import Podman, prepare
from backends.errors import ClocheError, Refused, UsageError
from backends.record import NamedTuple

PATIENCE = 60.0  # seconds for a look at the store
LOADING = 900.0  # seconds for what copies a whole image
_WORDS = 600  # characters of Podman's own words in an error
_HEX = frozenset("0123456789abcdef")
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-/:")


class Image(NamedTuple):
    """One image of the store."""

    digest: str  # sha256:<64 hex>
    names: tuple[str, ...]  # whole ones: localhost/python:latest
    size: int  # bytes, unpacked
    added: float  # when it came into the store; of one that Podman alone knows: when it was made
    source: str  # what it was made from, in words, "" when nobody wrote it down

    @property
    def hex(self) -> str:
        return self.digest.removeprefix("sha256:")


def full_name(name: str) -> str:
    """The whole name that ``name`` stands for: ``x`` is ``localhost/x:latest``. ``UsageError`` for no name.

    Names are lower case letters, digits and ``. _ - /``, with at most one tag behind a colon.
    """
    path, colon, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    parts = path.split("/")
    good = (
        0 < len(name) <= 128
        and set(name) <= _ALPHABET
        and all(part and part[0].isalnum() and part[-1].isalnum() and ":" not in part for part in parts)
        and (not colon or (tag != "" and tag[0].isalnum() and ":" not in tag))
    )
    if not good or (len(path) == 64 and set(path) <= _HEX):
        raise UsageError(
            f"{name!r} cannot be the name of an image",
            "a name is lower case letters, digits and . _ - in parts between slashes, with a :tag at most",
            "choose another, such as python or team/python:3",
            code="image-name",
        )
    home = path if len(parts) > 1 and (parts[0] == "localhost" or "." in parts[0]) else f"localhost/{path}"
    return f"{home}:{tag or 'latest'}"


def call(podman: Podman, *words: str, timeout: float = PATIENCE, doing: str) -> str:
    """Run ``podman words...``: its standard output. ``ClocheError`` with its words when it fails."""
    from backends.container import guard

    if injected.how("podman") == "hung":
        raise _hung(doing, timeout)
    child = subprocess.Popen(
        [*podman.around(), sys.executable, "-I", "-S", guard.__file__, *podman.argv(*words)],
        env=podman.environment(),
        cwd="/",
        stdin=subprocess.PIPE,  # its end is what ends all that was started
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, said = _communicated(child, timeout)
    except subprocess.TimeoutExpired as error:
        raise _hung(doing, timeout) from error
    if child.returncode:
        raise failure(doing, said)
    return out.decode("utf-8", "replace")


def _hung(doing: str, timeout: float) -> ClocheError:
    mark = injected.MARK if injected.how("podman") == "hung" else ""
    return ClocheError(
        f"{doing} failed",
        f"podman did not end within {timeout:g} s{mark}",
        "try again, or see cloche doctor",
        code="podman-hung",
    )


def _communicated(child: subprocess.Popen[bytes], timeout: float) -> tuple[bytes, bytes]:
    """What a guarded command printed; however this ends, nothing of the command is left."""
    held, child.stdin = child.stdin, None  # or communicate() would close it at once
    try:
        return child.communicate(timeout=timeout)
    finally:
        assert held is not None
        held.close()
        child.communicate()


def failure(doing: str, said: bytes) -> ClocheError:
    """What Podman said, as an error of ours."""
    words = " ".join(said.decode("utf-8", "replace").split())
    return ClocheError(
        f"{doing} failed",
        f"podman: {words[-_WORDS:].strip() or 'it gave no reason'}",
        "see cloche image ls, and cloche doctor",
        code="podman",
    )


def listing(podman: Podman | None = None) -> tuple[Image, ...]:
    """All images of the store that have a name or were named once, the newest first."""
    podman = podman or prepare()
    text = call(podman, "images", "--format", "json", "--no-trunc", doing="looking at the images")
    try:
        rows = json.loads(text or "[]") or []
    except ValueError as error:
        raise ClocheError(
            "the images cannot be told", f"podman printed no JSON: {error}", "cloche doctor", code="podman"
        ) from error
    found: dict[str, Image] = {}
    for row in rows:
        image = _image(podman, row)
        found.setdefault(image.digest, image)
    return tuple(sorted(found.values(), key=lambda image: (-image.added, image.digest)))


def _image(podman: Podman, row: dict[str, Any]) -> Image:
    ident = str(row["Id"])
    kept = remembered(podman, ident)
    return Image(
        f"sha256:{ident}",
        tuple(sorted(str(name) for name in row.get("Names") or ())),
        int(kept.get("size") or row.get("Size") or 0),
        float(kept.get("added") or row.get("Created") or 0),
        str(kept.get("source") or ""),
    )


def find(ref: str, podman: Podman | None = None) -> Image:
    """The image that ``ref`` names: a name, a digest, 12 or more of its first digits, or ``NAME@DIGEST``.

    Of the last one the digest counts. ``Refused``, code "no-such-image" ("image-gone" for a whole digest
    behind a name), when there is none, ``UsageError`` when several begin so.
    """
    _, at, digest = ref.partition("@")
    if at:
        return pinned(digest, podman)
    images = listing(podman)
    digits = ref.removeprefix("sha256:")
    found = [image for image in images if _named(image, ref)]
    if not found and len(digits) >= 12 and set(digits) <= _HEX:
        found = [image for image in images if image.hex.startswith(digits)]
    if not found:
        raise Refused(
            f"there is no image {ref!r}",
            "images come from cloche image build or cloche image import, and never from a network",
            "see what there is: cloche image ls; or make one: "
            "cloche image build --from-host python3 git --name NAME",
            code="no-such-image",
        )
    if len(found) > 1:
        raise UsageError(
            f"{ref!r} fits {len(found)} images",
            ", ".join(image.digest[:19] for image in found),
            "give more digits of its digest",
            code="ambiguous",
        )
    return found[0]


def _named(image: Image, ref: str) -> bool:
    if ref in image.names:
        return True
    try:
        return full_name(ref) in image.names
    except UsageError:
        return False


def pinned(digest: str, podman: Podman | None = None) -> Image:
    """The image of exactly this digest. ``Refused``, code "image-gone", when the store has it no more."""
    for image in listing(podman):
        if image.digest == digest:
            return image
    raise Refused(
        f"the image {digest[:19]} is gone",
        "the box was made for exactly this image, and the store holds it no more",
        "make or import it again; an image of another digest is another image: cloche image ls",
        code="image-gone",
    )


# ---------------------------------------------------------------- what is written down beside the store


def _notes(podman: Podman) -> Path:
    return podman.store / "known"


def remembered(podman: Podman, ident: str) -> dict[str, Any]:
    """What was written down when the image came; {} when nothing was."""
    try:
        value = json.loads((_notes(podman) / f"{ident}.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def remember(podman: Podman, ident: str, source: str) -> None:
    """Write down what the image ``ident`` was made from, that it came now, and how large it is.

    Podman's own answer grows when a box's container gets a copy of it with other owners.
    """
    size = call(podman, "image", "inspect", "--format", "{{.Size}}", ident, doing="looking at the image")
    value = {"source": source, "added": time.time(), "size": int(size)}
    folder = _notes(podman)
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{ident}.json"
    fresh = folder / f".{ident}.{time.monotonic_ns()}"
    fresh.write_text(json.dumps(value) + "\n", encoding="utf-8")
    fresh.rename(path)


def forget(podman: Podman, ident: str) -> None:
    """Take away what was written down."""
    (_notes(podman) / f"{ident}.json").unlink(missing_ok=True)


# ---------------------------------------------------------------- come and go


@contextlib.contextmanager
def scratch(podman: Podman, suffix: str) -> Iterator[Path]:
    """A file name in the store's own scratch folder; what is there afterwards is removed."""
    from backends.container import images_sweep

    path = podman.store / "tmp" / f"{os.getpid()}-{time.monotonic_ns():x}{suffix}"
    with images_sweep.working(podman):
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def load(podman: Podman, archive: Path) -> None:
    """Take a Docker or OCI archive into the store under the names that it gives itself."""
    call(podman, "load", "--quiet", "--input", str(archive), timeout=LOADING, doing="loading the image")


def from_host(programs: Sequence[str], name: str, shell: bool = True) -> tuple[Image, tuple[str, ...]]:
    """Make an image of programs of this host (:mod:`backends.container.images_recipe`) and name it.

    Returns it and what was left out, one sentence each.
    """
    from backends.container import images_entries, images_recipe

    whole = full_name(name)
    podman = prepare()
    made = images_recipe.collect(programs, shell)
    labels = {"org.cloche.recipe": "host: " + " ".join(programs)}
    with scratch(podman, ".tar") as archive:
        ident = images_entries.write_archive(
            made.entries, archive, name=whole, machine=os.uname().machine, labels=labels
        )
        load(podman, archive)
    remember(podman, ident, labels["org.cloche.recipe"])
    left = tuple(f"{path}: {why}" for path, why in sorted(made.left.items()))
    return pinned(f"sha256:{ident}", podman), left


def other_names(image: Image, ref: str) -> tuple[str, ...]:
    """The names that an image keeps when what ``ref`` says is taken away: () where ``ref`` is no name."""
    named = ref if ref in image.names else ""
    if not named:
        try:
            named = full_name(ref)
        except UsageError:
            return ()
    return tuple(name for name in image.names if name != named) if named in image.names else ()


def untag(image: Image, keep: Sequence[str]) -> None:
    """Take all names but ``keep`` away from an image."""
    podman = prepare()
    for name in image.names:
        if name not in keep:
            call(podman, "untag", image.hex, name, doing="taking a name away")


def remove(image: Image) -> None:
    """Take an image with all its names out of the store. ``ClocheError`` while a container of it is there."""
    podman = prepare()
    call(podman, "rmi", "--force=false", *(image.names or (image.hex,)), doing="removing the image")
    forget(podman, image.hex)
    images_export.forget(image.hex)
