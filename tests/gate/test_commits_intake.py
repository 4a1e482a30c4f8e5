"""Bundles that a box could hand out, taken in or refused whole: what is refused leaves no object behind."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.gate.commits import bundle, intake, parse, trees
from backends.gate.commits.values import Unfit
from tests import support
from tests.gate.bundles import PEOPLE, Forge, Made, blob, commit, pack, tree, varint
from tests.gate.world import World

LINK, FOLDER, GITLINK, FILE = 0o120000, 0o40000, 0o160000, 0o100644


@pytest.fixture
def forge(world: World) -> Forge:
    return Forge(world)


def steps(forge: Forge, *tops: tuple[Made, ...]) -> tuple[bytes, list[Made]]:
    """A chain of commits on the base, one for each tree (with the objects that it needs); the bundle."""
    before: Made | str = forge.base
    objects: list[Made] = []
    made: list[Made] = []
    for top, *rest in tops:
        one = commit(top, before, message=b"step %d\n" % len(made))
        objects += [one, top, *rest]
        made.append(one)
        before = one
    return forge.bundle(made[-1], dict.fromkeys(objects)), made


def good(forge: Forge) -> tuple[bytes, list[Made]]:
    one, two = blob(b"one\n"), blob(b"two\n")
    return steps(
        forge,
        (forge.with_files({b"one": (FILE, one)}), one),
        (forge.with_files({b"one": (FILE, one), b"two": (FILE, two)}), two),
    )


def refused(forge: Forge, data: bytes, *unwanted: Made) -> str:
    with pytest.raises(Unfit) as caught:
        forge.take(data)
    assert not any(forge.holds(one) for one in unwanted)
    assert forge.leftovers() == []
    return caught.value.why


def test_commits_are_taken_in_as_they_are_and_nothing_is_left(forge: Forge) -> None:
    data, made = good(forge)
    found = forge.take(data)
    assert [one.id for one in found] == [one.id for one in made]
    assert found[0].author.line() == b"A <a@x> 1700000000 +0100"
    assert found[1].parents == (made[0].id,) and found[1].message == b"step 1\n"
    assert all(forge.holds(one) for one in made)
    assert forge.leftovers() == []
    assert intake.read(forge.world.quarantine, made[-1].id, forge.base) == found
    assert support.run(["git", "cat-file", "-e", made[-1].id], cwd=forge.world.repo).code != 0


@pytest.mark.parametrize("extra", [blob(b"foreign"), Made("tag", b""), tree({b"x": (FILE, blob(b"one\n"))})])
def test_an_object_that_is_part_of_no_commit_is_refused(forge: Forge, extra: Made) -> None:
    top = forge.with_files({b"one": (FILE, blob(b"one\n"))})
    one = commit(top, forge.base)
    if extra.kind == "tag":
        text = b"object %s\ntype commit\ntag v1\ntagger T <t@x> 1700000000 +0000\n\nx\n" % one.id.encode()
        extra = Made("tag", text)
    data = forge.bundle(one, [one, top, blob(b"one\n"), extra])
    assert refused(forge, data, one) == f"its bundle holds {extra.id[:12]}, which is part of no commit"


def test_objects_of_the_base_may_come_along(forge: Forge) -> None:
    known = blob(support.SMALL_FILES["README.md"])
    one = commit(forge.with_files({b"copy": (FILE, known)}), forge.base)
    data = forge.bundle(one, [one, forge.with_files({b"copy": (FILE, known)}), known])
    assert [found.id for found in forge.take(data)] == [one.id]


def test_what_the_source_dropped_cannot_be_had_by_its_name(forge: Forge) -> None:
    """S7: a stash that was dropped, or a commit that was reset away, is in the source's object folder."""
    world = forge.world
    secret = world.git("hash-object", "-w", "--stdin", stdin=b"a dropped secret\n")
    top = forge.with_files({b"mine": (FILE, secret)})
    named = commit(top, forge.base)
    assert "git index-pack" in refused(forge, forge.bundle(named, [named, top]), named)

    copied = b"a dropped secret\n"
    delta = varint(len(copied)) + varint(len(copied)) + bytes([0x90, len(copied)])
    same = forge.with_files({b"mine": (FILE, blob(copied))})
    thin = commit(same, forge.base)
    data = forge.bundle(thin, [thin, same, Made("blob", delta, base=secret)])
    assert "git index-pack" in refused(forge, data, thin)


def test_a_history_from_elsewhere_is_refused(forge: Forge) -> None:
    world = forge.world
    side = world.git("commit-tree", world.base_tree, "-m", "reset away", "-p", world.base)
    one = blob(b"one\n")
    top = forge.with_files({b"one": (FILE, one)})
    mine = commit(top, side)
    header = b"# v2 git bundle\n-%s\n%s HEAD\n\n" % (side.encode(), mine.id.encode())
    said = refused(forge, forge.bundle(mine, [mine, top, one], header), mine)
    assert said == f"its history comes from {side[:12]}, which the base does not reach"
    assert "git index-pack" in refused(forge, forge.bundle(mine, [mine, top, one]), mine)
    orphan = commit(top)
    said = refused(forge, forge.bundle(orphan, [orphan, top, one]), orphan)
    assert said == f"its history does not contain the base {forge.base[:12]}"
    joined = commit(top, forge.base, orphan)
    said = refused(forge, forge.bundle(joined, [joined, orphan, top, one]), joined)
    assert said == "one of its commits begins a history of its own"


def test_a_merge_within_the_history_is_taken(forge: Forge) -> None:
    one, two = blob(b"one\n"), blob(b"two\n")
    left = forge.with_files({b"one": (FILE, one)})
    right = forge.with_files({b"two": (FILE, two)})
    both = forge.with_files({b"one": (FILE, one), b"two": (FILE, two)})
    a, b = commit(left, forge.base), commit(right, forge.base)
    merged = commit(both, a, b)
    found = forge.take(forge.bundle(merged, [merged, a, b, left, right, both, one, two]))
    assert {one.id for one in found} == {a.id, b.id, merged.id} and found[-1].id == merged.id


HEADERS = {
    "another reference": b"# v2 git bundle\n-{base}\n{head} refs/heads/main\n\n",
    "two references": b"# v2 git bundle\n-{base}\n{head} HEAD\n{base} refs/heads/x\n\n",
    "HEAD twice": b"# v2 git bundle\n{head} HEAD\n{head} HEAD\n\n",
    "no reference": b"# v2 git bundle\n-{base}\n\n",
    "replace reference": b"# v2 git bundle\n{head} HEAD\n{head} refs/replace/{base}\n\n",
    "prerequisite after": b"# v2 git bundle\n{head} HEAD\n-{base}\n\n",
    "a filter": b"# v3 git bundle\n@filter=blob:none\n-{base}\n{head} HEAD\n\n",
    "another hash": b"# v3 git bundle\n@object-format=sha256\n-{base}\n{head} HEAD\n\n",
    "another version": b"# v9 git bundle\n{head} HEAD\n\n",
    "a short id": b"# v2 git bundle\n-abcdef\n{head} HEAD\n\n",
    "option-like": b"# v2 git bundle\n-{base}\n--all HEAD\n\n",
    "nothing": b"",
    "text": b"fatal: not a git repository\n",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_a_bundle_names_head_and_nothing_else(forge: Forge, header: bytes) -> None:
    one = commit(forge.world.base_tree, forge.base)
    text = header.replace(b"{base}", forge.base.encode()).replace(b"{head}", one.id.encode())
    refused(forge, forge.bundle(one, [one], text), one)


@given(st.binary(max_size=300))
def test_no_header_breaks_its_reader(data: bytes) -> None:
    for start in (b"", b"# v2 git bundle\n", b"# v3 git bundle\n@"):
        try:
            bundle.parse(start + data, "sha1")
        except Unfit:
            continue


@given(st.binary(max_size=300))
def test_no_commit_object_breaks_its_reader(data: bytes) -> None:
    known = b"tree " + b"1" * 40 + b"\n"
    for start in (b"", known, known + PEOPLE, known + PEOPLE + b"\n"):
        try:
            found = parse.parse("1" * 40, start + data)
        except Unfit:
            continue
        assert found.message in start + data


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_a_damaged_pack_is_refused_whole(forge: Forge, data: st.DataObject) -> None:
    text, made = good(forge)
    at = data.draw(st.integers(text.index(b"PACK"), len(text) - 1))
    damaged = bytearray(text)
    damaged[at] ^= data.draw(st.integers(1, 255))
    refused(forge, bytes(damaged), *made)
    refused(forge, text[:at], *made)


def test_more_than_the_bounds_is_refused(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    data, made = good(forge)
    header = data[: data.index(b"PACK")]
    flood = header + pack([], count=1 << 31)
    assert refused(forge, flood) == "its bundle holds more than 500000 objects"
    monkeypatch.setattr(intake, "MOST_COMMITS", 1)
    assert refused(forge, data, *made) == "it made more than 1 commits"
    monkeypatch.undo()
    monkeypatch.setattr(intake, "MOST_UNPACKED", 100)
    assert "bytes, and 100 are taken" in refused(forge, data, *made)
    monkeypatch.undo()
    monkeypatch.setattr(intake, "MOST_SAID", 100)
    assert "bytes, and 100 are taken" in refused(forge, data, *made)
    monkeypatch.undo()
    large = blob(b"\0" * ((100 << 20) + 1))
    data, made = steps(forge, (forge.with_files({b"large": (FILE, large)}), large))
    assert "has 104857601 bytes" in refused(forge, data, *made)


def test_a_bomb_of_deltas_ends_its_reader_and_nothing_else(forge: Forge) -> None:
    seed = blob(b"\0" * 0xFFFFFF)
    copies = 512  # of 16 MiB each
    delta = varint(len(seed.data)) + varint(len(seed.data) * copies) + b"\xf0\xff\xff\xff" * copies
    top = forge.with_files({b"seed": (FILE, seed)})
    one = commit(top, forge.base)
    bomb = Made("blob", delta, base=seed.id)
    assert "git index-pack" in refused(forge, forge.bundle(one, [one, top, seed, bomb]), one)


def test_a_bomb_of_trees_is_not_listed_to_its_end(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten names for one tree, ten times over: eleven objects, ten thousand million paths."""
    monkeypatch.setattr(trees, "MOST_LISTED", 1 << 20)
    leaf = blob(b"x\n")
    levels = [tree({b"%d" % n: (FILE, leaf) for n in range(10)})]
    for _ in range(9):
        levels.append(tree({b"%d" % n: (FOLDER, levels[-1]) for n in range(10)}))
    clean = forge.with_files({b"new": (FILE, leaf)})
    data, made = steps(forge, (levels[-1], *levels, leaf), (clean, leaf))
    said = refused(forge, data, *made)
    assert said == f"commit {made[0].id[:12]} holds more paths than can be looked at"


def test_more_links_than_can_be_read_are_refused(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_LINKED", 3000)
    links = [blob(b"%d" % n * 500) for n in range(8)]
    top = forge.with_files({b"l%d" % n: (LINK, one) for n, one in enumerate(links)})
    data, made = steps(forge, (top, *links))
    assert refused(forge, data, *made).endswith("holds more links than can be looked at")


COMMITS = {
    "a NUL": {"message": b"seen\n\0hidden\n"},
    "a signature": {"more": b"gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n"},
    "a merge tag": {"more": b"mergetag object 1\n"},
    "another header": {"more": b"HG:extra x\n"},
    "a header twice": {"more": b"author B <b@x> 1 +0000\n"},
    "an encoding that is none": {"more": b"encoding \x1b]0;x\x07\n"},
    "two encodings": {"more": b"encoding latin1\nencoding utf-16\n"},
    "no time": {"people": b"author A <a@x>\ncommitter C <c@x> 1 +0000\n"},
    "a time beyond": {"people": b"author A <a@x> 99999999999999 +0000\ncommitter C <c@x> 1 +0000\n"},
    "a control character": {"people": b"author A\x1b[31m <a@x> 1 +0000\ncommitter C <c@x> 1 +0000\n"},
    "a carriage return": {"people": b"author A\rB <a@x> 1 +0000\ncommitter C <c@x> 1 +0000\n"},
    "two addresses": {"people": b"author A <a@x> <b@x> 1 +0000\ncommitter C <c@x> 1 +0000\n"},
    "no committer": {"people": b"author A <a@x> 1 +0000\n"},
}


@pytest.mark.parametrize("parts", COMMITS.values(), ids=COMMITS.keys())
def test_a_commit_that_is_not_plain_is_refused(forge: Forge, parts: dict[str, bytes]) -> None:
    new = blob(b"one\n")
    top = forge.with_files({b"one": (FILE, new)})
    one = commit(top, forge.base, **parts)
    last = commit(top, one)  # the odd one need not be the last
    said = refused(forge, forge.bundle(last, [last, one, top, new]), one)
    assert one.id[:12] in said or "git index-pack" in said


def test_a_message_in_another_encoding_is_taken_and_said(forge: Forge) -> None:
    new = blob(b"one\n")
    top = forge.with_files({b"one": (FILE, new)})
    one = commit(top, forge.base, more=b"encoding ISO-8859-1\n", message=b"caf\xe9\n")
    (found,) = forge.take(forge.bundle(one, [one, top, new]))
    assert (found.encoding, found.message) == ("ISO-8859-1", b"caf\xe9\n")


def hostile(forge: Forge) -> dict[str, tuple[Made, ...]]:
    """Trees that no commit may hold, each with the objects that it needs."""
    text, inside = blob(b"x\n"), blob(b"../outside")
    folder = tree({b"config": (FILE, text)})
    bare = tree(
        {
            b"HEAD": (FILE, text),
            b"objects": (FOLDER, tree({b"x": (FILE, text)})),
            b"refs": (FOLDER, tree({b"x": (FILE, text)})),
        }
    )
    return {
        "dotgit": (forge.with_files({b".git": (FOLDER, folder)}), folder, text),
        "dotgit by case": (forge.with_files({b".GiT": (FOLDER, folder)}), folder, text),
        "dotgit of NTFS": (forge.with_files({b"GIT~1": (FOLDER, folder)}), folder, text),
        "dotgit of HFS": (forge.with_files({b".g\xe2\x80\x8cit": (FOLDER, folder)}), folder, text),
        "dot-dot": (forge.with_files({b"..": (FOLDER, folder)}), folder, text),
        "dot": (forge.with_files({b".": (FOLDER, folder)}), folder, text),
        "slash": (forge.with_files({b"a/b": (FILE, text)}), text),
        "twice": (Made("tree", tree({b"a": (FILE, text)}).data * 2), text),
        "unsorted": (tree({b"b": (FILE, text), b"a": (FILE, text)}), text),
        "bare repository": (
            forge.with_files({b"docs": (FOLDER, bare)}),
            bare,
            tree({b"x": (FILE, text)}),
            text,
        ),
        "link out": (forge.with_files({b"out": (LINK, inside)}), inside),
        "long link": (forge.with_files({b"out": (LINK, blob(b"x" * 5000))}), blob(b"x" * 5000)),
        "submodule": (forge.with_files({b"mod": (GITLINK, "1" * 40)}),),
        "modules file": (
            forge.with_files({b".gitmodules": (FILE, blob(b'[submodule "a"]\n\tpath = a\n\turl = -u./x\n'))}),
            blob(b'[submodule "a"]\n\tpath = a\n\turl = -u./x\n'),
        ),
    }


KINDS = (
    "dotgit", "dotgit by case", "dotgit of NTFS", "dotgit of HFS", "dot-dot", "dot", "slash", "twice",
    "unsorted", "bare repository", "link out", "long link", "submodule", "modules file",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_tree_in_the_middle_of_a_history_is_refused(forge: Forge, kind: str) -> None:
    """The last commit's tree is harmless: what a commit before it holds would be in the branch too."""
    new = blob(b"harmless\n")
    clean = (forge.with_files({b"new": (FILE, new)}), new)
    data, made = steps(forge, hostile(forge)[kind], clean)
    said = refused(forge, data, *made)
    assert made[0].id[:12] in said or "git index-pack" in said
    assert set(hostile(forge)) == set(KINDS)


def test_a_repository_of_sha256_is_served_the_same(forge: Forge) -> None:
    with pytest.raises(Unfit, match="named by sha256"):
        bundle.parse(b"# v3 git bundle\n@object-format=sha256\n" + b"1" * 64 + b" HEAD\n\nPACK", "sha1")
    text = b"# v3 git bundle\n@object-format=sha256\n-%s\n%s HEAD\n\nPACK" % (b"2" * 64, b"1" * 64)
    found = bundle.parse(text, "sha256")
    assert (found.head, found.known) == ("1" * 64, ("2" * 64,))
