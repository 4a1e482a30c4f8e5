"""What the gate refuses, naming the path, and what it points out."""

from __future__ import annotations

import json

import pytest

from backends.errors import Refused
from backends.gate.checks import refusals, require, run_checks
from backends.gate.rows import CHECKS, MAX_ROWS
from tests.gate.world import Node, Tree, World, blob, refused, warned

LINK = 0o120000
GITLINK = 0o160000
COMMIT = b"1" * 40


def test_a_harmless_change_passes_every_check_and_says_which_ran(world: World) -> None:
    rows = world.checks(world.changed({b"new.txt": b"hello\n", b"folder": {b"a b.txt": b"x"}}))
    assert {row.verdict for row in rows} == {"pass"}
    assert [row.id for row in rows] == list(CHECKS)


def test_no_change_passes(world: World) -> None:
    assert {row.verdict for row in world.checks(world.base_tree)} == {"pass"}


@pytest.mark.parametrize(
    ("nodes", "path"),
    [
        ({b"sub": {b".git": {b"config": b"x"}}}, b"sub/.git"),
        ({b".git": {b"hooks": {b"pre-commit": b"x"}}}, b".git"),
        ({b".GIT": b"gitdir: /tmp/x\n"}, b".GIT"),
        ({b"a": {b".GiT": {b"config": b"x"}}}, b"a/.GiT"),
        ({b".g\xe2\x80\x8cit": {b"config": b"x"}}, b".g\xe2\x80\x8cit"),
        ({b".g\xe2\x80\x8dit": {b"config": b"x"}}, b".g\xe2\x80\x8dit"),
        ({b"\xef\xbb\xbf.git": {b"config": b"x"}}, b"\xef\xbb\xbf.git"),
        ({b"GIT~1": {b"config": b"x"}}, b"GIT~1"),
        ({b"git~1": b"x"}, b"git~1"),
        ({b".git ": {b"config": b"x"}}, b".git "),
        ({b".git. .": {b"config": b"x"}}, b".git. ."),
        ({b".git::$INDEX_ALLOCATION": {b"config": b"x"}}, b".git::$INDEX_ALLOCATION"),
        ({b"a\\.git\\hooks": b"x"}, b"a\\.git\\hooks"),
        ({b"..": {b"etc": b"x"}}, b".."),
        ({b"a": {b"..": {b"b": b"x"}}}, b"a/.."),
        ({b".": b"x"}, b"."),
    ],
)
def test_names_that_read_as_git_or_step_out_are_refused(world: World, nodes: Tree, path: bytes) -> None:
    rows = world.checks(world.changed(nodes))
    assert ("name", path) in refused(rows)
    with pytest.raises(Refused) as caught:
        require(rows, "apply")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("nodes", "path"),
    [({b"/etc/cron.d/x": b"x"}, b"/etc/cron.d/x"), ({b"a/b": b"x"}, b"a/b"), ({b"a//b": b"x"}, b"a//b")],
)
def test_an_entry_that_smuggles_a_path_in_its_name_is_refused(world: World, nodes: Tree, path: bytes) -> None:
    assert path in {p for _, p in refused(world.checks(world.changed(nodes)))}


def _raw_tree(world: World, entries: list[tuple[int, bytes, str]]) -> str:
    text = b"".join(b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)) for mode, name, oid in entries)
    args = ("hash-object", "-w", "-t", "tree", "--literally", "--stdin")
    return world.quarantine.run(*args, input=text).decode().strip()


def test_a_path_through_a_symlinked_parent_is_refused(world: World) -> None:
    link = blob(world.quarantine, b"/etc")
    inner = world.tree({b"cron": b"x"})
    tree = _raw_tree(world, [(LINK, b"dir", link), (0o040000, b"dir", inner)])
    assert ("tree", b"dir") in refused(world.checks(tree))


def test_a_link_and_a_folder_that_are_one_where_case_does_not_count_are_refused(world: World) -> None:
    tree = world.changed({b"A": (LINK, b"src"), b"a": {b"post-checkout": b"x"}})
    assert {check for check, _ in refused(world.checks(tree))} == {"tree"}


def test_plain_names_that_differ_in_case_only_are_pointed_out(world: World) -> None:
    rows = world.checks(world.changed({b"readme.MD": b"x"}))
    assert not refused(rows)
    assert any(check == "invisible-name" for check, _ in warned(rows))


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"l", b"/etc/passwd"),
        (b"l", b"../outside"),
        (b"l", b"src/../../outside"),
        (b"l", b".git/hooks/pre-commit"),
        (b"l", b"src/.GIT"),
        (b"l", b"l"),
        (b"l", b""),
        (b"l", b"C:\\Windows"),
        (b"l", b"\\\\server\\share"),
        (b"l", b"./././../x"),
    ],
)
def test_a_new_link_that_leads_out_is_refused(world: World, path: bytes, target: bytes) -> None:
    assert ("symlink", path) in refused(world.checks(world.changed({path: (LINK, target)})))


def test_a_link_through_another_link_is_followed(world: World) -> None:
    nodes: Tree = {b"deep": {b"up": (LINK, b"../.."), b"ok": (LINK, b"..")}, b"l": (LINK, b"deep/ok/../x")}
    found = refused(world.checks(world.changed(nodes)))
    assert ("symlink", b"deep/up") in found
    assert ("symlink", b"l") in found


@pytest.mark.parametrize("target", [b"src/add.py", b"./README.md", b"src", b"src/../README.md", b"not/there"])
def test_a_link_that_stays_inside_passes(world: World, target: bytes) -> None:
    assert not refused(world.checks(world.changed({b"l": (LINK, target)})))


def _rebased(world: World, nodes: Tree) -> World:
    """The same world with ``nodes`` committed as its base."""
    world.base_tree = world.changed(nodes)
    return world


def test_a_link_that_led_out_in_the_base_is_the_sources_own(world: World) -> None:
    _rebased(world, {b"l": (LINK, b"/opt/tool")})
    assert not refused(world.checks(world.changed({b"x": b"y"})))
    assert ("symlink", b"l") in refused(world.checks(world.changed({b"l": (LINK, b"/opt/other")})))


def test_an_old_link_that_a_new_one_bends_outwards_is_refused(world: World) -> None:
    _rebased(world, {b"a": {b"b": {b"f": b"x"}}, b"l": (LINK, b"a/b/../../README.md")})
    # "a/b" becomes a link to the top, so that the untouched "l" now leads above it.
    tree = world.changed({b"a": {b"b": (LINK, b"..")}})
    assert ("symlink", b"l") in refused(world.checks(tree))


def test_a_submodule_pointer_that_is_added_or_moved_is_refused(world: World) -> None:
    assert ("submodule", b"mod") in refused(world.checks(world.changed({b"mod": (GITLINK, COMMIT)})))
    _rebased(world, {b"mod": (GITLINK, COMMIT)})
    assert not refused(world.checks(world.changed({b"x": b"y"})))
    moved = world.checks(world.changed({b"mod": (GITLINK, b"2" * 40)}))
    assert refused(moved) == {("submodule", b"mod")}
    away = world.checks(world.changed({b"mod": {b"file": b"x"}}))
    assert ("submodule", b"mod") in warned(away)


@pytest.mark.parametrize(
    ("nodes", "folder"),
    [
        ({b"docs": {b"HEAD": b"x", b"objects": {b"a": b""}, b"refs": {b"b": b""}}}, b"docs"),
        ({b"docs": {b"head": b"x", b"Objects": {b"a": b""}, b"REFS": {b"b": b""}}}, b"docs"),
        ({b"docs": {b"HEAD": (LINK, b"../src"), b"objects": {b"a": b""}, b"refs": {b"b": b""}}}, b"docs"),
        ({b"d": {b"e": {b"HEAD": b"x", b"commondir": b"../f"}}}, b"d/e"),
        ({b"HEAD": b"x", b"objects": {b"a": b""}, b"refs": {b"b": b""}}, b"."),
    ],
)
def test_a_folder_that_is_a_repository_to_git_is_refused(world: World, nodes: Tree, folder: bytes) -> None:
    assert ("repository", folder) in refused(world.checks(world.changed(nodes)))


def test_a_repository_that_needs_one_part_from_the_base_is_refused(world: World) -> None:
    _rebased(world, {b"docs": {b"HEAD": b"x", b"objects": {b"a": b""}}})
    tree = world.changed({b"docs": {b"HEAD": b"x", b"objects": {b"a": b""}, b"refs": {b"x": b""}}})
    assert refused(world.checks(tree)) == {("repository", b"docs")}


def test_what_the_reader_met_beside_the_tree_is_judged(world: World) -> None:
    rows = run_checks(
        world.quarantine,
        world.base_tree,
        world.base_tree,
        skipped=[
            (b"dev", "it is a block device"),
            (b"pipe", "it is a named pipe"),
            (b"secret", "it cannot be read: Permission denied"),
        ],
        findings=[
            ("nested-repository", b"vendor/.git", "this name is .git"),
            ("embedded-repository", b"docs", "Git reads this folder as a repository"),
            ("submodule", b"mod", "what lies there is not carried"),
            ("git-config", b"core.fsmonitor", "names a program"),
        ],
        unlisted=7,
    )
    assert refused(rows) == {
        ("special-file", b"dev"),
        ("unread", b"secret"),
        ("unread", None),
        ("repository", b"vendor/.git"),
        ("repository", b"docs"),
    }
    assert {("special-file", b"pipe"), ("submodule", b"mod"), ("box-finding", b"core.fsmonitor")} <= warned(
        rows
    )


@pytest.mark.parametrize(
    ("nodes", "check", "path"),
    [
        ({b".husky": {b"pre-commit": b"x"}}, "hooks", b".husky/pre-commit"),
        ({b".husky": {b"_": {b"x": b"x"}}}, "hooks", b".husky/_/x"),
        ({b"tools": {b"Pre-Commit": b"x"}}, "hooks", b"tools/Pre-Commit"),
        ({b"hooks": {b"install.sh": b"x"}}, "hooks", b"hooks/install.sh"),
        ({b".pre-commit-config.yaml": b"x"}, "hooks", b".pre-commit-config.yaml"),
        ({b".github": {b"workflows": {b"ci.yml": b"x"}}}, "ci", b".github/workflows/ci.yml"),
        ({b".gitlab-ci.yml": b"x"}, "ci", b".gitlab-ci.yml"),
        ({b"AGENTS.md": b"x"}, "agent-config", b"AGENTS.md"),
        ({b".claude": {b"settings.json": b"{}"}}, "agent-config", b".claude/settings.json"),
        ({b".mcp.json": b"{}"}, "agent-config", b".mcp.json"),
        ({b"cloche.toml": b"x = 1\n"}, "policy", b"cloche.toml"),
        ({b".vscode": {b"tasks.json": b"{}"}}, "runs-by-itself", b".vscode/tasks.json"),
        ({b".gitattributes": b"* filter=x"}, "runs-by-itself", b".gitattributes"),
        ({b"package-lock.json": b"{}"}, "lock-file", b"package-lock.json"),
        ({b"x.sh": (0o100755, b"x")}, "executable", b"x.sh"),
        ({b"README.md": (0o100755, b"# sample\n\nA small repository.\n")}, "executable", b"README.md"),
        ({b"run.sh": b"#!/bin/sh\nexec python3 -m pytest\n"}, "executable", b"run.sh"),
        ({b"blob": b"a\0b"}, "binary", b"blob"),
        ({b"big.txt": b"x\n" * (1 << 20)}, "large", b"big.txt"),
        ({b"huge.txt": b"x\n" * (5 << 20)}, "invisible-text", b"huge.txt"),
        ({b"a\xe2\x80\xae.py": b"x"}, "invisible-name", b"a\xe2\x80\xae.py"),
        ({b"a\x1b[31m": b"x"}, "invisible-name", b"a\x1b[31m"),
        ({b"f.py": b"ok\nif x: # \xe2\x80\xae\xe2\x81\xa6 admin\n"}, "invisible-text", b"f.py"),
        ({b"f.py": b"zero\xe2\x80\x8bwidth\n"}, "invisible-text", b"f.py"),
        ({b"f.txt": b"\x1b]0;title\x07\n"}, "invisible-text", b"f.txt"),
    ],
)
def test_what_a_reviewer_must_not_scroll_past_is_pointed_out(
    world: World, nodes: Tree, check: str, path: bytes
) -> None:
    rows = world.checks(world.changed(nodes))
    assert (check, path) in warned(rows)
    assert not refused(rows)


def test_a_removed_watched_file_is_pointed_out_too(world: World) -> None:
    _rebased(world, {b".gitlab-ci.yml": b"x"})
    rows = world.checks(world.without(b".gitlab-ci.yml"))
    (row,) = [r for r in rows if r.id == "ci"]
    assert (row.verdict, row.path) == ("warn", b".gitlab-ci.yml")
    assert "removed" in row.reason


def test_only_added_lines_are_searched_for_invisible_characters(world: World) -> None:
    _rebased(world, {b"f.py": b"old \xe2\x80\xae line\n"})
    rows = world.checks(world.changed({b"f.py": b"old \xe2\x80\xae line\nnew line\n"}))
    assert ("invisible-text", b"f.py") not in warned(rows)
    rows = world.checks(world.changed({b"f.py": b"old \xe2\x80\xae line\nnew \xe2\x80\xae line\n"}))
    (row,) = [r for r in rows if r.id == "invisible-text"]
    assert row.reason == "line 2 holds U+202E RIGHT-TO-LEFT OVERRIDE"


@pytest.mark.parametrize(
    "text",
    [
        b"crlf\r\nline\r\n",
        b"lone\rcr and form\x0cfeed\n",
        "\ufeffbyte order mark\n".encode(),
        b"latin-1 \xe9 byte\n",
        "caf\u00e9 \u4e2d\u6587 \U0001f600\n".encode(),
        b"no final newline",
    ],
)
def test_ordinary_texts_of_the_world_are_not_invisible(world: World, text: bytes) -> None:
    assert {r.verdict for r in world.checks(world.changed({b"f.txt": text}))} == {"pass"}


CONFLICT = b"a\n<<<<<<< box\nb\n=======\nc\n>>>>>>> main\nd\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"", CONFLICT, "line 2 begins a conflict that was not solved"),
        (b"", CONFLICT * 2, "line 2 begins a conflict that was not solved, and 1 more"),
        (b"", CONFLICT.replace(b"\n", b"\r\n"), "line 2 begins a conflict that was not solved"),
        (CONFLICT, CONFLICT + b"more\n", None),
        (b"", b"Title\n=======\n", None),
        (b"", b"<<<<<<< is how a conflict begins\n", None),
        (b"", b">>>>>>> a\n<<<<<<< b\n", None),
        (b"", b"  <<<<<<< a\n  >>>>>>> b\n", None),
    ],
)
def test_a_conflict_that_was_left_unsolved_is_warned_of(
    world: World, old: bytes, new: bytes, said: str | None
) -> None:
    _rebased(world, {b"f.py": old})
    rows = [row for row in world.checks(world.changed({b"f.py": new})) if row.verdict != "pass"]
    assert [(row.id, row.path, row.reason) for row in rows] == (
        [("conflict-mark", b"f.py", said)] if said else []
    )


def test_a_policy_file_shows_what_it_changes_as_settings(world: World) -> None:
    _rebased(world, {b"cloche.toml": b'[profiles.default.net]\nmode = "deny"\n'})
    rows = world.checks(world.changed({b"cloche.toml": b'[profiles.default.net]\nmode = "host"\n'}))
    assert 'profiles.default.net.mode: "deny" -> "host"' in {r.reason for r in rows if r.id == "policy"}


def test_an_install_script_of_a_package_is_shown(world: World) -> None:
    _rebased(world, {b"package.json": b'{"scripts":{"test":"jest"}}'})
    rows = world.checks(
        world.changed({b"package.json": b'{"scripts":{"test":"x","postinstall":"node a.js"}}'})
    )
    assert [(r.path, r.reason) for r in rows if r.id == "package-script"] == [
        (b"package.json", 'scripts.postinstall: absent -> "node a.js"')
    ]


def _npm_lock(**packages: dict[str, object]) -> bytes:
    named = {f"node_modules/{name}": entry for name, entry in packages.items()}
    return json.dumps({"lockfileVersion": 3, "packages": {"": {"name": "x"}, **named}}).encode()


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            b"package-lock.json",
            _npm_lock(left={"version": "1.0.0"}),
            _npm_lock(left={"version": "1.0.1", "hasInstallScript": True}),
            ["node_modules/left runs a program when it is installed (hasInstallScript)"],
        ),
        (
            b"npm-shrinkwrap.json",
            _npm_lock(left={"version": "1.0.0", "hasInstallScript": True}),
            _npm_lock(left={"version": "1.0.1", "hasInstallScript": True}),
            [
                "node_modules/left runs a program when it is installed (hasInstallScript), "
                "from another release than before"
            ],
        ),
        (
            b"package-lock.json",
            _npm_lock(left={"version": "1", "hasInstallScript": True}),
            _npm_lock(left={"version": "1", "hasInstallScript": True}, plain={"version": "1"}),
            [],
        ),
        (
            b"package-lock.json",
            b"{}",
            b"{",
            ["cannot be read, so install scripts of its packages are not known"],
        ),
        (
            b"pnpm-lock.yaml",
            b"packages:\n\n  /a@1.0.0:\n    dev: true\n    requiresBuild: true\n",
            b"packages:\n\n  /a@1.0.0:\n    requiresBuild: true\n    dev: true\n\n"
            b"  '@s/b@2.0.0':\n    resolution: {integrity: x}\n    requiresBuild: true # for the addon\n"
            b"  /c@1.0.0:\n    requiresBuild: false\n",
            ["@s/b@2.0.0 runs a program when it is installed (requiresBuild)"],
        ),
        (b"Cargo.lock", b"x", b"requiresBuild: true\n", []),
    ],
)
def test_a_lock_file_that_lets_a_package_run_a_program_is_shown(
    world: World, name: bytes, old: bytes, new: bytes, said: list[str]
) -> None:
    _rebased(world, {b"sub": {name: old}})
    rows = world.checks(world.changed({b"sub": {name: new}}))
    assert [(r.verdict, r.path, r.reason) for r in rows if r.id == "package-script" and r.path] == [
        ("warn", b"sub/" + name, reason) for reason in said
    ]


def test_a_package_that_is_trusted_to_run_its_scripts_is_shown(world: World) -> None:
    _rebased(world, {b"package.json": b"{}"})
    rows = world.checks(
        world.changed(
            {b"package.json": b'{"trustedDependencies":["a"],"pnpm":{"onlyBuiltDependencies":["b"]}}'}
        )
    )
    assert [r.reason for r in rows if r.id == "package-script"] == [
        'pnpm.onlyBuiltDependencies: absent -> ["b"]',
        'trustedDependencies: absent -> ["a"]',
    ]


def test_a_flood_is_collapsed_and_a_refusal_in_it_is_not_lost(world: World) -> None:
    nodes: dict[bytes, Node] = {b"l%04d" % n: (LINK, b"/etc/%d" % n) for n in range(300)}
    rows = [r for r in world.checks(world.changed({b"many": nodes})) if r.id == "symlink"]
    assert len(rows) == MAX_ROWS + 1
    assert (rows[-1].verdict, rows[-1].reason) == ("refuse", "and 200 more")
    assert len(refusals(rows)) == MAX_ROWS + 1


@pytest.mark.parametrize(
    "name",
    [
        b"-rf", b"a b", b"new\nline", b"tab\there", b'quo"te', b"back\\slash", b"\xff\xfe",
        "\U0001f600".encode(), b"x" * 255, b"--upload-pack=x", b"$(id)", b"[b]", b"*.py", b":(top)x",
    ],
)  # fmt: skip
def test_strange_but_honest_names_are_not_refused_and_listed_once(world: World, name: bytes) -> None:
    rows = world.checks(world.changed({name: (0o100755, b"x")}))
    assert not refused(rows)
    assert [r.path for r in rows if r.id == "executable"] == [name]


@pytest.mark.parametrize("mode", [0o020644, 0o060644, 0o010644, 0o140644])
def test_a_device_pipe_or_socket_in_a_tree_object_is_refused(world: World, mode: int) -> None:
    assert ("submodule", b"x") in refused(world.checks(world.changed({b"x": (mode, b"x")})))
