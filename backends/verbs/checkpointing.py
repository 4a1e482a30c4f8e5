"""The part of the engine that saves boxes with their processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.boxes.layout import BoxPaths
    from backends.snapshots_checkpoint import CheckpointRow


class Checkpointing:
    """What :class:`backends.engine.Engine` is by this."""

    def find(self, ref: str) -> BoxPaths:
        raise NotImplementedError

    def checkpoint(self, ref: str) -> CheckpointRow:
        """Save a live box with its processes and its files; it is idle then. One is kept, the last.

        ``Refused`` code "no-checkpoints" where its tier, runtime or monitor cannot, or for a caller inside a
        box; ``NoSuchBox`` code "not-live" when nothing of it runs.
        """
        from backends.verbs import checkpoints

        return checkpoints.checkpoint(self.find(ref))

    def restore(self, ref: str) -> CheckpointRow:
        """Put a box's files back as its checkpoint has them, and let its processes go on from there.

        ``NoSuchBox`` code "no-checkpoint" without one, ``Busy`` for a live box, ``Refused`` where program,
        image or policy are others than then. Processes that had a caller's streams have none any more.
        """
        from backends.verbs import checkpoints

        return checkpoints.restore(self.find(ref))
