"""Work of a screen on the UI loop that its handlers do not wait for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker


def beside(
    node: DOMNode,
    work: Callable[[], Coroutine[Any, Any, None]],
    *,
    group: str = "default",
    exclusive: bool = False,
) -> Worker[None]:
    """Begins ``work`` as a worker of ``node``; ``exclusive`` cancels those of the same ``group``.

    It takes the function and not its coroutine: of a worker that is cancelled before its first turn, nothing
    is left then that was never awaited.
    """
    worker: Worker[None] = node.run_worker(work, exit_on_error=False, group=group, exclusive=exclusive)
    return worker
