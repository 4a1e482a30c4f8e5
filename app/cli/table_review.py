"""The verbs about a reviewer's decisions."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Param, Verb

_COUNTS = (
    Field("accepted", "number", "lines and parts that are accepted"),
    Field("rejected", "number", "lines and parts that are rejected"),
    Field("undecided", "number", "lines and parts about which nothing is decided; they count as not taken"),
    Field("digest", "string", "SHA-256 that names what was decided"),
)
_FILE = (
    "`path`, `accepted`, `rejected`, `undecided`, `reviewed`, `comments` (how many), `blocked` (why what is "
    "accepted cannot be carried out), `parts` (pairs of exists, name, mode or content and its state), "
    "`hunks` (`old`, `old_count`, `new`, `new_count` as in the patch, `accepted`, `rejected`, `undecided`)"
)

REVIEW_VERBS: tuple[Verb, ...] = (
    Verb(
        "review",
        "decide",
        "Show a proposal, or an export anywhere, with its checks and what was decided about it.",
        "review:review",
        "cloche.review/1",
        (
            BOX_FIELD,
            Field("snapshot", "snapshot", "what was frozen, see *Snapshot*"),
            Field("branch", "string", "the branch that its base came from, empty when detached"),
            Field("branch_tip", "string", "where that branch is now, empty when it is gone"),
            Field("policy_digest", "string", "SHA-256 of policy.json"),
            Field(
                "changes",
                "list",
                "`path`, `old_path`, `status`, `old_mode`, `new_mode`, `old_oid`, `new_oid`, `added`, "
                "`deleted`",
            ),
            Field(
                "checks",
                "list",
                "`id`, `verdict` (pass, warn, refuse), `reason`, `path`, `key` (of a warning: what it is "
                "acknowledged by, else empty)",
            ),
            Field(
                "evidence",
                "object",
                "`ran` (`session`, `argv`, `test`, `exit`, `seconds`, `covers`: after, during or before the "
                "last change of the proposed files, or empty), `inner` (test commands that processes of the "
                "box started: `argv`, `times`, `ends` of `exit`, `signal`, `why` it is not known, `times`, "
                "and `last`, the run that began last: `exit`, `signal`, `why`, `seconds`, `covers`, and "
                "`ran`, another program that it executed in the end), `more_inner` (runs beyond those), "
                "`unseen` (why others can have been), `last_change`, `untimed` (changes without a time), "
                "`outside` (files last changed while no recorded session ran: `path`, `time`, `alive`), "
                "`more_outside`, `alive` (processes of the box, null where the tier cannot tell), `locks` "
                "(`path`, `added`, `removed`, `changed`, `rewritten`, `rows` of `name`, `change`, `old`, "
                "`new`, and `note`), `secrets` (`path`, `line`, `kind`, `shown`: never whole, `named`), "
                "`unsearched` (pairs of path and reason), `bulk` (`path`, `kind`, `rule`), `examiner` (what "
                "bound the process that read it)",
            ),
            Field(
                "acknowledged",
                "list",
                "warnings that somebody took upon themselves: `key`, `who`, `time`, `scripted`",
            ),
            Field("files", "list", _FILE),
            *_COUNTS,
            Field(
                "comments",
                "list",
                "`id`, `path`, `key`, `side` (old, new), `line` (0: the file), `quote`, `text`, `who`, "
                "`time`",
            ),
            Field("stale", "list", "numbers of comments whose file has changed since"),
            Field("summary", "string", "what the reviewer said of it all"),
            Field("since", "string", "the snapshot that was reviewed before this one, or empty"),
            Field(
                "moved",
                "list",
                "what is proposed otherwise than there: pairs of path and added, dropped, changed or rebased",
            ),
            Field(
                "commits",
                "object",
                "null where the box made none: `head`, `keepable`, `why` (not), `rows` (oldest first: `id`, "
                "`tree`, `parents`, `subject`, `message`, `author`, `author_email`, `authored`, "
                "`committer`, `committer_email`, `committed`, `encoding`; people are what the box claims)",
            ),
            Field(
                "combination",
                "string",
                "whole, or of an accepted part ran or not-run: whether exactly it was tried (`cloche try`)",
            ),
            Field(
                "tried",
                "list",
                "what was tried of this proposal: the members of `cloche.try/1` but `fresh`, `cpu` and "
                "`peak_rss`; `box` is the fresh box's name, `fits`: it is what is accepted now",
            ),
            Field(
                "ignored",
                "ignored",
                "files in the tree that ignore rules name: `total`, `names` of the first (a folder ends in "
                "a slash)",
            ),
            Field(
                "bundle",
                "object",
                "null for a box; of an export: `source`, `exported`, `findings` (as of `cloche verify`), "
                "`rerun` (the gate was asked again: `checks` are of now), `why_not`, `judged` (`row`, a "
                "check, and `when`: same, only now, only then), `requests` (`time`, `who`, `scripted`, "
                "`snapshot`, `comments`, `rejected`)",
            ),
        ),
        (
            Param(("box",), "name of the box, or path of what export wrote", "positional", "BOX"),
            Param(("--screen",), "of an export: read it in the workbench's review screen", "flag"),
            Param(("--patch",), "also the patch, with controls made visible", "flag"),
            Param(
                ("--signers",),
                "of an export: file that says whose signatures count (ssh-keygen(1), ALLOWED SIGNERS)",
                metavar="FILE",
            ),
        ),
        "Of an export everything is its sender's word but what is checked; a failed finding exits with 1. In "
        "a repository that has the base its patch is applied to that, beside the repository, and the gate "
        "asked again. What begins with `/`, `./`, `../`, `~` or ends in `.tar` is a path; of any other name "
        "a box comes first.",
    ),
    Verb(
        "accept",
        "decide",
        "Accept files, hunks or lines of a proposal; or reject them, or leave them open again.",
        "review:accept",
        "cloche.accept/1",
        (
            BOX_FIELD,
            Field("snapshot", "string", "the snapshot that was decided about"),
            Field("state", "string", "accepted, rejected or undecided"),
            Field("files", "list", f"the files that were named: {_FILE}"),
            *_COUNTS,
        ),
        (
            BOX,
            Param(("paths",), "file, or file:lines, see below", "positional", "PATH[:LINES]", many="*"),
            Param(("--all",), "everything in the proposal", "flag"),
            Param(("--reject",), "reject instead", "flag"),
            Param(("--undecide",), "decide neither", "flag"),
            Param(("--as",), "decide as a script of this name; journalled", metavar="NAME"),
            Param(("--expect",), "refuse unless this is the proposed snapshot", metavar="ID"),
        ),
        "LINES: `@2` is the second hunk, `12-15` are added lines by their number in the proposal, `-7` is a "
        "removed line by its number in the base, `mode`, `name`, `exists`, `content` are parts of the "
        "change; several are joined by commas. The last decision about a line counts. Decisions are kept "
        "with the box and carried over to a later proposal where a file's change is the same. Callers that "
        "run inside a box are refused.",
    ),
)
