"""A receipt is signed by ssh-keygen with the person's key, and each way in which that fails is told."""

from __future__ import annotations

import base64
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import Refused, UsageError
from backends.evidence import signing, sshsig
from backends.evidence.sshsig import NAMESPACE, SIGNATURE
from backends.evidence.verify import verify_bundle
from backends.gate.export import export
from backends.snapshots import Finding
from tests import support
from tests.gate.world import World

PASSPHRASE = "open sesame"


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def keygen(path: Path, passphrase: str = "", *, kind: str = "ed25519") -> Path:
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return path


def public(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return keygen(tmp_path / "id")


@pytest.fixture
def bundle(world: World, tmp_path: Path, key: Path) -> Path:
    review = world.review(world.changed({b"hello.txt": b"hello\n"}))
    export(world.paths, review, tmp_path / "out", sign=partial(signing.sign, key=key, prompt=False))
    return tmp_path / "out"


def signers(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "signers"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def signature(bundle: Path, allowed: Path | None = None) -> Finding:
    (row,) = [row for row in verify_bundle(bundle, signers=allowed) if row.id == "signature"]
    return row


def fingerprint(key: Path) -> str:
    done = subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True)
    return done.stdout.split()[1]


# ------------------------------------------------------------------------------------------------ verifying


def test_a_known_signer_is_named_and_nothing_else_changed_in_the_export(
    world: World, bundle: Path, tmp_path: Path, key: Path
) -> None:
    allowed = signers(tmp_path, f'ann@x,boss@x namespaces="{NAMESPACE}" {public(key)}')
    row = signature(bundle, allowed)
    assert (row.verdict, row.text) == ("ok", "signed by ann@x") and fingerprint(key) in row.evidence
    rows = verify_bundle(bundle, world.paths.journal, signers=allowed)
    assert {one.verdict for one in rows} == {"ok"}
    facts = json.loads(world.paths.journal.read_bytes().splitlines()[-1])["data"]["files"]
    assert set(facts) == {"patch.diff", "report.md", "receipt.json", SIGNATURE}


def test_without_a_file_of_signers_it_is_told_who_claims_it_and_that_nobody_vouches(
    bundle: Path, key: Path
) -> None:
    row = signature(bundle)
    assert row.verdict == "warn" and fingerprint(key) in row.text and "nobody vouches" in row.text


def test_an_unsigned_export_fails_where_a_signature_is_asked_for_and_only_there(
    bundle: Path, tmp_path: Path, key: Path
) -> None:
    (bundle / SIGNATURE).unlink()
    row = signature(bundle, signers(tmp_path, f"ann@x {public(key)}"))
    assert (row.verdict, row.text) == ("fail", "the receipt is not signed")
    assert not [row for row in verify_bundle(bundle) if row.id == "signature"]


def test_an_unknown_signer_fails(bundle: Path, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other")
    row = signature(bundle, signers(tmp_path, f"ann@x {public(other)}"))
    assert (row.verdict, row.text) == ("fail", "the signer is not known")


def test_a_signer_of_other_things_or_of_another_time_fails(bundle: Path, tmp_path: Path, key: Path) -> None:
    row = signature(bundle, signers(tmp_path, f'ann@x namespaces="git" {public(key)}'))
    assert (row.verdict, row.text) == ("fail", "the signer may not sign receipts")
    row = signature(bundle, signers(tmp_path, f'ann@x valid-before="20200101" {public(key)}'))
    assert row.verdict == "fail" and "expired" in row.evidence


def test_a_changed_receipt_fails_with_and_without_signers(bundle: Path, tmp_path: Path, key: Path) -> None:
    receipt = bundle / "receipt.json"
    receipt.write_bytes(receipt.read_bytes().replace(b'"tier": "process"', b'"tier": "microvm"'))
    for allowed in (None, signers(tmp_path, f"ann@x {public(key)}")):
        row = signature(bundle, allowed)
        assert (row.verdict, row.text) == (
            "fail",
            "the receipt is not what was signed, or the signature is forged",
        )


def test_a_signature_for_another_namespace_fails(bundle: Path, tmp_path: Path, key: Path) -> None:
    done = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(key)],
        input=(bundle / "receipt.json").read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    (bundle / SIGNATURE).write_bytes(done.stdout)
    row = signature(bundle, signers(tmp_path, f"ann@x {public(key)}"))
    assert (row.verdict, row.text) == ("fail", "the signature is not one of a receipt")
    assert "'git'" in row.evidence


def test_a_signature_over_another_receipt_fails(
    world: World, bundle: Path, tmp_path: Path, key: Path
) -> None:
    other = world.review(world.changed({b"other.txt": b"x\n"}))
    export(world.paths, other, tmp_path / "two", sign=partial(signing.sign, key=key, prompt=False))
    shutil.copy(tmp_path / "two" / SIGNATURE, bundle / SIGNATURE)
    assert signature(bundle, signers(tmp_path, f"ann@x {public(key)}")).verdict == "fail"
    shutil.copy(tmp_path / "two" / "receipt.json", bundle / "receipt.json")  # right again, for other files
    rows = {row.id: row.verdict for row in verify_bundle(bundle)}
    assert rows["signature"] == "warn" and rows["patch.diff"] == rows["report.md"] == "fail"


@pytest.mark.parametrize(
    "text", [b"", b"x" * 70_000, b"-----BEGIN SSH SIGNATURE-----\nAAAA\n", b"\x1b[2J\xff"]
)
def test_what_is_no_signature_fails_and_says_so(bundle: Path, text: bytes) -> None:
    (bundle / SIGNATURE).write_bytes(text)
    row = signature(bundle)
    assert (row.verdict, row.text) == ("fail", "the signature cannot be read")
    (bundle / SIGNATURE).unlink()
    (bundle / SIGNATURE).symlink_to("/etc/hostname")
    assert signature(bundle).verdict == "fail"


def test_no_file_of_signers_is_a_usage_error(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        verify_bundle(bundle, signers=tmp_path / "none")
    assert caught.value.code == "no-signers"


def test_an_unsigned_export_into_the_same_folder_takes_the_old_signature_away(
    world: World, bundle: Path
) -> None:
    export(world.paths, world.review(world.changed({b"b": b"b\n"})), bundle, force=True)
    assert {path.name for path in bundle.iterdir()} == {"patch.diff", "report.md", "receipt.json"}


# -------------------------------------------------------------------------------------------------- signing


def test_a_missing_key_is_a_usage_error_and_nothing_is_written(world: World, tmp_path: Path) -> None:
    review = world.review(world.changed({b"a": b"a\n"}))
    with pytest.raises(UsageError) as caught:
        export(
            world.paths, review, tmp_path / "o", sign=partial(signing.sign, key=tmp_path / "no", prompt=False)
        )
    assert caught.value.code == "no-key" and not (tmp_path / "o").exists()


def test_a_locked_key_without_a_terminal_is_refused_at_once_with_the_next_step(tmp_path: Path) -> None:
    locked = keygen(tmp_path / "locked", PASSPHRASE)
    with pytest.raises(Refused) as caught:
        signing.sign(b"{}\n", locked, prompt=False)
    assert caught.value.code == "key-locked" and f"ssh-add {locked}" in caught.value.next_step


def test_the_askpass_of_the_environment_is_not_started_unless_the_person_forces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = keygen(tmp_path / "locked", PASSPHRASE)
    asked = tmp_path / "asked"
    program = tmp_path / "askpass"
    program.write_text(f"#!/bin/sh\n: > {asked}\necho '{PASSPHRASE}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(program))
    monkeypatch.setenv("DISPLAY", ":9")
    with pytest.raises(Refused):
        signing.sign(b"{}\n", locked, prompt=False)
    assert not asked.exists()
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    assert signing.sign(b"{}\n", locked, prompt=False).startswith(b"-----BEGIN SSH SIGNATURE-----")
    assert asked.exists()


def test_a_passphrase_is_asked_for_on_the_terminal(tmp_path: Path) -> None:
    locked = keygen(tmp_path / "locked", PASSPHRASE)
    code = (
        "import sys; from pathlib import Path; from backends.evidence import signing\n"
        "data = signing.sign(b'{}\\n', Path(sys.argv[1]), prompt=True)\n"
        "Path(sys.argv[2]).write_bytes(data)\n"
    )
    argv = [sys.executable, "-c", code, str(locked), str(tmp_path / "sig")]
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(support.ROOT)
        os.execv(argv[0], argv)
    said = b""
    try:
        while b"passphrase" not in said:
            said += os.read(master, 4096)
        os.write(master, PASSPHRASE.encode() + b"\n")
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # EIO: the other end is closed
                break
            if not piece:
                break
            said += piece
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(master)
    assert os.waitstatus_to_exitcode(status) == 0, said
    assert PASSPHRASE.encode() not in said
    assert sshsig.parse((tmp_path / "sig").read_bytes()).fingerprint == fingerprint(locked)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    socket = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        support.wait_until(socket.exists, "the agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield
    finally:
        process.terminate()
        process.wait()


def test_a_public_key_signs_by_the_agent_that_holds_the_other_half(
    tmp_path: Path, agent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keygen(tmp_path / "id")
    lone = tmp_path / "lone.pub"
    lone.write_text((tmp_path / "id.pub").read_text())
    with pytest.raises(Refused) as caught:
        signing.sign(b"{}\n", lone, prompt=False)
    assert "ssh-add -l" in caught.value.next_step
    subprocess.run(["ssh-add", "-q", str(tmp_path / "id")], check=True, stdin=subprocess.DEVNULL)
    (tmp_path / "id").unlink()
    assert sshsig.parse(signing.sign(b"{}\n", lone, prompt=False)).fingerprint == fingerprint(tmp_path / "id")
    monkeypatch.delenv("SSH_AUTH_SOCK")
    with pytest.raises(Refused):
        signing.sign(b"{}\n", lone, prompt=False)


def test_what_is_no_key_is_refused_in_ssh_keygens_words(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("no key\n")
    with pytest.raises(Refused) as caught:
        signing.sign(b"{}\n", tmp_path / "k", prompt=False)
    assert caught.value.code == "not-signed" and str(tmp_path / "k") in caught.value.why


def test_without_ssh_keygen_the_package_is_named(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(signing, "SYSTEM_PATH", str(tmp_path))
    with pytest.raises(Refused) as caught:
        signing.sign(b"{}\n", key, prompt=False)
    assert (caught.value.code, caught.value.next_step) == ("no-ssh-keygen", "apt-get install openssh-client")
    with pytest.raises(Refused) as caught:
        verify_bundle(bundle)
    assert caught.value.code == "no-ssh-keygen"


def test_ssh_keygen_gets_an_environment_of_its_own() -> None:
    theirs = {
        "HOME": "/h",
        "LD_PRELOAD": "/x.so",
        "SSH_ASKPASS": "/p",
        "SSH_AUTH_SOCK": "/s",
        "PATH": "/evil",
    }
    assert signing.environment(theirs) == {
        "HOME": "/h", "SSH_AUTH_SOCK": "/s", "PATH": signing.SYSTEM_PATH, "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------- envelope


def armoured(*parts: bytes, magic: bytes = b"SSHSIG\0\0\0\1") -> bytes:
    blob = magic + b"".join(struct.pack(">I", len(part)) + part for part in parts)
    text = base64.encodebytes(blob).strip()
    return b"-----BEGIN SSH SIGNATURE-----\n" + text + b"\n-----END SSH SIGNATURE-----\n"


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_an_envelope_or_a_value_error(data: bytes) -> None:
    for text in (data, armoured(data), armoured(data, data, b"", b"", b""), armoured(magic=data)):
        try:
            found = sshsig.parse(text)
        except ValueError:
            continue
        assert found.fingerprint.startswith("SHA256:") and len(found.namespace) <= 200


def test_an_envelope_names_key_and_namespace(key: Path) -> None:
    found = sshsig.parse(signing.sign(b"{}\n", key, prompt=False))
    assert found == ("ssh-ed25519", fingerprint(key), NAMESPACE)
