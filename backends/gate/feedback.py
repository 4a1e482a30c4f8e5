"""The file by which a reviewer's requests reach the agent: its text, and writing it into a box's tree.

The tree is hostile: at the file's name there may be a link, a pipe, a folder or another name of a file that
matters elsewhere. The name is one component, checked by the policy's schema; it is taken away as a name
(unlink(2) follows nothing and opens nothing) and made anew with ``O_CREAT | O_EXCL``, which fails on whatever
is there, links included (open(2)). So nothing that existed before is ever opened, and no name is resolved
beneath the tree's own descriptor: openat2(2) with ``RESOLVE_BENEATH`` would find nothing more to refuse. What
else writes there meanwhile, at the tier that confines nothing, can at most make the writing fail.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError, Refused
from backends.evidence.visible import visible, visible_lines
from backends.gate.decisions import OLD
from backends.kernel import modes
from backends.snapshots import ReviewComment

LARGEST = 512 << 10
"""Bytes of the file; what a reviewer said beyond that is counted, not written."""
ATTEMPTS = 8  # to take a name that something else keeps taking
_TICKS = re.compile("`+")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Rejected(NamedTuple):
    """One rejected part of a file: a hunk's lines, or a property of the file (its mode, its name)."""

    path: bytes
    where: str  # "lines 3-9", "removed lines 4-6", "its mode", "the whole file"
    lines: tuple[bytes, ...] = ()  # as in the patch, with their sign; the first of them, none of a property
    total: int = 0  # of all of them


# ------------------------------------------------------------------------------------------------- its text


def render(
    snapshot: str,
    summary: str,
    comments: Sequence[ReviewComment],
    stale: Iterable[int],
    rejected: Sequence[Rejected],
) -> str:
    """The requests as Markdown, at most :data:`LARGEST` bytes. Pure.

    Names and lines that came out of the box go back to where they came from; they are escaped and fenced all
    the same, so that none can pass for a word of the reviewer.
    """
    old = set(stale)
    parts = [
        "# Changes are requested\n\n"
        f"A reviewer read the proposal {snapshot} and asks for the changes below. This file is not part of "
        "the work: it is left out of every proposal and written anew with each request.\n"
    ]
    if summary.strip():
        parts.append("## Summary\n\n" + _quoted(summary))
    said = [_comment(one, one.id in old) for one in comments]
    said += [_rejected(one) for one in rejected]
    if said:
        parts.append(f"## Points ({len(said)})\n")
    left = LARGEST - 200 - sum(len(part.encode("utf-8", "surrogatepass")) + 1 for part in parts)
    for number, text in enumerate(said):
        left -= len(text.encode("utf-8", "surrogatepass")) + 1
        if left < 0:
            parts.append(f"{len(said) - number} more points did not fit into this file.\n")
            break
        parts.append(text)
    return "\n".join(parts)


def _comment(comment: ReviewComment, stale: bool) -> str:
    where = visible(comment.path)
    if comment.line:
        where += f", {'removed line' if comment.side == OLD else 'line'} {comment.line}"
    late = "\nThe file has changed since this was said.\n" if stale else ""
    lines = [where, *([comment.quote] if comment.line and comment.quote else [])]
    return f"### Comment {comment.id}\n\n{_block(lines)}\n{_quoted(comment.text)}{late}"


def _rejected(part: Rejected) -> str:
    more = part.total - len(part.lines)
    lines = [f"{visible(part.path)}, {part.where}"]
    lines += [line.decode("utf-8", "surrogateescape") for line in part.lines]
    lines += [f"... and {more} more lines"] if more else []
    return f"### Rejected\n\nThe reviewer does not take this part of the change.\n\n{_block(lines)}"


def _block(lines: Iterable[str]) -> str:
    """Lines out of the box, fenced: what they show is exact but for what cannot be seen."""
    body = "\n".join(f"  {shown}" for line in lines for shown in visible_lines(line)[:1])
    longest = max((len(run) for run in _TICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}\n"


def _quoted(text: str) -> str:
    """The reviewer's own words as a quotation, line by line."""
    return "".join(f"> {line}\n" for line in visible_lines(text.strip()))


def encode(text: str) -> bytes:
    """The bytes of the file."""
    return text.encode("utf-8", "backslashreplace")


# ------------------------------------------------------------------------------------------------- the file


def write(paths: BoxPaths, file: str, text: str, owner: tuple[int, int] | None) -> None:
    """Write ``text`` as ``file`` at the top of what the box wrote, readable for whoever runs in it.

    ``owner`` (uid, gid): who the box runs as, where that is not the caller. The caller holds the box's lock,
    so that the tree of a confined box stands still and no overlay is mounted over it. ``Refused`` (code
    "feedback-blocked") when the name cannot be taken: it is a folder, or something makes it again and again.
    """
    top = _top(paths, file)
    try:
        fd = _taken(paths, top, file)
        try:
            with open(fd, "wb", closefd=False) as out:
                out.write(encode(text))
            if owner:
                os.fchown(fd, *owner)
            os.fchmod(fd, 0o644)
        finally:
            os.close(fd)
    except OSError as error:
        raise ClocheError(
            f"the request for box {paths.name} was not written",
            f"{file}: {os.strerror(error.errno or 0)}",
            "make room, or look at the box's files: cloche status",
            code="not-written",
        ) from error
    finally:
        os.close(top)


def _top(paths: BoxPaths, file: str) -> int:
    if file in ("", ".", "..") or "/" in file or "\0" in file:
        raise ValueError(f"{file!r} is no name of a file")
    place = paths.written
    try:
        modes.open_up(os.fspath(place))  # the box may have closed it
        return os.open(place, _FOLDER)
    except OSError as error:
        raise ClocheError(
            f"the files of {paths.name} cannot be written",
            f"{place}: {os.strerror(error.errno or 0)}",
            f"look at what is there, or remove the box: cloche rm {paths.name}",
            code="no-tree",
        ) from error


def _taken(paths: BoxPaths, top: int, file: str) -> int:
    """A descriptor on a fresh file of that name."""
    for _ in range(ATTEMPTS):
        try:
            return os.open(file, _FRESH, 0o600, dir_fd=top)
        except FileExistsError:
            try:
                os.unlink(file, dir_fd=top)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in (errno.EISDIR, errno.EPERM) and _is_folder(top, file):
                    raise _blocked(paths, file, "a folder has that name") from error
                raise
    raise _blocked(paths, file, "something makes that name again and again")


def _is_folder(top: int, file: str) -> bool:
    return stat.S_ISDIR(os.stat(file, dir_fd=top, follow_symlinks=False).st_mode)


def _blocked(paths: BoxPaths, file: str, why: str) -> Refused:
    return Refused(
        f"the request for box {paths.name} was not made",
        f"{file} at the top of its tree cannot be written: {why}",
        f"cloche reopen {paths.name}, take it away inside (cloche run {paths.name} -- rm -r ./{file}), "
        f"propose again; or state another name in the next box's profile: review.file",
        code="feedback-blocked",
    )
