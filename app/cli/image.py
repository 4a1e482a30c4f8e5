"""``cloche image``: what boxes of the tiers container and microvm are made for."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from app.cli.context import Context
from app.cli.render import age, size
from backends.errors import UsageError
from backends.evidence.visible import visible
from backends.snapshots_images import Built, ImageRow

_SHOWN = 19  # of a digest: the word sha256 and twelve digits


def ls(context: Context, args: argparse.Namespace) -> int:
    """``cloche image ls``."""
    rows = context.engine.images()
    if context.json:
        context.document(images=rows)
        return 0
    if not rows:
        context.note("there is no image; cloche image build --from-host python3 git --name NAME makes one")
        return 0
    now = time.time()
    context.rows(
        ("NAME", "DIGEST", "SIZE", "AGE", "MADE FROM", "BOXES"),
        [
            (
                " ".join(_short(name) for name in row.names) or "-",
                row.digest[:_SHOWN],
                size(row.size),
                age(now - row.added),
                row.source or "-",
                str(len(row.boxes)),
            )
            for row in rows
        ],
        right=(2, 3, 5),
    )
    return 0


def build(context: Context, args: argparse.Namespace) -> int:
    """``cloche image build [FOLDER] [--from-host PROGRAM...] --name NAME``."""
    if bool(args.folder) == bool(args.from_host) or (args.from_host and args.file):
        raise UsageError(
            "it is not told what the image is made from",
            "it is made from the Containerfile of a folder, or of programs of this host, and not of both",
            "cloche image build FOLDER --name NAME, or with --from-host python3 git in place of FOLDER",
            code="usage",
        )
    if not args.name:
        raise _no_name(f"cloche image build {args.folder or '--from-host ' + args.from_host[0]} --name NAME")
    if args.from_host:
        return _made(context, context.engine.image_from_host(args.from_host, args.name, not args.no_shell))
    file = Path(args.file) if args.file else None
    return _made(context, context.engine.build_image(Path(args.folder), file, args.name, args.rootful))


def take(context: Context, args: argparse.Namespace) -> int:
    """``cloche image import FILE --name NAME``."""
    if not args.name:
        raise _no_name(f"cloche image import {args.file} --name NAME")
    row = context.engine.import_image(Path(args.file), args.name)
    if context.json:
        context.document(image=row)
        return 0
    return _made(context, Built(row, ()))


def rm(context: Context, args: argparse.Namespace) -> int:
    """``cloche image rm IMAGE...``."""
    removed: list[ImageRow] = []
    for ref in args.images:
        removed.append(context.engine.remove_image(ref))
        if not context.json:
            kept = " ".join(_short(name) for name in removed[-1].names)
            still = f"; it is still {kept}" if kept else ""
            what = "is no name of it any more" if kept else "is removed"
            context.say(visible(f"{ref} {what} ({removed[-1].digest[:_SHOWN]}){still}"))
    if context.json:
        context.document(images=removed)
    return 0


def _made(context: Context, built: Built) -> int:
    if context.json:
        context.document(image=built.image, left=built.left)
        return 0
    for line in built.left:
        context.note(f"not taken: {line}")
    image = built.image
    context.say(visible(f"{' '.join(_short(name) for name in image.names)}  {size(image.size)}"))
    context.say(image.digest)
    return 0


def _short(name: str) -> str:
    """As a person would write it again."""
    return name.removeprefix("localhost/").removesuffix(":latest")


def _no_name(example: str) -> UsageError:
    return UsageError(
        "the image would have no name", "boxes are made for an image by its name", example, code="image-name"
    )
