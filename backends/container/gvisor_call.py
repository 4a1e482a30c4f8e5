"""How gVisor's ``runsc`` is called in the place of an OCI runtime: by a program of our own, with its options.

Podman calls a runtime with options of its own only, and so do its conmon(8) and what removes a container. The
program is a script of a few lines in the store, and ends in ``exec``.

Source: ``runsc flags`` of release 20221219; https://gvisor.dev/docs/user_guide/platforms/.

Lean: a steward imports it.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.container.joining import Runtime
from backends.container.podman import Podman

NAME = "gvisor"
PROGRAM = "runsc"
# Of its platforms ptrace needs nothing of the host; with kvm it hangs where that boots no guest.
_OPTIONS = "--ignore-cgroups --network=none --platform=ptrace --oci-seccomp"
# A checkpoint is restored where a container would be created: the same bundle, the same files and folders.
_RESTORING = """\
count=$#
found=
while [ "$count" -gt 0 ]; do
  word=$1
  shift
  count=$((count - 1))
  if [ -z "$found" ]; then
    case $word in
      create) found=1; set -- "$@" restore --detach --image-path {image}; continue ;;
      start) exit 0 ;;
    esac
  fi
  set -- "$@" "$word"
done
"""


def runtime(podman: Podman, file: str) -> Runtime:
    """``runsc`` for the containers of ``podman``."""
    words = _words(podman, file)
    path = podman.store / NAME
    _write(path, _script("", words))
    return Runtime(NAME, str(path), words)


def restoring(podman: Podman, file: str, checkpoint: str) -> Runtime:
    """The same, for one container that is to go on from the state in the folder ``checkpoint``.

    Its program lies beside that folder: it is this box's alone.
    """
    words = _words(podman, file)
    path = Path(checkpoint).parent / PROGRAM
    _write(path, _script(_RESTORING.format(image=_quoted(checkpoint)), words))
    return Runtime(NAME, str(path), words)


def _words(podman: Podman, file: str) -> tuple[str, ...]:
    return (file, "--root", f"{podman.run}/gvisor", *_OPTIONS.split())


def _script(before: str, words: tuple[str, ...]) -> str:
    return f'#!/bin/sh\n{before}exec {" ".join(_quoted(word) for word in words)} "$@"\n'


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o700)
    fresh.rename(path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
