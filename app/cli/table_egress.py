"""The verb about the destinations of a box."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Param, Verb

EGRESS_VERBS: tuple[Verb, ...] = (
    Verb(
        "egress",
        "see",
        "Show where a live box with a list may go: rules, pinned addresses, connections, bytes.",
        "egress:main",
        "cloche.egress/1",
        (
            BOX_FIELD,
            Field(
                "rows",
                "list",
                "`rule`, `name` (empty: a rule of addresses), `addresses`, `port`, `connections`, `sent`, "
                "`received` (bytes), `refused` (connections that said another name, or none), `state` "
                "(pinned, open, unresolved, refused; a reason after a colon)",
            ),
            Field(
                "repinned",
                "object",
                "with `--repin`, else null: `names` (how many), `changed` (`name`, `old`, `new`), `kept` "
                "(`name`, `why`: it has no answer now)",
            ),
        ),
        (
            BOX,
            Param(("--repin",), "look the listed names up again first, journalled in your name", "flag"),
        ),
        "Names are looked up by the host when the box is launched and stand until then. `--repin` changes "
        "them while it runs: connections that are open go on, new ones take the new addresses.",
    ),
)
