"""Verbs about boxes that are saved with their processes."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Verb

_ROW = Field(
    "checkpoint",
    "object",
    "`box`, `made`, `runtime`, `version` (of the program that saved it and alone restores it), `kernel` "
    "(inside), `image_digest`, `policy_digest`, `size` (bytes of memory and processes)",
)

CHECKPOINT_VERBS: tuple[Verb, ...] = (
    Verb(
        "checkpoint",
        "make and use",
        "Save a live box with its processes and its files, and end it.",
        "checkpoint:checkpoint",
        "cloche.checkpoint/1",
        (BOX_FIELD, _ROW),
        (BOX,),
        'For boxes of tier container whose profile states `runtime = "gvisor"`; others are refused by name '
        "with what keeps them. Sessions end with it. One checkpoint of a box is kept, the last.",
    ),
    Verb(
        "restore",
        "make and use",
        "Put a box's files back as its checkpoint has them, and let its processes go on.",
        "checkpoint:restore",
        "cloche.restore/1",
        (BOX_FIELD, _ROW),
        (BOX,),
        "Refused for a live box, and where the program, the image or the policy are others than then. What "
        "the box's files became since is gone. Processes go on without the streams of who started them.",
    ),
)
