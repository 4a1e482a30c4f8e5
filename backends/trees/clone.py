"""The repository of a detached box: a bare clone inside the box's folder, or one empty commit.

It is the host's own: nothing in the box can write it. Protocols are an allow-list (git(1),
``GIT_ALLOW_PROTOCOL``): no ``ext::``, which runs a command, and none that anybody on the way can change.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.errors import ClocheError, UsageError
from backends.evidence.redact import redact_text
from backends.trees.git import SYSTEM_PATH, Git, executable
from backends.trees.quarantine import config, make_skeleton

PROTOCOLS = "https:ssh:file"
TIMEOUT = 1800.0  # seconds of one clone
# What ssh(1) and a proxy need of the person's environment.
PASSED = ("HOME", "SSH_AUTH_SOCK", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE")


def address(url: str, cwd: Path) -> str:
    """``url`` as Git may be given it; ``UsageError`` for a protocol that is not allowed."""
    scheme, separator, _ = url.partition("://")
    if separator:
        if scheme in PROTOCOLS.split(":"):
            return url
    elif "::" not in url and not url.startswith("-") and url:
        host, colon, _ = url.partition(":")
        if colon and "/" not in host:  # host:path, as scp(1) writes it
            return url
        local = (cwd / url).resolve()
        if local.exists():
            return f"file://{local}"
    raise UsageError(
        f"{redact_text(url)!r} cannot be cloned",
        f"only {', '.join(PROTOCOLS.split(':'))} and local paths are allowed",
        "give an https:// or ssh:// address, or the path of a repository",
        code="bad-url",
    )


def bare(url: str, root: Path) -> None:
    """Clone ``url`` (from :func:`address`) into ``root``; ``ClocheError`` with what Git said."""
    variables = {name: os.environ[name] for name in PASSED if name in os.environ}
    variables["PATH"] = os.environ.get("PATH") or SYSTEM_PATH
    variables["GIT_ALLOW_PROTOCOL"] = PROTOCOLS
    variables["GIT_SSH_COMMAND"] = "ssh"
    git = Git(root, variables=variables)
    args = ("clone", "--bare", "--no-local", "--no-hardlinks", "--template=", "--quiet", "--", url, root)
    done = git.call(*args, timeout=TIMEOUT)
    if done.status != 0:
        said = os.fsdecode(done.stderr).strip().splitlines()
        raise ClocheError(
            f"{redact_text(url)} could not be cloned",
            redact_text(said[-1] if said else f"{executable()} ended with {done.status}"),
            "check the address; it is asked for without a password, so it must be public or reached by ssh",
            code="clone-failed",
        )
    # The address may hold a password, and nobody fetches from here again.
    git.run("config", "--remove-section", "remote.origin", check=False)


def empty(root: Path) -> None:
    """A repository with one commit of nothing on ``main``: the base of a box that begins empty."""
    make_skeleton(root, config("sha1"), borrowed=[])
    (root / "HEAD").write_text("ref: refs/heads/main\n")
    git = Git(root)
    tree = git.line("hash-object", "-w", "-t", "tree", "--stdin")
    who = "cloche <cloche@invalid> 0 +0000"
    content = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nNothing yet\n"
    commit = git.run("hash-object", "-w", "-t", "commit", "--stdin", input=content.encode())
    git.run("update-ref", "--no-deref", "refs/heads/main", commit.decode("ascii").strip())
