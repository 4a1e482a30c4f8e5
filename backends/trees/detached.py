"""Boxes without a source repository: the quarantine itself holds the base (``--clone URL``, ``--empty``)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError, UsageError
from backends.trees import quarantine, source
from backends.trees.git import Git, Output, failure
from backends.trees.values import Base, Source

PROTOCOLS = "https:http:ssh:git:file"  # GIT_ALLOW_PROTOCOL: never ext::, which is a shell command
PASSED = ("HOME", "SSH_AUTH_SOCK", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
CLONE_TIMEOUT = 3600.0
HEAD = "refs/cloche/head"


def origin(paths: BoxPaths) -> Source:
    """The quarantine as the source of its own box."""
    return Source("", str(paths.quarantine), str(paths.quarantine))


def empty(paths: BoxPaths) -> Base:
    """A base with no file in it; makes the quarantine."""
    git = quarantine.init(paths, None)
    tree = _hash(git, "tree", b"")
    who = f"cloche <cloche@invalid> {int(time.time())} +0000"
    content = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nStart of {paths.name}\n"
    commit = _hash(git, "commit", content.encode())
    git.run("update-ref", "refs/heads/main", commit)
    return Base(commit, tree, "")


def clone(paths: BoxPaths, url: str, rev: str = "") -> Base:
    """Fetch a repository into the quarantine and return the base; ``rev`` is one of its revisions.

    Runs with the user's network and ssh agent, without their Git configuration: no helper, no prompt, no
    rewriting of URLs. Submodules are not fetched. ``ClocheError`` with Git's words when it fails.
    """
    if url.startswith("-") or not url:
        raise UsageError(
            f"{url!r} is not an address",
            "it is empty or begins with a hyphen",
            "give a URL such as https://host/repository.git",
            code="bad-url",
        )
    quarantine.init(paths, None)
    variables = {name: os.environ[name] for name in PASSED if name in os.environ}
    variables |= {"GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
    git = Git(paths.quarantine, variables=variables)
    where = str(Path(url).resolve()) if "://" not in url and Path(url).exists() else url
    refspecs = (f"+HEAD:{HEAD}", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    args = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", where, *refspecs)
    done = git.call(*args, timeout=CLONE_TIMEOUT)
    if done.status != 0:
        raise ClocheError(
            f"{url} cannot be cloned",
            failure(args, Output(done.status, done.stdout, done.stderr)).why,
            f"try it alone: git clone --bare {url}",
            code="clone-failed",
        )
    return source.resolve(origin(paths), rev or HEAD)._replace(ref="")


def _hash(git: Git, kind: str, content: bytes) -> str:
    oid = git.run("hash-object", "-w", "-t", kind, "--stdin", input=content)
    return oid.decode("ascii").strip()
