"""SIGTERM while a verb is at work: what it made is taken back on the way out."""

from __future__ import annotations

import signal
from typing import NoReturn


class Terminated(BaseException):
    """SIGTERM arrived; not an ``Exception``, so that nothing takes it for a failure of its own."""


def on_sigterm() -> None:
    """Raise :class:`Terminated` when the signal comes."""
    signal.signal(signal.SIGTERM, _terminated)


def _terminated(_number: int, _frame: object) -> NoReturn:
    raise Terminated
