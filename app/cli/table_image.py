"""Verbs about images."""

from __future__ import annotations

from app.cli.vocabulary import Field, Param, Verb

_IMAGE = Field(
    "image",
    "object",
    "`digest`, `names`, `size`, `added`, `source` (what it was made from), `boxes` (keys of the boxes that "
    "were made for exactly it)",
)
_NAME = Param(("--name",), "name of the image: X is localhost/X:latest", metavar="NAME", default="")

IMAGE_VERBS: tuple[Verb, ...] = (
    Verb(
        "image ls",
        "policy and host",
        "List the images that boxes can be made for, with digest, size, age and the boxes that need them.",
        "image:ls",
        "cloche.image-ls/1",
        (Field("images", "list", "each as `image` of `cloche image build`, the newest first"),),
        (),
    ),
    Verb(
        "image build",
        "policy and host",
        "Make an image without a network: from a Containerfile, or of programs of this host.",
        "image:build",
        "cloche.image-build/1",
        (_IMAGE, Field("left", "list", "what was not taken from the host, and why")),
        (
            Param(("--from-host",), "programs of this host", metavar="PROGRAM", default="", many="+"),
            Param(("--no-shell",), "with --from-host: no shell and no ordinary commands", "flag"),
            _NAME,
        ),
        "`--from-host` takes each program with its libraries, the standard library of Python and Perl, the "
        "commands of Git, the certificates that the host trusts, and a shell (of a static busybox where "
        "there is one). It takes only what belongs to root and everybody may read, without set-id bits. The same "
        "programs make the same digest, whoever runs it.",
    ),
    Verb(
        "image rm",
        "policy and host",
        "Remove images; refused while boxes need them.",
        "image:rm",
        "cloche.image-rm/1",
        (Field("images", "list", "what was removed, each as `image` of `cloche image build`"),),
        (Param(("images",), "name, or 12 or more digits of the digest", "positional", "IMAGE", many="+"),),
    ),
)
