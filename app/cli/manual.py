"""``docs/commands.md``, made from the verb table: ``python -m app.cli.manual > docs/commands.md``."""

from __future__ import annotations

import sys

from app.cli.table import GROUPS, JSON, VERBS, Param, Verb

INTRODUCTION = """\
# Commands

*Made from the verb table by `python -m app.cli.manual > docs/commands.md`; a test keeps it up to date.*

`cloche` without a verb opens the workbench. `BOX` is the name of a box, or `<repository key>/<name>` where a
bare name would be ambiguous: a bare name means the box of the repository one stands in, else the only box of
that name anywhere.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | a check failed (`doctor`, `verify`, `policy check`), or the command could not do its work |
| 2 | usage: the words cannot be read, a name is not allowed or is ambiguous |
| 3 | refused: a boundary, a check or a promise cannot be had |
| 4 | no such box |
| 5 | busy or conflict: nothing was changed |
| 124 | `run`: the wall limit of the policy was met |
| other | `run` and `shell`: the command's own, or 128 + the signal that ended it |

## JSON

Every verb takes `--json` and prints one document with a `schema` of the form `cloche.<verb>/<version>`;
members may be added to a version, never removed or changed. Notes go to standard error. A failure prints
nothing on standard output and, as the last line of standard error, `cloche.error/1`: `code` (a stable
word), `what`, `why`, `next`, `exit`. Documents are ASCII; a raw byte 0xNN of a name or text that is not
UTF-8 is written as `\\udcNN` (Python's surrogateescape). Times are seconds since the epoch, sizes are bytes.
Command lines are redacted of what looks like a secret.

### Box

`key`, `name`, `repository` (empty: detached), `tier`, `profile`, `state` (created, running, idle, proposed,
applied, aborted; damaged), `live` (live, slow, lost or empty), `base`, `base_ref`, `drift` (commits that the
branch gained since, null when that cannot be told), `created`, `purpose`, `expires`, `needs` (why it needs a
person), `processes`, `cpu` (percent of one core), `rss`, `denied`, `stat` (`files`, `added`, `deleted` or
null), `last_line`, `unconfined`.

### Snapshot

`id` (tree object), `base`, `base_tree`, `created`, `stat`.
"""


def _usage(verb: Verb) -> str:
    words = ["cloche", verb.name]
    positionals: list[str] = []
    for param in verb.params:
        if param.kind == "flag":
            words.append(f"[{param.names[0]}]")
        elif param.kind == "value":
            more = "..." if param.many else ""
            words.append(f"[{param.names[0]} {param.metavar or '|'.join(param.choices)}{more}]")
        elif param.kind in ("rest", "after"):
            required = verb.name == "run"
            positionals.append("-- CMD..." if required else "[-- CMD...]")
        else:
            shape = {"": "{}", "?": "[{}]", "+": "{}...", "*": "[{}...]"}[param.many]
            positionals.append(shape.format(param.metavar))
    return " ".join([*words, *positionals])


def _param(param: Param) -> str:
    names = param.names if param.names[0].startswith("-") else (param.metavar,)
    name = ", ".join(f"`{one}`" for one in names)
    return f"| {name} | {param.help} |"


def _section(verb: Verb) -> list[str]:
    lines = [f"### cloche {verb.name}", "", verb.summary, "", "```", _usage(verb), "```", ""]
    lines += ["| argument | meaning |", "|---|---|", *(_param(param) for param in (*verb.params, JSON)), ""]
    if verb.notes:
        lines += [verb.notes, ""]
    lines += [f"`{verb.schema}`:", "", "| member | type | meaning |", "|---|---|---|"]
    lines += [f"| `{field.name}` | {field.type} | {field.meaning} |" for field in verb.fields]
    return [*lines, ""]


def render() -> str:
    """The whole text of ``docs/commands.md``."""
    lines = [INTRODUCTION]
    for group in GROUPS:
        lines += [f"## {group.capitalize()}", ""]
        for verb in VERBS:
            if verb.group == group:
                lines += _section(verb)
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
