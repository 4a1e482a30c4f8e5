"""``docs/policy.md``, written from the schema table.

``python -m backends.policy.reference > docs/policy.md`` writes it anew.
"""

from __future__ import annotations

import sys

from backends.policy import files, fit, schema, values
from backends.policy.danger import (
    BUSES,
    DOORS,
    HOME_SECRETS,
    HOST_SECRETS,
    KERNEL_TREES,
    SOCKETS,
    TOOL_SERVERS,
)
from backends.policy.model import TIERS

KINDS = {
    "choice": "one of the words below",
    "flag": "`true` or `false`",
    "size": '`"512M"`, `"2G"`, or bytes',
    "count": "a whole number from 1",
    "duration": '`"90s"`, `"30m"`, `"1h30m"`, or seconds',
    "text": "a text of one line",
    "filename": "a file name without folders",
    "paths": "a list of paths",
    "names": "a list of names",
    "hosts": "a list of destinations",
    "table": "a table of names to texts",
}

NARROWING = {
    schema.LESS: "only to less",  # of a limit; see _narrowing
    schema.REMOVE: "only take entries away",
    schema.ADD: "only add entries",
    schema.NEVER: "no",
}

HEAD = """\
# Policy

<!-- Written by backends/policy/reference.py from the schema table. Change that, then run:
     python -m backends.policy.reference > docs/policy.md -->

A **profile** is what a person writes. A **policy** is the profile resolved for one box on one host: absolute
paths, numbers instead of "2G", nothing left to look up. It is written to the box's `policy.json` before
anything writable exists, and its SHA-256 is its **digest**. A box keeps its policy even if the profile moves.

```toml
# cloche.toml, at the top of the repository
profile = "web"                     # for boxes made without --profile

[profiles.web]
extends = "default"

[profiles.web.fs]
read = ["/opt/node", "!/etc/maven"] # adds one path to what default grants, takes one away

[profiles.web.resources]
mem = "6G"
wall = "2h"
```

```
cloche policy check [FILE]  is it valid, what is dangerous, what would each profile become
cloche policy show [BOX]    the resolved policy
cloche policy explain [BOX] each value with the file and line that stated it
cloche policy digest [BOX]  the SHA-256 of the canonical policy.json
```

Without BOX, the last three show what `--profile` (or the default) would give here.

## Which statement counts

From the weakest to the strongest:

1. The defaults of the table below.
2. Each profile of the `extends` chain, from its root to the profile that was asked for. Within one profile:
   the built-in profile of that name, then `[profiles.NAME]` of `~/.config/cloche/config.toml`, then
   `[profiles.NAME]` of the repository's `cloche.toml`. A profile without `extends` rests on `default`; the
   strongest `extends` of a name counts.
3. The command line.

A single value replaces what it rests on. **A list adds to it**: `"!ENTRY"` takes an inherited entry away (for
paths also `"!PATTERN"`), `"!*"` takes all of them away; taking away what is not there is an error. A table
replaces name by name.

Without `--profile` the strongest `profile = "NAME"` counts, else `default`; for foreign code it is `review`.

An unknown key anywhere, a value of another type, a missing file: an error that names key, file and line.

## Foreign code

Policy comes from the person, not from the code under review. A `cloche.toml` that came with foreign code
(`--clone`, or another revision than your own checkout) is laid over your profile of the same name and **may
only narrow** it: the last column of the table says how. Whatever else it states has no effect and is shown as
a warning. A profile that only foreign code states is refused.
"""

PATHS = """\
## Paths

- `~` is your home directory. A relative path starts at the folder of the file that states it, on the command
  line at the current folder. Patterns are expanded once, when the box is made.
- A path that a built-in profile grants and this host lacks is left out. A path that you grant and that does
  not exist is an error.
- A grant through symbolic links becomes the real path, with the links beside it, so that masks hold.
- `fs.deny` hides what a grant covers; below a read grant even a name that the host makes later.
  The `default` profile hides the usual places of credentials. Granting and denying the same path is an error.
- Cloche's own state, and the git directory of the repository, are never granted and are hidden wherever a
  grant covers them. Cloche's configuration is never writable. A write grant that would cover one is refused.
"""


def render() -> str:
    """The text of ``docs/policy.md``."""
    parts = [HEAD, _keys(), PATHS, _files(), _built_in(), _tiers(), _dangers()]
    return "\n".join(parts)


def _keys() -> str:
    rows = [
        f"| `{key.path}` | {_type(key)} | {_default(key)} | {key.sentence} | {_narrowing(key)} |"
        for key in schema.KEYS
    ]
    extends = "| `extends` | the name of a profile | `default` | The profile that this one rests on. | no |"
    head = (
        "## Keys of `[profiles.NAME]`\n\n| key | write | default | meaning | foreign code may change it |\n"
    )
    units = "\nSizes are in units of 1024. `none`, where it is permitted, means no limit.\n"
    return head + "|---|---|---|---|---|\n" + "\n".join([extends, *rows]) + "\n" + units


def _narrowing(key: schema.Key) -> str:
    if key.narrow == schema.LESS and key.kind == "choice":
        return "only to a word further left"
    if key.narrow == schema.LESS and key.kind == "flag":
        return "only to `false`"
    return NARROWING[key.narrow]


def _type(key: schema.Key) -> str:
    if key.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return KINDS[key.kind] + (', or `"none"`' if key.unlimited else "")


def _default(key: schema.Key) -> str:
    if key.is_list or key.kind == "table" or key.default == "":
        return "nothing"
    return f"`{values.show(key, key.default)}`"


def _files() -> str:
    rows = []
    for key in schema.FILE_KEYS:
        place = "`config.toml`" if key.user_only else "both files"
        rows.append(f"| `{key.path}` | {KINDS[key.kind]} | {place} | {key.sentence} |")
    head = "## Keys beside the profiles\n\n| key | write | legal in | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _built_in() -> str:
    text = "## Built-in profiles\n"
    for name, file in files.built_in().items():
        source = (files.BUILT_IN / f"{name}.toml").read_text("utf-8").rstrip()
        text += f"\n### {name}\n\n```toml\n{source}\n```\n" if file.profiles else ""
    return text


def _tiers() -> str:
    head = (
        "## What a tier can enforce\n\n"
        "A policy with a key that its tier cannot enforce is refused when the box is made. `auto` tries "
        + ", ".join(f"`{tier}`" for tier in fit.AUTO_ORDER)
        + " in this order, takes the first that can enforce every key and is proved on this host, and never "
        "takes `workspace`.\n\n"
        '| tier | a list of destinations (`net.mode = "allow"`) | `image` | `services`, `secrets` |\n'
        "|---|---|---|---|\n"
    )
    rows = [
        f"| `{tier}` | {'yes' if tier in fit.EGRESS_TIERS else 'refused'} "
        f"| {'needed' if tier in fit.IMAGE_TIERS else 'refused'} | refused in this version |"
        for tier in TIERS
    ]
    return head + "\n".join(rows) + "\n"


def _dangers() -> str:
    rows = [f"| `~/{name}` | {what} |" for name, what in HOME_SECRETS]
    rows += [f"| `{path}` | {what} |" for path, what in (*HOST_SECRETS, *SOCKETS, *BUSES, *KERNEL_TREES)]
    doors = ", ".join(f"`{name}`" for name, _ in DOORS)
    servers = ", ".join(f"`~/{name}`" for name in TOOL_SERVERS)
    return (
        "## Warnings\n\n"
        "`cloche policy check` and `cloche new` warn about grants through which people are usually robbed: "
        "your home directory or `/`, write grants to files that run on the host later (shell start-up files, "
        "`~/.local/bin`), the host's network, wildcard destinations, wide or private networks, a cloud's "
        "metadata service, variables that look like credentials or lead to a service of the host "
        f"({doors}), files that name tool servers which run on the host ({servers}), "
        "`debug`, and these paths. [matrix.md](matrix.md) says what each leaves of a box's isolation, and "
        "`cloche matrix BOX` what of it this box has:\n\n"
        "| path | holds |\n|---|---|\n" + "\n".join(rows) + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(render())
