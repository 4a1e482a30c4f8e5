"""What the tests of apply share: the call, and all of a source that a person would miss."""

from __future__ import annotations

from backends.gate.apply import Request, apply
from backends.snapshots import ApplyOutcome
from tests import support
from tests.gate.world import World, disk

LINK = 0o120000
BRANCH = "refs/heads/main"


class Everything:
    """The keys of all warnings there may be: these tests are about what comes after."""

    def __contains__(self, key: object) -> bool:
        return True


def run(
    world: World, tree: str, *, squash: bool = False, scripted: bool = False, branch: str = BRANCH
) -> ApplyOutcome:
    request = Request(branch, "me", scripted, squash, "add a greeting", "d" * 64, acknowledged=Everything())
    return apply(world.paths, world.source, world.snapshot(tree), request)[0]


def state(world: World) -> tuple[str, str, str, dict[bytes, tuple[int, bytes]], bytes]:
    """Everything of the source that a person would miss: refs, HEAD, status, files, index."""
    return (
        world.git("for-each-ref"),
        world.git("rev-parse", "HEAD"),
        world.status(),
        disk(world.repo),
        (world.repo / ".git" / "index").read_bytes(),
    )


def commit(world: World, files: dict[str, bytes], message: str = "meanwhile") -> str:
    support.write_files(world.repo, files)
    world.git("add", "-A")
    world.git("commit", "-q", "-m", message)
    return world.git("rev-parse", "HEAD")
