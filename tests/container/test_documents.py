"""The JSON documents of the verbs of images have the members that the command reference lists."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_json import check
from tests.container import world as worlds
from tests.container.world import World


def test_the_documents_of_images_are_as_documented(world: World, tmp_path: Path) -> None:
    def said(name: str, *args: str) -> dict[str, object]:
        done = world.cloche(*name.split(), *args, "--json")
        assert done.code == 0, done.err
        return check(name, done.out)

    assert said("image ls")["images"]
    said("image import", str(worlds.archive(python=False)), "--name", "documented")
    (tmp_path / "Containerfile").write_text("FROM localhost/documented\nENV A=b\n")
    rootful = ("--rootful",) if worlds.ROOTFUL else ()
    said("image build", str(tmp_path), "--name", "built", *rootful)
    said("image rm", "built")
