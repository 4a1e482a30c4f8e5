"""A box to begin with, made without the command line, whose own making other tests show."""

from __future__ import annotations

import os
from pathlib import Path

from backends.engine import Engine, NewBox, Streams


def ran(repo: Path, script: str, *, purpose: str = "") -> Engine:
    """Box ``b`` of a repository, in which a shell ran ``script``."""
    engine = Engine(repo)
    engine.create(NewBox(name="b", purpose=purpose))
    null = os.open(os.devnull, os.O_RDWR)
    try:
        assert engine.run("b", ["sh", "-c", script], streams=Streams(null, null, null)).exit == 0
    finally:
        os.close(null)
    return engine
