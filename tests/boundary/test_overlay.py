"""Boxes over shared layers, made and run by the command line: renames, status, poison, collection."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths, state_dir
from backends.engine import Engine
from backends.evidence.journal import read
from backends.trees import layers
from tests import support

pytestmark = pytest.mark.boundary

Cli = Callable[..., support.Done]


@pytest.fixture
def folders(home: object, tmp_path: Path) -> Path:
    files = {f"pkg/mod{n}/file{m}.txt": b"%d %d\n" % (n, m) for n in range(4) for m in range(5)}
    return support.make_repo(tmp_path / "repo", {**files, "README.md": b"# r\n", "docs/a.md": b"a\n"})


def paths_of(name: str) -> BoxPaths:
    (root,) = state_dir().glob(f"*/{name}")
    return BoxPaths(root)


def inside(cli: Cli, repo: Path, script: str, program: str = "sh") -> str:
    argv = ("sh", "-ec", script) if program == "sh" else ("python3", "-c", script)
    done = cli("run", "a", "--", *argv, cwd=repo)
    assert done.code == 0, done
    return done.out


@pytest.fixture
def box(cli: Cli, folders: Path) -> Path:
    assert cli("new", "a", cwd=folders).code == 0
    return folders


def test_a_folder_of_the_base_is_moved_by_mv_git_and_rename(cli: Cli, box: Path) -> None:
    out = inside(cli, box, "mv pkg lib; ls; git mv docs text; git status --porcelain | sort | tail -2; ls -A")
    assert out.split("\n")[:3] == ["README.md", "docs", "lib"]
    assert "R  docs/a.md -> text/a.md" in out
    assert ".cloche" not in out
    script = (
        "import os\n"
        "os.rename('lib/mod1', 'top'); os.rename('lib', 'pkg2'); os.mkdir('own'); os.rename('own', 'own2')\n"
        "print(sorted(os.listdir('.')), sorted(os.listdir('top')), sorted(os.listdir('pkg2')))\n"
    )
    assert "'file0.txt', 'file1.txt'" in inside(cli, box, script, "python3")
    found = {change.path: change for change in Engine(box).snapshot_diff("a").changes}
    assert found[b"top/file0.txt"].old_path == b"pkg/mod1/file0.txt"
    assert found[b"pkg2/mod0/file4.txt"].old_path == b"pkg/mod0/file4.txt"
    assert len(found) == 21


def test_a_moved_folder_keeps_modes_times_links_and_open_files(cli: Cli, box: Path) -> None:
    script = """
import os, stat
os.chmod('pkg/mod0', 0o750); os.symlink('mod0', 'pkg/ln'); os.link('pkg/mod2/file0.txt', 'other')
os.setxattr('pkg/mod0', 'user.note', b'kept')
held = open('pkg/mod1/file1.txt', 'a')
before = [os.stat(p).st_mtime_ns for p in ('pkg', 'pkg/mod3', 'pkg/mod3/file1.txt')]
os.rename('pkg', 'lib')
held.write('held'); held.flush()
assert open('lib/mod1/file1.txt').read().endswith('held')
assert [os.stat(p).st_mtime_ns for p in ('lib', 'lib/mod3', 'lib/mod3/file1.txt')] == before
assert stat.S_IMODE(os.stat('lib/mod0').st_mode) == 0o750 and os.getxattr('lib/mod0', 'user.note') == b'kept'
assert os.readlink('lib/ln') == 'mod0' and os.path.samefile('lib/mod2/file0.txt', 'other')
assert not os.path.lexists('pkg') and os.stat('other').st_nlink == 2
print('good')
"""
    assert inside(cli, box, script, "python3") == "good\n"


def test_two_folders_of_the_base_change_places(cli: Cli, box: Path) -> None:
    script = (
        "import ctypes, os\n"
        "assert ctypes.CDLL(None).renameat2(-100, b'pkg', -100, b'docs', 2) == 0\n"
        "print(sorted(os.listdir('docs')), os.listdir('pkg'))\n"
    )
    assert inside(cli, box, script, "python3") == "['mod0', 'mod1', 'mod2', 'mod3'] ['a.md']\n"


def test_a_rename_that_must_fail_fails_as_everywhere(cli: Cli, box: Path) -> None:
    script = (
        "import errno, os\n"
        "for old, new in (('pkg', 'docs'), ('pkg', 'pkg/mod0/x'), ('none', 'x'), ('pkg', 'none/x'),\n"
        "                 ('pkg', '/tmp/x')):\n"
        "    try: os.rename(old, new)\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
        "print(len(os.listdir('pkg')))\n"
    )
    assert inside(cli, box, script, "python3").split() == [
        "ENOTEMPTY",
        "EINVAL",
        "ENOENT",
        "ENOENT",
        "EXDEV",
        "4",
    ]


def test_nothing_is_lost_when_others_write_into_a_folder_that_is_moved(cli: Cli, box: Path) -> None:
    script = """
import os, threading
stop = False
made = []
def write():
    n = 0
    while not stop:
        try:
            with open(f'pkg/mod0/w{n}', 'w') as file: file.write(str(n))
            made.append(n); n += 1
        except FileNotFoundError: pass
thread = threading.Thread(target=write); thread.start()
for turn in range(3):
    try: os.rename('pkg', 'lib'); os.rename('lib', 'pkg')
    except OSError as error: assert error.errno == 18, error
stop = True; thread.join()
names = os.listdir('pkg/mod0')
lost = [n for n in made if f'w{n}' not in names]
assert len([n for n in names if n.startswith('file')]) == 5, names
print('lost', len(lost), len(made) > 0)
"""
    assert inside(cli, box, script, "python3").startswith("lost 0 ")


def test_what_a_box_got_is_in_status_manifest_and_journal(cli: Cli, box: Path) -> None:
    value = json.loads(cli("status", "a", "--json", cwd=box).out)
    assert value["tree_provider"] == "overlay"
    assert "made and changed on these file systems" in value["tree_reason"]
    assert "overlay: made and changed" in cli("status", "a", cwd=box).out
    created = next(record for record in read(paths_of("a").journal) if record.kind == "created")
    assert created.data["tree_provider"] == "overlay" and created.data["tree_reason"] == value["tree_reason"]


def test_a_stated_checkout_is_one(cli: Cli, folders: Path) -> None:
    (folders / "cloche.toml").write_text('[profiles.default]\ntree = "checkout"\n')
    assert cli("new", "a", cwd=folders).code == 0
    assert json.loads(cli("status", "a", "--json", cwd=folders).out)["tree_provider"] == "checkout"
    assert (paths_of("a").tree / "README.md").exists()


def test_a_poisoned_layer_starts_no_box_and_the_next_run_has_the_base(cli: Cli, box: Path) -> None:
    """S10: the run is refused and names the file; the layer is made anew from the repository."""
    (tree,) = layers.used(paths_of("a"))
    file = layers.root() / tree / "tree" / "README.md"
    time.sleep(0.05)
    file.write_bytes(b"# p\n")
    done = cli("run", "a", "--", "cat", "README.md", cwd=box)
    assert done.code == 3 and done.out == ""
    assert "README.md" in done.err
    assert cli("run", "a", "--", "cat", "README.md", cwd=box).out == "# r\n"


def test_a_lost_cache_is_made_anew(cli: Cli, box: Path) -> None:
    inside(cli, box, "echo mine > README.md; rm docs/a.md")
    assert cli("stop", "a", cwd=box).code == 0
    from backends.trees.remove import remove

    remove(layers.root())
    assert cli("diff", "a", cwd=box).code == 0, "the changes are read without the layer"
    assert inside(cli, box, "cat README.md; ls docs; cat pkg/mod0/file0.txt") == "mine\n0 0\n"


def test_gc_reclaims_layers_that_no_box_names(cli: Cli, box: Path) -> None:
    (tree,) = layers.used(paths_of("a"))
    assert cli("gc", cwd=box).code == 0
    assert (layers.root() / tree).is_dir()
    assert cli("rm", "a", cwd=box).code == 0
    assert "shared layers: 1" in cli("gc", cwd=box).out
    assert not (layers.root() / tree).exists()


def test_a_diff_and_a_proposal_need_no_live_box(cli: Cli, box: Path) -> None:
    inside(cli, box, "echo more >> README.md; rm -r docs; mv pkg lib")
    assert cli("stop", "a", cwd=box).code == 0
    assert "+more" in cli("diff", "a", cwd=box).out
    assert cli("propose", "a", cwd=box).code == 0
    assert cli("apply", "a", "--as", "test", cwd=box).code == 0
    names = support.git(box, "ls-tree", "-r", "--name-only", "HEAD").split()
    assert "lib/mod0/file0.txt" in names and "pkg/mod0/file0.txt" not in names and "docs/a.md" not in names
