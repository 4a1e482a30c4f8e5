"""An export is what was reviewed: a patch that applies byte for byte, an honest report, a receipt."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from backends.boxes.layout import state_dir
from backends.errors import Refused, UsageError
from backends.evidence.journal import head, read
from backends.evidence.verify import box_of, verify_bundle
from backends.gate.export import export
from backends.snapshots import DenialRow, Finding, NotObserved, ReviewView, SessionRow
from tests import support
from tests.gate.world import Node, World, clone, disk

LINK = 0o120000
NAMES = (
    b"-rf", b"a b", b"new\nline", b"tab\there", b'quo"te', b"back\\slash", b"\xff\xfe", "\U0001f600".encode(),
    b"x" * 255, b" lead", b"trail ", b"a => b", b"{x}",
)  # fmt: skip
TEXTS = (
    b"crlf\r\nline\r\n", b"lone\rcr\n", b"form\x0cfeed\n", "u\u2028v\n".encode(), b"latin \xe9\n",
    b"no newline", b"nul\0byte\n", b"", b"\n", b"-- \n+++ x\n@@ -1 +1 @@\n",
    b"\\ No newline at end of file\n",
)  # fmt: skip


def verdicts(rows: tuple[Finding, ...]) -> dict[str, str]:
    worst = {"ok": 0, "warn": 1, "fail": 2}
    out: dict[str, str] = {}
    for row in rows:
        out[row.id] = max(out.get(row.id, "ok"), row.verdict, key=worst.__getitem__)
    return out


def proposal(world: World) -> str:
    return world.changed({b"hello.txt": b"hello\n"})


# ------------------------------------------------------------------------------------------------ patch


def _big_change(world: World) -> str:
    nodes: dict[bytes, Node] = {
        name: (0o100755 if n % 2 else 0o100644, b"x\0y\n") for n, name in enumerate(NAMES)
    }
    nodes |= {b"text%d" % n: text for n, text in enumerate(TEXTS)}
    nodes |= {b"link": (LINK, b"src/add.py"), b"run.sh": (0o100644, b"#!/bin/sh\nexec python3 -m pytest\n")}
    nodes |= {b"README.md": (0o100755, b"# sample\r\n\0A small repository.")}
    return world.changed(nodes)


def test_the_patch_gives_a_fresh_clone_identical_bytes_and_modes(world: World, tmp_path: Path) -> None:
    tree = _big_change(world)
    export(world.paths, world.review(tree), tmp_path / "out")
    fresh = clone(world, tmp_path / "fresh")
    support.git(fresh, "apply", "--index", "--binary", str(tmp_path / "out" / "patch.diff"))
    assert support.git(fresh, "write-tree") == tree
    found = disk(fresh)
    for n, name in enumerate(NAMES):
        assert found[name] == (0o100 if n % 2 else 0, b"x\0y\n")
    for n, text in enumerate(TEXTS):
        assert found[b"text%d" % n] == (0, text)
    assert found[b"link"] == (LINK, b"src/add.py")
    assert found[b"run.sh"][0] == 0 and found[b"README.md"] == (0o100, b"# sample\r\n\0A small repository.")


def test_a_rename_and_a_type_change_round_trip(world: World, tmp_path: Path) -> None:
    tree = world.tree(
        {b"moved": {b"add.py": b"def add(a, b):\n    return a + b\n"}, b"README.md": (LINK, b"moved")}
    )
    export(world.paths, world.review(tree), tmp_path / "out")
    fresh = clone(world, tmp_path / "fresh")
    support.git(fresh, "apply", "--index", "--binary", str(tmp_path / "out" / "patch.diff"))
    assert support.git(fresh, "write-tree") == tree


def test_the_patch_is_the_same_under_any_configuration_and_against_the_pinned_base(
    world: World, tmp_path: Path
) -> None:
    tree = _big_change(world)
    export(world.paths, world.review(tree), tmp_path / "one")
    for key, value in {
        "diff.noprefix": "true", "color.ui": "always", "diff.external": "/bin/false",
        "core.quotePath": "false", "core.autocrlf": "true", "diff.renames": "false", "diff.context": "0",
        "diff.algorithm": "patience",
    }.items():  # fmt: skip
        world.git("config", key, value)
    Path(os.environ["HOME"], ".gitconfig").write_text("[diff]\n\tnoprefix = true\n[color]\n\tui = always\n")
    support.write_files(world.repo, {"later.txt": b"on main after the box was made\n"})
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "later")
    export(world.paths, world.review(tree), tmp_path / "two")
    patch = (tmp_path / "one" / "patch.diff").read_bytes()
    assert patch == (tmp_path / "two" / "patch.diff").read_bytes()
    assert (
        b"later.txt" not in patch and b"hello" not in patch and b"diff --git a/README.md b/README.md" in patch
    )


# --------------------------------------------------------------------------------------------- receipt


def test_the_receipt_names_artefacts_journal_policy_and_proposal(world: World, tmp_path: Path) -> None:
    for target in ("/etc/shadow", "/etc/shadow", "/root/.ssh"):
        world.journal.append(
            "denial",
            {"kind": "fs-read", "object": target, "rule": "fs.read", "lane": "kernel",
             "enforced_by": "landlock", "pid": 5, "command": "cat", "count": 2, "first": 1.0, "last": 2.0},
        )  # fmt: skip
    start = world.journal.append("session-start", {"session": 1, "argv": ["npm", "i"], "pty": False})
    world.journal.append(
        "exec", {"pid": 1, "parent": 0, "path": "/usr/bin/npm", "argv": ["npm", "i"], "comm": "npm"}
    )
    end = world.journal.append("session-exit", {"session": 1, "exit": 0})
    session = SessionRow(1, ("npm", "i"), False, "exited", 10.0, 12.5, 0, 0.5, 64 << 20, None)
    reached = head(world.paths.journal)
    review = world.review(proposal(world))._replace(sessions=(session,))
    outcome = export(world.paths, review, tmp_path / "out")
    assert outcome.files == ("patch.diff", "report.md", "receipt.json")
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_bytes())
    assert receipt["journal"] == {"count": reached.count, "head": reached.head}
    assert receipt["snapshot"]["id"] == outcome.snapshot.id
    assert receipt["base"]["commit"] == world.base
    assert receipt["policy"]["digest"] == hashlib.sha256(world.paths.policy.read_bytes()).hexdigest()
    for name in ("patch.diff", "report.md"):
        text = (tmp_path / "out" / name).read_bytes()
        assert receipt["artefacts"][name] == {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)}
    assert receipt["tally"]["total"] == 6
    assert [(row["object"], row["count"]) for row in receipt["tally"]["rows"]] == [
        ("/etc/shadow", 4), ("/root/.ssh", 2),
    ]  # fmt: skip
    assert receipt["activity"]["programs"][0]["argv"] == ["npm", "i"]
    assert receipt["sessions"][0]["journal"] == {"first": start.seq, "last": end.seq, "head": end.hash}
    record = list(read(world.paths.journal))[-1]
    assert record.kind == "export" and record.data["out"] == str(tmp_path / "out")
    (kept,) = world.paths.receipts.iterdir()
    assert kept.read_bytes() == (tmp_path / "out" / "receipt.json").read_bytes()


def test_files_are_readable_by_others_only_as_the_umask_says_and_nothing_else_is_left(
    world: World, tmp_path: Path
) -> None:
    before = os.umask(0o022)
    try:
        export(world.paths, world.review(proposal(world)), tmp_path / "deep" / "er" / "out")
    finally:
        os.umask(before)
    out = tmp_path / "deep" / "er" / "out"
    assert {p.name: p.stat().st_mode & 0o777 for p in out.iterdir()} == {
        "patch.diff": 0o644, "report.md": 0o644, "receipt.json": 0o644,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------- refusals


def test_a_folder_with_files_is_refused_without_force_and_only_the_three_are_replaced(
    world: World, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_bytes(b"mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (out / "patch.diff").symlink_to(elsewhere)
    review = world.review(proposal(world))
    with pytest.raises(Refused) as caught:
        export(world.paths, review, out)
    assert caught.value.code == "out-not-empty" and "--force" in caught.value.next_step
    assert (out / "patch.diff").is_symlink()
    export(world.paths, review, out, force=True)
    assert (out / "mine").read_bytes() == b"mine"
    assert elsewhere.read_bytes() == b"precious", "a link in the folder is replaced, not followed"
    assert (out / "patch.diff").read_bytes() == review.diff.patch
    assert verdicts(verify_bundle(out, world.paths.journal))["other-files"] == "warn"


def test_a_folder_in_the_place_of_a_file_or_a_file_in_the_place_of_the_folder_is_an_error(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "out" / "report.md").mkdir(parents=True)
    review = world.review(proposal(world))
    with pytest.raises(Refused):
        export(world.paths, review, tmp_path / "out", force=True)
    assert not (tmp_path / "out" / "receipt.json").exists()
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(Exception, match="cannot be written"):
        export(world.paths, review, tmp_path / "file")


def test_nothing_is_exported_into_the_folder_of_boxes(world: World, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(state_dir())
    for out in (world.paths.root / "tree" / "out", tmp_path / "alias" / "out"):
        with pytest.raises(Refused) as caught:
            export(world.paths, world.review(proposal(world)), out)
        assert caught.value.code == "out-inside-box" and not out.exists()


def test_a_refused_check_stops_the_export_whole(world: World, tmp_path: Path) -> None:
    tree = world.changed({b"l": (LINK, b"/etc/passwd")})
    with pytest.raises(Refused, match="l: points to an absolute path: /etc/passwd"):
        export(world.paths, world.review(tree), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_patch_policy_or_journal_than_the_boxs_is_refused(world: World, tmp_path: Path) -> None:
    review = world.review(proposal(world))
    other = world.review(world.changed({b"other": b"x"}))
    with pytest.raises(Refused) as caught:
        export(world.paths, review._replace(diff=other.diff), tmp_path / "out")
    assert caught.value.code == "other-proposal"
    with pytest.raises(Refused) as caught:
        export(world.paths, review._replace(policy_digest="0" * 64), tmp_path / "out")
    assert caught.value.code == "policy-changed"
    reached = head(world.paths.journal)
    lines = world.paths.journal.read_bytes()
    world.paths.journal.write_bytes(b"")
    with pytest.raises(Refused) as caught:
        export(world.paths, review, tmp_path / "out", anchor=reached)
    assert caught.value.code == "journal-damaged"
    world.paths.journal.write_bytes(lines.replace(b'"test"', b'"tezt"'))
    with pytest.raises(Refused):
        export(world.paths, review, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------ verify


@pytest.fixture
def bundle(world: World, tmp_path: Path) -> Path:
    export(world.paths, world.review(proposal(world)), tmp_path / "out")
    return tmp_path / "out"


def test_an_untouched_export_verifies_with_and_without_its_journal(world: World, bundle: Path) -> None:
    assert box_of(bundle) == world.paths.key
    count, last = head(world.paths.journal)
    rows = verify_bundle(bundle, world.paths.journal, [("manifest", count, last)])
    assert set(verdicts(rows).values()) == {"ok"}
    without = verify_bundle(bundle)
    assert verdicts(without) == {"patch.diff": "ok", "report.md": "ok", "policy": "ok", "journal": "warn"}


@pytest.mark.parametrize("name", ["patch.diff", "report.md"])
def test_a_changed_or_missing_artefact_fails(world: World, bundle: Path, name: str) -> None:
    (bundle / name).write_bytes((bundle / name).read_bytes() + b"\n")
    assert verdicts(verify_bundle(bundle, world.paths.journal))[name] == "fail"
    (bundle / name).unlink()
    assert verdicts(verify_bundle(bundle, world.paths.journal))[name] == "fail"
    (bundle / name).symlink_to("/etc/hostname")
    assert verdicts(verify_bundle(bundle, world.paths.journal))[name] == "fail"


def test_a_patch_changed_together_with_its_receipt_fails_against_the_journal(
    world: World, bundle: Path
) -> None:
    text = b"diff --git a/evil b/evil\n"
    (bundle / "patch.diff").write_bytes(text)
    receipt = json.loads((bundle / "receipt.json").read_bytes())
    receipt["artefacts"]["patch.diff"]["sha256"] = hashlib.sha256(text).hexdigest()
    (bundle / "receipt.json").write_text(json.dumps(receipt))
    found = verdicts(verify_bundle(bundle, world.paths.journal))
    assert found["patch.diff"] == "ok" and found["receipt.json"] == "fail"


def test_a_receipt_with_a_softened_policy_or_tally_fails(world: World, bundle: Path) -> None:
    receipt = json.loads((bundle / "receipt.json").read_bytes())
    receipt["policy"]["resolved"]["net"]["mode"] = "host"
    receipt["tally"]["total"] = 0
    receipt["tally"]["others"] = -1
    (bundle / "receipt.json").write_text(json.dumps(receipt))
    found = verdicts(verify_bundle(bundle, world.paths.journal))
    assert found["policy"] == "fail" and found["tally"] == "fail"


def test_a_journal_whose_tail_was_dropped_fails(world: World, bundle: Path) -> None:
    count, last = head(world.paths.journal)
    lines = world.paths.journal.read_bytes().splitlines(keepends=True)
    world.paths.journal.write_bytes(b"".join(lines[:-1]))
    found = verify_bundle(bundle, world.paths.journal, [("manifest", count, last)])
    assert any(
        r.id == "journal" and r.verdict == "fail" and "missing from the end" in r.evidence for r in found
    )
    assert verdicts(found)["receipt.json"] == "fail"
    world.paths.journal.write_bytes(b"")
    assert verdicts(verify_bundle(bundle, world.paths.journal))["journal"] == "fail"


def test_an_edited_journal_fails(world: World, bundle: Path) -> None:
    text = world.paths.journal.read_bytes()
    world.paths.journal.write_bytes(text.replace(b'"test"', b'"tezt"'))
    assert verdicts(verify_bundle(bundle, world.paths.journal))["journal"] == "fail"


@pytest.mark.parametrize(
    "text", [None, b"", b"[]", b"{}", b'{"version":2,"kind":"export"}', b"\xff", b"[" * 100_000]
)
def test_a_folder_that_is_no_export_is_a_usage_error(tmp_path: Path, text: bytes | None) -> None:
    if text is not None:
        (tmp_path / "receipt.json").write_bytes(text)
    with pytest.raises(UsageError):
        verify_bundle(tmp_path)


def test_a_hostile_folder_neither_hangs_nor_crashes_verify(bundle: Path) -> None:
    (bundle / "report.md").unlink()
    os.mkfifo(bundle / "report.md")
    (bundle / "\x1b[31mevil").write_bytes(b"x")
    rows = verify_bundle(bundle)
    assert verdicts(rows)["report.md"] == "fail"
    (bundle / "receipt.json").unlink()
    os.mkfifo(bundle / "receipt.json")
    with pytest.raises(UsageError):
        verify_bundle(bundle)


def test_a_receipt_of_wrong_shapes_fails_and_does_not_crash(world: World, bundle: Path) -> None:
    (bundle / "receipt.json").write_text(
        '{"version":1,"kind":"export","artefacts":3,"policy":[],"journal":{"count":"x"},"tally":7,"box":[]}'
    )
    found = verdicts(verify_bundle(bundle, world.paths.journal))
    assert found == {"patch.diff": "fail", "report.md": "fail", "policy": "fail", "journal": "fail"}
    assert box_of(bundle) == ""


# ------------------------------------------------------------------------------------------------ report

FORGERIES = (
    b"# Cloche report", b"## What was denied\n\nNothing at all.\n", b"```\n## Policy", b"~~~~~~\n# x",
    b"````````````", b"| a | b |\n|---|---|", b"<script>alert(1)</script>", b"[click](http://evil)",
    b"\x1b[2J\x1b]52;c;aGk=\x07",
    b"\r## What the gate says\r", "\u2028## What ran".encode(), "\u202egnp.exe".encode(), b"\xff\x9b",
    b"    indented", b"---", b"===", b"> quote", b"&lt;",
)  # fmt: skip
HEADINGS = [
    "# Cloche report", "## What changed", "## What the gate says", "## What ran", "## What was denied",
    "## What could not be observed", "## Policy", "## How to apply",
]  # fmt: skip


def hostile_review(world: World) -> ReviewView:
    """Forgeries in every place where a box can put text."""
    nodes: dict[bytes, Node] = {name.replace(b"/", b"_"): b"x\n" for name in FORGERIES}
    nodes[b".claude"] = {name.replace(b"/", b"_"): b"x\n" for name in FORGERIES}
    review = world.review(world.changed(nodes))
    texts = [name.decode("utf-8", "surrogateescape") for name in FORGERIES]
    for text in texts:
        world.journal.append("exec", {"path": text, "argv": [text, text]})
        world.journal.append(
            "denial", {"kind": "fs-read", "object": text, "rule": text, "lane": "box", "enforced_by": text,
                       "command": text, "count": 1, "first": 1.0, "last": 1.0, "pid": 1},
        )  # fmt: skip
    sessions = tuple(
        SessionRow(n, (t, t), False, "exited", 1.0, 2.0, 0, 0.1, 1, None) for n, t in enumerate(texts)
    )
    missing = tuple(NotObserved(t, t) for t in texts)
    return review._replace(
        sessions=sessions,
        tally=review.tally._replace(not_observed=missing),
        diff=review.diff._replace(skipped=tuple((t, "it is a socket\n## x") for t in FORGERIES)),
        row=review.row._replace(purpose="\n## What was denied\n\n0 refusals\n"),
    )


def outside_fences(report: str) -> list[str]:
    """The lines that a Markdown reader takes for the report's own (CommonMark 4.5, fenced code blocks)."""
    own: list[str] = []
    fence = ""
    for line in report.split("\n"):
        opening = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            if re.match(rf" {{0,3}}{fence[0]}{{{len(fence)},}}\s*\Z", line):
                fence = ""
        elif opening:
            fence = opening[1]
        else:
            own.append(line)
    assert fence == "", "a fence was left open"
    return own


def test_no_text_of_the_box_can_pose_as_the_reports_own(world: World, tmp_path: Path) -> None:
    export(world.paths, hostile_review(world), tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_bytes().decode("utf-8")
    own = outside_fences(text)
    assert [line for line in own if line.startswith("#")] == HEADINGS
    # Somebody who only prints the file sees no other heading either: foreign lines are indented.
    assert [
        line for line in re.split(r"[\n\r\u2028\u2029\x0b\x0c\x85]", text) if line.startswith("#")
    ] == HEADINGS
    for forged in ("evil", "<script", "Nothing at all", "0 refusals", "exe"):
        assert not any(forged in line for line in own), forged
    assert text.replace("\n", "").isprintable()
    assert not any(line.startswith(("~~~", "|", ">", "<", "---", "===")) for line in text.split("\n"))


def test_the_report_tells_the_whole_story(world: World, tmp_path: Path) -> None:
    world.journal.append("exec", {"path": "/usr/bin/node", "argv": ["node", "postinstall.js"]})
    world.journal.append("exec", {"path": "/usr/bin/node", "argv": ["node", "postinstall.js"]})
    world.journal.append("lost", {"what": "exec", "count": 3})
    review = world.review(world.changed({b"package-lock.json": b"{}\n"}))
    row = DenialRow("net", "10.0.0.1:443", "net.mode", "keeper", "seccomp", 7, "node", 4, 1.0, 2.0)
    world.journal.append("denial", row._asdict())
    session = SessionRow(1, ("npm", "ci"), True, "exited", 10.0, 12.5, 1, 0.5, 64 << 20, None)
    review = review._replace(
        sessions=(session,),
        tally=review.tally._replace(not_observed=(NotObserved("dns", "no resolver at this tier"),)),
    )
    export(world.paths, review, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    for said in (
        f"tree {review.snapshot.id}", world.base, review.policy_digest, "1 file, 1 line added, 0 deleted.",
        "A  package-lock.json  +1 -0  mode 100644", "lock-file       package-lock.json: pins what",
        "1  npm ci  (exit 1, 2.5 s, 0.5 s CPU, peak 64 MiB)", "2 x  /usr/bin/node  node postinstall.js",
        "4 refusals.", "4 x  net       10.0.0.1:443  by seccomp (net.mode), last from: node",
        "dns: no resolver at this tier", "lost: 3 exec", "Not observed is not zero.", '"mode": "deny"',
        "cloche apply box", "cloche verify DIR", f"git switch --detach {world.base}",
    ):  # fmt: skip
        assert said in text, said


def test_report_and_receipt_say_how_much_went_where(world: World, tmp_path: Path) -> None:
    place = {"address": "203.0.114.1", "port": 443, "name": "a.example"}
    for sent, received in ((100, 2000), (1, 1)):
        counted = {"connections": 1, "failed": 0, "sent": sent, "received": received}
        world.journal.append("traffic", {**place, **counted})
    world.journal.append(
        "traffic", {"address": "2a00::1", "port": 22, "name": "", "connections": 0, "failed": 2, "sent": "x"}
    )
    export(world.paths, world.review(proposal(world)), tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    for said in (
        "a.example 203.0.114.1:443  2 connections, 101 bytes sent, 2001 received",
        "[2a00::1]:22  0 connections, 2 failed, 0 bytes sent, 0 received",
    ):
        assert f"  {said}\n" in text
    told = json.loads((tmp_path / "out" / "receipt.json").read_text())["activity"]["traffic"]
    assert told[0] == {**place, "connections": 2, "failed": 0, "sent": 101, "received": 2001}


def test_an_unconfined_tier_says_so_in_the_report(world: World, tmp_path: Path) -> None:
    review = world.review(proposal(world))
    review = review._replace(row=review.row._replace(tier="workspace", unconfined=True))
    export(world.paths, review, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "workspace, which confines nothing" in text and "the journal is within reach" in text


def test_the_way_to_apply_works_as_printed(world: World, tmp_path: Path) -> None:
    tree = _big_change(world)
    export(world.paths, world.review(tree), tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    (command,) = [line.strip() for line in text.split("\n") if "git apply" in line]
    fresh = clone(world, tmp_path / "fresh")
    command = command.replace("patch.diff", str(tmp_path / "out" / "patch.diff"))
    subprocess.run(["sh", "-ec", command], cwd=fresh, check=True, capture_output=True)
    assert support.git(fresh, "write-tree") == tree
