"""The verbs that change the person's repository."""

from __future__ import annotations

from app.cli.vocabulary import BOX, BOX_FIELD, Field, Param, Verb

_COMBINATION = Field(
    "combination",
    "string",
    "`combination not run` for a part and for a merge: what ran in the box had the rest beside it, or not "
    "what the branch gained; `combination ran, exit N` where exactly that was tried; else empty",
)
_AMOUNT = (
    Field("partial", "boolean", "only what was accepted is taken"),
    Field("accepted", "number", "lines and parts of the proposal that are taken"),
    Field("left", "number", "those that are not; they stay in the box"),
    _COMBINATION,
)

APPLY_VERBS: tuple[Verb, ...] = (
    Verb(
        "apply",
        "decide",
        "Carry a proposal, or the accepted part of it, onto the branch it came from.",
        "gate:apply",
        "cloche.apply/1",
        (
            BOX_FIELD,
            Field("branch", "string", "the branch"),
            Field("old", "string", "its tip before, empty for a new branch"),
            Field("new", "string", "its tip after; with `--dry-run` empty"),
            Field("mode", "string", "fast-forward, merge or squash"),
            Field("who", "string", "who applied it; with `--dry-run` empty"),
            Field("notes", "list", "what is still to be done, such as running a filter"),
            Field("tree", "string", "tree of the commit that the branch comes to"),
            *_AMOUNT,
            Field("commits", "list", "ids of the box's commits that are kept, oldest first"),
            Field(
                "plan",
                "object",
                "only with `--dry-run`, else null: `branch`, `new_branch`, `old`, `base`, `snapshot`, "
                "`mode`, `tree`, `parents`, `message` (the commit as it would be made), `partial`, "
                "`accepted`, `left`, `combination`, `checks` (of exactly what would be taken, as in "
                "`cloche review`), `standing` (those of them that warn and that nobody acknowledged), "
                "`commits` (that are kept, as in `cloche review`)",
            ),
        ),
        (
            BOX,
            Param(("--dry-run",), "show the commit that would be made, and make none", "flag"),
            Param(("--squash",), "one commit on top of the branch instead of a merge", "flag"),
            Param(("--keep-commits",), "take the box's own commits as they are", "flag"),
            Param(("--onto",), "make this branch at the base, and leave the recorded one", metavar="NAME"),
            Param(("-m", "--message"), "message of the commit; trailers are added", metavar="TEXT"),
            Param(
                ("--as",), "apply as a script of this name, without a question; journalled", metavar="NAME"
            ),
            Param(("--expect",), "refuse unless this is the proposed snapshot", metavar="ID"),
            Param(
                ("--acknowledge",),
                "take these warnings upon oneself: keys joined by commas, or all; journalled",
                metavar="KEYS",
            ),
        ),
        "A person applies: on a terminal it shows the commit, asks about each warning that stands and then "
        "about the whole; without one `--as` is needed, and `--acknowledge` where the gate warns: nothing is "
        "applied while a warning of exactly what is taken stands. `--dry-run` shows their keys. Where "
        "anything was decided (`cloche accept`) and not all is accepted, the accepted part is applied, after "
        "the gate's checks ran on exactly that. The rest stays in the box, whose files do not change: it is "
        "idle again, compared with what was taken. Callers that run inside a box are refused.",
    ),
    Verb(
        "rebase",
        "decide",
        "Merge what the branch gained into a box, and compare it with the branch's tip from then on.",
        "rebase:rebase",
        "cloche.rebase/1",
        (
            BOX_FIELD,
            Field("branch", "string", "the branch"),
            Field("old", "string", "the box's base before"),
            Field("new", "string", "and now, the branch's tip"),
            Field("written", "number", "files of the box that were changed or removed"),
            Field("conflicts", "list", "pairs of path and Git's word for how both changed it"),
        ),
        (BOX, Param(("--as",), "rebase as a script of this name; journalled", metavar="NAME")),
        "The branch and your checkout stay as they are. Files that both changed get conflict marks and are "
        "named; solve them in the box. Of a binary file that both changed the box keeps its own. The box is "
        "idle then: a proposal is taken back. Its private Git keeps its own commits and begins where it did: "
        "`git status` inside shows what the branch gained as changes, while `cloche diff` shows only the "
        "box's own. A conflict that is left unsolved is a warning of the gate. Callers that run inside a box "
        "are refused.",
    ),
    Verb(
        "unapply",
        "decide",
        "Undo the last apply of a box while the branch has not moved on.",
        "gate:unapply",
        "cloche.unapply/1",
        (
            BOX_FIELD,
            Field("branch", "string", "the branch"),
            Field("old", "string", "its tip before, which apply had made"),
            Field("new", "string", "its tip after, empty where apply had made the branch: it is gone"),
            Field("state", "string", "of the box: proposed, or idle where a part had been applied"),
        ),
        (BOX, Param(("--as",), "undo as a script of this name; journalled", metavar="NAME")),
        "The branch and your checkout of it go back to where they were, or nothing changes. On a terminal "
        "you are shown what goes back and asked; a script names itself with --as. Callers that run inside "
        "a box are refused.",
    ),
)
