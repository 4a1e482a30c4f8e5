"""Commits as a series of mails, each proved to give its commit again before it is handed out.

The proof does what git-am(1) does, without a work tree: git-mailsplit(1), git-mailinfo(1), git-apply(1) on an
index, git-commit-tree(1). Tree, message, author and the author's time must be the same bytes. Committer and
id are not: whoever applies a mail is its committer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from backends.errors import Refused
from backends.evidence.visible import visible
from backends.gate.commits import mail, parse
from backends.gate.commits.values import Commit, Unfit
from backends.trees import diff
from backends.trees.git import Bounds, Git
from backends.trees.quarantine import ATTRIBUTES, config, make_skeleton
from backends.trees.source import object_format

BOUNDS = Bounds()
COMMITTER = {
    "GIT_COMMITTER_NAME": "nobody", "GIT_COMMITTER_EMAIL": "nobody@invalid", "GIT_COMMITTER_DATE": "@0 +0000",
}  # fmt: skip


class Patch(NamedTuple):
    """One mail of the series and the name of its file."""

    name: str
    text: bytes


def make(git: Git, scratch: Path, base: str, commits: Sequence[Commit], box: str) -> tuple[Patch, ...]:
    """The series, oldest first. ``git`` reads the quarantine; ``scratch`` is a folder of the host's.

    ``Refused`` naming the first commit that no mail carries, and why; there is no series without it.
    """
    out: list[Patch] = []
    before = base
    with tempfile.TemporaryDirectory(prefix="series-", dir=scratch) as folder:
        proof = _Proof(git, Path(folder), base)
        for number, commit in enumerate(commits, 1):
            try:
                _require_alone(commit, before)
                patch = diff.patch(git, before, commit.id)
                if not patch:
                    raise Unfit("it changes no file, and git am takes no empty mail")
                text = _proved(proof, commit, patch, number, len(commits))
            except Unfit as unfit:
                raise Refused(
                    f"the commits of box {box} cannot be written as a series",
                    f"commit {commit.id[:12]} ({visible(commit.subject[:80])}): {unfit.why}",
                    f"export one patch: cloche export {box} --out DIR; or keep them as they are: "
                    f"cloche apply {box} --keep-commits",
                    code="series",
                ) from unfit
            out.append(Patch(mail.file_name(number, commit), text))
            before = commit.id
    return tuple(out)


def _require_alone(commit: Commit, before: str) -> None:
    if len(commit.parents) > 1:
        raise Unfit("it is a merge, and a mail has one parent")
    if commit.parents != (before,):
        raise Unfit("it does not follow the one before it")
    if commit.encoding:
        raise Unfit(f"its message says that it is in {commit.encoding}, and git am writes UTF-8")
    for what, text in (("message", commit.message), ("author", commit.author.name + commit.author.email)):
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            raise Unfit(f"its {what} is not UTF-8, which git am would change") from None


def _proved(proof: _Proof, commit: Commit, patch: bytes, number: int, total: int) -> bytes:
    plain = mail.compose(commit, patch, number, total, armoured=False)
    why = proof.differs(plain, commit)
    if why:
        plain = mail.compose(commit, patch, number, total, armoured=True)
        why = proof.differs(plain, commit)
    if why:
        raise Unfit(why)
    proof.accept(commit)
    return plain


class _Proof:
    """A repository of its own in which a series is applied, mail by mail."""

    def __init__(self, git: Git, folder: Path, base: str) -> None:
        root = folder / "git"
        make_skeleton(root, config(object_format(base)), borrowed=[git.objects])
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        (root / "info").mkdir()
        (root / "info" / "attributes").write_bytes(ATTRIBUTES)
        self._folder = folder
        self._git = Git(root, index=folder / "index")
        self._parent = base
        self._git.run("read-tree", base)

    def accept(self, commit: Commit) -> None:
        """Go on from here."""
        self._parent = commit.id

    def differs(self, text: bytes, wanted: Commit) -> str:
        """What of the commit the mail does not give again, "" when all comes back; the index is as before
        then, else as after."""
        split = Path(tempfile.mkdtemp(prefix="split-", dir=self._folder))
        (self._folder / "mail").write_bytes(text)
        count = self._git.call("mailsplit", "-b", f"-o{split}", self._folder / "mail", bounds=BOUNDS)
        if count.status != 0 or count.stdout.strip() != b"1":
            return "its mail would be taken for several"
        message, patch = self._folder / "message", self._folder / "patch"
        with open(split / "0001", "rb") as file:
            told = self._git.call("mailinfo", message, patch, stdin=file.fileno(), bounds=BOUNDS)
        if told.status != 0:
            return "its mail cannot be read"
        headers = dict(line.partition(b": ")[::2] for line in told.stdout.splitlines() if b": " in line)
        for header, meant in ((b"Author", wanted.author.name), (b"Email", wanted.author.email)):
            if headers.get(header) != meant:
                return "a mail changes its author"
        whole = headers.get(b"Subject", b"") + b"\n\n" + message.read_bytes()
        said = self._git.run("stripspace", input=whole)
        if said != wanted.message:
            return "a mail changes its message"
        before = self._git.line("write-tree")
        with open(patch, "rb") as file:
            done = self._git.call("apply", "--cached", stdin=file.fileno(), bounds=BOUNDS)
        tree = self._git.line("write-tree") if done.status == 0 else ""
        why = "" if tree == wanted.tree else "a mail changes what it holds"
        why = why or self._author(headers, said, tree, wanted)
        if why:
            self._git.run("read-tree", before)
        return why

    def _author(self, headers: dict[bytes, bytes], said: bytes, tree: str, wanted: Commit) -> str:
        values = {
            "GIT_AUTHOR_NAME": os.fsdecode(headers[b"Author"]),
            "GIT_AUTHOR_EMAIL": os.fsdecode(headers[b"Email"]),
            "GIT_AUTHOR_DATE": os.fsdecode(headers.get(b"Date", b"")),
        }
        args = ("commit-tree", tree, "-p", self._parent, "-F", "-")
        done = self._git.with_variables({**COMMITTER, **values}).call(*args, input=said)
        if done.status != 0:
            return "git am refuses its author"
        oid = done.stdout.decode("ascii").strip()
        try:
            made = parse.parse(oid, self._git.run("cat-file", "commit", oid))
        except Unfit:
            return "git am refuses its author"
        if made.author != wanted.author:
            return "a mail changes its author or the time"
        return "" if made.message == wanted.message else "a mail changes its message"
