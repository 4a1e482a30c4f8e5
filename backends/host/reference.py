"""``docs/probe.md``, written from the tables: ``python -m backends.host.reference > docs/probe.md``."""

from __future__ import annotations

import sys
from typing import Any

from backends import injected, tiers
from backends.host import causes, claims, facts
from backends.snapshots_host import Fact, Obstacle, Proof

_INTRODUCTION = """\
# What this host can enforce

<!-- Written by backends/host/reference.py from the code's own tables. Change those, then run:
     python -m backends.host.reference > docs/probe.md -->

`cloche probe` keeps three things apart:

- a **fact** is what was seen. It proves nothing: what is present may not work, what is absent may not be
  needed.
- a **claim** is one sentence that a tier promises.
- a **proof** is a minimal confined action of that very tier that was run here: a box of it was started by the
  code that starts every box, and the action was tried inside. It has a result, a duration, and the evidence.

Nothing is told to be available because a file of it exists.

## How it runs

Every tier and the programs of the host are tried by processes of their own, all at once. One proof may take
{each:g} seconds, a tier {tier:g}; what gives no answer in time has failed, and is ended. To see the limits
bite, a program of the probe's box asks for more memory than it may have: where a control group holds the
limit, the kernel ends that program and notes it in its log (`dmesg`).

The answer is kept in `$XDG_STATE_HOME/cloche/host.json`, and given again while nothing changes that it
depends on: the boot, the kernel, the security modules, the packages' records, the programs that tiers start,
settings of the kernel, this program itself, and the user, privileges, namespaces, groups and limits that it
was started with. A kept answer says how old it is; `cloche probe --fresh` runs everything now. For each claim
it also keeps when it last held, and tells what is different since. An answer in which a proof failed or hung
for no cause that lies in the host is not kept: the next one is found anew. Every launch of a box proves its
boundary again, whatever is kept here.

## `cloche probe --json`

`schema` is `cloche.probe/1`; members may be added, never removed or changed. A program that adapts to a host
reads the row of `claims` whose `id` is the name of a tier: `proved` means that a box of it ran here.

| member | type | meaning |
|---|---|---|
| `claims` | list of *Claim* | the verdict on each tier, then its claims |
| `facts` | list of *Fact* | what was seen |
| `obstacles` | list of *Obstacle* | each cause once, first those that keep a tier from being had |
| `cached` | boolean | the answer is that of an earlier run |
| `time` | number | when the proofs were run, seconds since the epoch |
| `age` | number | seconds since then |
| `duration` | number | seconds that they took together |
| `conditions` | list of [name, value] | all that the answer depends on |
| `injected` | list | failures that were asked for; not empty: the answer is not this host's own |
| `not_kept` | string | why the answer could not be kept, empty when it was |
"""

_MEANINGS: dict[Any, tuple[tuple[str, str], dict[str, str]]] = {
    Proof: (
        ("Claim", "One claim with its proof."),
        {
            "id": "the tier's name for the verdict on it, else `tier.claim`; stable",
            "text": "the claim, one sentence",
            "result": "`proved`; `failed`: it was tried and does not hold; `not run`: it could not be tried",
            "evidence": "what was done and what came of it; what an error said",
            "duration": "seconds",
            "tier": "name of the tier",
            "without": "what becomes false where the claim does not hold",
            "time": "when it was run",
            "cause": "id of the cause (below), empty when it is proved",
            "remedy": "what ends the cause, with a command where there is one",
            "passed": "when it last held on this host, 0 when it was never seen to",
            "changed": "what is different since then",
        },
    ),
    Fact: (
        ("Fact", "One observation."),
        {
            "id": "stable",
            "text": "its name for people",
            "value": "as found, in words",
            "group": "one of " + ", ".join(facts.GROUPS),
        },
    ),
    Obstacle: (
        ("Obstacle", "What keeps tiers from their promise, or narrows it."),
        {
            "id": "id of the cause, stable",
            "what": "what cannot be had",
            "why": "what that means",
            "remedy": "what ends it",
            "tiers": "names of the tiers that are affected, also of those that this version does not have",
            "evidence": "what was run or seen",
        },
    ),
}


def _members() -> list[str]:
    lines: list[str] = []
    for kind, ((name, text), meanings) in _MEANINGS.items():
        lines += ["", f"### {name}", "", text, "", "| member | meaning |", "|---|---|"]
        lines += [f"| `{field}` | {meanings[field]} |" for field in kind._fields]
    return lines


def _claims() -> list[str]:
    lines = ["", "## Claims", "", "| claim | text | without it |", "|---|---|---|"]
    seen: dict[tuple[str, str], list[str]] = {}
    rows = {}
    for tier in tiers.MODULES:
        for row in claims.stated(tier):
            if row.id:
                seen.setdefault((row.id, row.text), []).append(tier)
                rows[row.id, row.text] = row
    for (ident, text), names in seen.items():
        lines.append(
            f"| {' '.join(f'`{tier}.{ident}`' for tier in names)} | {text} | {rows[ident, text].without} |"
        )
    return lines


def _causes() -> list[str]:
    lines = ["", "## Causes", "", "`cloche new`, `run`, `probe` and `doctor` say the same of each.", ""]
    lines += ["| cause | what | why | remedy | tiers |", "|---|---|---|---|---|"]
    for one in causes.CAUSES:
        names = ", ".join(one.tiers) or "-"
        narrowed = f"{names} (can be had, with less)" if one.narrows and one.tiers else names
        cells = (f"`{one.id}`", one.what, one.why, one.remedy, narrowed)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def _injections() -> list[str]:
    lines = [
        "",
        "## Failures on request",
        "",
        f"`{injected.VARIABLE}=ID[=HOW],...` in the environment makes what is named fail as a host does",
        "in the probe and in launches alike, so that every answer can be tried on any host. It can only make",
        "answers worse. Every verb says on standard error that failures are injected, the evidence of each",
        "is marked `(injected)`, and such an answer is never kept.",
        "",
        "| id | how (the first is the default) | what fails |",
        "|---|---|---|",
    ]
    for ident, (hows, text) in injected.KNOWN.items():
        words = "id of a claim" if hows == ("ID",) else ", ".join(f"`{how}`" for how in hows)
        lines.append(f"| `{ident}` | {words} | {text} |")
    return lines


def render() -> str:
    """The whole text of ``docs/probe.md``."""
    from backends.host import proofs_talk
    from backends.keeper import init_proofs

    text = _INTRODUCTION.format(each=init_proofs.EACH, tier=proofs_talk.PATIENCE).rstrip("\n")
    return "\n".join([text, *_members(), *_claims(), *_causes(), *_injections()]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
