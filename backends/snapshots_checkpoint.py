"""A checkpoint as it is shown: a frozen value."""

from __future__ import annotations

from backends.record import NamedTuple


class CheckpointRow(NamedTuple):
    """What was saved of a box, and what it takes to go on from it."""

    box: str  # its key
    made: float
    runtime: str  # gvisor, qemu
    version: str  # of the program that saved it and alone restores it
    kernel: str  # inside
    image_digest: str
    policy_digest: str
    size: int  # bytes of memory and processes
