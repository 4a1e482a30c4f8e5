"""The actions of the isolation matrix."""

from __future__ import annotations

from app.action import Action

MATRIX: tuple[Action, ...] = (
    Action(
        "matrix",
        "I",
        "isolation",
        "What each tier and other ways separate, and what this host proved; of a box, what deletes a cell",
        ("fleet", "box"),
        footer=False,
    ),
    Action(
        "products",
        "p",
        "products",
        "What seven other products say of their sandboxes, or the table again",
        ("matrix",),
    ),
)
