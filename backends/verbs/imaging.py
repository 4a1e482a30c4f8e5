"""The part of the engine that makes, shows and removes images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from backends.snapshots_images import Built, ImageRow


class Imaging:
    """What :class:`backends.engine.Engine` is by this. All raise ``Refused`` where Podman is absent."""

    def images(self) -> tuple[ImageRow, ...]:
        """The images of Cloche's own store, the newest first, each with the boxes that need it."""
        from backends.verbs import images

        return images.rows()

    def image_from_host(self, programs: Sequence[str], name: str, shell: bool = True) -> Built:
        """Make an image of programs of this host, without a network; the same programs, the same digest.

        ``shell``: with a shell and ordinary commands too. ``UsageError`` for a name, or a program that is not
        there or not root's; ``Refused`` for a caller inside a box.
        """
        from backends.verbs import images

        return images.from_host(programs, name, shell)

    def build_image(self, folder: Path, file: Path | None, name: str, rootful: bool = False) -> Built:
        """Build a Containerfile without a network, from images of the store alone; ``folder`` is its context.

        ``Refused`` as root without ``rootful``, ``ClocheError`` with Podman's words when a step fails.
        """
        from backends.verbs import images

        return images.build(folder, file, name, rootful)

    def import_image(self, path: Path, name: str) -> ImageRow:
        """Take a Docker archive, an OCI archive or a tar file of a root into the store, as ``name`` alone.

        ``UsageError`` for a file that is none of them. Names that the archive gives itself are not used.
        """
        from backends.verbs import images

        return images.take(path, name)

    def remove_image(self, ref: str) -> ImageRow:
        """Remove an image, or, where ``ref`` is one of several names that it has, that name alone.

        The names it keeps are those of the row. ``Busy`` while boxes need exactly it.
        """
        from backends.verbs import images

        return images.remove(ref)
