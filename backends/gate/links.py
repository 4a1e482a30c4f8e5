"""Where the symbolic links of a tree lead, resolved on the tree itself and never on a disk. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from backends.trees.names import is_dotgit

MAX_LINKS = 40  # as the kernel's path walk (path_resolution(7), ELOOP)
_WINDOWS_ROOT = re.compile(rb"\A(?:[A-Za-z]:|\\)")


def escape_of(path: bytes, links: Mapping[bytes, bytes]) -> str:
    """How the link at ``path`` leaves its tree, "" when it stays inside.

    ``links`` maps the path of every symbolic link of the tree to its target, so that a link through another
    link is followed. A target inside that does not exist stays inside.
    """
    target = links[path]
    if not target or b"\0" in target:
        return "has an empty or broken target"
    if _WINDOWS_ROOT.match(target):
        return "points to an absolute path of Windows"
    followed = 0
    here = path.split(b"/")[:-1]
    pending = [target]
    while pending:
        step = pending.pop()
        if step.startswith(b"/"):
            return "points to an absolute path"
        head, _, rest = step.partition(b"/")
        if rest:
            pending.append(rest.lstrip(b"/"))
        if head in (b"", b"."):
            continue
        if head == b"..":
            if not here:
                return "leads above the top of the tree"
            here.pop()
            continue
        if is_dotgit(head):
            return "leads into a .git folder"
        here.append(head)
        onward = links.get(b"/".join(here))
        if onward is not None:
            followed += 1
            if followed > MAX_LINKS:
                return "runs in a circle"
            here.pop()
            pending.append(onward)
    return ""
