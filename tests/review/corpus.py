"""A repository and what a box makes of it: every kind of failure that a review can meet, in one proposal.

The kinds are those that users of neighbouring tools reported: configuration and hooks that would run on the
host, binary content, modes, odd encodings, hostile names, a moved submodule, placeholders, a user's own
configuration, a conflict, folders that are a repository in disguise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests import support

Side = Mapping[bytes, tuple[int, bytes]]
"""Path: mode and content, as Git would store them."""

FILE, EXEC, LINK = 0o100644, 0o100755, 0o120000
POINTER = "1" * 40
"""The commit that the submodule is at; nobody has its objects, so it is never checked out."""

LINES = b"".join(b"line %d\n" % number for number in range(1, 61))
PROSE = b"".join(b"sentence %d of the story\n" % number for number in range(1, 31))

BASE: Side = {
    b"README.md": (FILE, b"# demo\n\nread me\n"),
    b"many.txt": (FILE, LINES),
    b"shared.txt": (FILE, b"top\nmiddle\nbottom\n"),
    b"gone.txt": (FILE, b"to go\n"),
    b"story.txt": (FILE, PROSE),
    b"tool": (FILE, b"#!/bin/sh\nexit 0\n"),
    b"run.sh": (EXEC, b"#!/bin/sh\nexit 0\n"),
    b"logo.bin": (FILE, bytes(range(256))),
    b"link": (LINK, b"README.md"),
    b"turns": (FILE, b"a file that becomes a link\n"),
    b"crlf.txt": (FILE, b"one\r\ntwo\r\n"),
    b"end.txt": (FILE, b"one\ntwo"),
    b".gitmodules": (FILE, b'[submodule "mod"]\n\tpath = mod\n\turl = https://x.invalid/m\n'),
}

NAMES = (
    b"-rf", b"a b", b"new\nline", b"tab\there", b'quo"te', b"back\\slash", b"\xff", "\U0001f600".encode(),
    b"x" * 255, b"src/[id]/p.tsx", b"x[/]y", b"[@click=app.apply]README.md[/]",
    b"a\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x9bb\rc",
)  # fmt: skip
"""Names that lists, quoting, markup and terminals stumble over."""

TEXTS = {
    b"text/crlf": b"crlf\r\n",
    b"text/cr": b"lone\rcr\n",
    b"text/feed": b"form\x0cfeed\n",
    b"text/separator": "u\u2028v\n".encode(),
    b"text/latin": b"latin \xe9\n",
    b"text/end": b"no newline",
    b"text/bidi": "safe\u202eelbisivni\u2066\n".encode(),
    b"text/escape": b"\x1b]0;owned\x07\x1b[2J[@click=app.quit]x[/]\n",
    b"text/empty": b"",
}

GOOD: Side = {
    **{name: (FILE, b"name %d\n" % number) for number, name in enumerate(NAMES)},
    **{name: (FILE, text) for name, text in TEXTS.items()},
    b"README.md": (EXEC, b"# demo\n\nread me\nedited\n"),
    b"many.txt": (
        FILE,
        b"".join({5: b"five\n", 30: b"thirty\nthirty and a half\n", 55: b"more\n"}.get(n, b"line %d\n" % n)
                 for n in range(1, 61)),
    ),
    b"shared.txt": (FILE, b"top\nTHEIRS\nbottom\n"),
    b"tale.txt": (FILE, PROSE.replace(b"sentence 7 ", b"sentence seven ")),
    b"tool": (EXEC, b"#!/bin/sh\nexit 0\n"),
    b"run.sh": (FILE, b"#!/bin/sh\nexit 1\n"),
    b"logo.bin": (FILE, bytes(range(255, -1, -1))),
    b"nul": (FILE, b"a\0b\n"),
    b"link": (LINK, b"many.txt"),
    b"fresh-link": (LINK, b"src/[id]/p.tsx"),
    b"turns": (LINK, b"tool"),
    b"crlf.txt": (FILE, b"one\r\nzwei\r\n"),
    b"end.txt": (FILE, b"one\ntwo\nthree"),
    b".gitattributes": (FILE, b"*.bin diff=x filter=y\n"),
    b".husky/_/pre-commit": (EXEC, b"#!/bin/sh\nexit 1\n"),
}  # fmt: skip
"""What the box makes that a branch may take; :data:`GONE` is taken away."""
GONE = (b"gone.txt", b"story.txt")

BAD: Side = {
    b"docs/HEAD": (FILE, b"ref: refs/heads/x\n"),
    b"docs/objects/x": (FILE, b""),
    b"docs/refs/x": (FILE, b""),
    ".g\u200cit/config".encode(): (FILE, b"[core]\n"),
    b"GIT~1/config": (FILE, b"[core]\n"),
    b"leak": (LINK, b"/etc/passwd"),
}
"""What no branch may take: a repository in disguise, names that read as ``.git``, a link out of the tree."""

CHANGED = frozenset(GOOD) | {b"gone.txt"}
"""What a review lists of that; the other file that is gone is told as renamed."""
DOCS = frozenset({b"docs/HEAD", b"docs/objects/x", b"docs/refs/x"})
FOUND = DOCS | {b"leak"}
"""What a review lists of what is refused: what reads as ``.git`` is not even read."""

COMMITS = 20
"""How often the box adds and commits while somebody looks on."""

_WRITE = f"""
import os, subprocess, sys
def put(files):
    for name, (mode, content) in files.items():
        if os.path.lexists(name):
            os.unlink(name)
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        if mode == {LINK}:
            os.symlink(content, name)
            continue
        with open(name, "wb") as file:
            file.write(content)
        os.chmod(name, mode & 0o777)
def git(*words):
    subprocess.run(["git", "-c", "user.name=box", "-c", "user.email=box@invalid", *words], check=True)
"""


def filling(marker: Path) -> str:
    """A Python program that makes the proposal in the box. ``marker``: a program of the host that leaves a
    trace wherever it runs; the box's configuration and hooks name it.
    """
    return f"""{_WRITE}
for number in range({COMMITS}):
    open("text.tmp", "w").write(str(number))
    git("add", "text.tmp")
    git("commit", "-qm", f"commit {{number}} [@click=app.quit]x[/]")
os.unlink("text.tmp")
put({dict(GOOD)!r})
put({dict(BAD)!r})
for name in {GONE!r}:
    os.unlink(name)
subprocess.run(["git", "init", "-q", "mod"], check=True)
put({{b"mod/new": ({FILE}, b"x")}})
git("-C", "mod", "add", "-A")
git("-C", "mod", "commit", "-qm", "moved")
for key in ("core.fsmonitor", "diff.x.textconv", "filter.y.clean", "diff.external", "core.pager"):
    git("config", key, {str(marker)!r})
git("config", "core.hooksPath", ".husky/_")
body = b"#!/bin/sh\\nexec {marker}\\n"
put({{b".git/x": ({EXEC}, body)}})
os.makedirs(".git/hooks", exist_ok=True)
os.rename(".git/x", ".git/hooks/post-checkout")
put({{b".git/hooks/reference-transaction": ({EXEC}, body), b".git/hooks/pre-commit": ({EXEC}, body)}})
"""


REPAIRING = f"""{_WRITE}
import shutil
for name in {sorted({path.split(b"/")[0] for path in BAD} - {b"leak"})!r} + [b"mod"]:
    (os.unlink if os.path.islink(name) or not os.path.isdir(name) else shutil.rmtree)(name)
os.mkdir("mod")
"""
"""A program that takes from the box what Git would read as a repository. What is left to refuse can be left
out: :data:`ENDING` takes it away too, and settles what conflicts with :data:`OURS`.
"""
OURS = {"shared.txt": b"top\nOURS\nbottom\n"}
BESIDE = {"beside.txt": b"ours\n"}
BOTH = b"top\nOURS and THEIRS\nbottom\n"
LATER: Side = {b"shared.txt": (FILE, BOTH), b"beside.txt": (FILE, BESIDE["beside.txt"])}
"""What a branch has in the end that neither the base nor the box's first proposal had."""
ENDING = f"""{_WRITE}
os.unlink("leak")
assert b"<<<<<<<" in open("shared.txt", "rb").read()
put({{b"shared.txt": ({FILE}, {BOTH!r})}})
"""


def source(path: Path) -> Path:
    """The repository, on branch ``main``, with a submodule that is not checked out."""
    made = support.make_repo(path, {"first": b"1\n"})
    (made / "first").unlink()
    for name, (mode, content) in BASE.items():
        place = made / name.decode()
        if mode == LINK:
            place.symlink_to(content.decode())
            continue
        place.write_bytes(content)
        place.chmod(mode & 0o777)
    support.git(made, "add", "-A")
    support.git(made, "update-index", "--add", "--cacheinfo", f"160000,{POINTER},mod")
    support.git(made, "commit", "-qm", "the base")
    (made / "mod").mkdir(exist_ok=True)
    return made
