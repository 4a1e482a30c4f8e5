"""The verb ``doctor``."""

from __future__ import annotations

from app.cli.vocabulary import Field, Param, Verb

DOCTOR_VERBS: tuple[Verb, ...] = (
    Verb(
        "doctor",
        "policy and host",
        "Check whether the host, and boxes, still keep their promises; repair what is safe.",
        "doctor:doctor",
        "cloche.doctor/1",
        (
            Field("ok", "boolean", "false when a finding failed (exit 1)"),
            Field(
                "findings",
                "list",
                "worst first: `id` (stable; `KEY: CHECK` of a box), `verdict` (ok, note, warn, fail), "
                "`text`, `evidence`, `remedy` (a command where there is one), `why` (why it matters), "
                "`fix` (the safe repair that --fix makes, or empty), `subject` (`host`, or a box's key)",
            ),
            Field(
                "repairs",
                "list",
                "with --fix: `subject`, `fix`, `finding`, `done` (boolean), `text` (what was done, or why "
                "it was not)",
            ),
            Field("bundle", "object or null", "with --open: all that the bundle holds"),
        ),
        (
            Param(("box",), "name of the box", "positional", "BOX", many="?"),
            Param(("-a", "--all"), "boxes of all repositories", "flag"),
            Param(("--fix",), "make the repairs that are safe, each journalled, and look again", "flag"),
            Param(("--fresh",), "run every proof of the host now, whatever is remembered", "flag"),
            Param(
                ("--bundle",),
                "also write a redacted bundle for a bug report into this new file",
                metavar="FILE",
                default="",
            ),
            Param(
                ("--open",),
                "show a bundle that somebody sent, and look at nothing",
                metavar="FILE",
                default="",
            ),
        ),
    ),
)
