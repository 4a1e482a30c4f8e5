"""The part of the engine that makes, shows and removes images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

    def remove_image(self, ref: str) -> ImageRow:
        """Remove an image with all its names. ``Busy`` while boxes need exactly it."""
        from backends.verbs import images

        return images.remove(ref)
