"""Triage bundles: made and opened."""

from __future__ import annotations

from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.doctor import bundle as bundles
from backends.errors import Refused
from backends.host import reporting
from backends.snapshots_doctor import Triage
from backends.trees.values import Source
from backends.verbs import doctoring


def bundle(paths: BoxPaths | None, repository_key: str | None, here: Source | None) -> bytes:
    """See ``Engine.triage``."""
    boxes = [paths] if paths else doctoring.within(repository_key, here)
    report = reporting.report()
    return bundles.made(boxes, report, doctoring.look(boxes, repository_key, here, report))


def opened(path: Path) -> Triage:
    """See ``Engine.open_triage``."""
    try:
        with open(path, "rb") as file:
            data = file.read(bundles.LARGEST + 1)
    except OSError as error:
        raise Refused(
            "the bundle cannot be read",
            f"{path}: {error.strerror}",
            "give the path of its file",
            code="bundle",
        ) from error
    return bundles.read(data)
