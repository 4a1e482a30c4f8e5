"""The verbs about what was refused: shown, explained, allowed, and learned from."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Param, Verb

_PROPOSAL = "`key`, `value`, `file`, `diff` (unified), `live` (the running box can take it without a restart)"

DENIAL_VERBS: tuple[Verb, ...] = (
    Verb(
        "denials",
        "see",
        "Show what was refused in a box, counted from its journal.",
        "evidence:denials",
        "cloche.denials/1",
        (
            BOX_FIELD,
            Field("total", "number", "refusals in all"),
            Field("others", "number", "refusals without a row of their own"),
            Field(
                "rows",
                "list",
                "`kind`, `object`, `rule`, `lane`, `enforced_by`, `pid`, `command`, `count`, `first`, `last`",
            ),
            Field(
                "not_observed",
                "list",
                "`kind` and `reason`: what this tier cannot see; never to be read as zero",
            ),
            Field(
                "lost",
                "object",
                "`opens`, `execs`, `connects` and the like: how many happened and could not be looked at",
            ),
        ),
        (BOX,),
    ),
    Verb(
        "explain",
        "see",
        "Say why something was refused, and what in the profile would allow exactly that.",
        "denials:explain",
        "cloche.explain/1",
        (
            BOX_FIELD,
            Field(
                "explanations",
                "list",
                "`kind`, `object`, `rule`, `count`, `where` (file and line, or a default), "
                f"`reason`, `proposal` (null or {_PROPOSAL}), `why_not`",
            ),
        ),
        (
            BOX,
            Param(
                ("what",),
                "number of a row of `cloche denials`, or its object",
                "positional",
                "N|OBJECT",
            ),
        ),
        "Nothing is changed. Credentials, ways to them and a network that the profile denies are never "
        "proposed. See [denials.md](denials.md).",
    ),
    Verb(
        "allow",
        "decide",
        "Accept one change of your profile: written to your `cloche.toml`, journalled as a new generation.",
        "denials:allow",
        "cloche.allow/1",
        (
            BOX_FIELD,
            Field("key", "string", "key of the profile"),
            Field("value", "string", "what the list gained, or the value that the key has now"),
            Field("file", "string", "the file that was changed"),
            Field("diff", "string", "unified diff of it, empty when it said so already"),
            Field("live", "boolean", "true: the running box took it; false: it counts from the next start"),
            Field("who", "string", "who accepted it"),
        ),
        (
            BOX,
            Param(
                ("rule",),
                "number or object of a refusal, `KEY=VALUE`, or a destination for `net.egress`",
                "positional",
                "RULE",
            ),
            Param(("--yes",), "do not ask; needs --as", "flag"),
            Param(("--as",), "who accepts, for the journal; with --yes a script", metavar="NAME"),
        ),
        "On a terminal it shows the diff and asks. Without one `--yes --as NAME` is needed. Callers that run "
        "inside a box are refused. Row numbers move while a box runs: scripts name the object.",
    ),
    Verb(
        "learn",
        "see",
        "Compare what a box used with what it was granted, and draft the narrowest profile.",
        "learn:main",
        "cloche.learn/1",
        (
            BOX_FIELD,
            Field("profile", "string", "the draft, as TOML"),
            Field("grants", "list", "`key`, `entry`, `used` (true, false, or null: not observed), `places`"),
            Field("peaks", "list", "`key`, `granted`, `peak`: how near a limit the box came, in words"),
            Field(
                "not_observed", "list", "texts: what nobody looked at, so that it may be needed all the same"
            ),
        ),
        (
            BOX,
            Param(("--name",), "name of the drafted profile", metavar="P", default="learned"),
        ),
        "The draft goes to standard output and the comparison to standard error. Reads count only with "
        '`observe = "all"`: run the work once in a box of such a profile, then learn.',
    ),
)
