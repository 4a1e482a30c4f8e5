"""Shared layers: what they hold, thin ones over known ones, seals, and who keeps them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.boxes.layout import cache_dir
from backends.errors import Refused
from backends.trees import choice, index, layers, remove, seal, source, verification
from backends.trees.checkout import checkout
from backends.trees.listing import Listing
from tests.support import ROOT, git, make_repo, write_files
from tests.trees.conftest import MakeBox
from tests.trees.layered import Layered, MakeLayered

FILES = {
    "a.txt": b"a\n",
    "keep/one.txt": b"1\n",
    "keep/two.txt": b"2\n",
    "gone/deep/x.txt": b"x\n",
    "gone/y.txt": b"y\n",
    "file-then-folder": b"f\n",
    "folder-then-file/z.txt": b"z\n",
    "tool.sh": b"#!/bin/sh\n",
    ".gitignore": b"*.log\n",
}


def two_commits(where: Path) -> Path:
    """A repository whose second commit changes each kind of thing."""
    repo = make_repo(where, FILES)
    (repo / "link").symlink_to("a.txt")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--amend", "-m", "first")
    git(repo, "rm", "-qr", "gone", "file-then-folder", "folder-then-file")
    write_files(
        repo,
        {
            "a.txt": b"other\n",
            "new/n.txt": b"n\n",
            "file-then-folder/in.txt": b"i\n",
            "folder-then-file": b"f\n",
        },
    )
    (repo / "tool.sh").chmod(0o644)
    (repo / "link").unlink()
    (repo / "link").symlink_to("keep")
    git(repo, "rm", "-q", "--cached", "keep/two.txt")
    (repo / "keep/two.txt").unlink()
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "second")
    return repo


def shape(root: Path) -> dict[str, tuple[int, bytes]]:
    """Path to mode and content of everything below ``root`` but its ``.git``."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/")[0] == ".git":
            continue
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            content = os.fsencode(os.readlink(path))
        else:
            content = path.read_bytes() if stat.S_ISREG(mode) else b""
        found[name] = (mode if stat.S_ISREG(mode) else stat.S_IFMT(mode), content)
    return found


INSIDE = """
import os, stat, sys, json
found = {}
for folder, folders, files in os.walk('.'):
    if folder == '.': folders.remove('.git')
    for name in folders + files:
        path = os.path.relpath(os.path.join(folder, name))
        mode = os.lstat(path).st_mode
        content = os.readlink(path) if stat.S_ISLNK(mode) else open(path).read() if stat.S_ISREG(mode) else ''
        found[path] = [mode if stat.S_ISREG(mode) else stat.S_IFMT(mode), content]
print(json.dumps(found))
"""


def seen(box: Layered) -> dict[str, tuple[int, bytes]]:
    """The tree as the box's processes see it."""
    with box.live() as live:
        done = live.python(INSIDE)
    assert done.exit == 0, done
    return {name: (mode, text.encode()) for name, (mode, text) in json.loads(done.out).items()}


@pytest.mark.boundary
def test_a_layer_shows_exactly_the_base(tmp_path: Path, make_layered: MakeLayered, make_box: MakeBox) -> None:
    repo = two_commits(tmp_path / "r")
    assert seen(make_layered(repo)) == shape(make_box(repo, "whole").tree)


@pytest.mark.boundary
@pytest.mark.parametrize("order", [("HEAD~1", "HEAD"), ("HEAD", "HEAD~1")])
def test_a_near_base_is_a_thin_layer_that_shows_the_same(
    tmp_path: Path, make_layered: MakeLayered, make_box: MakeBox, order: tuple[str, str]
) -> None:
    repo = two_commits(tmp_path / "r")
    known, new = make_layered(repo, "known", order[0]), make_layered(repo, "new", order[1])
    layer = layers.find(new.base.tree)
    assert layer is not None
    assert layer.below == (known.base.tree,)
    assert not (layer.files / "keep" / "one.txt").exists(), (
        "what did not change lies in the known layer alone"
    )
    assert seen(new) == shape(make_box(repo, "whole", order[1]).tree)
    assert new.snapshot().tree == new.base.tree


def test_a_thin_layer_costs_what_changed(big_repo: Path, make_layered: MakeLayered) -> None:
    make_layered(big_repo, "known")
    (big_repo / "pkg01" / "mod00" / "file00001.txt").write_text("changed\n")
    git(big_repo, "commit", "-qam", "one ahead")
    layer = layers.find(make_layered(big_repo, "new").base.tree)
    assert layer is not None
    assert [path.name for path in layer.files.rglob("*") if path.is_file()] == ["file00001.txt"]


def test_a_second_clone_lies_on_the_layers_of_the_first(
    big_repo: Path, tmp_path: Path, make_layered: MakeLayered
) -> None:
    known = make_layered(big_repo, "known")
    git(tmp_path, "clone", "-q", str(big_repo), "second")
    (tmp_path / "second" / "one-more.txt").write_text("one more\n")
    git(tmp_path / "second", "add", "-A")
    git(tmp_path / "second", "commit", "-qm", "one ahead")
    layer = layers.find(make_layered(tmp_path / "second", "new", key="second").base.tree)
    assert layer is not None and layer.below == (known.base.tree,)
    assert [path.name for path in layer.files.rglob("*")] == ["one-more.txt"]


def test_a_layer_whose_tree_a_repository_has_not_is_no_neighbour(
    repo: Path, tmp_path: Path, make_layered: MakeLayered
) -> None:
    make_layered(repo, "known")
    other = make_repo(tmp_path / "other", {"only.txt": b"here\n"})
    layer = layers.find(make_layered(other, "new", key="other").base.tree)
    assert layer is not None and layer.below == ()


def test_a_base_far_from_every_known_one_is_whole(tmp_path: Path, make_layered: MakeLayered) -> None:
    repo = make_repo(tmp_path / "r", {f"f{n}": b"%d\n" % n for n in range(100)})
    make_layered(repo, "known")
    write_files(repo, {f"f{n}": b"other %d\n" % n for n in range(100)})
    git(repo, "commit", "-qam", "all")
    layer = layers.find(make_layered(repo, "new").base.tree)
    assert layer is not None and layer.below == ()


def test_a_spliced_index_is_the_one_of_a_whole_checkout(tmp_path: Path) -> None:
    repo = two_commits(tmp_path / "r")
    origin = source.discover(repo)
    assert origin is not None
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    old = checkout(source.git(origin), source.resolve(origin, "HEAD~1").tree, tmp_path / "one")
    new = checkout(source.git(origin), source.resolve(origin, "HEAD").tree, tmp_path / "two")
    gone = {row.path for row, _ in old} - {row.path for row, _ in new}
    assert index.splice(index.build(old), gone, new) == index.build(new)


def test_a_path_is_found_in_a_listing_by_halving(big_repo: Path) -> None:
    data = subprocess.run(
        ["git", "ls-tree", "-rz", "HEAD"], cwd=big_repo, capture_output=True, check=True
    ).stdout
    rows = {path: meta for meta, _, path in (row.partition(b"\t") for row in data.split(b"\0")[:-1])}
    listing = Listing(data)
    assert all(listing.get(path) == meta for path, meta in rows.items())
    assert listing.get(b"pkg01") is None and listing.get(b"") is None and listing.get(b"zzz") is None
    assert dict(listing.below(b"pkg03")) == {p: m for p, m in rows.items() if p.startswith(b"pkg03/")}
    assert listing.holds(b"pkg03/mod00") and not listing.holds(b"pkg0") and not Listing(b"").holds(b"")


# ---- seals (S10)


def sealed(box: Layered) -> seal.Broken | None:
    layer = layers.find(box.base.tree)
    assert layer is not None
    return seal.Check([(one.files, one.seal) for one in layers.stack(layer)]).result()


def poison(path: Path, how: str) -> None:
    """Change a layer as somebody would who wants it to go unseen."""
    before = path.stat()
    if how == "content":
        path.write_bytes(b"#" * before.st_size)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif how == "replaced":
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.rename(path)
    elif how == "added":
        path.with_name("conftest.py").write_text("import os\n")
    elif how == "gone":
        path.unlink()
    else:
        path.chmod(0o755)


POISONS = ("content", "replaced", "added", "gone", "mode")


@pytest.mark.parametrize("how", POISONS)
def test_every_change_of_a_layer_breaks_its_seal(repo: Path, make_layered: MakeLayered, how: str) -> None:
    box = make_layered(repo)
    assert sealed(box) is None
    time.sleep(0.05)  # a change in the clock tick of the seal would have the times of before
    poison(layers.root() / box.base.tree / "tree" / "src" / "add.py", how)
    found = sealed(box)
    assert found is not None
    assert found.path == (
        b"src/conftest.py" if how == "added" else b"src/other" if how == "x" else b"src/add.py"
    )


def test_a_torn_or_missing_seal_is_broken(repo: Path, make_layered: MakeLayered) -> None:
    box = make_layered(repo)
    file = layers.root() / box.base.tree / "seal"
    file.write_bytes(file.read_bytes()[:-3])
    assert sealed(box) is not None
    file.unlink()
    assert sealed(box) is not None


def test_a_poisoned_layer_is_refused_named_and_made_anew(repo: Path, make_layered: MakeLayered) -> None:
    box = make_layered(repo)
    time.sleep(0.05)
    poison(layers.root() / box.base.tree / "tree" / "src" / "add.py", "content")
    with pytest.raises(Refused) as raised:
        verification.Verification(box.paths, box.base.tree).result()
    assert "src/add.py" in raised.value.why
    assert raised.value.code == "layer-broken"
    verification.Verification(box.paths, box.base.tree).result()
    assert (layers.root() / box.base.tree / "tree" / "src" / "add.py").read_bytes().startswith(b"def add")


# ---- who keeps a layer


def test_layers_that_a_box_names_stay_and_others_go(tmp_path: Path, make_layered: MakeLayered) -> None:
    repo = two_commits(tmp_path / "r")
    known, new = make_layered(repo, "known", "HEAD~1"), make_layered(repo, "new")
    assert layers.used(new.paths) == (new.base.tree, known.base.tree)
    assert layers.prune(lambda: {*layers.used(new.paths)}, live=False) == 0, (
        "the lower one of a thin layer is named too"
    )
    assert layers.prune(lambda: {*layers.used(known.paths)}, live=False) == 1
    assert layers.find(known.base.tree) is not None
    assert layers.find(new.base.tree) is None
    verification.Verification(new.paths, new.base.tree).result()  # made again for the box that needs it
    assert layers.find(new.base.tree) is not None


def test_what_a_killed_maker_left_is_reclaimed(repo: Path, make_layered: MakeLayered) -> None:
    box = make_layered(repo)
    (layers.root() / ".new-1-x" / "tree").mkdir(parents=True)
    (layers.root() / ".broken-x").mkdir()
    wanted = set(layers.used(box.paths))
    assert layers.prune(lambda: wanted, live=True) == 1, (
        "what is out of use may still be mounted by a live box"
    )
    assert layers.prune(lambda: wanted, live=False) == 1
    assert layers.prune(lambda: wanted, live=False) == 0


def test_two_makers_of_one_layer_get_one(repo: Path, make_layered: MakeLayered) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.trees import layered;"
        "layered.make(Path(sys.argv[1]), sys.argv[2])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(repo), name], env=env) for name in ("p", "q")
    ]
    assert [one.wait() for one in started] == [0, 0]
    box = make_layered(repo)
    assert {folder.name for folder in layers.root().iterdir()} == {"lock", box.base.tree}
    for name in ("p", "q"):
        remove.remove(box.paths.root.with_name(name))


# ---- the choice


def test_auto_takes_the_overlay_by_a_probe_that_ran(repo: Path, make_layered: MakeLayered) -> None:
    box = make_layered(repo)
    chosen = choice.choose("auto", "process", box.paths)
    assert chosen.provider == "overlay", chosen.why
    assert not [entry for entry in box.paths.root.iterdir() if entry.name == "probe"]
    assert json.loads((cache_dir() / choice.VERDICT).read_bytes())["works"] is True


def test_a_host_without_overlays_gets_a_checkout_with_the_reason(
    repo: Path, make_layered: MakeLayered, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_layered(repo)
    monkeypatch.setattr(choice, "_try", lambda *_: choice.Verdict(False, "No such device (mount overlay)"))
    chosen = choice.choose("auto", "process", box.paths)
    assert chosen == ("checkout", "an overlay cannot be had: No such device (mount overlay)")
    with pytest.raises(Refused) as raised:
        choice.choose("overlay", "process", box.paths)
    assert raised.value.code == "tree-overlay"
    assert "No such device" in raised.value.why
    assert choice.choose("checkout", "process", box.paths).provider == "checkout"
    assert choice.choose("auto", "workspace", box.paths).provider == "checkout"


# ---- a killed box


@pytest.mark.boundary
def test_a_box_that_is_killed_at_any_moment_leaves_its_lower_layer_as_it_was(
    repo: Path, make_layered: MakeLayered
) -> None:
    """S10: 100 rounds of a box's processes killed while they change everything, and five of the whole box."""
    box = make_layered(repo)
    script = (
        "import os, shutil\n"
        "while True:\n"
        "    for name in ('README.md', 'src/add.py', 'tests/test_add.py', 'run.sh'):\n"
        "        try:\n"
        "            with open(name, 'r+b') as file: file.write(os.urandom(64))\n"
        "            os.rename(name, 'moved'); os.chmod('moved', 0o600); os.link('moved', name)\n"
        "            os.unlink('moved')\n"
        "        except OSError: pass\n"
        "    shutil.rmtree('src', ignore_errors=True); os.makedirs('src', exist_ok=True)\n"
    )
    for whole in range(5):
        with box.live() as live:
            for number in range(20):
                _, _, fds = live.start(["/usr/bin/python3", "-I", "-S", "-c", script], pty=(24, 80))
                time.sleep((number * 7 % 20) / 2000)
                signal.pidfd_send_signal(fds[0], signal.SIGKILL)
                for fd in fds:
                    os.close(fd)
            live.start(["/usr/bin/python3", "-I", "-S", "-c", script], pty=(24, 80))
            time.sleep(whole / 200)
            live.end()
        assert sealed(box) is None
    taken = box.snapshot()
    assert set(box.rows(box.base.tree)) >= {b"README.md"} and taken.tree
