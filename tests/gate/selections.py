"""What the tests of the patch model share: pairs of trees, random decisions, and Git as the judge."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from backends.gate.patch import ACCEPTED, STATES, Decisions, File, Marks, Patch, read
from backends.snapshots import Diff
from backends.trees import diff as diffs
from backends.trees.git import Git
from backends.trees.names import quote
from backends.trees.snapshot import IMPORT
from tests.gate.world import World

Files = dict[bytes, tuple[int, bytes]]  # path: mode and content (of a submodule: its commit)
COMMITS = (b"1" * 40, b"2" * 40)


def trees(world: World, *sides: Files) -> list[str]:
    """A tree object of the quarantine for each set of files, all made by one command."""
    stream = []
    for number, files in enumerate(sides):
        stream.append(b"commit refs/test/t%d\ncommitter t <t@invalid> 0 +0000\ndata 0\ndeleteall\n" % number)
        for path, (mode, content) in files.items():
            if mode == 0o160000:
                stream.append(b"M 160000 %s %s\n" % (content, quote(path)))
            else:
                stream.append(b"M %o inline %s\ndata %d\n%s\n" % (mode, quote(path), len(content), content))
        stream.append(b"\n")
    world.quarantine.run(*IMPORT, input=b"".join(stream) + b"done\n")
    named = [f"refs/test/t{number}^{{tree}}" for number in range(len(sides))]
    return world.quarantine.run("rev-parse", *named).decode().split()


def patch_of(world: World, old: str, new: str) -> Patch:
    git = world.quarantine
    diff = Diff("", new, diffs.changes(git, old, new), diffs.patch(git, old, new), ())
    return read(diff, old)


def applied(world: World, base: str, patch: bytes) -> str:
    """The tree that an independent ``git apply`` makes of ``base``; an assertion when it refuses."""
    index = world.paths.root / "apply-index"
    index.unlink(missing_ok=True)
    git = Git(world.quarantine.git_dir, index=index)
    git.run("read-tree", base)
    if patch:
        done = git.call("apply", "--cached", "--whitespace=nowarn", "-", input=patch)
        assert done.status == 0, (done.stderr, patch)
    return git.line("write-tree", "--missing-ok")


def show(world: World, tree: str) -> dict[bytes, tuple[int, bytes]]:
    """All files of a tree with their modes and bytes."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for line in world.quarantine.run("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0"):
        if line:
            facts, path = line.split(b"\t", 1)
            mode, kind, oid = facts.split()
            content = oid if kind == b"commit" else world.quarantine.run("cat-file", "blob", oid.decode())
            found[path] = (int(mode, 8), content)
    return found


# ------------------------------------------------------------------------------------------- strategies

WORDS = (
    b"a", b"b", b"c", b"", b"x\r", b"\xff\xfe", b" lead", b"-- ", b"+++ y",
    b"diff --git a/x b/x", b"@@ -1 +1 @@",
)  # fmt: skip
LINES = st.lists(st.sampled_from(WORDS), max_size=14)


@st.composite
def texts(draw: Any) -> bytes:
    lines = draw(LINES)
    if draw(st.booleans()):  # long enough for several hunks
        lines += [b"line %d" % number for number in range(draw(st.integers(20, 60)))] + draw(LINES)
    text = b"\n".join(lines)
    return text + b"\n" if lines and draw(st.booleans()) else text


@st.composite
def edited(draw: Any, text: bytes) -> bytes:
    """The text with a few lines removed, added or replaced, and perhaps another end."""
    lines = text.split(b"\n")
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(lines)))
        word = draw(st.sampled_from(WORDS))
        lines[at : at + draw(st.integers(0, 2))] = [word] * draw(st.integers(0, 2))
    return b"\n".join(lines)


NAMES = (
    b"a", b"b", b"d/e", b"d/f", b"d", b"d/e/g", b"a/x", b"a/y", b"sp ace", b'q"u\\o', b"\xff\xfe",
    b"tab\tline\n", b"-rf",
)  # fmt: skip
BINARIES = (b"\0one", b"\0two" * 40, b"a\0\n" * 3)


@st.composite
def entries(draw: Any, before: tuple[int, bytes] | None = None) -> tuple[int, bytes]:
    kind = draw(st.sampled_from(["text", "text", "text", "same", "binary", "link", "submodule", "mode"]))
    mode = draw(st.sampled_from([0o100644, 0o100755]))
    if kind == "same" and before is not None:
        return before
    if kind == "mode" and before is not None and before[0] & 0o100000 and before[0] != 0o120000:
        return (before[0] ^ 0o111, before[1]) if before[0] != 0o160000 else before
    if kind == "binary":
        return mode, draw(st.sampled_from(BINARIES))
    if kind == "link":
        return 0o120000, draw(st.sampled_from([b"a", b"b/c", b"../out"]))
    if kind == "submodule":
        return 0o160000, draw(st.sampled_from(COMMITS))
    if before is not None and before[0] in (0o100644, 0o100755):
        return mode, draw(edited(before[1]))
    return mode, draw(texts())


def legal(files: Files) -> Files:
    """Without paths below another file."""
    return {p: e for p, e in files.items() if not any(p.startswith(other + b"/") for other in files)}


@st.composite
def pairs(draw: Any) -> tuple[Files, Files]:
    """Files of a base and of a snapshot: edited, new, deleted, moved, of another type.

    Names become folders and folders names: what stood there is gone, moved away, or moved below itself.
    """
    old: Files = {}
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=5, unique=True)):
        old[name] = draw(entries())
    old = legal(old)
    new: Files = {}
    room: list[bytes] = []
    for name, entry in old.items():
        fate = draw(
            st.sampled_from(["keep", "edit", "edit", "edit", "delete", "move", "below", "above", "room"])
        )
        if fate == "keep":
            new[name] = entry
        elif fate == "edit":
            new[name] = draw(entries(entry))
        elif fate == "move":
            new[draw(st.sampled_from(NAMES))] = entry if draw(st.booleans()) else draw(entries(entry))
        elif fate == "below":
            new[name + draw(st.sampled_from([b"/e", b"/e/g"]))] = entry
        elif fate == "above":
            new[name.split(b"/")[0]] = entry
        elif fate == "room":  # it moves, or is gone, and its name is a folder
            room.append(name)
            if draw(st.booleans()):
                new[b"moved/" + name] = entry
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)):
        new.setdefault(name, draw(entries()))
    for name in room:
        new.setdefault(name + b"/new", draw(entries()))
    return old, legal(new)


@st.composite
def some(draw: Any, file: File) -> Marks:
    """A part of what can be decided about a file."""
    if draw(st.integers(0, 3)) == 0:
        return file.all
    old = draw(st.integers(0, (1 << file.all.old.bit_length()) - 1 if file.all.old else 0))
    new = draw(st.integers(0, (1 << file.all.new.bit_length()) - 1 if file.all.new else 0))
    parts = frozenset(part for part in sorted(file.all.parts) if draw(st.booleans()))
    return Marks(parts, old & file.all.old, new & file.all.new)


@st.composite
def acts(draw: Any, patch: Patch) -> list[tuple[bytes, Marks, str]]:
    """Decisions in the order in which a person makes them, each on some of one file."""
    if not patch.files:
        return []
    found = []
    for _ in range(draw(st.integers(0, 2 * len(patch.files)))):
        file = draw(st.sampled_from(patch.files))
        found.append((file.path, draw(some(file)), draw(st.sampled_from([ACCEPTED, ACCEPTED, *STATES]))))
    return found


def decide(done: list[tuple[bytes, Marks, str]]) -> Decisions:
    decisions = Decisions()
    for path, marks, state in done:
        decisions = decisions.set([(path, marks)], state)
    return decisions
