"""The source repository: where it is, what a revision names, and the references that keep a base alive.

Only plain plumbing here, because every command passes through; what reads history for people is
:mod:`backends.trees.history`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from backends.boxes.layout import state_dir
from backends.errors import Busy, Refused, UsageError
from backends.trees.git import TIMEOUT, Git, common_dir, failure
from backends.trees.values import Base, Source

if TYPE_CHECKING:
    from subprocess import Popen

REFS = "refs/cloche"
# Characters of revisions that are names or commits, without any operator of gitrevisions(7) but ~ and ^.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-~^")


def discover(cwd: Path) -> Source | None:
    """The repository that ``cwd`` lies in, or ``None``; found by looking at names only, without Git.

    Git's own search would read the configuration of whatever repository comes first, also one that a box
    made in its tree: inside the folder where boxes lie nothing is searched. A repository that another user
    owns is ``Refused``, as Git does (git-config(1), ``safe.directory``), because its configuration can name
    programs.
    """
    folder = cwd.resolve()
    boxes = state_dir().resolve()
    for candidate in (folder, *folder.parents):
        if candidate == boxes or boxes in candidate.parents:
            continue
        found = _at(candidate)
        if found is not None:
            _check_owner(found)
            return found
    return None


def _at(folder: Path) -> Source | None:
    # os.path and not Path: where a folder above cannot be entered, there is no repository for us.
    dot_git = folder / ".git"
    if os.path.isdir(dot_git) and _is_git_dir(dot_git):
        return Source(str(folder), str(dot_git), str(common_dir(dot_git)))
    if os.path.isfile(dot_git):
        first = dot_git.read_bytes()[:4096].split(b"\n", 1)[0]
        if first.startswith(b"gitdir: "):
            git_dir = Path(os.path.normpath(folder / os.fsdecode(first.removeprefix(b"gitdir: "))))
            if _is_git_dir(git_dir):
                return Source(str(folder), str(git_dir), str(common_dir(git_dir)))
    if _is_git_dir(folder):
        return Source("", str(folder), str(common_dir(folder)))
    return None


def _is_git_dir(path: Path) -> bool:
    head = path / "HEAD"
    if not (os.path.isfile(head) or os.path.islink(head)):
        return False
    shared = common_dir(path)
    return os.path.isdir(shared / "objects") and os.path.isdir(shared / "refs")


def _check_owner(source: Source) -> None:
    trusted = {os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        trusted.add(int(os.environ["SUDO_UID"]))
    for place in {source.git_dir, source.common_dir}:
        owner = Path(place).stat().st_uid
        if owner not in trusted and not _declared_safe(source):
            raise Refused(
                f"the repository at {source.work_tree or source.common_dir} is not yours",
                f"{place} belongs to user {owner}, and its configuration can name programs to run as you",
                "run cloche as its owner, or clone it: git clone"
                f" {source.work_tree or source.common_dir} my-copy",
                code="foreign-repository",
            )


def _declared_safe(source: Source) -> bool:
    """Whether the person listed the repository under ``safe.directory`` in their own configuration."""
    home = os.environ.get("HOME", "")
    user = Git(Path(source.git_dir), variables={"HOME": home, "GIT_CONFIG_GLOBAL": f"{home}/.gitconfig"})
    listed = user.run("config", "--global", "-z", "--get-all", "safe.directory", check=False)
    return bool({b"*", os.fsencode(source.work_tree or source.common_dir)} & set(listed.split(b"\0")))


def git(source: Source) -> Git:
    """Git on the source repository; of a linked worktree, with that worktree's HEAD."""
    return Git(Path(source.git_dir))


def object_format(commit: str) -> str:
    """The hash function of the repository that an object id comes from: 40 digits SHA-1, 64 SHA-256."""
    return "sha256" if len(commit) == 64 else "sha1"


def resolve(source: Source, rev: str = "HEAD") -> Base:
    """The commit that ``rev`` names, its tree, and the branch if it names one (HEAD: the one it is on).

    Any revision of gitrevisions(7). ``Refused`` on an unborn HEAD, naming the branch; ``UsageError`` when
    nothing has that name.
    """
    with Resolving(source, rev) as base:
        return base.result()


class Resolving:
    """:func:`resolve`, begun: Git is at work until :meth:`result` is asked for. To be left in the end."""

    def __init__(self, source: Source, rev: str) -> None:
        self._source = source
        self._rev = rev
        self._base: Base | None = None
        self._process: Popen[bytes] | None = None
        if rev and not rev.startswith("-") and _PLAIN.issuperset(rev):
            import subprocess

            self._process = git(source).start(*_all_at_once(rev), stdin=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def result(self) -> Base:
        """What the revision names; raises as :func:`resolve`. Asked again it is the same."""
        if self._base is None:
            self._base = self._quick() or _step_by_step(self._source, self._rev)
        return self._base

    def _quick(self) -> Base | None:
        """What is found by one command; ``None`` where anything is not as usual."""
        import subprocess

        process, self._process = self._process, None
        if process is None:
            return None
        try:
            out, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None  # the way of single steps says what is wrong
        words = os.fsdecode(out).split("\n")
        if process.returncode != 0 or len(words) not in (3, 4) or not all(map(_is_oid, words[:2])):
            return None
        return Base(words[0], words[1], words[2] if words[2].startswith("refs/heads/") else "")


def _all_at_once(rev: str) -> tuple[str, ...]:
    return ("rev-parse", f"{rev}^{{commit}}", f"{rev}^{{tree}}", "--symbolic-full-name", rev)


def _step_by_step(source: Source, rev: str) -> Base:
    repository = git(source)
    if rev.startswith("-") or "\0" in rev or not rev:
        raise UsageError(
            f"{rev!r} is not a revision",
            "it is empty or begins with a hyphen",
            "git log --oneline",
            code="bad-revision",
        )
    named = repository.call("rev-parse", "--verify", "--quiet", "--end-of-options", rev)
    oid = named.stdout.decode("ascii", "replace").strip()
    if named.status != 0 or not _is_oid(oid):
        raise _unresolved(source, rev)
    # In a second step, because ":/text" takes everything behind it as text.
    found = repository.call("rev-parse", f"{oid}^{{commit}}", f"{oid}^{{tree}}")
    words = found.stdout.decode("ascii", "replace").split()
    if found.status != 0 or len(words) != 2:
        raise _unresolved(source, rev)
    named = repository.call("rev-parse", "--symbolic-full-name", "--end-of-options", rev)
    refs = [word for word in os.fsdecode(named.stdout).split("\n") if word.startswith("refs/heads/")]
    return Base(words[0], words[1], refs[0] if named.status == 0 and len(refs) == 1 else "")


def _is_oid(word: str) -> bool:
    return len(word) in (40, 64) and all(c in "0123456789abcdef" for c in word)


def _unresolved(source: Source, rev: str) -> Exception:
    repository = git(source)
    head = repository.call("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.status != 0:
        branch = os.fsdecode(repository.call("symbolic-ref", "--quiet", "HEAD").stdout).strip()
        unborn = f"HEAD points to {branch or 'nothing'}, which has no commit yet"
        if rev in ("HEAD", branch, branch.removeprefix("refs/heads/")):
            return Refused(
                "a box needs a base and this repository has none",
                unborn,
                'make the first commit: git commit --allow-empty -m "start"',
                code="unborn-head",
            )
    return UsageError(
        f"the revision {rev!r} does not name one commit",
        f"{source.work_tree or source.common_dir} has no such branch, tag or commit",
        "git branch --all; git log --oneline",
        code="bad-revision",
    )


def tip(source: Source, ref: str) -> str:
    """The commit a reference points to now, "" when it is gone."""
    if not ref:
        return ""
    found = git(source).call("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return found.stdout.decode("ascii").strip() if found.status == 0 else ""


def drift(source: Source, base: str, ref: str) -> int | None:
    """Commits that ``ref`` gained since ``base``; ``None`` when the branch or the base is gone."""
    if not ref:
        return None
    counted = git(source).call("rev-list", "--count", "--end-of-options", f"{base}..{ref}")
    return int(counted.stdout) if counted.status == 0 else None


def base_ref(box: str) -> str:
    """The reference in the source repository that keeps a box's base from being pruned."""
    return f"{REFS}/{box}/base"


def keep(source: Source, box: str, base: Base) -> None:
    """Create ``refs/cloche/<box>/base``. ``Busy`` when it exists, so that two boxes never share one."""
    with Keeping(source, box, base) as keeping:
        keeping.result()


class Keeping:
    """:func:`keep`, begun: Git is at work until :meth:`result` is asked for. To be left in the end."""

    def __init__(self, source: Source, box: str, base: Base) -> None:
        import subprocess

        self._source = source
        self._ref = base_ref(box)
        self._args = ("update-ref", "--no-deref", self._ref, base.commit, "0" * len(base.commit))
        self._process = git(source).start(*self._args, stdin=subprocess.DEVNULL)
        self._said: bytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.held()

    def held(self) -> bool:
        """Whether the reference was made; waits for the end of it, and never raises for what Git says."""
        if self._said is None:
            try:
                _, self._said = self._process.communicate(timeout=TIMEOUT)
            except BaseException:
                self._process.kill()
                _, self._said = self._process.communicate()
                raise
        return self._process.returncode == 0

    def result(self) -> None:
        """Wait for the reference; raises as :func:`keep`."""
        if not self.held():
            raise _moved(self._source, self._ref, self._args, self._said or b"")


def release(source: Source, box: str, commit: str) -> None:
    """Delete the box's references if its base is still at ``commit`` (compare-and-swap); gone is fine."""
    wanted = {base_ref(box): commit, f"{REFS}/{box}/anchor": ""}
    listed = git(source).run("for-each-ref", "--format=%(objectname) %(refname)", f"{REFS}/{box}")
    found = dict(line.split(" ", 1)[::-1] for line in os.fsdecode(listed).splitlines())
    lines = [f"delete {ref} {old or found[ref]}\n" for ref, old in wanted.items() if ref in found]
    if not lines:
        return
    args = ("update-ref", "--no-deref", "--stdin")
    done = git(source).call(*args, input="".join(lines).encode())
    if done.status != 0 and tip(source, base_ref(box)):
        raise _moved(source, base_ref(box), args, done.stderr)


def set_anchor(source: Source, box: str, content: bytes, old: str) -> str:
    """Store ``content`` as a blob under ``refs/cloche/<box>/anchor`` and return its object id.

    ``old`` is the id expected there now ("" for none): a different one raises ``Busy``.
    """
    repository = git(source)
    blob = repository.run("hash-object", "-w", "-t", "blob", "--stdin", "--no-filters", input=content)
    oid = blob.decode("ascii").strip()
    _update(source, f"{REFS}/{box}/anchor", oid, old or "0" * len(oid))
    return oid


def anchor(source: Source, box: str) -> str:
    """The object id of the box's anchor blob, "" when none was stored."""
    found = git(source).call("rev-parse", "--verify", "--quiet", f"{REFS}/{box}/anchor^{{blob}}")
    return found.stdout.decode("ascii").strip() if found.status == 0 else ""


def read_anchor(source: Source, box: str) -> bytes | None:
    """The content of the box's anchor blob, ``None`` when none was stored."""
    oid = anchor(source, box)
    return git(source).run("cat-file", "blob", oid) if oid else None


def _update(source: Source, ref: str, new: str, old: str) -> None:
    args = ("update-ref", "--no-deref", ref, new, old)
    done = git(source).call(*args)
    if done.status != 0:
        raise _moved(source, ref, args, done.stderr)


def _moved(source: Source, ref: str, args: tuple[str, ...], said: bytes) -> Exception:
    from backends.trees.git import Output

    if b"reference already exists" in said or b"but expected" in said:
        return Busy(
            f"{ref} is not where it was expected in {source.common_dir}",
            os.fsdecode(said).strip().removeprefix("fatal: "),
            f"look at it: git show-ref {ref}; then run the command again",
            code="ref-moved",
        )
    return failure(args, Output(1, b"", said))
