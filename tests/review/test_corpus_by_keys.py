"""The corpus reviewed and applied by keys, part by part; Git alone comes to the same bytes and modes."""

from __future__ import annotations

import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from app.screens.apply import ApplyScreen
from app.screens.apply_parts import Warnings
from app.screens.compare import CompareScreen
from app.screens.dialogs import ConfirmScreen
from app.screens.fleet import FleetScreen
from app.screens.review import ReviewScreen
from backends.engine import NewBox
from backends.evidence.journal import verify
from tests import support
from tests.review import corpus
from tests.review.acting import BOX, PYTHON, Files, Scene
from tests.workbench.stage import Play, play
from tests.workbench.test_outside import inert
from widgets.pane import BoxPane

pytestmark = [pytest.mark.flow, pytest.mark.real, pytest.mark.usefixtures("kept")]

LATER = {b"text/crlf", b"x[/]y", b"link", b"tale.txt", b"shared.txt"}
"""Good files that are left for another day: rejected, or not decided."""


class Reader:
    """Who sits before the review screen, and has keys only."""

    def __init__(self, stage: Play) -> None:
        self.stage = stage

    @property
    def screen(self) -> ReviewScreen:
        found = self.stage.app.screen
        assert isinstance(found, ReviewScreen), self.stage.text()
        return found

    async def opened(self) -> None:
        await self.stage.until(lambda: isinstance(self.stage.app.screen, ReviewScreen))
        await self.stage.until(lambda: self.screen.decided is not None)
        await self.settled()

    async def settled(self) -> None:
        sitting = self.screen._sitting
        assert sitting is not None
        await self.stage.until(lambda: sitting.idle and not self.screen._looking)
        await self.stage.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.stage.press(*keys)
        await self.settled()

    async def go(self, path: bytes) -> None:
        """To a file, by going on to the next until it is there."""
        for _ in self.screen.files.changes:
            if self.screen.change is not None and self.screen.change.path == path:
                return
            await self.stage.press("J")
        raise AssertionError(f"{path!r} is not listed:\n{self.stage.text()}")

    async def each(self) -> list[bytes]:
        """Every file once, from the first on, with the cursor in the list; the last is where it ends."""
        await self.stage.press("home")
        await self.stage.until(lambda: self.screen.change is not None)
        return [change.path for change in self.screen.files.changes]


def acknowledged(dialog: ApplyScreen, left: int) -> bool:
    """All but so many are, and that is kept."""
    return dialog._open() == left and not dialog._busy


async def acknowledge_and_apply(stage: Play) -> int:
    """Through the dialog: every warning by itself, then the box's name; how many there were."""
    await stage.until(lambda: isinstance(stage.app.screen, ApplyScreen))
    dialog = stage.app.screen
    assert isinstance(dialog, ApplyScreen)
    await stage.until(lambda: dialog.plan is not None and not dialog._busy)
    count = len(dialog.warnings)
    while not isinstance(stage.app.focused, Warnings):
        await stage.press("tab")
    for number in range(count):
        await stage.press("space")
        left = count - number - 1
        await stage.until(partial(acknowledged, dialog, left))
    await stage.press("tab")
    await stage.type(BOX)
    await stage.shows("Apply makes exactly this commit")
    await stage.press("enter")
    while getattr(stage.app.focused, "id", "") != "apply":
        await stage.press("tab")
    await stage.press("enter")
    await stage.shows("main is now")
    return count


async def first_part(reader: Reader) -> None:
    """Most files, some hunks and lines of others; what is refused is rejected, some is left open."""
    for path in await reader.each():
        assert reader.screen.change is not None and reader.screen.change.path == path
        if path in corpus.FOUND or path in (b"link", b"text/crlf"):
            await reader.stage.press("minus")
        elif path not in LATER | {b"many.txt", b"README.md"}:
            await reader.stage.press("space")
        await reader.stage.press("J")
    await reader.settled()
    await reader.each()
    await reader.go(b"README.md")
    await reader.press("l", "space")  # its line and not its mode
    await reader.go(b"many.txt")
    await reader.press("space")  # its first hunk
    await reader.press("l", "s", "s", "v", "down", "space", "escape")  # what was removed, one line of two
    await reader.press("l", "minus")
    await reader.stage.press("c")
    await reader.stage.type("rather not [@click=app.quit]x[/]")
    await reader.stage.press("ctrl+s")
    await reader.opened()


async def propose(stage: Play) -> None:
    """From the fleet, as soon as it knows that nothing runs in the box any more: until then it says so."""
    await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
    for _ in range(60):
        await stage.press("E")
        if isinstance(stage.app.screen, ConfirmScreen):
            break
        await stage.pilot.pause(0.5)
    await stage.shows(f"Propose {BOX}")
    await stage.press("right", "enter")


async def the_rest(stage: Play, scene: Scene) -> None:
    """What was left: proposed again, in conflict with the branch, settled in the box, exported, applied."""
    reader = Reader(stage)
    await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
    await propose(stage)
    await reader.opened()
    await stage.shows("as in your last review")
    progress = scene.engine.review(BOX).progress
    assert progress is not None
    # What was taken whole is not told of; many.txt and README.md are compared with another base now.
    assert {path for path, kind in progress.moved if kind != "rebased"} == set()
    await look_everywhere(reader)
    await take_all_but(reader, b"leak")
    tip = scene.meanwhile(corpus.OURS)
    before = scene.untouched()
    await stage.press("P")
    await stage.shows("1 file conflicts; nothing was changed", "shared.txt  contents")
    inert(stage)
    assert scene.untouched() == before
    scene.sound()
    await stage.press("right", "enter")
    await stage.shows("rebased, with conflicts")
    assert scene.untouched() == before
    await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
    scene.run(corpus.ENDING)
    await propose(stage)
    await reader.opened()
    await take_all_but(reader)
    await stage.press("E", "enter", "enter")
    await stage.shows("exported")
    patch = (scene.root / f"{BOX}-export" / "patch.diff").read_bytes()
    want = scene.by_git_apply("second", tip, patch)
    await stage.press("P")
    await acknowledge_and_apply(stage)
    assert scene.branch("all") == want
    assert want[1] == on_disk({**corpus.BASE, **corpus.GOOD, **corpus.LATER}, corpus.GONE)


async def look_everywhere(reader: Reader) -> None:
    """Each dialog over the review with what came out of the box in it: written out, and nothing to click."""
    stage = reader.stage
    await reader.go(b"x[/]y")
    inert(stage)
    for key, title in (("L", "rather not [@click=app.quit]x[/]"), ("R", "Request changes"), ("T", "Try ")):
        await stage.press(key)
        await stage.shows(title)
        inert(stage)
        await stage.press("escape")
        await reader.opened()


async def beside_another(stage: Play, scene: Scene) -> None:
    """Compared with a box that changed nothing, file by file."""
    other = scene.engine.create(NewBox(name="plain", tier="process"))
    screen = CompareScreen((scene.engine.find(BOX).key, other.key))
    stage.app.push_screen(screen)
    await stage.until(lambda: screen.found is not None)
    await stage.shows("[@click=app.apply]README.md[/]", "\\x1b]0;owned\\x07")
    inert(stage)
    await stage.press("escape")
    await stage.until(lambda: stage.app.screen is not screen)
    scene.engine.remove("plain", force=True)


async def take_all_but(reader: Reader, *left: bytes) -> None:
    for path in await reader.each():
        done = reader.screen.file_counts()
        if path not in left and done is not None and done.state != "accepted":
            await reader.stage.press("space")
        await reader.stage.press("J")
    await reader.settled()


def on_disk(files: corpus.Side, gone: tuple[bytes, ...]) -> Files:
    """How :func:`disk` tells of files."""
    kinds = {corpus.LINK: corpus.LINK & 0o170000, corpus.EXEC: 0o100, corpus.FILE: 0}
    return {path: (kinds[mode], content) for path, (mode, content) in files.items() if path not in gone}


async def test_the_corpus_lands_part_by_part_as_git_alone_would_apply_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with play(scene.engine, (160, 50), cwd=scene.root) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        # It adds and commits time and again while the fleet shows it.
        argv = support.cloche_argv("run", BOX, "--", PYTHON, "-c", corpus.filling(scene.marker))
        with subprocess.Popen(
            argv, cwd=scene.repo, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            await stage.until(lambda: process.poll() is not None)
            assert process.stderr is not None
            said = process.stderr.read()
            assert (process.returncode, said) == (0, b""), said.decode()
        scene.lose_the_keeper(signal.SIGKILL)
        scene.configure()
        tip = scene.meanwhile(corpus.BESIDE)
        inert(stage)
        await propose(stage)
        reader = Reader(stage)
        await reader.opened()
        assert {change.path for change in reader.screen.files.changes} == {*corpus.CHANGED, *corpus.FOUND}
        await first_part(reader)
        before = scene.untouched()
        await stage.press("P")
        await stage.shows(
            "the gate refuses to apply this proposal", "GIT~1", ".g\\u200cit", "docs: Git reads"
        )
        inert(stage)
        await stage.press("escape", "O")
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
        assert scene.untouched() == before
        await beside_another(stage, scene)
        scene.run(corpus.REPAIRING)
        await propose(stage)
        await reader.opened()
        assert {change.path for change in reader.screen.files.changes} == {*corpus.CHANGED, b"leak"}
        assert reader.screen.decided is not None and reader.screen.decided.comments
        assert reader.screen.total[:2] == (65, 6)
        patch = scene.accepted_patch()
        want = scene.by_git_apply("first", tip, patch)
        assert scene.untouched() == before
        await stage.press("P")
        assert await acknowledge_and_apply(stage) > 8
        assert scene.branch("taken") == want
        scene.sound()
        await the_rest(stage, scene)
    assert verify(scene.engine.find(BOX).journal).problems == ()
    scene.engine.remove(BOX)
    scene.sound()
