"""The verb that shows what each way to hold a program separates."""

from __future__ import annotations

from app.cli.vocabulary import Field, Param, Verb

MATRIX_VERBS: tuple[Verb, ...] = (
    Verb(
        "matrix",
        "policy and host",
        "Show what each tier and other ways to hold a program separate, and what this host proved of it.",
        "matrix:matrix",
        "cloche.matrix/1",
        (
            Field("box", "string", "key of the box that it is about, empty for the host's table"),
            Field("columns", "list", "`id`, `title`, in the order of a row's cells"),
            Field(
                "rows",
                "list",
                "`id`, `name`, `kind` (tier, technology, explained), `state` (of a tier on this host: "
                "proved, failed, not run, not in this version), `evidence`, `sources`, `read` (day), and "
                "`cells`: `column`, `short`, `text`, `claims`, `result` (proved, failed, not run; empty: no "
                "claim is about it), `deleted_by` (`id`, `text`; of a box also `key`, `value`, `where`)",
            ),
            Field("tried", "number", "when this host's proofs were run, seconds since the epoch"),
            Field("cached", "boolean", "they are those of an earlier run under the same conditions"),
            Field("injected", "list", "failures that were asked for by CLOCHE_INJECT"),
            Field(
                "projects",
                "list or null",
                "with --projects: `name`, `sandbox`, `snapshot` and `remark` (each `text` and `source`, "
                "empty: unverified), `rows`, `doubt`, `read` (day)",
            ),
        ),
        (
            Param(("box",), "name of the box", "positional", "BOX", many="?"),
            Param(("--projects",), "what seven other products say of their sandboxes, with sources", "flag"),
        ),
        "Of a box it prints the box's own row: the proofs of its last launch, and what in its policy deletes "
        "a cell. There is no score. The sentences behind the words, and their sources, are in "
        "[matrix.md](matrix.md) and in `--json`.",
    ),
)
