"""The overlay provider: what a real box changes over a shared layer, and how it is read from outside."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.trees import choice, layers
from backends.trees.watch import TreeWatch
from tests.support import git, make_repo
from tests.trees.conftest import MakeBox
from tests.trees.layered import UID, MakeLayered
from tests.trees.test_layers import shape

pytestmark = pytest.mark.boundary

FILES = {
    ".gitignore": b"*.log\n/build/\n",
    "README.md": b"# sample\n",
    "src/a.py": b"a = 1\n",
    "src/b.py": b"b = 2\n",
    "src/deep/c.py": b"c = 3\n",
    "src/deep/.gitignore": b"!kept.log\nlocal\n",
    "docs/x.md": b"x\n",
    "docs/y.md": b"y\n",
    "run.sh": b"#!/bin/sh\n",
    "kept.log": b"tracked although ignored\n",
}

CHANGES = {
    "nothing": "true",
    "edit": "echo more >> src/a.py",
    "same content again": 'x=$(cat src/a.py); echo "$x" > src/a.py',
    "new file": "echo n > src/new.py",
    "new folders": "mkdir -p p/q/r && echo n > p/q/r/s",
    "empty folder": "mkdir -p empty/within",
    "delete": "rm src/a.py",
    "delete a folder": "rm -r src",
    "delete all": "rm -rf src docs README.md run.sh kept.log .gitignore",
    "folder made anew": "rm -r src && mkdir src && echo other > src/a.py",
    "folder made anew in a folder": "rm -r src/deep && mkdir src/deep && echo n > src/deep/n",
    "file to folder": "rm src/a.py && mkdir src/a.py && echo n > src/a.py/n",
    "folder to file": "rm -r docs && echo f > docs",
    "folder to link": "rm -r docs && ln -s src docs",
    "link out": "ln -s /etc/passwd p && ln -s ../.. up",
    "mode": "chmod 755 README.md && chmod 644 run.sh",
    "mode of a folder": "chmod 700 src",
    "times only": "touch -d 2020-01-01 src/a.py src",
    "hard link": "ln src/a.py src/hard.py && echo tail >> src/hard.py",
    "rename a file": "mv src/a.py docs/moved.py",
    "exchange": "mv src/a.py t && mv src/b.py src/a.py && mv t src/b.py",
    "ignored": "echo l > x.log; mkdir build; echo b > build/b; cd src/deep; echo k > kept.log; : > local",
    "ignored but tracked": "echo more >> kept.log",
    "rules changed": "echo '*.py' >> .gitignore; echo n > src/n.py; echo m > src/n.txt",
    "rules gone": "rm .gitignore; echo l > x.log",
    "rules of a folder made anew": "rm -r src/deep; mkdir src/deep; echo l > src/deep/local",
    "odd names": "printf x > 'sp ace'; printf x > \"$(printf 'n\\nl')\"; printf x > \"$(printf '\\377')\"",
    "special files": "mkfifo pipe; mkfifo src/b.pipe",
    "nested repository": "mkdir -p sub/.git/objects && echo x > sub/.git/HEAD && echo y > sub/y",
    "embedded repository": "mkdir -p e/objects e/refs; for f in HEAD objects/o refs/r; do : > e/$f; done",
    "set back": "echo x >> src/a.py; echo 'a = 1' > src/a.py",
    "deleted and back": 'x=$(cat src/a.py); rm src/a.py; echo "$x" > src/a.py',
}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    repo = make_repo(tmp_path / "r", FILES)
    (repo / "link").symlink_to("README.md")
    git(repo, "add", "-Af")
    git(repo, "commit", "-q", "-m", "second")
    return repo


@pytest.mark.parametrize("script", CHANGES.values(), ids=CHANGES.keys())
def test_a_snapshot_is_the_one_of_a_checkout_with_the_same_changes(
    sample: Path, make_layered: MakeLayered, make_box: MakeBox, script: str
) -> None:
    whole = make_box(sample, "whole")
    subprocess.run(["/bin/bash", "-c", script], cwd=whole.tree, check=True)
    box = make_layered(sample)
    box.sh(script)
    theirs, ours = whole.snapshot(), box.snapshot()
    assert box.rows(ours.tree) == box.rows(theirs.tree)
    assert ours.tree == theirs.tree
    assert ours.stat == theirs.stat
    assert sorted(ours.skipped) == sorted(theirs.skipped)
    assert sorted(ours.findings) == sorted(theirs.findings)
    again = box.snapshot(settle=0.0)
    assert again.tree == ours.tree


def test_a_snapshot_reads_what_changed_and_the_next_one_what_changed_since(
    big_repo: Path, make_layered: MakeLayered
) -> None:
    box = make_layered(big_repo)
    assert box.snapshot().read == 0
    box.sh("printf 12345 > pkg01/mod00/file00001.txt")
    assert box.snapshot(settle=0.0).read == 5
    assert box.snapshot(settle=0.0).read == 0


def test_the_first_status_inside_opens_no_file(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    with box.live(observe="all") as live:
        live.seen.clear()
        done = live.sh("git status --porcelain")
        opened = {path for kind, path in live.seen if kind == "open"}
    assert (done.exit, done.out) == (0, "")
    assert not {name for name in FILES if not name.endswith(".gitignore")} & opened


def test_git_inside_works_and_the_layer_and_the_source_stay(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    layer = layers.root() / box.base.tree / "tree"
    before, head = shape(layer), git(sample, "rev-parse", "HEAD")
    out = box.sh(
        "git checkout -q -b work && echo x >> src/a.py && git add -A && git commit -qm x && git rm -qr docs"
        " && git commit -qm y && git checkout -q HEAD~2 && git status --porcelain && git checkout -q work"
        " && git rev-parse HEAD^{tree}"
    )
    assert out.strip() == box.snapshot().tree
    assert shape(layer) == before
    assert git(sample, "rev-parse", "HEAD") == head


def test_files_belong_to_the_box_inside_and_out(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    out = box.sh("echo x >> src/a.py; chmod 600 src/b.py; stat -c '%u:%g %a' src/a.py src/b.py docs/x.md src")
    assert [line.split()[0] for line in out.splitlines()] == ["1000:1000"] * 4
    assert {path.lstat().st_uid for path in (box.paths.upper / "src").iterdir()} == {UID}


def test_hard_links_made_inside_are_one_file(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    out = box.sh(
        "ln src/a.py hard; echo more >> hard; stat -c '%h' src/a.py; cmp src/a.py hard; tail -1 src/a.py"
    )
    assert out.split() == ["2", "more"]


def test_the_inert_repository_lies_on_disk_and_the_own_one_inside(
    sample: Path, make_layered: MakeLayered
) -> None:
    """S5: a prompt in the upper folder meets a repository of nothing."""
    box = make_layered(sample)
    assert "config" in box.sh("ls .git")
    assert (box.paths.upper / ".git" / "HEAD").read_bytes() == b"ref: refs/heads/box\n"


CHANGE_BY_CHANGE = (
    "echo x >> src/a.py", "echo x >> src/a.py", "rm src/b.py", "echo n > src/n", "mkdir src/m",
    "echo o > src/m/o", "mv docs/x.md src/m/x", "rm -r src/deep", "mkdir src/deep",
    "echo p > src/deep/p", "chmod 600 run.sh",
)  # fmt: skip


def test_a_watch_on_the_upper_folder_is_told_of_every_change(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    verdict = choice.probe(box.paths)
    with box.live() as live, TreeWatch(box.paths.written) as watch:
        watch.changed()
        missed = []
        for change in CHANGE_BY_CHANGE:
            assert live.sh(change).exit == 0
            if not watch.changed():
                missed.append(change)
    assert missed == [] or not verdict.told


# ---- hostile upper folders


def test_marks_set_inside_are_not_marks(sample: Path, make_layered: MakeLayered) -> None:
    """The kernel stores ``user.overlay.*`` of a box under another name: nothing is hidden or redirected."""
    box = make_layered(sample)
    with box.live() as live:
        done = live.python(
            "import os\n"
            "os.chmod('src', 0o700)\n"
            "for key, value in (('opaque', b'y'), ('redirect', b'/docs'), ('whiteout', b'')):\n"
            "    try: os.setxattr('src', 'user.overlay.' + key, value)\n"
            "    except OSError: pass\n"
            "try: os.mknod('w', 0o20000, 0)\n"
            "except OSError as error: print(error.errno)\n"
        )
    assert done.out.strip() in ("1", "13")
    assert box.snapshot().tree == box.base.tree


def test_a_redirect_from_outside_is_followed_nowhere(sample: Path, make_layered: MakeLayered) -> None:
    """Inside the kernel refuses the folder that has one; outside the folder is read as what it holds."""
    box = make_layered(sample)
    box.sh("chmod 700 docs; echo n > docs/new; chmod 700 run.sh")
    for name, mark in (("docs", "redirect"), ("run.sh", "redirect"), ("run.sh", "metacopy")):
        os.setxattr(box.paths.upper / name, f"user.overlay.{mark}", b"/src" if mark == "redirect" else b"")
    assert "Operation not permitted" in box.sh("ls docs 2>&1; cat run.sh 2>&1; true")
    rows = box.rows(box.snapshot().tree)
    assert {path for path in rows if path.startswith(b"docs/")} == {b"docs/new", b"docs/x.md", b"docs/y.md"}


def test_an_opaque_mark_from_outside_means_what_it_means_inside(
    sample: Path, make_layered: MakeLayered
) -> None:
    box = make_layered(sample)
    box.sh("chmod 700 docs; touch docs/new")
    os.setxattr(box.paths.upper / "docs", "user.overlay.opaque", b"y")
    assert box.sh("ls docs") == "new\n"
    assert {path for path in box.rows(box.snapshot().tree) if path.startswith(b"docs/")} == {b"docs/new"}


@pytest.mark.parametrize("mark", [b"x", b"n", b""])
def test_whiteouts_by_attribute_hide_what_they_hide_inside(
    sample: Path, make_layered: MakeLayered, mark: bytes
) -> None:
    """No box can make one. The folder's other marks (``x`` announces them in a lower layer) mean nothing."""
    box = make_layered(sample)
    box.sh("chmod 700 docs; : > docs/x.md; echo y > docs/y.md; mkdir own; : > own/e; echo f > own/f")
    os.setxattr(box.paths.upper / "docs", "user.overlay.opaque", mark)
    for name in ("docs/x.md", "docs/y.md", "own/e"):
        os.setxattr(box.paths.upper / name, "user.overlay.whiteout", b"")
    inside = set(box.sh("for f in docs/[xy].md own/[ef]; do cat $f >&2 && echo $f; done; true").split())
    rows = {os.fsdecode(path) for path in box.rows(box.snapshot().tree)}
    assert rows & {"docs/x.md", "docs/y.md", "own/e", "own/f"} == inside


def test_limits_hold_for_an_upper_folder(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    box.sh("truncate -s 30G big; mkdir -p d/d/d/d; echo x > d/d/d/d/x")
    with pytest.raises(Refused) as raised:
        box.snapshot()
    assert raised.value.code == "file-too-large" and "big" in raised.value.why
    box.sh("rm big")
    with pytest.raises(Refused) as raised:
        box.snapshot(depth=3)
    assert raised.value.code == "too-deep"


def test_a_closed_upper_folder_is_opened_again(sample: Path, make_layered: MakeLayered) -> None:
    box = make_layered(sample)
    box.sh("echo n > n; chmod 000 /work")
    assert b"n" in box.rows(box.snapshot().tree)
    assert box.sh("cat n") == "n\n"


def test_removal_takes_the_kernels_scratch_too(sample: Path, make_layered: MakeLayered) -> None:
    from backends.trees.remove import remove

    box = make_layered(sample, "gone")
    box.sh("rm src/a.py; mkdir -p x/y; chmod 000 x/y x")
    assert stat.S_IMODE((box.paths.work / "work").lstat().st_mode) == 0
    remove(box.paths.root)
    assert not box.paths.root.exists()


def test_boxes_of_one_layer_do_not_see_each_other(sample: Path, make_layered: MakeLayered) -> None:
    one, two = make_layered(sample, "a"), make_layered(sample, "b")
    with one.live() as first, two.live() as second:
        assert first.sh("echo one > README.md; rm -r src").exit == 0
        assert second.sh("cat README.md; ls src").out.startswith("# sample\na.py")
    assert two.snapshot().tree == two.base.tree
