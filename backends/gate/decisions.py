"""A review kept on disk: decisions, marks, comments and a summary, bound to the snapshot that they are about.

Every change is saved whole before the next one is made, so a crash loses nothing that was seen on a screen.
A later snapshot takes over what was said of a file as long as that file's change is the same to the byte
(:attr:`backends.gate.patch.File.key`): its decisions and its reviewed mark. Of a file that changed both fall
off; comments stay and show as :func:`stale`. What can be undone is of one snapshot only. An acknowledged
warning is known by a key that tells the content it is about, so it holds for no other.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import write_atomically
from backends.errors import Busy, Refused
from backends.gate.patch import Choice, History, Patch
from backends.gate.patch.model import File
from backends.snapshots import Acknowledgement, ReviewComment, SnapshotInfo

if TYPE_CHECKING:
    from backends.gate.decisions_file import Encoder

FILE_LIMIT = 32 << 20
"""Bytes of ``review.json``."""
MOST_COMMENTS = 2000
MOST_ACKNOWLEDGED = 8000
COMMENT_LIMIT = 16 << 10
"""Bytes of a comment's text (UTF-8)."""
SUMMARY_LIMIT = 64 << 10
QUOTE_LIMIT = 400
"""Bytes of the line that a comment is about, kept for a reader who has no patch at hand."""

OLD, NEW = "old", "new"


class Compared(NamedTuple):
    """Which snapshot was compared with what: tree, base commit, the base's tree."""

    id: str
    base: str
    base_tree: str

    @classmethod
    def of(cls, snapshot: SnapshotInfo) -> Compared:
        """What a snapshot compares."""
        return cls(snapshot.id, snapshot.base, snapshot.base_tree)


class Review(NamedTuple):
    """All that a reviewer said of one snapshot. A value: each act returns a new one."""

    snapshot: Compared
    since: Compared | None = None  # the snapshot that was last reviewed before this one
    history: History = History()
    reviewed: Mapping[bytes, str] = {}  # path to the key of the file that was marked
    comments: tuple[ReviewComment, ...] = ()
    summary: str = ""
    acknowledged: Mapping[str, Acknowledgement] = {}  # by the key of the warning

    @property
    def empty(self) -> bool:
        """Nothing was said yet."""
        return not (
            self.history.now.files or self.reviewed or self.comments or self.summary or self.acknowledged
        )

    def decide(self, choices: list[Choice], state: str) -> Review:
        """Accept, reject or undecide; see :mod:`backends.gate.patch`."""
        return self._replace(history=self.history.set(choices, state))

    def undo(self) -> Review:
        """Take the last decision back."""
        return self._replace(history=self.history.undo())

    def redo(self) -> Review:
        """Take the last undone decision again."""
        return self._replace(history=self.history.redo())

    def mark(self, file: File, reviewed: bool = True) -> Review:
        """Mark a file as read, or take the mark away."""
        return self.mark_all((file,), reviewed)

    def mark_all(self, files: Iterable[File], reviewed: bool = True) -> Review:
        """The same of several files, in one act."""
        marks = dict(self.reviewed)
        for file in files:
            marks.pop(file.path, None)
            if reviewed:
                marks[file.path] = file.key
        return self._replace(reviewed=marks)

    def is_reviewed(self, file: File) -> bool:
        """Whether the file was marked as it is now."""
        return self.reviewed.get(file.path) == file.key

    def comment(
        self, file: File, side: str, line: int, text: str, who: str, when: float, quote: bytes = b""
    ) -> Review:
        """Say something about a line of one ``side`` (old, new), or with line 0 about the file.

        ``Refused`` for an empty text, one beyond ``COMMENT_LIMIT``, and beyond ``MOST_COMMENTS``.
        """
        _bounded(text, COMMENT_LIMIT, "comment")
        if len(self.comments) >= MOST_COMMENTS:
            raise Refused(
                "the comment was not kept",
                f"the review has {MOST_COMMENTS} comments already",
                "take back what is settled",
                code="too-many-comments",
            )
        if side not in (OLD, NEW) or line < 0:
            raise ValueError(f"{side} {line} names no line")
        number = max((one.id for one in self.comments), default=0) + 1
        said = quote[:QUOTE_LIMIT].decode("utf-8", "surrogateescape")
        made = ReviewComment(number, file.path, file.key, side, line, said, text, who, when)
        return self._replace(comments=(*self.comments, made))

    def reword(self, number: int, text: str) -> Review:
        """Change a comment's text; ``KeyError`` when there is none of that number."""
        _bounded(text, COMMENT_LIMIT, "comment")
        if all(one.id != number for one in self.comments):
            raise KeyError(number)
        changed = (one._replace(text=text) if one.id == number else one for one in self.comments)
        return self._replace(comments=tuple(changed))

    def uncomment(self, number: int) -> Review:
        """Take a comment back; ``KeyError`` when there is none of that number."""
        left = tuple(one for one in self.comments if one.id != number)
        if len(left) == len(self.comments):
            raise KeyError(number)
        return self._replace(comments=left)

    def summarise(self, text: str) -> Review:
        """Replace the summary; "" takes it away. ``Refused`` beyond ``SUMMARY_LIMIT``."""
        if text:
            _bounded(text, SUMMARY_LIMIT, "summary")
        return self._replace(summary=text)

    def acknowledge(self, keys: Iterable[str], who: str, when: float, scripted: bool) -> Review:
        """Take warnings upon oneself, by their keys. Beyond ``MOST_ACKNOWLEDGED`` the oldest stand again."""
        fresh = {key: Acknowledgement(key, who, when, scripted) for key in keys}
        held = [*(one for key, one in self.acknowledged.items() if key not in fresh), *fresh.values()]
        return self._replace(acknowledged={one.key: one for one in held[-MOST_ACKNOWLEDGED:]})

    def withdraw(self, keys: Iterable[str]) -> Review:
        """Let warnings stand again that were acknowledged."""
        gone = frozenset(keys)
        return self._replace(
            acknowledged={key: one for key, one in self.acknowledged.items() if key not in gone}
        )


def stale(comment: ReviewComment, patch_files: Mapping[bytes, File]) -> bool:
    """Whether the file that a comment is about has changed since, or is no part of the patch any more."""
    file = patch_files.get(comment.path)
    return file is None or file.key != comment.key


def _bounded(text: str, limit: int, what: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if text.strip() and size <= limit:
        return
    raise Refused(
        f"the {what} was not kept",
        "it is empty" if not text.strip() else f"it has {size} bytes, and {limit} are kept",
        "say more" if not text.strip() else "say it shorter, or in several",
        code="comment-size",
    )


# ------------------------------------------------------------------------------------------------- on disk

Stamp = str | None
"""Which writing was read: a random number that the file begins with; None where there was no file."""


def load(paths: BoxPaths, patch: Patch, snapshot: SnapshotInfo) -> tuple[Review, Stamp]:
    """The review of ``snapshot``, whose model is ``patch``; an empty one when nothing was said yet.

    What was said of an earlier snapshot is taken over as far as it still holds. ``Refused`` when the file is
    too large or not as :func:`save` wrote it.
    """
    from backends.gate.decisions_file import parse, stamp_of

    try:
        descriptor = os.open(paths.review, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Review(Compared.of(snapshot)), None
    except OSError as error:
        raise _damaged(paths, os.strerror(error.errno or 0)) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_LIMIT:
            raise _damaged(paths, f"it is no plain file of at most {FILE_LIMIT} bytes")
        data = file.read(FILE_LIMIT + 1)
    try:
        review = parse(data, patch, Compared.of(snapshot))
    except (ValueError, RecursionError) as error:
        raise _damaged(paths, str(error)) from error
    return review, stamp_of(data)


def save(
    paths: BoxPaths,
    review: Review,
    patch: Patch,
    stamp: Stamp,
    tell: Callable[[], None] | None = None,
    encoder: Encoder | None = None,
) -> Stamp:
    """Replace the review on disk and return its new stamp; it is durable when this returns.

    Who saves often passes the same ``encoder`` of this patch, which knows what it wrote. ``tell`` is called
    right before the end, when nothing else can refuse it. ``Busy`` when the file is not the one that
    ``stamp`` tells of: somebody else decided meanwhile.
    """
    from backends.gate.decisions_file import encode

    fresh = os.urandom(8).hex()
    data = encoder.encode(review, fresh) if encoder is not None else encode(review, patch, fresh)
    if len(data) > FILE_LIMIT:
        raise Refused(
            "the decision was not kept",
            f"the review would have {len(data)} bytes, and {FILE_LIMIT} are kept",
            "decide by file instead of by line",
            code="review-size",
        )
    with _turn(paths):
        if stamp_of_kept(paths) != stamp:
            raise Busy(
                "the decision was not kept",
                "somebody else decided about this proposal meanwhile",
                f"look again: cloche review {paths.name}",
                code="review-changed",
            )
        if tell is not None:
            tell()
        write_atomically(paths.review, data)
    return fresh


@contextmanager
def _turn(paths: BoxPaths) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(paths.review_lock, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def stamp_of_kept(paths: BoxPaths) -> Stamp:
    """The stamp of the review that is on disk now; ``Refused`` when it cannot be read."""
    from backends.gate.decisions_file import stamp_of

    try:
        with open(paths.review, "rb", opener=_plainly) as file:
            return stamp_of(file.read(64))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(paths, os.strerror(error.errno or 0)) from error


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _damaged(paths: BoxPaths, why: str) -> Refused:
    return Refused(
        f"the review of box {paths.name} cannot be read",
        f"{paths.review}: {why}",
        f"look at who changed it; to begin anew, remove it: rm {paths.review}",
        code="review-damaged",
    )
