"""The verbs that try what was accepted, and set boxes beside each other."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Param, Verb

COMPARE_VERBS: tuple[Verb, ...] = (
    Verb(
        "try",
        "decide",
        "Run a command on exactly what is accepted of a proposal, in a fresh box of the same policy.",
        "trying:try_",
        "cloche.try/1",
        (
            BOX_FIELD,
            Field("snapshot", "string", "the proposal"),
            Field("taken", "string", "tree of what is accepted of it"),
            Field("whole", "boolean", "that is all of it"),
            Field("onto", "string", "the commit that it was merged onto, empty where it lay on its base"),
            Field("tree", "string", "what the fresh box held"),
            Field("argv", "list", "the command, redacted"),
            Field("exit", "number", "exit code; 128 + signal; 124 on the wall limit"),
            Field("wall", "number", "seconds"),
            Field("cpu", "number or null", "seconds of user and system time"),
            Field("peak_rss", "number or null", "bytes"),
            Field("denied", "number", "what was refused in the fresh box"),
            Field("denials", "list", "the most frequent: kind, object, how often"),
            Field("fresh", "string", "name of the fresh box"),
            Field("kept", "boolean", "it was not removed"),
            Field("who", "string", "who tried it"),
            Field("time", "number", "when it was journalled"),
        ),
        (
            BOX,
            Param(("--onto-tip",), "merge it onto where the branch is now, and run on that", "flag"),
            Param(("--keep",), "leave the fresh box, to look into it; it is detached", "flag"),
            Param(("--as",), "try as a script of this name; journalled", metavar="NAME"),
            Param(("command",), "the command and its arguments, after --", "after", "CMD"),
        ),
        "Where nothing was decided, all of the proposal is tried. The outcome joins the evidence of BOX "
        "(journal kind `tried`), and an accepted part that was tried is no longer said to be a combination "
        "that was not run. Nothing enters your repository. The exit code is the command's; `--json` prints "
        "its document on standard error. What is killed in the middle is removed by `cloche gc`. Not for "
        "tier workspace, and not for callers that run inside a box.",
    ),
    Verb(
        "compare",
        "see",
        "Set boxes beside each other: files, lines, tests, refusals, time.",
        "comparing:compare",
        "cloche.compare/1",
        (
            Field(
                "boxes",
                "list",
                "for each: `box` (see *Box*), `tree`, `frozen` (a proposal; else as it lay at this moment), "
                "`base`, `stat`, `size` (bytes of changed files), `sessions`, `seconds` (that they ran), "
                "`tests` (`argv`, `exit`, `seconds`, `inside`: the last run of a command that the "
                "box started itself), `denied`, `tried` (as `cloche review` has it)",
            ),
            Field(
                "files",
                "list",
                "by path: `path`, `versions` box by box: null where it is as in the base, else `number` "
                "(equal: the same to the byte), `status`, `mode`, `oid`, `added`, `deleted`",
            ),
            Field("more", "number", "files beyond those that are listed"),
            Field("one_base", "boolean", "all began at the same commit"),
        ),
        (Param(("boxes",), "names of at least two boxes", "positional", "BOX", many="+"),),
        "A live box stands still for the moment in which it is read.",
    ),
)
