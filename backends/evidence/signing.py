"""Signing a receipt with a person's own SSH key, and checking such a signature, by ``ssh-keygen -Y``.

The private key is never read here: ssh-keygen opens it, or asks the agent for the public key that is named.
It is started without a shell, with an environment of its own, bound in time. Where a passphrase can be asked
(``prompt``) it asks on the terminal; else it stands in a session without one and SSH_ASKPASS is not used, so
that a locked key fails at once instead of waiting for an answer that nobody gives. Only a person who set
SSH_ASKPASS_REQUIRE to ``force`` or ``prefer`` is asked by that program (ssh(1)).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backends.errors import ClocheError, Refused, UsageError
from backends.evidence import sshsig
from backends.evidence.sshsig import NAMESPACE, SIGNATURE, Envelope
from backends.snapshots import Finding

PATIENCE = 180.0  # seconds for a person: a passphrase, a touch of the security key
QUICK = 30.0  # seconds without one, and for a check
MOST_PRINCIPALS = 50  # of one key that are tried
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_KEPT = ("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "SSH_SK_PROVIDER", "TERM")
_ASKING = (
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)


class Done(NamedTuple):
    """How one run of ssh-keygen ended."""

    status: int
    out: bytes
    said: str  # its last words; raw


def sign(receipt: bytes, key: Path, *, prompt: bool) -> bytes:
    """The signature of ``receipt`` by ``key``: a private key's file, or a public key's whose other half an
    agent holds. ``prompt``: a passphrase can be asked on the terminal.

    ``UsageError`` when there is no such file; ``Refused`` (codes "no-ssh-keygen", "key-locked", "not-signed")
    with ssh-keygen's own words when it does not sign.
    """
    program = executable("the receipt was not signed")
    if not _is_file(key):
        raise UsageError(
            "the receipt was not signed",
            f"there is no file {key}",
            "name the file of your private key, or of a public key whose other half your agent holds: "
            "--sign ~/.ssh/id_ed25519",
            code="no-key",
        )
    args = (program, "-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute()))
    done = _run(args, receipt, prompt=prompt, seconds=PATIENCE if prompt else QUICK)
    if done.status != 0:
        raise _unsigned(key, done, prompt)
    try:
        envelope = sshsig.parse(done.out)
    except ValueError as error:
        raise Refused(
            "the receipt was not signed",
            f"what ssh-keygen printed cannot be used: {error}",
            "run ssh -V, and report this with the words above",
            code="not-signed",
        ) from error
    wrong = check(receipt, done.out, envelope)
    if wrong:
        raise Refused("the receipt was not signed", wrong, "try again", code="not-signed")
    return done.out


def _unsigned(key: Path, done: Done, prompt: bool) -> ClocheError:
    what = "the receipt was not signed"
    if "passphrase" in done.said and not prompt:
        return Refused(
            what,
            f"the key {key} has a passphrase, and there is no terminal here to ask for it",
            f"run it on a terminal; or hand the key to your agent first: ssh-add {key}",
            code="key-locked",
        )
    if "passphrase" in done.said:
        return Refused(what, f"the passphrase of {key} was not right", "try again", code="key-locked")
    if "o private key found" in done.said and key.suffix == ".pub":
        return Refused(
            what,
            f"no agent holds the private half of {key}, and it does not lie beside it",
            "see what your agent holds: ssh-add -l; and SSH_AUTH_SOCK has to name the agent",
            code="not-signed",
        )
    return Refused(
        what,
        f"ssh-keygen did not sign with {key}: {done.said or f'exit status {done.status}'}",
        f'try it yourself: ssh-keygen -Y sign -n {NAMESPACE} -f "{key}" FILE',
        code="not-signed",
    )


def findings(receipt: bytes, signature: bytes | None, signers: Path | None) -> Iterator[Finding]:
    """What is to be said about the signature of a receipt; ``signers`` is a file of allowed signers
    (ssh-keygen(1)). ``Refused`` without ssh-keygen, ``UsageError`` when ``signers`` is no file.
    """
    if signers is not None and not _is_file(signers):
        raise UsageError(
            "the signature cannot be checked",
            f"there is no file {signers}",
            "a line of it is: NAME ssh-ed25519 AAAA..., see ssh-keygen(1), ALLOWED SIGNERS",
            code="no-signers",
        )
    if signature is None:
        if signers is not None:
            yield _fail("the receipt is not signed", f"there is no {SIGNATURE}")
        return
    try:
        envelope = sshsig.parse(signature)
    except ValueError as error:
        yield _fail("the signature cannot be read", str(error))
        return
    by = f"{envelope.kind} {envelope.fingerprint}"
    if envelope.namespace != NAMESPACE:
        why = f"it was made by {by} for {envelope.namespace!r}, not for {NAMESPACE!r}"
        yield _fail("the signature is not one of a receipt", why)
        return
    wrong = check(receipt, signature, envelope)
    if wrong:
        yield _fail("the receipt is not what was signed, or the signature is forged", f"{by}: {wrong}")
        return
    if signers is None:
        yield Finding(
            "signature", "warn", f"signed by a key {envelope.fingerprint}: nobody vouches for whose that is",
            f"{envelope.kind}; the receipt is what that key signed",
            "name who may sign: cloche verify DIR --signers ALLOWED_SIGNERS",
        )  # fmt: skip
        return
    yield _known(receipt, signature, by, signers)


def check(receipt: bytes, signature: bytes, envelope: Envelope) -> str:
    """Why ``signature`` does not belong to ``receipt``, "" when it does; whose key that is stays open."""
    program = executable("the signature cannot be checked")
    with _file(signature) as path:
        done = _run(
            (program, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", path),
            receipt,
            prompt=False,
            seconds=QUICK,
        )
    if done.status == 0 and envelope.fingerprint.encode() in done.out:
        return ""
    if done.status == 0 and "-cert-" in envelope.kind:  # it prints the fingerprint of the key in there
        return ""
    return done.said or f"ssh-keygen ended with exit status {done.status}"


def _known(receipt: bytes, signature: bytes, by: str, signers: Path) -> Finding:
    program = executable("the signature cannot be checked")
    names = str(signers.absolute())
    with _file(signature) as path:
        found = _run(
            (program, "-Y", "find-principals", "-s", path, "-f", names), b"", prompt=False, seconds=QUICK
        )
        principals = [line for line in os.fsdecode(found.out).splitlines() if line.strip()]
        if found.status != 0 or not principals:
            why = f"{by} is not in {signers}"
            if "expired" in found.said or "not yet valid" in found.said:
                why = f"{by} does not count now: {found.said}"
            return _fail("the signer is not known", why)
        said = ""
        for name in principals[:MOST_PRINCIPALS]:
            args = ("-Y", "verify", "-n", NAMESPACE, "-I", name, "-s", path, "-f", names)
            done = _run((program, *args), receipt, prompt=False, seconds=QUICK)
            if done.status == 0:
                return Finding("signature", "ok", f"signed by {name}", f"{by}, as {signers} says", "")
            said = done.said
    return _fail("the signer may not sign receipts", f"{by} is {principals[0]} in {signers}: {said}")


def _fail(text: str, evidence: str) -> Finding:
    return Finding(
        "signature", "fail", text, evidence, "do not rely on it: ask whoever sent it, on another way"
    )


def executable(what: str) -> str:
    """The path of ``ssh-keygen``; ``Refused`` (code "no-ssh-keygen") naming the package when there is none.

    ``what`` is said to have failed then.
    """
    mine = [part for part in os.environ.get("PATH", "").split(":") if part.startswith("/")]
    for folder in (*mine, *SYSTEM_PATH.split(":")):
        path = Path(folder, "ssh-keygen")
        if os.access(path, os.X_OK) and path.is_file():  # a closed folder raises in the other
            return str(path)
    raise Refused(
        what,
        "no program named ssh-keygen is installed",
        "apt-get install openssh-client",
        code="no-ssh-keygen",
    )


def _is_file(path: Path) -> bool:
    return os.access(path, os.F_OK) and path.is_file()


def environment(theirs: Mapping[str, str]) -> dict[str, str]:
    """What ssh-keygen is started with."""
    env = {name: theirs[name] for name in _KEPT if name in theirs}
    env |= {"PATH": SYSTEM_PATH, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}
    if theirs.get("SSH_ASKPASS_REQUIRE") in ("force", "prefer"):
        env |= {name: theirs[name] for name in _ASKING if name in theirs}
    return env


@contextmanager
def _file(data: bytes) -> Iterator[str]:
    """A temporary file with some bytes, by its path."""
    with tempfile.TemporaryDirectory(prefix="cloche-sig-") as folder:
        path = Path(folder, "signature")
        path.write_bytes(data)
        yield str(path)


def _run(args: Sequence[str], data: bytes, *, prompt: bool, seconds: float) -> Done:
    with subprocess.Popen(
        args,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(os.environ),
        cwd="/",
        start_new_session=not prompt,  # without a terminal: nothing to ask on
    ) as process:
        try:
            out, err = process.communicate(data, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise Refused(
                "ssh-keygen did not answer",
                f"it was stopped after {seconds:.0f} seconds",
                "look whether your agent or security key waits for something, then try again",
                code="ssh-keygen-timeout",
            ) from error
        except BaseException:
            _end(process)
            raise
    lines = [line.strip() for line in os.fsdecode(err[-4000:]).splitlines() if line.strip()]
    lines = [line for line in lines if line != "Signing data on standard input"]
    if any("passphrase" in line for line in lines):
        lines = [line for line in lines if "passphrase" in line]
    told = [line for line in lines if "valid" in line or "expired" in line or "permitted" in line]
    return Done(process.returncode, out, (told or lines or [""])[-1][:300])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # it gives a terminal its echo back then, which it could not at SIGKILL
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
