"""What ``cloche image`` does: list, make, import and remove, and which boxes need an image."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from backends.boxes import store
from backends.container import images
from backends.container.images import Image
from backends.errors import Busy
from backends.snapshots_images import Built, ImageRow
from backends.verbs import authority


def rows() -> tuple[ImageRow, ...]:
    """See ``Engine.images``."""
    used = users()
    return tuple(_row(image, used) for image in images.listing())


def from_host(programs: Sequence[str], name: str, shell: bool) -> Built:
    """See ``Engine.image_from_host``."""
    authority.require_outside("image build")
    image, left = images.from_host(programs, name, shell)
    return Built(_row(image, users()), left)


def build(folder: Path, file: Path | None, name: str, rootful: bool) -> Built:
    """See ``Engine.build_image``."""
    authority.require_outside("image build")
    from backends.container import images_build

    return Built(_row(images_build.build(folder, file, name, rootful), users()), ())


def take(path: Path, name: str) -> ImageRow:
    """See ``Engine.import_image``."""
    authority.require_outside("image import")
    from backends.container import images_import

    return _row(images_import.import_file(path, name), users())


def remove(ref: str) -> ImageRow:
    """See ``Engine.remove_image``."""
    authority.require_outside("image rm")
    image = images.find(ref)
    row = _row(image, users())
    kept = images.other_names(image, ref)
    if kept:
        images.untag(image, kept)
        return row._replace(names=kept)
    if row.boxes:
        more = f" and {len(row.boxes) - 5} more" if len(row.boxes) > 5 else ""
        raise Busy(
            f"the image {ref} is needed",
            f"boxes were made for exactly it: {', '.join(row.boxes[:5])}{more}",
            f"remove them first: cloche rm {row.boxes[0]}",
            code="image-used",
        )
    images.remove(image)
    return row._replace(names=())


def users() -> dict[str, list[str]]:
    """The keys of the boxes of all repositories, by the digest of the image that each was made for."""
    found: dict[str, list[str]] = {}
    for entry in store.entries():
        try:
            image = str(json.loads(entry.paths.policy.read_bytes()).get("image", ""))
        except (OSError, ValueError, AttributeError):
            continue  # such a box is told of by cloche doctor, and none of it starts
        _, at, digest = image.partition("@")
        if at:
            found.setdefault(digest, []).append(entry.paths.key)
    return found


def _row(image: Image, used: dict[str, list[str]]) -> ImageRow:
    return ImageRow(*image, boxes=tuple(used.get(image.digest, ())))
