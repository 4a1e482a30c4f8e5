"""The one error that people see: what happened, why, and the next step.

Both front ends print these three sentences and nothing else; the command line exits with ``exit_code``.
"""

from __future__ import annotations

EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_NO_SUCH_BOX = 4
EXIT_BUSY = 5
EXIT_WALL_LIMIT = 124


class ClocheError(Exception):
    """A failure that a person can act on.

    ``what`` names the failed act, ``why`` its cause, ``next_step`` what to do (a command where there is one).
    ``code`` is a stable word for scripts (``--json``). Texts may quote names that came out of a box: front
    ends escape them like any outside text.
    """

    exit_code = EXIT_CHECK_FAILED

    def __init__(self, what: str, why: str, next_step: str, *, code: str = "failed") -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why
        self.next_step = next_step
        self.code = code

    def as_dict(self) -> dict[str, str | int]:
        """The error as JSON values, the shape that ``--json`` and the keeper's replies use."""
        return {
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "next": self.next_step,
            "exit": self.exit_code,
        }


class UsageError(ClocheError):
    """The request itself is malformed: a bad name, an unknown key, words that do not parse."""

    exit_code = EXIT_USAGE


class BadRule(UsageError):
    """A rule of ``net.egress`` that is malformed or that nothing could enforce. ``why`` names the rule."""


class Refused(ClocheError):
    """A boundary, a check or a promise cannot be had, so the act does not happen (fail closed)."""

    exit_code = EXIT_REFUSED


class NoSuchBox(ClocheError):
    """No box of that name where it was looked for."""

    exit_code = EXIT_NO_SUCH_BOX


class Busy(ClocheError):
    """Something else holds the box, or the branch moved: nothing was changed."""

    exit_code = EXIT_BUSY


class Conflict(Busy):
    """Two sides changed the same; ``files`` are the paths (raw) with how, in Git's word: ``contents``."""

    def __init__(self, what: str, why: str, next_step: str, files: tuple[tuple[bytes, str], ...]) -> None:
        super().__init__(what, why, next_step, code="conflict")
        self.files = files


KINDS: dict[int, type[ClocheError]] = {
    EXIT_CHECK_FAILED: ClocheError,
    EXIT_USAGE: UsageError,
    EXIT_REFUSED: Refused,
    EXIT_NO_SUCH_BOX: NoSuchBox,
    EXIT_BUSY: Busy,
}


def from_dict(value: dict[str, object]) -> ClocheError:
    """The error that ``as_dict`` described, for the side of a socket that did not raise it."""
    exit_code = value.get("exit")
    kind = KINDS.get(exit_code if isinstance(exit_code, int) else EXIT_CHECK_FAILED, ClocheError)
    return kind(
        str(value.get("what", "the keeper reported a failure")),
        str(value.get("why", "no reason given")),
        str(value.get("next", "cloche doctor")),
        code=str(value.get("code", "failed")),
    )
