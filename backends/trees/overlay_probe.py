"""Shows whether this host can give a box an overlay tree, by making one as a launch makes it.

A script of its own, because it changes the namespaces that it runs in. Prints ``{"works", "evidence",
"told"}``.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # isolated (-I -S): the project is not on the path yet
    sys.path.append(sys.argv[2])

import json
import select
import stat

from backends.kernel import mounts, namespaces
from backends.kernel.syscalls import PR_SET_DUMPABLE, prctl
from backends.trees import watch

PAYLOAD = 1879048192  # an unprivileged uid, as root's boxes have
INSIDE = 1000
TEXT = b"lower\n"


def run(lower: str, upper: str) -> tuple[str, bool]:
    """Makes, changes and inspects one overlay: the evidence, and whether a watch on the upper folder is told
    of writes through the overlay, as kernels before it passed over. ``OSError``, ``ValueError``: it fails.
    """
    for folder in ("tree", "shown"):
        os.mkdir(f"{lower}/{folder}")
    os.mkdir(f"{lower}/tree/folder")
    for name in ("tree/changed", "tree/gone", "tree/folder/inner"):
        with open(f"{lower}/{name}", "wb") as file:
            file.write(TEXT)
    for folder in ("upper", "work", "merged"):
        os.mkdir(f"{upper}/{folder}")
    root = os.geteuid() == 0
    if root:
        os.chown(f"{upper}/upper", PAYLOAD, PAYLOAD)
    told = watch.of_writes(f"{upper}/upper")
    try:
        _in_namespaces(lower, upper, root)
        return _inspect(lower, upper, root), bool(select.select([told], [], [], 0)[0])
    finally:
        os.close(told)


def _in_namespaces(lower: str, upper: str, root: bool) -> None:
    asked, told = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = b""
        try:
            os.close(told[1])
            _child(lower, upper, root, asked[1], told[0])
        except OSError as error:
            answer = (str(error) if error.strerror is None else f"{error.strerror} ({error})").encode()
        finally:
            os.write(asked[1], b"." + answer)
            os._exit(0)
    os.close(asked[1])
    first = os.read(asked[0], 4096)
    if first == b"m":
        maps = ((0, 0, 1), (INSIDE, PAYLOAD, 1))
        namespaces.map_ids(pid, maps, maps, setgroups=True)
        os.write(told[1], b"1")
        first = os.read(asked[0], 4096)
    os.waitpid(pid, 0)
    if first != b".":
        raise ValueError(first[1:].decode("utf-8", "replace") or "the process that tried it died")


def _child(lower: str, upper: str, root: bool, ask: int, told: int) -> None:
    prctl(PR_SET_DUMPABLE, 1)
    shown = f"{lower}/tree"
    if root:
        namespaces.unshare(namespaces.CLONE_NEWNS)
        mounts.make_private()
        namespace = namespaces.mapping(((0, PAYLOAD, 1),), ((0, PAYLOAD, 1),))
        mounts.bind_as(shown, f"{lower}/shown", namespace)
        shown = f"{lower}/shown"
    uid, gid = os.geteuid(), os.getegid()
    namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
    if root:
        os.write(ask, b"m")
        os.read(told, 1)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    else:
        namespaces.map_ids(None, ((INSIDE, uid, 1),), ((INSIDE, gid, 1),), setgroups=False)
    mounts.make_private()
    mounts.overlay_writable([shown], f"{upper}/upper", f"{upper}/work", f"{upper}/merged")
    os.chdir(f"{upper}/merged")  # before the payload's user, who may not walk the folders above
    if root:
        os.setresgid(INSIDE, INSIDE, INSIDE)
        os.setresuid(INSIDE, INSIDE, INSIDE)
    with open("changed", "ab") as file:
        file.write(b"upper\n")
    os.unlink("gone")
    os.mkdir("new")
    os.rename("folder/inner", "new/inner")
    os.rename("new", "renamed")


def _inspect(lower: str, upper: str, root: bool) -> str:
    with open(f"{upper}/upper/changed", "rb") as file:
        if file.read() != TEXT + b"upper\n":
            raise ValueError("what was changed inside is not in the upper folder")
    owner = PAYLOAD if root else os.geteuid()
    if os.lstat(f"{upper}/upper/changed").st_uid != owner:
        raise ValueError("what was copied up belongs to another user than the box's")
    gone = os.lstat(f"{upper}/upper/gone")
    if not stat.S_ISCHR(gone.st_mode) or gone.st_rdev != 0:
        raise ValueError("what was removed inside has no whiteout")
    if os.getxattr(f"{upper}/upper/renamed", "user.overlay.opaque") != b"y":
        raise ValueError("a new folder is not marked")
    for name in ("changed", "gone", "folder/inner"):
        with open(f"{lower}/tree/{name}", "rb") as file:
            if file.read() != TEXT:
                raise ValueError(f"the lower file {name} was changed")
    how = "with mapped owners" if root else "unprivileged"
    return f"made and changed on these file systems, {how}; the lower files stayed as they were"


def main(job: dict[str, str]) -> None:
    """Prints the verdict as JSON."""
    try:
        works, (evidence, told) = True, run(job["lower"], job["upper"])
    except (OSError, ValueError) as error:
        works, evidence, told = False, str(error), False
    print(json.dumps({"works": works, "evidence": evidence, "told": told}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
