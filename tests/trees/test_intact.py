"""Layers that a long-lived process knows to be as they were sealed: every change shows at the next look."""

from __future__ import annotations

import mmap
import os
import select
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.errors import Refused
from backends.kernel import inotify
from backends.trees import intact, layers, seal, verification
from backends.trees.intact import Intact
from tests.support import children, git, make_repo, write_files
from tests.trees.layered import Layered, MakeLayered
from tests.trees.test_layers import two_commits


@pytest.fixture
def known() -> Iterator[Intact]:
    made = Intact()
    yield made
    for path in list(made._held):
        made._drop(path)


def settle(known: Intact) -> None:
    """Do all that is due, as its owner does between requests."""
    running = []
    while known.due:
        descriptor = known.begin()
        if descriptor is not None:
            running.append(descriptor)
    for descriptor in running:
        if descriptor in [fd for held in known._held.values() if held.check for fd in held.check.descriptors]:
            select.select([descriptor], [], [], 10)
            known.finish(descriptor)


def files(box: Layered) -> Path:
    return layers.root() / box.base.tree / "tree"


def learn(known: Intact, box: Layered) -> frozenset[str]:
    """Compare the layers of ``box`` and expect them to be known from here on."""
    assert known.among(box.paths) == frozenset(), "nothing is known that was not compared"
    settle(known)
    found = known.among(box.paths)
    assert str(files(box)) in found
    time.sleep(0.05)  # a change in the clock tick of the seal would have the times of before
    return found


def test_a_layer_is_known_once_it_was_compared(repo: Path, make_layered: MakeLayered, known: Intact) -> None:
    box = make_layered(repo)
    assert learn(known, box) == {str(files(box))}
    assert [*known.watched()] == [files(box)]
    assert known.among(box.paths) == {str(files(box))}
    assert not known.due


def test_every_layer_of_a_stack_is_known(tmp_path: Path, make_layered: MakeLayered, known: Intact) -> None:
    where = two_commits(tmp_path / "r")
    below, box = make_layered(where, "known", "HEAD~1"), make_layered(where, "new")
    assert learn(known, box) == {str(files(box)), str(files(below))}
    (files(below) / "keep" / "one.txt").write_bytes(b"x\n")
    assert known.among(box.paths) == {str(files(box))}, "one that was changed does not speak for the other"


def in_place(tree: Path) -> None:
    file = tree / "src" / "add.py"
    before = file.stat()
    with file.open("r+b") as open_file:
        open_file.write(b"#" * before.st_size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(tree: Path) -> None:
    file = tree / "src" / "add.py"
    other = tree / "other"
    shutil.copy2(file, other)
    other.rename(file)


def truncated(tree: Path) -> None:
    os.truncate(tree / "src" / "add.py", 3)


def linked(tree: Path) -> None:
    os.link(tree / "README.md", tree / "src" / "again")


def another_folder(tree: Path) -> None:
    (tree / "src").rename(tree / "lib")


def there_and_back(tree: Path) -> None:
    (tree / "src").rename(tree / "lib")
    (tree / "lib").rename(tree / "src")


def exchanged(tree: Path) -> None:
    """A copy of the layer's folder, times and all, with another file in it."""
    shutil.copytree(tree, tree.with_name("copy"), symlinks=True)
    (tree.with_name("copy") / "src" / "add.py").write_bytes(b"#")
    tree.rename(tree.with_name("away"))
    tree.with_name("copy").rename(tree)


def linked_away(tree: Path) -> None:
    tree.rename(tree.with_name("away"))
    tree.symlink_to("away")


def sealed_anew(tree: Path) -> None:
    file = tree.with_name("seal")
    file.write_bytes(file.read_bytes()[:-3])


CHANGES: dict[str, Callable[[Path], object]] = {
    "in place": in_place,
    "replaced": replaced,
    "truncated": truncated,
    "appended": lambda tree: (tree / "src" / "add.py").open("ab").write(b"x"),
    "added": lambda tree: (tree / "src" / "conftest.py").write_text("import os\n"),
    "added at the top": lambda tree: (tree / "conftest.py").write_text("import os\n"),
    "added to a new folder": lambda tree: write_files(tree, {"a/b/c": b"x"}),
    "removed": lambda tree: (tree / "src" / "add.py").unlink(),
    "mode": lambda tree: (tree / "src" / "add.py").chmod(0o755),
    "mode of a folder": lambda tree: (tree / "src").chmod(0o700),
    "mode of the root": lambda tree: tree.chmod(0o700),
    "times": lambda tree: os.utime(tree / "src" / "add.py", (1, 1)),
    "attribute": lambda tree: os.setxattr(tree / "src", "user.overlay.opaque", b"y"),
    "link": linked,
    "folder renamed": another_folder,
    "folder renamed and back": there_and_back,
    "a git folder": lambda tree: write_files(tree, {".git/config": b"[core]\n"}),
    "layer exchanged for a copy": exchanged,
    "layer exchanged for a link": linked_away,
    "layer gone": lambda tree: tree.rename(tree.with_name("away")),
    "seal torn": sealed_anew,
    "seal gone": lambda tree: tree.with_name("seal").unlink(),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_change_is_found_and_the_next_launch_refuses_by_comparing(
    repo: Path, make_layered: MakeLayered, known: Intact, how: str
) -> None:
    """S10: what is known is given up, so that the launch compares, and the launch refuses what it finds."""
    box = make_layered(repo)
    learn(known, box)
    CHANGES[how](files(box))
    found = known.among(box.paths)
    assert found == frozenset()
    with pytest.raises(Refused) as raised:
        verification.Verification(box.paths, box.base.tree, found).result()
    assert raised.value.code == "layer-broken"
    assert known.among(box.paths) == frozenset(), "a broken layer does not come to be known again"
    settle(known)
    verification.Verification(box.paths, box.base.tree, known.among(box.paths)).result()
    settle(known)
    assert known.among(box.paths) == {str(files(box))}, "the one that was made anew does"


def test_a_change_before_it_was_known_is_found(repo: Path, make_layered: MakeLayered, known: Intact) -> None:
    box = make_layered(repo)
    time.sleep(0.05)
    in_place(files(box))
    known.among(box.paths)
    settle(known)
    assert known.among(box.paths) == frozenset()


def test_a_change_while_it_is_compared_is_found(repo: Path, make_layered: MakeLayered, known: Intact) -> None:
    box = make_layered(repo)
    time.sleep(0.05)
    known.among(box.paths)
    descriptor = known.begin()
    assert descriptor is not None
    assert known.among(box.paths) == frozenset(), "not while it is being compared"
    select.select([descriptor], [], [], 10)  # compared, and found to be as it was
    in_place(files(box))
    known.finish(descriptor)
    assert known.among(box.paths) == frozenset()


def test_a_file_that_was_open_before_is_seen_when_it_is_written(
    repo: Path, make_layered: MakeLayered, known: Intact
) -> None:
    box = make_layered(repo)
    with (files(box) / "src" / "add.py").open("r+b") as file:
        learn(known, box)
        file.write(b"#")
        file.flush()
        assert known.among(box.paths) == frozenset()


def test_reading_changes_nothing(repo: Path, make_layered: MakeLayered, known: Intact) -> None:
    box = make_layered(repo)
    learn(known, box)
    for path in files(box).rglob("*"):
        if path.is_file():
            path.read_bytes()
    assert seal.Check([(files(box), files(box).with_name("seal"))]).result() is None
    assert known.among(box.paths) == {str(files(box))}


@pytest.mark.boundary
def test_what_a_box_does_leaves_its_layer_known(repo: Path, make_layered: MakeLayered, known: Intact) -> None:
    box = make_layered(repo)
    learn(known, box)
    box.sh(
        "echo x >> README.md; rm src/add.py; chmod 600 run.sh; mkdir n; touch n/f; cat tests/*; rm -r tests"
    )
    assert known.among(box.paths) == {str(files(box))}


def test_lost_events_count_as_a_change(repo: Path, make_layered: MakeLayered, known: Intact) -> None:
    box = make_layered(repo)
    learn(known, box)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    file = files(box) / "src" / "add.py"
    other = files(box) / "README.md"
    for number in range(limit + 10):  # two files in turn: the kernel merges equal events that follow at once
        os.utime(other if number % 2 else file)
    assert known.among(box.paths) == frozenset()


def test_a_layer_with_more_folders_than_are_watched_is_compared_each_time(
    tmp_path: Path, make_layered: MakeLayered, known: Intact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intact, "WATCHED", 3)
    box = make_layered(make_repo(tmp_path / "many", {f"d{n}/f": b"x" for n in range(5)}))
    for _ in range(3):
        assert known.among(box.paths) == frozenset()
        settle(known)
    assert not known.due, "it is not tried again and again"
    assert [*known.watched()] == []


def test_a_layer_on_a_file_system_that_others_change_is_compared_each_time(
    repo: Path, make_layered: MakeLayered, known: Intact, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_layered(repo)
    monkeypatch.setattr(inotify, "LOCAL", frozenset({0x6969}))  # NFS alone
    for _ in range(2):
        assert known.among(box.paths) == frozenset()
        settle(known)
    assert not known.due
    with pytest.raises(FileNotFoundError):
        inotify.told(b"/nonexistent")


def test_a_comparison_holds_nothing_open_that_its_owner_has(
    repo: Path, make_layered: MakeLayered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zygote that is killed while one hangs must not leave its lock and its socket to it."""
    box = make_layered(repo)
    reader, writer = os.pipe()
    monkeypatch.setattr(seal, "compare", lambda *_: time.sleep(60))
    check = seal.Check([(files(box), files(box).with_name("seal"))], workers=1)
    os.close(writer)
    assert select.select([reader], [], [], 10)[0], "its copy of the other end is closed"
    assert os.read(reader, 1) == b""
    os.close(reader)
    check.abandon()


def test_no_more_layers_are_held_than_the_bound(
    repo: Path, make_layered: MakeLayered, known: Intact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intact, "MOST", 2)
    held = len(os.listdir("/proc/self/fd"))
    boxes = []
    for number in range(4):
        # Each base is another repository, so that none is a thin layer over one before.
        where = make_repo(repo.with_name(f"r{number}"), {"f": b"%d\n" % number})
        boxes.append(make_layered(where, f"b{number}"))
    for box in boxes:
        learn(known, box)
    assert [*known.watched()] == [files(box) for box in boxes[2:]]
    assert known.among(boxes[2].paths) == {str(files(boxes[2]))}
    assert known.among(boxes[0].paths) == frozenset()
    settle(known)
    assert {*known.watched()} == {files(boxes[0]), files(boxes[2])}, "the least lately used one went"
    for path in list(known._held):
        known._drop(path)
    assert len(os.listdir("/proc/self/fd")) == held


def test_more_at_once_than_are_held_are_left_to_their_launches(
    repo: Path, make_layered: MakeLayered, known: Intact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intact, "MOST", 1)
    held, before = len(os.listdir("/proc/self/fd")), children()
    boxes = []
    for number in range(3):
        where = make_repo(repo.with_name(f"r{number}"), {"f": b"%d\n" % number})
        boxes.append(make_layered(where, f"b{number}"))
    for box in boxes:
        assert known.among(box.paths) == frozenset()
    settle(known)
    assert len([*known.watched()]) == 1
    assert sum(len(known.among(box.paths)) for box in boxes) == 1
    for path in list(known._held):
        known._drop(path)
    assert len(os.listdir("/proc/self/fd")) == held
    assert children() <= before, "who compared was collected"


def test_a_box_without_layers_or_with_damaged_records_has_none(
    repo: Path, make_layered: MakeLayered, known: Intact
) -> None:
    box = make_layered(repo)
    learn(known, box)
    assert known.among(BoxPaths(box.paths.root.with_name("none"))) == frozenset()
    for data in (
        b"",
        b"[]",
        b"{",
        b'{"layers": 1}',
        b'{"layers": []}',
        b"[" * 100_000,
        b'{"layers": ["\\u0000"]}',
    ):
        box.paths.layers.write_bytes(data)
        assert known.among(box.paths) == frozenset(), data[:20]


def test_a_write_through_another_link_is_not_told_and_the_next_comparison_finds_it(
    repo: Path, make_layered: MakeLayered, known: Intact
) -> None:
    """The limit that the module names: by this user, outside of every box."""
    box = make_layered(repo)
    learn(known, box)
    aside = files(box).with_name("aside")
    os.link(files(box) / "src" / "add.py", aside)
    aside.write_bytes(b"#")
    assert known.among(box.paths) == {str(files(box))}
    assert seal.Check([(files(box), files(box).with_name("seal"))]).result() is not None
    another = Intact()
    assert another.among(box.paths) == frozenset()
    settle(another)
    assert another.among(box.paths) == frozenset()


def test_a_write_through_a_mapping_is_told_once_the_mapping_is_gone(
    repo: Path, make_layered: MakeLayered, known: Intact
) -> None:
    """The other limit: while it is held, only a comparison finds it."""
    box = make_layered(repo)
    with (files(box) / "src" / "add.py").open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    learn(known, box)
    mapping[0] = 35
    mapping.flush()
    assert known.among(box.paths) == {str(files(box))}
    assert seal.Check([(files(box), files(box).with_name("seal"))]).result() is not None
    mapping.close()
    assert known.among(box.paths) == frozenset()


def test_a_commit_that_makes_another_layer_leaves_the_first_known(
    repo: Path, make_layered: MakeLayered, known: Intact
) -> None:
    box = make_layered(repo)
    learn(known, box)
    write_files(repo, {"src/more.py": b"x = 1\n"})
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "second")
    other = make_layered(repo, "two")
    assert known.among(box.paths) == {str(files(box))}
    assert str(files(box)) in known.among(other.paths)
