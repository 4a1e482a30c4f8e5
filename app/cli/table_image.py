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
            Param(
                ("folder",),
                "folder with a Containerfile; what it copies from",
                "positional",
                "FOLDER",
                many="?",
            ),
            Param(("-f", "--file"), "the Containerfile, where it is another", metavar="FILE", default=""),
            Param(("--rootful",), "permit a build as root, whose commands a container alone holds", "flag"),
            Param(("--from-host",), "programs of this host", metavar="PROGRAM", default="", many="+"),
            Param(("--no-shell",), "with --from-host: no shell and no ordinary commands", "flag"),
            _NAME,
        ),
        "A Containerfile is built with no network and `--pull=never`: `FROM` names an image of `cloche image "
        "ls` or `scratch`. `--from-host` takes each program with its libraries, the standard library of "
        "Python and Perl, the commands of Git, the certificates that the host trusts, and a shell (of a "
        "static busybox where there is one). It takes only what belongs to root and everybody may read, "
        "without set-id bits. The same programs make the same digest, whoever runs it.",
    ),
    Verb(
        "image import",
        "policy and host",
        "Take an image out of a file: a Docker archive, an OCI archive, or a tar file of a root.",
        "image:take",
        "cloche.image-import/1",
        (_IMAGE,),
        (Param(("file",), "the file; gzip, bzip2 and xz are read", "positional", "FILE"), _NAME),
        "The image gets the name given here and no other: what an archive calls itself is not used, so that "
        "none can take the place of another image.",
    ),
    Verb(
        "image rm",
        "policy and host",
        "Remove images; refused while boxes need them.",
        "image:rm",
        "cloche.image-rm/1",
        (Field("images", "list", "each as `image` of `cloche image build`; `names` are those it keeps"),),
        (Param(("images",), "name, or 12 or more digits of the digest", "positional", "IMAGE", many="+"),),
        "Of an image with several names a name takes away that name alone; a digest takes the image.",
    ),
)
