"""The image of a box as the disk of a guest."""

from __future__ import annotations

from backends.container import images_export
from backends.errors import Refused
from backends.microvm.vmm import Image


def image(reference: str) -> Image:
    """The pinned image of a policy as an ext4 file, made when the cache has none.

    ``Refused`` where it is not pinned, or the store has it no more.
    """
    name, at, digest = reference.rpartition("@")
    if not at or len(digest) != len("sha256:") + 64:
        raise Refused(
            "the box does not start",
            f"its policy names the image {reference} and pins no digest",
            "make a new box: cloche new pins what the name means then",
            code="image-unpinned",
        )
    return Image(name, digest, images_export.export_rootfs(digest, "ext4"))
