"""What to do when a stage of a launch cannot be had on this host: the words of the one table of causes."""

from __future__ import annotations


def remedy(stage: str, why: str = "") -> str:
    """The remedy of what is behind ``stage``; ``why`` is the error's own word, where one is known."""
    return explained(stage, why)[1]


def explained(stage: str, why: str) -> tuple[str, str]:
    """The reason behind an error of ``stage``, and its remedy."""
    from backends.host import causes  # nothing of this is loaded by a launch that goes well

    cause = causes.diagnose(stage, why)
    return cause.why, cause.remedy
