"""Images from a Containerfile: built by Podman, without a network, from images of the store alone.

The commands of a Containerfile run as root of a user namespace in a container of that build, with no network
and the bounds of ``LIMITS``. As root of the host a build is refused unless the person says so: its commands
would be those of the host's root, held by a container only.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.container import images
from backends.container.images import Image
from backends.container.podman import Podman, prepare
from backends.errors import ClocheError, Refused, UsageError

BUILDING = 3600.0  # seconds
LIMITS = ("nofile=1024:1024", "nproc=2048:2048")
_NAMES = ("Containerfile", "Dockerfile")
_RUNTIMES = ("runc", "crun")


def build(folder: Path, file: Path | None, name: str, rootful: bool) -> Image:
    """Build ``file`` (default: the folder's ``Containerfile`` or ``Dockerfile``) with ``folder`` as context.

    ``UsageError`` where there is none, ``Refused`` as root without ``rootful``, ``ClocheError`` with what
    Podman says when a step fails.
    """
    whole = images.full_name(name)
    context = folder.absolute()
    if not context.is_dir():
        raise UsageError(
            f"{folder} is not built",
            "it is no folder",
            "cloche image build FOLDER --name NAME",
            code="no-folder",
        )
    recipe = file.absolute() if file is not None else _recipe(context)
    if os.geteuid() == 0 and not rootful:
        raise Refused(
            "the image is not built",
            "as root its commands would be those of the host's root, held by a container only",
            "build it as an unprivileged user, or say that it may be: cloche image build --rootful",
            code="rootful",
        )
    podman = prepare()
    runtime = _runtime(podman)
    with images.scratch(podman, ".id") as told:
        words = ["--runtime", runtime, "build", "--pull=never", "--network=none", "--isolation=oci"]
        for limit in LIMITS:
            words += ["--ulimit", limit]
        words += ["--quiet", "--iidfile", str(told), "--tag", whole, "--file", str(recipe), str(context)]
        images.call(podman, *words, timeout=BUILDING, doing="building the image")
        digest = told.read_text(encoding="ascii").strip()
    label = " (rootful)" if os.geteuid() == 0 else ""
    images.remember(podman, digest.removeprefix("sha256:"), f"{recipe.name}: {context.name}{label}")
    return images.pinned(digest, podman)


def _recipe(context: Path) -> Path:
    for name in _NAMES:
        if (context / name).is_file():
            return context / name
    raise UsageError(
        f"{context} is not built",
        f"it holds no {' and no '.join(_NAMES)}",
        "name the file: cloche image build FOLDER --file FILE --name NAME",
        code="no-containerfile",
    )


def _runtime(podman: Podman) -> str:
    """The first runtime that is here and starts a container of nothing but its own word."""
    from shutil import which

    for name in _RUNTIMES:
        if which(name, path=podman.environment()["PATH"]):
            return name
    raise ClocheError(
        "the image is not built",
        "there is no OCI runtime",
        "as root: apt-get install runc",
        code="no-runtime",
    )
