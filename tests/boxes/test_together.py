"""G3: reading boxes, as a fleet on screen does, never meets a Git that works inside one of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.engine import Engine, NewBox, Streams
from backends.errors import ClocheError

pytestmark = [pytest.mark.boundary]
COMMITS = 300
WORK = f"""
set -e
git config user.name Agent; git config user.email agent@example.invalid
n=0
while [ $n -lt {COMMITS} ]; do
    n=$((n+1)); echo $n > counter; git add counter; git commit -q -m "commit $n"
done
git rev-list --count HEAD
test -z "$(git status --porcelain)"
"""


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    made = Engine(repo)
    yield made
    made.remove_many([row.key for row in made.boxes()], force=True)


def test_ten_boxes_are_listed_and_diffed_while_one_commits_three_hundred_times(
    engine: Engine, tmp_path: Path
) -> None:
    names = [f"box{number}" for number in range(10)]
    for name in names:
        engine.create(NewBox(name=name))
    over = threading.Event()
    rounds: list[int] = []
    failed: list[ClocheError] = []
    while_live: list[bytes] = []

    def screen() -> None:
        while not over.is_set():
            try:
                rows = engine.boxes()
                rounds.append(len(rows))
                for row in rows:
                    found = engine.snapshot_diff(row.key)
                    if row.live == "live":
                        while_live.append(found.patch)
            except ClocheError as error:
                failed.append(error)

    watcher = threading.Thread(target=screen)
    watcher.start()
    said = tmp_path / "said"
    null = os.open(os.devnull, os.O_RDWR)
    try:
        with said.open("wb") as file:
            done = engine.run(
                names[0], ["sh", "-c", WORK], streams=Streams(null, file.fileno(), file.fileno())
            )
    finally:
        over.set()
        watcher.join()
        os.close(null)
    text = said.read_text()
    assert "index.lock" not in text and done.exit == 0, text
    assert text.split()[-1] == str(COMMITS + 1), "the base and every commit"
    assert failed == []
    assert len(rounds) > 2 and set(rounds) == {10}
    assert len({patch for patch in while_live if b"counter" in patch}) > 2, "the box was read in between"
    assert engine.snapshot_diff(names[0]).patch.endswith(b"+%d\n" % COMMITS)
