"""docs/keys.md, from the action table: ``python -m app.keys_manual``."""

from __future__ import annotations

import sys

from app.action import CONTEXTS, Action
from app.actions import of_context, shown_key

HEAD = """# Keys of the workbench

Made from the action table (`python -m app.keys_manual > docs/keys.md`); `?` shows the same in the workbench.
The footer shows what fits, the command palette (`ctrl+p`) everything, with the reason where one cannot.

A key can be moved in `~/.config/cloche/config.toml` by the id of its action, where one is given:

```toml
[keymap]
stop = "s"
```
"""


def _row(action: Action) -> str:
    keys = ", ".join(f"`{key}`" for key in shown_key(action.key, first=False).split(" "))
    note = " Asks first." if action.danger else ""
    name = "" if action.own else f"`{action.id}`"
    return f"| {keys} | {name} | {action.tooltip}.{note} |".replace("?.", "?")


def markdown() -> str:
    """The page, contexts in the order of the help screen."""
    parts = [HEAD]
    for context, title in CONTEXTS.items():
        rows = "\n".join(_row(action) for action in of_context(context))
        parts.append(f"\n## {title}\n\n| key | id | does |\n|---|---|---|\n{rows}\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(markdown())
