"""What a box left in its own repository that would start a program on whoever ran Git there (kind G1).

Read by descriptors, bounded, never by Git: the answer is a list for a person, nothing here is obeyed.
"""

from __future__ import annotations

import os
import re
import stat

from backends.boxes.layout import BoxPaths
from backends.trees.values import Finding

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LARGEST = 1 << 20  # bytes of one configuration file that are looked at
MOST = 200  # findings; a box can write any number of keys
MOST_FOLDERS = 200  # submodules and worktrees that are looked into

# Keys of git-config(1) whose value is run, or decides what is run or read. ``*`` is the subsection.
HOSTILE = re.compile(
    rb"""^(?:
      core\.(?:fsmonitor|pager|editor|askpass|sshcommand|gitproxy|hookspath|attributesfile|excludesfile
              |worktree|alternaterefscommand|symlinks|protectntfs|protecthfs)
    | sequence\.editor | init\.templatedir | uploadpack\.packobjectshook
    | diff\.external | diff\..*\.(?:command|textconv|cachetextconv)
    | filter\..*\.(?:clean|smudge|process|required) | merge\..*\.driver
    | (?:difftool|mergetool|browser|man)\..*\.(?:cmd|path)
    | gpg\.(?:program|.*\.program|ssh\.defaultkeycommand)
    | pager\..* | alias\..* | credential\.(?:helper|.*\.helper)
    | include\.path | includeif\..*\.path
    | remote\..*\.(?:uploadpack|receivepack|vcs|proxy|url|pushurl) | url\..*\.(?:insteadof|pushinsteadof)
    | protocol\..* | submodule\..*\.update | http\..* | sendemail\..* | interactive\.difffilter
    | trailer\..*\.(?:command|cmd) | web\.browser | instaweb\..* | extensions\..* | safe\..*
    )$""",
    re.VERBOSE,
)
SECTION = re.compile(rb'^\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\]\s*(.*)$')
KEY = re.compile(rb"^([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")


def find(paths: BoxPaths) -> tuple[Finding, ...]:
    """Hostile configuration keys, hooks and redirected objects in a box's private repository.

    Paths of the findings begin with ``.git``, as inside. Empty when the box has no private repository.
    """
    found: list[Finding] = []
    try:
        root = os.open(paths.repo, FOLDER_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        return (Finding("odd-file", b".git", f"the box's repository cannot be read: {error.strerror}"),)
    try:
        _repository(root, b".git", found)
        for folder in (b"modules", b"worktrees"):
            _below(root, folder, b".git/" + folder, found)
    finally:
        os.close(root)
    if len(found) > MOST:
        found[MOST:] = [Finding("more", b".git", f"{len(found) - MOST} further findings are not listed")]
    return tuple(found)


def config_keys(content: bytes) -> list[tuple[bytes, bytes]]:
    """Keys (lower-case section and name, subsection as written) and values of a configuration file.

    Lenient where Git would stop: the question is what a file tries to say.
    """
    pairs: list[tuple[bytes, bytes]] = []
    prefix = b""
    for raw in content.replace(b"\\\r\n", b"").replace(b"\\\n", b"").split(b"\n"):
        line = raw.strip()
        section = SECTION.match(line)
        if section:
            prefix = section[1].lower() + (b"." + section[2] if section[2] is not None else b"") + b"."
            line = section[3].strip()
        key = KEY.match(line)
        if key:
            pairs.append((prefix + key[1].lower(), key[2] or b""))
    return pairs


def _below(root: int, name: bytes, path: bytes, found: list[Finding]) -> None:
    """The repositories of submodules and worktrees, one level down."""
    try:
        folder = os.open(name, FOLDER_FLAGS, dir_fd=root)
    except OSError:
        return  # absent, or nothing that Git would enter either
    try:
        for number, child in enumerate(_names(folder)):
            if number >= MOST_FOLDERS:
                found.append(Finding("more", path, f"only {MOST_FOLDERS} repositories in it were looked at"))
                return
            try:
                below = os.open(child, FOLDER_FLAGS, dir_fd=folder)
            except OSError:
                continue
            try:
                _repository(below, path + b"/" + child, found)
            finally:
                os.close(below)
    finally:
        os.close(folder)


def _repository(fd: int, path: bytes, found: list[Finding]) -> None:
    for name in (b"config", b"config.worktree"):
        content = _read(fd, name, path, found)
        for key, value in config_keys(content):
            lowered = key.lower()
            if HOSTILE.match(lowered) and not _ours(lowered, value):
                shown = os.fsdecode(key) + "=" + os.fsdecode(value[:200])
                found.append(Finding("git-config", path + b"/" + name, shown))
    for line in _read(fd, b"info/attributes", path, found).split(b"\n"):
        if re.search(rb"\b(?:filter|diff|merge)=", line):
            found.append(Finding("git-attributes", path + b"/info/attributes", os.fsdecode(line[:200])))
    _hooks(fd, path, found)


def _ours(key: bytes, value: bytes) -> bool:
    return key == b"extensions.objectformat" and value == b"sha256"


def _hooks(fd: int, path: bytes, found: list[Finding]) -> None:
    try:
        hooks = os.open(b"hooks", FOLDER_FLAGS, dir_fd=fd)
    except FileNotFoundError:
        return
    except OSError as error:
        found.append(Finding("hook", path + b"/hooks", f"not a plain folder: {error.strerror}"))
        return
    try:
        for name in _names(hooks):
            if not name.endswith(b".sample"):
                found.append(
                    Finding("hook", path + b"/hooks/" + name, "Git would run it in the box's repository")
                )
    finally:
        os.close(hooks)


def _names(fd: int) -> list[bytes]:
    names: list[bytes] = []
    with os.scandir(fd) as listing:
        for entry in listing:
            names.append(os.fsencode(entry.name))
            if len(names) > 10 * MOST:
                break
    return sorted(names)


def _read(fd: int, name: bytes, path: bytes, found: list[Finding]) -> bytes:
    """The beginning of a regular file below ``fd``; what is in its place instead is a finding."""
    *folders, last = name.split(b"/")
    opened: list[int] = []
    try:
        at = fd
        for folder in folders:
            at = os.open(folder, FOLDER_FLAGS, dir_fd=at)
            opened.append(at)
        file = os.open(last, FILE_FLAGS, dir_fd=at)
        opened.append(file)
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            found.append(Finding("odd-file", path + b"/" + name, "not a regular file"))
            return b""
        if status.st_size > LARGEST:
            found.append(
                Finding("odd-file", path + b"/" + name, f"larger than {LARGEST} bytes, read in part")
            )
        return os.read(file, LARGEST)
    except FileNotFoundError:
        return b""
    except OSError as error:
        found.append(Finding("odd-file", path + b"/" + name, f"cannot be read: {error.strerror}"))
        return b""
    finally:
        for other in opened:
            os.close(other)
