"""The review's diff on a generated difference of 100,000 lines, beside ``git diff`` and delta on the same.

The view is drawn by the workbench's own widgets on a terminal of 160x50 that takes whatever is written; a
sample ends when the loop has nothing left to draw.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, NamedTuple

from textual.app import App, ComposeResult
from textual.theme import Theme

from app.decided import Change, changes
from app.workers.calls import call
from backends.boxes.layout import BoxPaths
from backends.gate.patch import ACCEPTED, REJECTED, UNDECIDED, Choice, everything, read
from backends.snapshots import Diff, DiffStat, FileChange, SnapshotInfo
from backends.verbs.reviewing import Desk
from bench import rows
from bench.measure import pss
from bench.peer import Absent, Command
from bench.peer_delta import ARGUMENTS, delta
from bench.repository import QUIET, commit, git
from bench.results import Sampler
from themes.palettes import DARK
from widgets.diff_view import DiffView
from widgets.patch import index_patch
from widgets.selection import LineMarks
from widgets.suspects import survey

LINES = 100_000
FILES = 20
PAGES = 60
SIZE = (160, 50)
ROOT = Path(__file__).resolve().parents[1]
STYLES = ROOT / "themes"
LIMITS = ("open: under 0.1 s", "page: 30 a second", "memory: under 20 MB more", "decide: under 50 ms")


class Samples(NamedTuple):
    """Seconds of each round; ``memory`` in bytes that the process grew by, patch and rows included."""

    parse: list[float]  # rows of the patch; off the loop
    survey: list[float]  # characters that are not what they seem; off the loop
    open: list[float]  # from rows in hand to a drawn screen
    page: list[float]  # one page on, drawn
    far: list[float]  # to the end and back to the beginning, drawn
    select_all: list[float]  # all lines selected, as masks and bars, drawn
    search: list[float]  # every row with a word, and to the first
    decide: list[float]  # one hunk accepted or opened again: on disk, then drawn
    decide_all: list[float]  # the same of everything
    memory: list[int]
    memory_all: list[int]  # the same once all of it was selected and searched
    git_diff: list[float]  # the whole command, its output thrown away
    delta: list[float]  # the whole command, given the patch; nothing where it is not installed
    lines: int  # rows of the patch


def nothing(lines: int = 0) -> Samples:
    """No sample yet of a patch of so many rows."""
    return Samples._make([*([] for _ in Samples._fields[:-1]), lines])


class Drawn(App[None]):
    """The diff alone."""

    CSS_PATH: ClassVar[list[str | os.PathLike[str]]] = [STYLES / "inks.tcss", STYLES / "screens.tcss"]  # type: ignore[assignment]

    def __init__(self, theme: Theme = DARK) -> None:
        super().__init__()
        self.register_theme(theme)
        self.theme = theme.name
        self.view = DiffView()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return dict(DARK.variables)

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()


def difference(folder: Path, lines: int = LINES) -> tuple[Path, bytes, tuple[bytes, ...]]:
    """A repository whose last commit changes about ``lines`` lines of :data:`FILES` files, and that patch."""
    path = folder / "viewed"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    each = lines // FILES
    for changed in (False, True):
        for number in range(FILES):
            # Two of three lines are changed, and stand twice in the patch.
            rows = (_row(number, at, changed) for at in range(each * 3 // 5))
            (path / f"part{number:02}.py").write_text("".join(rows))
        git(path, "add", "-A")
        commit(path, "changed" if changed else "first")
    patch = subprocess.run(
        ["git", "diff", "--no-color", "HEAD^", "HEAD"],
        cwd=path,
        env={**os.environ, **QUIET},
        capture_output=True,
        check=True,
    ).stdout
    return path, patch, tuple(f"part{number:02}.py".encode() for number in range(FILES))


def _row(number: int, at: int, changed: bool) -> str:
    word = "renewed" if changed and at % 3 else "value"
    return f"    {word}_{at} = call_{number}(self, 'text {at}', {at})  # line {at}\n"


async def _round(patch: bytes, paths: Sequence[bytes], samples: Samples, pages: int) -> None:
    app = Drawn()
    async with app.run_test(size=SIZE) as pilot:
        view = app.view
        await pilot.pause()
        gc.collect()
        before = pss(os.getpid())

        begin = time.perf_counter()
        index = index_patch(bytes(bytearray(patch)), tuple(paths))
        samples.parse.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        found = survey(index)
        samples.survey.append(time.perf_counter() - begin)

        async def drawn(act: object, *given: object) -> float:
            begin = time.perf_counter()
            act(*given)  # type: ignore[operator]
            await asyncio.sleep(0)
            await pilot._wait_for_screen()
            app.screen._compositor.render_strips()
            return time.perf_counter() - begin

        samples.open.append(await drawn(lambda: view.set_index(index, survey=found)))
        for _ in range(pages):
            samples.page.append(await drawn(view.action_move_page, 1))
        samples.far.append(await drawn(view.action_edge, 1))
        samples.far.append(await drawn(view.action_edge, 0))
        gc.collect()
        samples.memory.append(pss(os.getpid()) - before)
        begin = time.perf_counter()
        view.action_range()
        samples.select_all.append(await drawn(view.action_edge, 1))
        view.end_range()
        samples.search.append(await drawn(view.search, "renewed_2999"))
        gc.collect()
        samples.memory_all.append(pss(os.getpid()) - before)
        await _decide(view, patch, paths, drawn, samples)


async def _decide(
    view: DiffView,
    patch: bytes,
    paths: Sequence[bytes],
    drawn: Callable[..., Awaitable[float]],
    samples: Samples,
) -> None:
    """Decisions as the review screen makes them: kept beside the loop, painted when they are kept."""
    marks: dict[bytes, LineMarks] = {}
    with tempfile.TemporaryDirectory(prefix="cb-desk-") as folder:
        desk = _desk(Path(folder), patch, paths)
        files = desk.patch.by_path()

        async def act(choices: list[Choice], state: str) -> float:
            begin = time.perf_counter()
            before = desk.review

            def work() -> Change:
                return changes(files, before, desk.set(choices, state))

            change = await call(work)
            marks.update((path, made) for path, made, _ in change.files)
            await drawn(view.set_marks, marks)
            return time.perf_counter() - begin

        file = desk.patch.files[0]
        hunk: list[Choice] = [(file.path, file.hunk(0))]
        await act(hunk, REJECTED)
        for state in (ACCEPTED, UNDECIDED) * 5:
            samples.decide.append(await act(hunk, state))
        samples.decide_all.append(await act(list(everything(desk.patch)), ACCEPTED))
        desk.close()


def _desk(folder: Path, patch: bytes, paths: Sequence[bytes]) -> Desk:
    blob = [f"{number:040x}" for number in range(2 * len(paths))]
    rows = tuple(
        FileChange(path, None, "M", 0o100644, 0o100644, blob[2 * at], blob[2 * at + 1], 1, 1)
        for at, path in enumerate(paths)
    )
    base, tree = "a" * 40, "b" * 40
    snapshot = SnapshotInfo(tree, "c" * 40, base, 0.0, DiffStat(len(rows), 1, 1))
    model = read(Diff(snapshot.base, tree, rows, patch, ()), base)
    return Desk(BoxPaths(folder), model, snapshot, "bench", lambda tree: (), scripted=True)


def measure(rounds: int = 5, lines: int = LINES, pages: int = PAGES) -> Samples:
    """Samples of ``rounds`` rounds, in turn with ``git diff`` and, where it is installed, delta."""
    peer = delta()
    with tempfile.TemporaryDirectory(prefix="cb-viewer-") as folder:
        path, patch, paths = difference(Path(folder), lines)
        samples = nothing(patch.count(b"\n"))
        first = patch[: patch.find(b"\ndiff --git ") + 1]
        asyncio.run(_round(first, paths[:1], nothing(), 2))  # warm
        for _ in range(rounds):
            asyncio.run(_round(patch, paths, samples, pages))
            samples.git_diff.append(_piped(["git", "diff", "--no-color", "HEAD^", "HEAD"], path, b""))
            if isinstance(peer, Command):
                samples.delta.append(_piped([peer.argv[0], *ARGUMENTS], path, patch))
    return samples


def _piped(argv: Sequence[str], cwd: Path, given: bytes) -> float:
    """Seconds of a command that reads ``given``, its output thrown away."""
    begin = time.perf_counter()
    subprocess.run(
        argv, cwd=cwd, env={**os.environ, **QUIET}, input=given, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin


def apart(rounds: int, lines: int = LINES, pages: int = PAGES) -> Samples:
    """The same, each round in a process of its own: what one leaves in memory the next would not have to
    ask for. ``SystemExit`` with what a round said when it fails.
    """
    together = nothing()
    for _ in range(rounds):
        argv = [sys.executable, "-m", "bench.viewer", "--json", "1", str(lines), str(pages)]
        done = subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"the viewer's round ended with {done.returncode}: {done.stderr[-2000:]!r}")
        found = Samples(*json.loads(done.stdout))
        pairs: list[tuple[Any, Any]] = list(zip(together, found, strict=True))
        together = Samples._make([*(a + b for a, b in pairs[:-1]), found.lines])
    return together


def add(sampler: Sampler, versions: dict[str, str], rounds: int, lines: int = LINES) -> None:
    """Every row about the viewer; delta's says why where it has no samples."""
    found = apart(rounds, lines)
    opened = (sum(parts) for parts in zip(found.parse, found.survey, found.open, strict=True))
    sampler.add(rows.OPENED, *opened)
    sampler.add(rows.PAGED, *found.page)
    sampler.add(rows.FAR, *found.far)
    sampler.add(rows.SELECTED, *found.select_all)
    sampler.add(rows.SEARCHED, *found.search)
    sampler.add(rows.DECIDED, *found.decide)
    sampler.add(rows.DECIDED_ALL, *found.decide_all)
    sampler.add(rows.HELD, *found.memory)
    sampler.add(rows.HELD_ALL, *found.memory_all)
    sampler.add(rows.GIT_DIFF, *found.git_diff)
    peer = delta()
    if isinstance(peer, Absent):
        sampler.miss(rows.DELTA, peer.reason)
    else:
        sampler.add(rows.DELTA, *found.delta)
        versions["delta"] = peer.version


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--json"]
    found = measure(*(int(word) for word in words))
    if "--json" in sys.argv:
        print(json.dumps(found))
        return 0
    print(f"{found.lines:,} lines of patch; " + "; ".join(LIMITS))
    for name, values in found._asdict().items():
        if isinstance(values, list) and values:
            scale, unit = (1 << 20, "MB") if name.startswith("memory") else (0.001, "ms")
            ordered = sorted(value / scale for value in values)
            print(f"{name:<12} median {median(ordered):8.1f} {unit}   most {ordered[-1]:8.1f} {unit}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
