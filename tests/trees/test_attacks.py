"""Attacks on whoever reads a box: programs in nested repositories, swapped names, hostile attributes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.trees import diff, quarantine
from backends.trees.snapshot import WALKER
from tests.support import ROOT, git, make_repo
from tests.trees.conftest import Box, MakeBox

pytestmark = pytest.mark.boundary

HOST_SECRET = b"HOST-SECRET-4d1f"
RENAME_EXCHANGE = 2
# The reader is confined alike whoever runs it; the second run has to see it race, not to count as high again.
SNAPSHOTS = 150 if os.geteuid() == 0 else 50

# Swaps pairs of names as fast as it can until its input ends: renameat2(2) with RENAME_EXCHANGE.
RACER = """
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
os.chdir(sys.argv[1])
pairs = [pair.split(":") for pair in sys.argv[2:]]
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(200):
        for one, other in pairs:
            libc.renameat2(-100, one.encode(), -100, other.encode(), 2)
"""


def hostile_repository(where: Path, marker: Path) -> None:
    """A repository whose every program leaves a marker when Git runs it."""
    git(where, "init", "-q", "-b", "main")
    touch = f"touch {marker}; cat"
    for key, value in {
        "filter.evil.clean": touch, "filter.evil.smudge": touch, "filter.evil.required": "true",
        "core.fsmonitor": f"touch {marker}; false", "diff.external": f"touch {marker}; false",
        "diff.evil.textconv": touch, "core.hooksPath": "hooks", "core.sshCommand": f"touch {marker}",
        "core.pager": touch,
    }.items():  # fmt: skip
        git(where, "config", key, value)
    (where / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (where / "payload.txt").write_text("payload\n")
    (where / "hooks").mkdir()
    for name in ("pre-commit", "post-index-change", "reference-transaction", "post-checkout"):
        (where / "hooks" / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (where / "hooks" / name).chmod(0o755)


def test_nested_repositories_run_nothing_on_the_host(tmp_path: Path, make_box: MakeBox) -> None:
    """S1: beside the tree and in the place of a submodule of the base; every look, taken twice."""
    repo = make_repo(tmp_path / "r")
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    git(repo, "commit", "-q", "-m", "submodule")
    box = make_box(repo)
    marker = tmp_path / "ran"
    (box.tree / "nested").mkdir()
    for where in (box.tree / "sub", box.tree / "nested"):
        hostile_repository(where, marker)
    (box.tree / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    marker.unlink(missing_ok=True)
    for text in ("one\n", "two\n"):
        (box.tree / "nested" / "payload.txt").write_text(text)
        taken = box.snapshot()
        diff.diff(box.paths, box.base.commit, box.base.tree, taken.tree, taken.skipped)
        assert not marker.exists()
    assert {(one.kind, one.path) for one in taken.findings} == {
        ("nested-repository", b"nested/.git"),
        ("submodule", b"sub"),
    }
    assert not any(b".git/" in name for name in box.names(taken.tree))


def test_swapped_names_leak_nothing_and_hang_nothing(box: Box, tmp_path: Path) -> None:
    """S2: files, links to host files, pipes and folders trade places while snapshots are taken."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(HOST_SECRET)
    tree = box.tree
    for name in ("a", "b"):
        (tree / name).write_bytes(b"harmless\n")
    os.symlink(outside / "secret", tree / "to-secret")
    os.mkfifo(tree / "pipe")
    (tree / "folder").mkdir()
    (tree / "folder" / "secret").write_bytes(b"harmless\n")
    os.symlink(outside, tree / "to-outside")
    (tree / ".gitignore").write_bytes(b"*.never\n")
    os.symlink(outside / "secret", tree / "to-rules")
    command = [sys.executable, "-I", "-S", "-c", RACER, str(tree)]
    pairs = ["a:to-secret", "b:pipe", "folder:to-outside", ".gitignore:to-rules"]
    racer = subprocess.Popen([*command, *pairs], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert racer.stdin is not None
    assert racer.stdout is not None
    assert racer.stdout.readline() == b"ready\n"
    kinds: set[bytes] = set()
    try:
        end, count = time.monotonic() + 60, 0
        while count < 150 or (len(kinds) < 2 and time.monotonic() < end):
            taken = box.snapshot(seconds=20.0)
            kinds.update(row.split(b" ", 1)[0] for row in listed(box, taken.tree, "a"))
            count += 1
    finally:
        racer.stdin.close()
        racer.wait()
    assert kinds == {b"100644", b"120000"}, "the race was real: both kinds were seen"
    everything = quarantine.git(box.paths).run("cat-file", "--batch", "--batch-all-objects", "--buffer")
    assert b"harmless" in everything
    assert HOST_SECRET not in everything


def listed(box: Box, tree: str, path: str) -> list[bytes]:
    return quarantine.git(box.paths).run("ls-tree", "-z", tree, path).split(b"\0")[:-1]


def test_a_pipe_in_the_place_of_a_file_does_not_hold_the_reader(box: Box) -> None:
    for name in ("README.md", ".gitignore"):
        (box.tree / name).unlink(missing_ok=True)
        os.mkfifo(box.tree / name)
    assert {path for path, _ in box.snapshot(seconds=60.0).skipped} == {b"README.md", b".gitignore"}


def test_a_rule_of_many_stars_costs_no_time(box: Box) -> None:
    """Tried in every way against a name of many letters, it alone would never end."""
    (box.tree / ".gitignore").write_text("*a" * 60 + "*b\n" + "a*" * 60 + "c\n")
    for number in range(10):
        (box.tree / ("a" * (240 + number))).write_text("x")
    began = time.monotonic()
    taken = box.snapshot()
    assert time.monotonic() - began < 60  # it would never end
    assert taken.stat.files == 11
    assert taken.findings == ()


def test_rules_without_end_are_set_aside_and_hide_nothing(box: Box) -> None:
    (box.tree / ".gitignore").write_text("hidden\n" + "".join(f"*a*b{n}*c\n" for n in range(60_000)))
    (box.tree / "hidden").write_text("x")
    taken = box.snapshot(seconds=6.0)
    assert [(one.kind, one.path) for one in taken.findings] == [("ignore-rules", b".gitignore")]
    assert "from here on none is used" in taken.findings[0].text
    assert box.blob(taken.tree, "hidden") == b"x"


def test_attributes_of_the_tree_change_neither_bytes_nor_how_they_are_shown(box: Box) -> None:
    """S3: a code change stays text, and the blob is what lies on disk."""
    (box.tree / ".gitattributes").write_text(
        "*.py -diff\n*.txt ident working-tree-encoding=UTF-16 eol=crlf\n*.md binary\n* filter=x text\n"
    )
    files = {"src/add.py": b"import os\n", "id.txt": b"$Id$\n", "README.md": b"# changed\r\n"}
    for name, content in files.items():
        (box.tree / name).write_bytes(content)
    taken = box.snapshot()
    for name, content in files.items():
        assert box.blob(taken.tree, name) == content
    rows = {row.path: row for row in diff.changes(quarantine.git(box.paths), box.base.tree, taken.tree)}
    assert rows[b"src/add.py"].added == 1
    assert rows[b"README.md"].added == 1
    patch = box.patch(taken.tree)
    assert b"+import os" in patch
    assert b"GIT binary patch" not in patch


# What a walker that was taken over would try: each line must fail with a refusal of the kernel.
CAPTIVE = """
import os, socket, sys
sys.path += sys.argv[2].split(os.pathsep)
from backends.trees import confine
print(confine.enter(int(sys.argv[1]), 10.0, 4 << 30))
tree = int(sys.argv[1])
print("inside", os.read(os.open("README.md", os.O_RDONLY, dir_fd=tree), 8))
attempts = {
    "read": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "list": lambda: os.open("/", os.O_RDONLY | os.O_DIRECTORY),
    "above": lambda: os.open("../manifest.json", os.O_RDONLY | os.O_CREAT, dir_fd=tree),
    "write": lambda: os.open("README.md", os.O_WRONLY, dir_fd=tree),
    "create": lambda: os.open("made", os.O_WRONLY | os.O_CREAT, dir_fd=tree),
    "truncate": lambda: os.open("README.md", os.O_RDONLY | os.O_TRUNC, dir_fd=tree),
    "unlink": lambda: os.unlink("README.md", dir_fd=tree),
    "chmod": lambda: os.chmod("README.md", 0o777, dir_fd=tree),
    "mkdir": lambda: os.mkdir("made", dir_fd=tree),
    "inet": lambda: socket.socket(socket.AF_INET),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "fork": os.fork,
    "kill": lambda: os.kill(os.getppid(), 15),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print("REACHED", name)
    except PermissionError:
        print("refused", name)
"""


def test_the_walkers_confinement_leaves_reading_the_tree_and_nothing_else(box: Box) -> None:
    fd = os.open(box.tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", CAPTIVE, str(fd), str(ROOT)],
            pass_fds=[fd],
            capture_output=True,
            text=True,
            timeout=30,
        )
    finally:
        os.close(fd)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Landlock ABI"), done.stderr
    assert lines[1] == "inside b'# sample'"
    assert [line for line in lines[2:] if not line.startswith("refused")] == [], done.stdout
    assert len(lines) == 16


def test_the_walker_is_the_script_that_is_confined() -> None:
    text = WALKER.read_text()
    assert text.index("confine.enter(") < text.index("walk.root(")
