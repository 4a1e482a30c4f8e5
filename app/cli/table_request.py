"""The verbs about what a reviewer asks for, and what the next proposal made of it."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Param, Verb

REQUEST_VERBS: tuple[Verb, ...] = (
    Verb(
        "request",
        "decide",
        "Request changes: write what was said of a proposal where the agent reads it, and let the box go on.",
        "request:request",
        "cloche.request/1",
        (
            BOX_FIELD,
            Field("snapshot", "string", "the proposal that was read"),
            Field("file", "string", "file at the top of the tree that has the requests"),
            Field("digest", "string", "SHA-256 of what was written into it"),
            Field("comments", "number", "comments in it"),
            Field("rejected", "number", "rejected parts in it"),
            Field("state", "string", "state of the box now"),
            Field("session", "number", "the session that it was typed to, or null"),
            Field("untyped", "string", "why it was not typed although that was asked for, or empty"),
        ),
        (
            BOX,
            Param(
                ("-m", "--summary"), "say this of it all, in place of the review's summary", metavar="TEXT"
            ),
            Param(("--type",), "type a line about it to the newest live session with a terminal", "flag"),
            Param(("--to-session",), "type it to this session", metavar="N"),
            Param(("--as",), "ask as a script of this name; journalled", metavar="NAME"),
        ),
        "The file is named by `review.file` of the box's policy; it has the summary, the comments and the "
        "rejected parts, and is never part of a proposal. A proposed box has no live session: start the "
        "agent again, then `cloche request BOX --type` types the standing request to it. What is typed is "
        "one line as a bracketed paste, without control characters. Callers that run inside a box are "
        "refused.",
    ),
    Verb(
        "interdiff",
        "decide",
        "Show what a proposal says otherwise than the one that was reviewed before it.",
        "request:interdiff",
        "cloche.interdiff/1",
        (
            BOX_FIELD,
            Field("since", "string", "tree of the proposal that was reviewed before"),
            Field("tree", "string", "tree of this one"),
            Field(
                "changes",
                "list",
                "`path`, `old_path`, `status`, `old_mode`, `new_mode`, `old_oid`, `new_oid`, `added`, "
                "`deleted`",
            ),
            Field("patch", "string", "the difference as a patch"),
        ),
        (
            BOX,
            Param(("--stat",), "list the files only", "flag"),
            Param(
                ("--raw",), "print control characters of the patch as they are, also on a terminal", "flag"
            ),
        ),
        "Files about which both proposals say the same are left out, also where the base has moved on.",
    ),
)
