"""The one table of verbs: parser, help, handlers and ``docs/commands.md`` are all made from it."""

from __future__ import annotations

from app.cli.table_apply import APPLY_VERBS
from app.cli.table_checkpoint import CHECKPOINT_VERBS
from app.cli.table_compare import COMPARE_VERBS
from app.cli.table_denials import DENIAL_VERBS
from app.cli.table_doctor import DOCTOR_VERBS
from app.cli.table_egress import EGRESS_VERBS
from app.cli.table_image import IMAGE_VERBS
from app.cli.table_matrix import MATRIX_VERBS
from app.cli.table_request import REQUEST_VERBS
from app.cli.table_review import REVIEW_VERBS
from app.cli.vocabulary import BOX, BOX_FIELD, JSON, Field, Param, Verb

__all__ = ["BY_NAME", "GROUPS", "JSON", "TIERS", "VERBS", "Field", "Param", "Verb"]

TIERS = ("auto", "workspace", "process", "supervised", "container", "microvm")

_MAYBE_BOX = Param(("box",), "name of the box", "positional", "BOX", many="?")
_BOXES = Param(("boxes",), "names of boxes", "positional", "BOX", many="+")
_REST = Param(("command",), "the command and its arguments, after --", "rest", "CMD")
_ALL = Param(("-a", "--all"), "boxes of all repositories", "flag")
_PROFILE = Param(
    ("--profile",), "profile to resolve (default: the one that the configuration names)", metavar="P"
)

_ROW = Field("box", "box", "the box, see *Box*")
_SNAPSHOT = Field("snapshot", "snapshot", "what was frozen, see *Snapshot*")

GROUPS = ("make and use", "see", "decide", "end", "policy and host")

VERBS: tuple[Verb, ...] = (
    Verb(
        "new",
        "make and use",
        "Make a box: a checkout with a pinned base and one resolved policy.",
        "boxes:new",
        "cloche.new/1",
        (
            _ROW,
            Field("policy_digest", "string", "SHA-256 of policy.json"),
            Field("root", "string", "folder of the box"),
            Field(
                "reasoning",
                "object or null",
                "with `--tier auto`: profile, tier, why, age of the proofs, and rows (tier, state, why, "
                "remedy, proof, start in seconds)",
            ),
        ),
        (
            Param(
                ("name",), "name of the box (default: a readable random one)", "positional", "NAME", many="?"
            ),
            Param(("--from",), "revision to start from (default: HEAD)", metavar="REV", default="HEAD"),
            Param(
                ("--tier",), "what enforces the boundary (default: the profile's, then auto)", choices=TIERS
            ),
            Param(
                ("--profile",), "profile to resolve (default: the configuration's)", metavar="P", default=""
            ),
            Param(("--image",), "image for the container and microvm tiers", metavar="I", default=""),
            Param(
                ("--clone",),
                "clone this https, ssh or file URL; such a box is detached",
                metavar="URL",
                default="",
            ),
            Param(("--empty",), "start with no files and no repository; such a box is detached", "flag"),
            Param(("--purpose",), "what the box is for, in a few words", metavar="TEXT", default=""),
            Param(("--expires",), "when it should be gone: 90m, 8h, 3d", metavar="TIME", default=""),
            Param(("command",), "first command of the box, after --; its exit code passes", "after", "CMD"),
        ),
        "A detached box can be exported; it cannot be applied. A failure at any step leaves nothing behind. "
        "`--tier auto` takes a tier only when a box of it ran on this host, and says on standard error why "
        "it takes this one and none of the others.",
    ),
    Verb(
        "run",
        "make and use",
        "Run a command in a box; its streams, signals and exit code pass through.",
        "run:main",
        "cloche.run/1",
        (
            BOX_FIELD,
            Field("session", "number", "number of the session"),
            Field("exit", "number", "exit code; 128 + signal; 124 on the wall limit"),
            Field("wall", "number", "seconds"),
            Field("cpu", "number or null", "seconds of user and system time"),
            Field("peak_rss", "number or null", "bytes; null when below init's, about 15 MiB"),
        ),
        (
            BOX,
            Param(("--cwd",), "folder to start in, below the tree", metavar="DIR", default=""),
            _REST,
        ),
        "Options come before BOX. Because standard output is the command's own, `--json` prints its document "
        "on standard error when the command has ended. Killing `cloche run` with SIGKILL leaves the command "
        "running.",
    ),
    Verb(
        "shell",
        "make and use",
        "Open a shell (or CMD) in a box on a terminal of its own; ctrl-] detaches.",
        "terminal:shell",
        "cloche.shell/1",
        (
            BOX_FIELD,
            Field("session", "number", "number of the session"),
            Field("detached", "boolean", "true when the session goes on"),
            Field("exit", "number or null", "exit code, null when detached"),
        ),
        (BOX, _REST),
        "What the box prints reaches your terminal without control strings: titles and clipboard stay yours. "
        "`--json` prints its document on standard error.",
    ),
    Verb(
        "attach",
        "make and use",
        "Attach to a session of a box: its last screen, then live; ctrl-] detaches.",
        "terminal:attach",
        "cloche.shell/1",
        (
            BOX_FIELD,
            Field("session", "number", "number of the session"),
            Field("detached", "boolean", "true when the session goes on"),
            Field("exit", "number or null", "exit code, null when detached"),
        ),
        (
            BOX,
            Param(
                ("session",), "number of the session (default: the newest)", "positional", "SESSION", many="?"
            ),
        ),
    ),
    Verb(
        "stop",
        "make and use",
        "End every process of boxes; returns after none survives.",
        "boxes:stop",
        "cloche.stop/1",
        (
            Field(
                "results", "list", "for each box: `box`, `stopped` (false: it was not live), `error` or null"
            ),
        ),
        (_BOXES,),
    ),
    Verb(
        "ls",
        "see",
        "List boxes.",
        "boxes:ls",
        "cloche.ls/1",
        (Field("boxes", "list of box", "the boxes by age, see *Box*"),),
        (_ALL,),
        "Outside a repository all boxes are listed. A keeper that does not answer in time shows as slow.",
    ),
    Verb(
        "status",
        "see",
        "Show what a box actually received: requested, enforced, missing, mechanism, proof, launch host.",
        "evidence:status",
        "cloche.status/1",
        (
            _ROW,
            Field("policy_digest", "string", "SHA-256 of policy.json"),
            Field("launch_host", "string", "node, kernel and boot of the last launch, empty before it"),
            Field("tree_provider", "string", "checkout or overlay"),
            Field("tree_reason", "string", "why this provider, as it was decided when the box was made"),
            Field(
                "enforcement",
                "list",
                "rows of `key`, `requested`, `enforced`, `missing`, `mechanism`, `proof`",
            ),
            Field("claims", "list", "rows of `id`, `text`, `result`, `evidence`, `duration`"),
            Field("answers", "list", "pairs: the five questions and what holds for this box"),
            Field("snapshot", "snapshot or null", "the proposal"),
            Field("egress", "list", "rows as of `cloche egress`; null where no list is held now"),
        ),
        (BOX,),
    ),
    Verb(
        "ps",
        "see",
        "List the whole process tree of a box.",
        "evidence:ps",
        "cloche.ps/1",
        (
            BOX_FIELD,
            Field(
                "processes",
                "list",
                "depth first: `ident` and `parent` (`pid`, `start`), `depth`, `state`, `cpu`, `rss`, `age`, "
                "`name`, `command` (redacted), `session`",
            ),
        ),
        (BOX,),
    ),
    *DENIAL_VERBS,
    *EGRESS_VERBS,
    Verb(
        "log",
        "see",
        "Print the journal of a box.",
        "evidence:log",
        "cloche.log/1",
        (BOX_FIELD, Field("records", "list", "`seq`, `time`, `kind`, `data`, `hash`, oldest first")),
        (BOX, Param(("-n", "--last"), "only the last N records", metavar="N", default="")),
    ),
    Verb(
        "watch",
        "see",
        "Follow the journal of a box until interrupted.",
        "evidence:watch",
        "cloche.watch/1",
        (
            BOX_FIELD,
            Field("seq", "number", "number of the record"),
            Field("time", "number", "seconds since the epoch"),
            Field("kind", "string", "kind of the record"),
            Field("data", "object", "the record's own values"),
            Field("hash", "string", "SHA-256 of the record"),
        ),
        (BOX, Param(("--deny-only",), "only denials", "flag")),
        "`--json` prints one document a line, one for each record.",
    ),
    Verb(
        "diff",
        "see",
        "Show what a box changed so far against its base.",
        "gate:diff",
        "cloche.diff/1",
        (
            BOX_FIELD,
            Field("base", "string", "commit"),
            Field("tree", "string", "tree object that was compared"),
            Field(
                "changes",
                "list",
                "`path`, `old_path`, `status`, `old_mode`, `new_mode`, `old_oid`, `new_oid`, `added`, "
                "`deleted`",
            ),
            Field("skipped", "list", "pairs of path and reason: what could not be read"),
        ),
        (
            BOX,
            Param(("--stat",), "files and counts instead of the patch", "flag"),
            Param(("--raw",), "the patch byte for byte as it is, even on a terminal", "flag"),
        ),
        "Into a pipe or file the patch is written byte for byte; on a terminal controls are made visible.",
    ),
    Verb(
        "propose",
        "decide",
        "Freeze what a box holds as its proposal.",
        "gate:propose",
        "cloche.propose/1",
        (
            BOX_FIELD,
            _SNAPSHOT,
            Field("checks", "list", "`id`, `verdict` (pass, warn, refuse), `reason`, `path`, `key`"),
        ),
        (BOX, Param(("--stop",), "end the box's processes first", "flag")),
    ),
    *REVIEW_VERBS,
    *COMPARE_VERBS,
    *REQUEST_VERBS,
    Verb(
        "reopen",
        "decide",
        "Take a proposal back: the box is idle again.",
        "gate:reopen",
        "cloche.reopen/1",
        (BOX_FIELD, Field("state", "string", "the state after it")),
        (BOX,),
    ),
    Verb(
        "export",
        "decide",
        "Write patch.diff, report.md and receipt.json of a proposal, signed when you ask.",
        "gate:export",
        "cloche.export/1",
        (
            BOX_FIELD,
            Field("out", "string", "folder or file"),
            Field("files", "list", "names in it"),
            _SNAPSHOT,
            Field(
                "warnings",
                "list",
                "rows as of `checks` of cloche review: of a series, what only mails on the way hold",
            ),
        ),
        (
            BOX,
            Param(("--out",), "folder to write, new or empty; or one file, NAME.tar", metavar="DIR"),
            Param(("--force",), "write into a folder that holds something", "flag"),
            Param(("--series",), "also the box's commits, each a mail for `git am`", "flag"),
            Param(
                ("--sign",), "sign the receipt: your SSH key, or a public key in your agent", metavar="KEY"
            ),
            Param(("--no-sign",), "do not sign, whatever config.toml says (`sign`)", "flag"),
        ),
        "The mails are `0001-....patch` and so on: `git am DIR/0*.patch` makes commits with the same files, "
        "messages and authors. Each is tried before it is written; where one would not come back the same "
        "(a merge, a signed commit, a message that is not UTF-8), that commit is named and nothing written. "
        "What only a mail on the way holds was in no diff: that is warned of, here and in the report.",
    ),
    *APPLY_VERBS,
    Verb(
        "verify",
        "decide",
        "Check an export again, a folder or a file: hashes, signature and chain.",
        "gate:verify",
        "cloche.verify/1",
        (
            Field("folder", "string", "the folder"),
            Field("ok", "boolean", "false when a finding failed (exit 1)"),
            Field("findings", "list", "`id`, `verdict` (ok, warn, fail), `text`, `evidence`, `remedy`"),
        ),
        (
            Param(("folder",), "folder or file that export wrote", "positional", "DIR"),
            Param(
                ("--signers",),
                "file that says whose signatures count (ssh-keygen(1), ALLOWED SIGNERS)",
                metavar="FILE",
            ),
        ),
        "With a file of signers (or `signers` in config.toml) a receipt that none of them signed is a "
        "failure; without one, whose key signed is only told.",
    ),
    Verb(
        "abort",
        "end",
        "Give boxes up: end their processes, keep the evidence until they are removed.",
        "boxes:abort",
        "cloche.abort/1",
        (Field("results", "list", "for each box: `box`, `state`, `error` or null"),),
        (_BOXES, Param(("--why",), "the reason, for the journal", metavar="TEXT", default="")),
    ),
    Verb(
        "rm",
        "end",
        "Remove boxes; goes on after one fails.",
        "boxes:rm",
        "cloche.rm/1",
        (Field("results", "list", "for each box: `box`, `removed`, `detail`, `error` or null"),),
        (
            _BOXES,
            Param(("--force",), "end a live box first; the lock of another operation still counts", "flag"),
        ),
    ),
    Verb(
        "gc",
        "end",
        "Remove applied and aborted boxes and what a killed `new`, `rm` or probe left behind.",
        "boxes:gc",
        "cloche.gc/1",
        (Field("results", "list", "for each box: `box`, `removed`, `detail`, `error` or null"),),
        (_ALL,),
    ),
    Verb(
        "policy check",
        "policy and host",
        "Check cloche.toml and the user's configuration against the schema.",
        "policy:check",
        "cloche.policy-check/1",
        (
            Field("ok", "boolean", "false when a finding failed (exit 1)"),
            Field("findings", "list", "`id`, `verdict`, `text`, `evidence`, `remedy`"),
        ),
        (
            Param(
                ("file",),
                "file to check (default: all that would count here)",
                "positional",
                "FILE",
                many="?",
            ),
        ),
    ),
    Verb(
        "policy show",
        "policy and host",
        "Print the policy of a box, or the one that a profile gives here.",
        "policy:show",
        "cloche.policy-show/1",
        (
            Field("digest", "string", "SHA-256 of policy.json"),
            Field("policy", "object", "the resolved policy"),
        ),
        (_MAYBE_BOX, _PROFILE),
    ),
    Verb(
        "policy explain",
        "policy and host",
        "Print each value of a policy with the file and line it came from.",
        "policy:explain",
        "cloche.policy-explain/1",
        (Field("keys", "list", "`key`, `value`, `source`"),),
        (_MAYBE_BOX, _PROFILE),
    ),
    Verb(
        "policy digest",
        "policy and host",
        "Print the digest that names a policy: a box's, or that of a box made here now.",
        "policy:digest",
        "cloche.policy-digest/1",
        (Field("digest", "string", "SHA-256 of policy.json"),),
        (_MAYBE_BOX, _PROFILE),
    ),
    Verb(
        "probe",
        "policy and host",
        "Try what this host can enforce; every answer is an action that ran here.",
        "host:probe",
        "cloche.probe/1",
        (
            Field(
                "claims",
                "list",
                "`id`, `text`, `result` (proved, failed, not run), `evidence`, `duration`, `tier`, `without`,"
                " `time`, `cause`, `remedy`, `passed`, `changed`, see docs/probe.md",
            ),
            Field("facts", "list", "`id`, `text`, `value`, `group`: what was seen without trying anything"),
            Field(
                "obstacles",
                "list",
                "`id`, `what`, `why`, `remedy`, `tiers`, `evidence`: what stands in the way",
            ),
            Field("cached", "boolean", "the answer of an earlier run, whose conditions still hold"),
            Field("time", "number", "when the proofs were run"),
            Field("age", "number", "seconds since then"),
            Field("duration", "number", "seconds that took"),
            Field("conditions", "list", "name and value of all that the answer depends on"),
            Field("injected", "list", "failures that were asked for by CLOCHE_INJECT"),
            Field("not_kept", "string", "why the answer could not be kept, empty when it was"),
        ),
        (Param(("--fresh",), "run every proof now, also where the kept answer still holds", "flag"),),
    ),
    *DOCTOR_VERBS,
    *MATRIX_VERBS,
    *IMAGE_VERBS,
    *CHECKPOINT_VERBS,
    Verb(
        "demo",
        "make and use",
        "Open the workbench on a sample repository with three boxes; or remove them.",
        "start:demo",
        "cloche.demo/1",
        (
            Field("folder", "string", "where the sample repository lies"),
            Field("removed", "boolean", "after --remove"),
        ),
        (
            Param(("--remove",), "remove the sample repository and its boxes", "flag"),
            Param(("--text",), "tell the same as text, as it is without a terminal", "flag"),
            Param(("--tiers",), "one box for each tier, or why this host refuses it, as text", "flag"),
        ),
    ),
)

BY_NAME = {verb.name: verb for verb in VERBS}
