"""What was asked to fail, checked: a misspelt failure would make a test say yes to what it did not try."""

from __future__ import annotations

from backends import injected
from backends.errors import UsageError


def asked() -> tuple[str, ...]:
    """The failures of ``CLOCHE_INJECT``, as ``id=how``; ``UsageError`` for one that there is not."""
    if unknown := injected.unknown():
        raise UsageError(
            f"{injected.VARIABLE} asks for what cannot be injected",
            ", ".join(unknown),
            f"one of {', '.join(injected.KNOWN)}; docs/probe.md says how each may fail",
            code="bad-injection",
        )
    return tuple(f"{ident}={how}" for ident, how in injected.asked())
