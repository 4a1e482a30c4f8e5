"""Failures that users of neighbouring tools reported, tried from inside real boxes and checked outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.engine import Engine
from tests import support
from tests.gate.world import disk
from tests.support import Done

pytestmark = [pytest.mark.boundary, pytest.mark.flow, pytest.mark.real]
Cli = Callable[..., Done]


def ok(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def python(cli: Cli, box: str, program: str) -> None:
    """Run a Python program in the box's tree."""
    ok(cli("run", box, "--", "/usr/bin/python3", "-c", program))


def carried(cli: Cli, repo: Path, box: str) -> Path:
    """Propose, export, verify; returns a fresh clone with the patch applied as an outsider would."""
    ok(cli("propose", box))
    out = repo.parent / f"out-{box}"
    ok(cli("export", box, "--out", str(out)))
    ok(cli("verify", str(out)))
    fresh = repo.parent / f"fresh-{box}"
    support.git(repo.parent, "clone", "-q", str(repo), str(fresh))
    support.git(fresh, "apply", "--index", "--binary", str(out / "patch.diff"))
    return fresh


NAMES = (
    b"-rf", b"a b", b"new\nline", b"tab\there", b'quo"te', b"back\\slash", b"\xff", "\U0001f600".encode(),
    b"x" * 255,
)  # fmt: skip
TEXTS = (b"crlf\r\n", b"lone\rcr\n", b"form\x0cfeed\n", "u\u2028v\n".encode(), b"latin \xe9\n", b"no newline")


def test_bytes_names_and_modes_round_trip_by_export_and_by_apply(cli: Cli, repo: Path) -> None:
    ok(cli("new", "bytes"))
    python(
        cli,
        "bytes",
        "import os\n"
        f"for n, name in enumerate({NAMES!r}):\n"
        "    open(name, 'wb').write(b'name %d\\n' % n)\n"
        f"for n, text in enumerate({TEXTS!r}):\n"
        "    open(b'text%d' % n, 'wb').write(text)\n"
        "open('nul', 'wb').write(b'a\\0b\\n')\n"
        "open('README.md', 'ab').write(b'edited\\n')\n"
        "os.chmod('README.md', 0o755); os.chmod('run.sh', 0o644)\n"
        "os.symlink('src/add.py', 'link')\n",
    )
    expected = {name: (0, b"name %d\n" % n) for n, name in enumerate(NAMES)}
    expected |= {b"text%d" % n: (0, text) for n, text in enumerate(TEXTS)}
    expected |= {
        b"nul": (0, b"a\0b\n"),
        b"README.md": (0o100, support.SMALL_FILES["README.md"] + b"edited\n"),
        b"run.sh": (0, support.SMALL_FILES["run.sh"]),
        b"link": (0o120000, b"src/add.py"),
    }
    fresh = disk(carried(cli, repo, "bytes"))
    ok(cli("apply", "bytes", "--as", "test", "--acknowledge", "all"))
    applied = disk(repo)
    for path, content in expected.items():
        assert fresh[path] == content and applied[path] == content, path
    assert fresh == applied
    assert support.git(repo, "status", "--porcelain") == ""
    support.git(repo, "fsck", "--strict")


def test_configuration_of_the_host_and_later_commits_do_not_change_the_diff(cli: Cli, repo: Path) -> None:
    ok(cli("new", "one"))
    python(cli, "one", "open('README.md', 'a').write('edited\\n')")
    plain = ok(cli("diff", "one")).out
    for key, value in {
        "diff.noprefix": "true", "color.ui": "always", "diff.external": "/bin/false",
        "core.quotePath": "false", "core.autocrlf": "true",
    }.items():  # fmt: skip
        support.git(repo, "config", key, value)
    Path(os.environ["HOME"], ".gitconfig").write_text("[diff]\n\tnoprefix = true\n[color]\n\tui = always\n")
    support.write_files(repo, {"README.md": b"moved on\n", "later": b"x"})
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "later")
    assert "+edited" in plain and "later" not in plain
    assert ok(cli("diff", "one")).out == plain


def test_hooks_written_in_the_box_never_run_on_the_host(cli: Cli, repo: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    ok(cli("new", "hooks"))
    python(
        cli,
        "hooks",
        "import os, subprocess\n"
        f"body = '#!/bin/sh\\ntouch {marker}\\n'\n"
        "open('.git/x', 'w').write(body); os.chmod('.git/x', 0o755)\n"
        "os.makedirs('.git/hooks', exist_ok=True)\n"
        "for hook in ('post-checkout', 'pre-commit', 'post-merge', 'reference-transaction'):\n"
        "    open('.git/hooks/' + hook, 'w').write(body); os.chmod('.git/hooks/' + hook, 0o755)\n"
        "os.rename('.git/x', '.git/hooks/post-commit')\n"
        "os.makedirs('.husky/_'); open('.husky/_/pre-commit', 'w').write(body)\n"
        "os.chmod('.husky/_/pre-commit', 0o755)\n"
        "subprocess.run(['git', 'config', 'core.hooksPath', '.husky/_'])\n"
        "open('.gitattributes', 'w').write('* diff=x filter=x\\n')\n",
    )
    assert not marker.exists()
    ok(cli("ls"))
    ok(cli("diff", "hooks"))
    ok(cli("propose", "hooks"))
    out = repo.parent / "out"
    ok(cli("export", "hooks", "--out", str(out)))
    report = (out / "report.md").read_text()
    assert "warn    hooks           .husky/_/pre-commit" in report
    assert "warn    runs-by-itself  .gitattributes" in report
    ok(cli("apply", "hooks", "--as", "test", "--acknowledge", "all"))
    assert not marker.exists()
    support.write_files(repo, {"mine": b"x"})
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "mine")
    assert not marker.exists(), "a hook that only lies in the tree does not run either"


KEYS = (
    "core.fsmonitor", "diff.x.textconv", "diff.external", "core.pager", "core.sshCommand",
    "includeIf.gitdir:/.path",
)  # fmt: skip


def test_no_program_that_the_boxs_git_configuration_names_runs_on_the_host(
    cli: Cli, repo: Path, tmp_path: Path
) -> None:
    """G1: the programs exist on the host, and plain Git with the same lines runs each of them."""
    ran = tmp_path / "ran"
    ran.mkdir()
    programs: dict[str, Path] = {}
    for number, key in enumerate(KEYS):
        programs[key] = tmp_path / f"program{number}"
        programs[key].write_text(f"#!/bin/sh\ntouch {ran}/{number}\ncat >/dev/null </dev/null\n")
        programs[key].chmod(0o755)
    included = tmp_path / "included"
    included.write_text(f'[filter "y"]\n\tclean = {programs[KEYS[-1]]}\n')
    values = {**{key: str(program) for key, program in programs.items()}, KEYS[-1]: str(included)}
    ok(cli("new", "keys"))
    python(
        cli,
        "keys",
        "import subprocess\n"
        "open('.gitattributes', 'w').write('* diff=x filter=y\\n')\n"
        "open('README.md', 'a').write('edited\\n')\n"
        "subprocess.run(['git', 'add', '-A'], check=True)\n"
        f"for key, value in {values!r}.items():\n"
        "    subprocess.run(['git', 'config', key, value], check=True)\n",
    )
    for words in (("ls",), ("status", "keys"), ("diff", "keys"), ("propose", "keys"), ("diff", "keys")):
        ok(cli(*words))
    out = tmp_path / "out"
    ok(cli("export", "keys", "--out", str(out)))
    ok(cli("verify", str(out)))
    planted = (Engine(repo).find("keys").repo / "config").read_text()
    ok(cli("apply", "keys", "--as", "test", "--acknowledge", "all"))
    assert list(ran.iterdir()) == []
    assert (repo / "README.md").read_bytes().endswith(b"edited\n")
    report = (out / "report.md").read_text()
    for key, value in values.items():
        section, dot, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        shown = section.lower() + dot + (subsection + "." if subsection else "") + name.lower()
        assert f"warn    box-finding     .git/config: {shown}={value}" in report, key

    plain = support.make_repo(tmp_path / "plain")
    support.write_files(plain, {".gitattributes": b"* diff=x filter=y\n", "README.md": b"edited\n"})
    with (plain / ".git" / "config").open("a") as config:
        config.write(planted)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm", "GIT_CONFIG_NOSYSTEM": "1"}
    parent, terminal = os.openpty()
    for line in (
        "status", "diff", "diff --no-ext-diff --textconv", "-p log", "add -A",
        "ls-remote ssh://nowhere.invalid/x",
    ):  # fmt: skip
        subprocess.run(
            ["git", *line.split()], cwd=plain, env=env, stdin=subprocess.DEVNULL, stdout=terminal,
            stderr=subprocess.DEVNULL, timeout=20, check=False,
        )  # fmt: skip
    os.close(terminal)
    os.close(parent)
    assert {KEYS[int(path.name)] for path in ran.iterdir()} == set(KEYS), (
        "else these lines would prove nothing"
    )


def test_a_conflict_changes_nothing_and_the_box_goes_on_beside_its_sibling(cli: Cli, repo: Path) -> None:
    ok(cli("new", "loser"))
    ok(cli("new", "sibling"))
    python(cli, "loser", "open('README.md', 'w').write('theirs\\n')")
    python(cli, "sibling", "open('fine.txt', 'w').write('fine\\n')")
    ok(cli("propose", "loser"))
    support.write_files(repo, {"README.md": b"ours\n"})
    support.git(repo, "commit", "-qam", "ours")
    before = (support.git(repo, "for-each-ref", "refs/heads"), disk(repo), (repo / ".git/index").read_bytes())
    refused = cli("apply", "loser", "--as", "test", "--acknowledge", "all")
    assert refused.code == 5 and "README.md" in refused.err and "cloche rebase" in refused.err
    assert (
        support.git(repo, "for-each-ref", "refs/heads"),
        disk(repo),
        (repo / ".git/index").read_bytes(),
    ) == before
    assert support.git(repo, "status", "--porcelain") == ""
    support.git(repo, "fsck", "--strict")
    ok(cli("reopen", "loser"))
    python(cli, "loser", "assert open('README.md').read() == 'theirs\\n'")
    ok(cli("stop", "loser"))
    ok(cli("rm", "loser"))
    python(cli, "sibling", "import subprocess; subprocess.run(['git', 'status'], check=True)")
    ok(cli("propose", "sibling"))
    ok(cli("apply", "sibling", "--as", "test", "--acknowledge", "all"))
    assert (repo / "fine.txt").read_bytes() == b"fine\n"
    support.git(repo, "fsck", "--strict")


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("import os\nfor p in ('objects', 'refs'): os.makedirs('docs/' + p); open('docs/' + p + '/x', 'w')\n"
         "open('docs/HEAD', 'w').write('ref: refs/heads/x\\n')", "docs"),
        ("import os; os.mkdir('.g\\u200cit'); open('.g\\u200cit/config', 'w').write('x')", ".g\\u200cit"),
        ("import os; os.mkdir('GIT~1'); open('GIT~1/config', 'w').write('x')", "GIT~1"),
        ("import os; os.makedirs('sub/.GIT'); open('sub/.GIT/config', 'w').write('x')", "sub/.GIT"),
        ("import subprocess; subprocess.run(['git', 'init', '-q', 'nested'], check=True)", "nested/.git"),
        ("import os; os.symlink('/etc/passwd', 'leak')", "leak"),
        ("import os; os.symlink('../../outside', 'src/up')", "src/up"),
    ],
)  # fmt: skip
def test_what_no_repository_may_hold_is_refused_and_named(
    cli: Cli, repo: Path, program: str, named: str
) -> None:
    ok(cli("new", "bad"))
    python(cli, "bad", program)
    objects = set((repo / ".git" / "objects").rglob("*"))
    proposed = cli("propose", "bad")
    for act in (
        ("export", "bad", "--out", str(repo.parent / "out")),
        ("apply", "bad", "--as", "test", "--acknowledge", "all"),
    ):
        done = cli(*act)
        assert done.code == 3, (done.code, done.err)
        assert named in proposed.err + done.err
    assert not (repo.parent / "out").exists()
    # The anchor of the journal and the pin of the base are Cloche's own; nothing of the tree came in.
    new = set((repo / ".git" / "objects").rglob("*")) - objects
    assert len([path for path in new if path.is_file()]) <= 1
    assert support.git(repo, "status", "--porcelain") == ""


def test_a_commit_in_a_submodule_never_becomes_a_dangling_pointer(
    cli: Cli, repo: Path, tmp_path: Path
) -> None:
    module = support.make_repo(tmp_path / "module")
    support.git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "mod")
    support.git(repo, "commit", "-qm", "with a submodule")
    pointer = support.git(repo, "rev-parse", "HEAD:mod")
    ok(cli("new", "mover"))
    python(
        cli,
        "mover",
        "import subprocess as s\n"
        "s.run(['git', 'init', '-q', 'mod'], check=True)\n"
        "open('mod/new', 'w').write('x')\n"
        "c = ['git', '-c', 'user.name=x', '-c', 'user.email=x@x', '-C', 'mod']\n"
        "s.run([*c, 'add', '-A'], check=True); s.run([*c, 'commit', '-qm', 'moved'], check=True)\n"
        "s.run(['git', 'add', 'mod'], check=True)\n"
        "open('beside', 'w').write('x')\n",
    )
    cli("propose", "mover")
    done = cli("apply", "mover", "--as", "test", "--acknowledge", "all")
    assert done.code in (0, 3), done.err
    assert support.git(repo, "rev-parse", "HEAD:mod") == pointer
    support.git(repo, "fsck", "--strict")
