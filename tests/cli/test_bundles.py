"""An export at the command line: signed, carried to a host without the box, verified and reviewed there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.gate.patch import ACCEPTED
from tests.cli.quick import ran
from tests.cli.screen import Screen
from tests.cli.test_json import check
from tests.conftest import Home
from tests.support import Done, git

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]

HOSTILE = "x\x1b]0;title\x07[bold]\u202e"
PASSPHRASE = "open sesame"


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def key(path: Path, passphrase: str = "") -> Path:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "t", "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path


@pytest.fixture
def box(repo: Path) -> str:
    script = f"echo 'two' >> README.md; echo x > '{HOSTILE}'; echo '{{}}' > package-lock.json; : '{HOSTILE}'"
    engine = ran(repo, script, purpose=HOSTILE.replace("\x1b", "").replace("\x07", ""))
    engine.propose("b")
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"README.md", desk.file(b"README.md").all)], ACCEPTED)
    return "b"


@pytest.fixture
def elsewhere(
    box: str, repo: Path, home: Home, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A clone on a host that has no box; the exports ``out`` and ``out.tar`` lie beside it."""
    signer = key(tmp_path / "id")
    for out in ("out", "out.tar"):
        assert cli("export", "b", "--out", str(tmp_path / out), "--sign", str(signer)).code == 0
    public = " ".join((tmp_path / "id.pub").read_text().split()[:2])
    (tmp_path / "signers").write_text(f'ann@x namespaces="cloche-receipt" {public}\n')
    git(tmp_path, "clone", "-q", str(repo), "clone")
    assert cli("rm", "b").code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(home.root / "other"))
    return tmp_path / "clone"


@pytest.mark.parametrize("out", ["../out", "../out.tar"])
def test_an_export_is_verified_and_reviewed_on_another_host(cli: Cli, elsewhere: Path, out: str) -> None:
    done = cli("verify", out, "--signers", "../signers", cwd=elsewhere)
    assert done.code == 0 and "signed by ann@x" in done.out
    done = cli("review", out, "--signers", "../signers", cwd=elsewhere)
    assert done.code == 0, done.err
    for said in (
        "signed by ann@x", "makes exactly the tree", "the gate was asked again", "warn: package-lock.json:",
        "combination not run", "README.md", "is the word of whoever sent it",
    ):  # fmt: skip
        assert said in done.out, said
    assert (done.out + done.err).replace("\n", "").isprintable()
    value = check("review", cli("review", out, "--json", cwd=elsewhere).out)
    assert value["bundle"]["rerun"] is True and value["accepted"] == 1
    assert {one["path"] for one in value["changes"]} >= {"README.md", "package-lock.json"}
    assert git(elsewhere, "status", "--porcelain") == ""


def test_without_a_repository_checks_are_as_recorded_and_the_patch_is_escaped(
    cli: Cli, elsewhere: Path, tmp_path: Path
) -> None:
    done = cli("review", "out", "--patch", cwd=tmp_path)
    assert done.code == 0 and "checks are as recorded" in done.out and "+two" in done.out
    assert "\x1b" not in done.out and "\u202e" not in done.out
    assert done.out.isascii() or "\u2066" not in done.out


def test_whatever_fails_exits_with_1(cli: Cli, elsewhere: Path, tmp_path: Path) -> None:
    other = key(tmp_path / "other")
    public = " ".join(Path(f"{other}.pub").read_text().split()[:2])
    (tmp_path / "strangers").write_text(f"bob@x {public}\n")
    for verb in ("verify", "review"):
        done = cli(verb, "../out", "--signers", "../strangers", cwd=elsewhere)
        assert done.code == 1 and "the signer is not known" in done.out
    (tmp_path / "out" / "patch.diff").write_bytes(b"")
    for args in (("verify", "../out"), ("review", "../out"), ("review", "../out", "--json")):
        assert cli(*args, cwd=elsewhere).code == 1


def test_signers_of_the_configuration_count_unless_others_are_named(
    cli: Cli, elsewhere: Path, home: Home, tmp_path: Path
) -> None:
    config = home.config / "cloche"
    config.mkdir()
    (config / "config.toml").write_text(f'signers = "{tmp_path}/signers"\n')
    assert "signed by ann@x" in cli("verify", "../out", cwd=elsewhere).out
    (tmp_path / "out" / "receipt.json.sig").unlink()
    done = cli("verify", "../out", cwd=elsewhere)
    assert done.code == 1 and "the receipt is not signed" in done.out


def test_a_configured_key_signs_every_export_but_those_that_decline(
    cli: Cli, box: str, home: Home, tmp_path: Path
) -> None:
    key(tmp_path / "id")
    (home.config / "cloche").mkdir()
    (home.config / "cloche" / "config.toml").write_text(f'sign = "{tmp_path}/id.pub"\n')
    assert (
        "receipt.json.sig"
        in json.loads(cli("export", "b", "--out", str(tmp_path / "a"), "--json").out)["files"]
    )
    done = cli("export", "b", "--out", str(tmp_path / "b"), "--no-sign", "--json")
    assert "receipt.json.sig" not in json.loads(done.out)["files"]
    assert cli("export", "b", "--out", "x", "--sign", "k", "--no-sign").code == 2
    assert cli("export", "b", "--out", "x", "--sign", "").code == 2


def test_a_repository_cannot_name_the_key(cli: Cli, repo: Path) -> None:
    (repo / "cloche.toml").write_text('sign = "/tmp/k"\n')
    done = cli("policy", "check")
    assert done.code == 2 and "unknown key sign" in done.err


def test_a_passphrase_is_asked_for_on_a_terminal_and_refused_without(
    cli: Cli, box: str, repo: Path, tmp_path: Path
) -> None:
    locked = key(tmp_path / "locked", PASSPHRASE)
    words = ("export", "b", "--out", str(tmp_path / "out"), "--sign", str(locked))
    done = cli(*words)
    assert done.code == 3 and f"ssh-add {locked}" in done.err and not (tmp_path / "out").exists()
    with Screen(repo, *words, cols=160) as screen:
        screen.until(b"passphrase")
        screen.type(PASSPHRASE.encode() + b"\n")
        assert screen.wait() == 0
    assert (tmp_path / "out" / "receipt.json.sig").is_file()


def test_an_export_opens_in_the_review_screen_and_escape_leaves(
    elsewhere: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert cli("review", "../out", "--screen", cwd=elsewhere).code == 3  # no terminal
    with Screen(elsewhere, "review", "../out", "--screen", cols=120) as screen:
        screen.until(b"Evidence")
        screen.type(b"\x1b")
        assert screen.wait() == 0


def test_a_box_of_that_name_comes_before_a_folder(cli: Cli, box: str, repo: Path) -> None:
    (repo / "b").mkdir()
    assert json.loads(cli("review", "b", "--json").out)["bundle"] is None
    done = cli("review", "./b")
    assert done.code == 2 and "receipt.json" in done.err
    assert cli("review", "b", "--signers", "x").code == 2
    assert cli("review", "nothing").code == 4
