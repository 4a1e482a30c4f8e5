"""The publisher: a slow or dead keeper costs its own pane and nothing else; nothing is posted twice."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from textual.message import Message

from app.workers import publisher as publishing
from app.workers.publisher import BoxesRead, BoxFailed, BoxRead, DiffRead, Publisher
from backends.errors import Busy
from tests.support import settled
from tests.workbench import frozen
from tests.workbench.stage import play
from widgets.pane import BoxPane

KEYS = tuple(row.key for row in frozen.FLEET)


@contextmanager
def running(engine: frozen.FrozenEngine) -> Iterator[tuple[Publisher, list[Message]]]:
    posted: list[Message] = []
    publisher = Publisher(engine, posted.append)
    publisher.start()
    try:
        yield publisher, posted
    finally:
        publisher.stop()


def wait(true: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def of(posted: list[Message], kind: type[Message]) -> list[Message]:
    return [message for message in posted if isinstance(message, kind)]


def test_the_list_and_the_wanted_views_are_read_and_unchanged_values_posted_once() -> None:
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:2], (), False)
        wait(lambda: len(of(posted, BoxRead)) == 2)
        time.sleep(1.2)
        assert len(of(posted, BoxesRead)) == 1
        assert len(of(posted, BoxRead)) == 2


def test_what_changed_is_posted_again() -> None:
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:1], (), False)
        wait(lambda: len(of(posted, BoxRead)) == 1)
        view = engine.view(KEYS[0])
        engine.views[KEYS[0]] = view._replace(output=view.output + b"more\n")
        wait(lambda: len(of(posted, BoxRead)) == 2)


def test_boxes_in_which_nothing_moves_are_looked_at_seldom_and_at_once_when_something_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "CALM", 60.0)
    engine = frozen.FrozenEngine()
    looks: list[str] = []
    engine.wait = lambda verb, ref: looks.append(ref) if verb == "view" else None
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:2], (), False)
        wait(lambda: len(of(posted, BoxRead)) == 2)
        settled(lambda: len(looks), 1.5)  # the second look finds what the first found
        looks.clear()
        time.sleep(1.5)
        assert looks == []
        row = engine.rows[0]._replace(denied=99)
        engine.views[KEYS[0]] = engine.view(KEYS[0])._replace(row=row)
        engine.rows = (row, *engine.rows[1:])
        count = len(of(posted, BoxRead))
        wait(lambda: len(of(posted, BoxRead)) > count)


def test_the_only_box_on_screen_is_looked_at_in_every_round() -> None:
    engine = frozen.FrozenEngine()
    looks: list[str] = []
    engine.wait = lambda verb, ref: looks.append(ref) if verb == "view" else None
    with running(engine) as (publisher, _):
        publisher.want(KEYS[:1], (), False)
        wait(lambda: len(looks) >= 8)


def test_a_keeper_that_does_not_answer_delays_no_other_box() -> None:
    engine = frozen.FrozenEngine()
    stuck = threading.Event()
    engine.wait = lambda verb, ref: stuck.wait(150) if (verb, ref) == ("view", KEYS[0]) else None  # type: ignore
    with running(engine) as (publisher, posted):
        publisher.want(KEYS, (), False)
        wait(lambda: len(of(posted, BoxRead)) == len(KEYS) - 1)  # the stuck one answers when it is let go
        wait(lambda: of(posted, BoxFailed))
        failed = of(posted, BoxFailed)[0]
        assert isinstance(failed, BoxFailed)
        assert (failed.key, failed.why) == (KEYS[0], "the keeper has not answered yet; still asking")
        views = [message for message in engine.asked if message[0] == "view"]
        assert len(views) <= 1
        stuck.set()
        wait(lambda: len(of(posted, BoxRead)) == len(KEYS))


def test_an_error_of_one_box_is_told_once_in_its_own_words() -> None:
    engine = frozen.FrozenEngine()

    def fail(verb: str, ref: str) -> None:
        if (verb, ref) == ("view", KEYS[1]):
            raise Busy("the box cannot be asked", "its keeper is gone", "cloche doctor")

    engine.wait = fail
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:2], (), False)
        wait(lambda: of(posted, BoxFailed) and of(posted, BoxRead))
        time.sleep(1.2)
        failed = of(posted, BoxFailed)
        assert len(failed) == 1
        assert isinstance(failed[0], BoxFailed)
        assert failed[0].why == "the box cannot be asked: its keeper is gone"


def test_an_unforeseen_error_of_one_box_ends_nothing() -> None:
    engine = frozen.FrozenEngine()

    def fail(verb: str, ref: str) -> None:
        if verb == "view" and ref == KEYS[0]:
            raise KeyError("x")

    engine.wait = fail
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:2], (), False)
        wait(lambda: of(posted, BoxFailed) and of(posted, BoxRead))


def test_a_diff_is_read_when_it_is_looked_at_and_again_for_whoever_asks_anew() -> None:
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, posted):
        publisher.want((), (KEYS[0],), False)
        wait(lambda: len(of(posted, DiffRead)) == 1)
        publisher.want((), (), False)
        publisher.want((), (KEYS[0],), False)
        wait(lambda: len(of(posted, DiffRead)) == 2)


def reads(engine: frozen.FrozenEngine) -> int:
    return sum(ref == KEYS[0] for ref, _ in engine.read)


def test_a_tree_is_read_again_after_it_changed_without_stopping_its_box(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "DIFF_PERIOD", 600.0)  # by the change, not by a period
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, posted):
        publisher.want((), (KEYS[0],), False)
        wait(lambda: KEYS[0] in engine.watches and of(posted, DiffRead))
        before = settled(lambda: reads(engine))
        engine.diff = frozen.DIFF._replace(tree="ff" * 20)
        engine.watches[KEYS[0]].event.set()
        wait(lambda: len(of(posted, DiffRead)) == 2)
        assert reads(engine) == before + 1
        assert not any(still for _, still in engine.read)


def test_a_tree_in_which_nothing_changes_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "DIFF_PERIOD", 0.3)
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:1], (KEYS[0],), False)
        wait(lambda: KEYS[0] in engine.watches and of(posted, DiffRead))
        before = settled(lambda: reads(engine))
        time.sleep(1.0)
        assert reads(engine) == before <= 2


def test_reading_a_tree_that_changes_all_the_time_falls_back_to_a_quarter_of_the_time() -> None:
    engine = frozen.FrozenEngine()
    engine.wait = lambda verb, ref: time.sleep(0.1) if verb == "diff" else None
    with running(engine) as (publisher, _):
        publisher.want((), (KEYS[0],), False)
        wait(lambda: KEYS[0] in engine.watches)
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            engine.watches[KEYS[0]].event.set()
            time.sleep(0.01)
        first = reads(engine)
        assert 2 <= first <= 12  # what it had saved up, and its share since


@pytest.mark.parametrize("took", [0.02, 0.1, 2.0])
def test_a_tree_at_rest_saves_up_a_few_readings_and_never_more(took: float) -> None:
    tree = publishing._Tree()
    begin = now = tree.settled
    spent = 0.0
    while now < begin + 500:
        tree.was_read(now, now + took, publishing.DIFF_SHARE)
        spent += took
        now = max(now + took, tree.earliest)
    assert spent <= 500 / publishing.DIFF_SHARE + publishing.CREDIT + took
    for _ in range(int(publishing.CREDIT / took)):  # after a long rest the first ones wait for nothing
        now += 600
        tree.was_read(now, now + took, publishing.DIFF_SHARE)
        assert tree.earliest <= now + took


def test_a_change_while_a_tree_is_read_is_not_missed() -> None:
    engine = frozen.FrozenEngine()
    inside, go = threading.Event(), threading.Event()

    def slow(verb: str, ref: str) -> None:
        if verb == "diff" and not inside.is_set():
            inside.set()
            go.wait(60)

    with running(engine) as (publisher, posted):
        publisher.want((), (KEYS[0],), False)
        wait(lambda: KEYS[0] in engine.watches and of(posted, DiffRead))
        before = settled(lambda: reads(engine))
        engine.wait = slow
        engine.watches[KEYS[0]].event.set()
        assert inside.wait(60)
        tree = publisher._trees[KEYS[0]]
        told = tree.touched
        engine.watches[KEYS[0]].event.set()
        wait(lambda: tree.touched > told)
        assert reads(engine) == before, "it is being read"
        go.set()
        wait(lambda: reads(engine) >= before + 2)


def test_a_tree_that_cannot_be_watched_is_read_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "DIFF_PERIOD", 0.8)
    engine = frozen.FrozenEngine()

    def fail(verb: str, ref: str) -> None:
        if verb == "watch":
            raise OSError(24, "no inotify instance is left")

    engine.wait = fail
    with running(engine) as (publisher, posted):
        publisher.want((), (KEYS[0],), False)
        wait(lambda: of(posted, DiffRead))
        before = reads(engine)
        wait(lambda: reads(engine) > before + 1)
        assert not of(posted, BoxFailed)


def test_a_tree_that_nobody_looks_at_is_watched_no_more() -> None:
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, _):
        publisher.want((), (), False, KEYS[:1])
        wait(lambda: KEYS[0] in engine.watches)
        publisher.want((), (), False)
        wait(lambda: engine.watches[KEYS[0]].closed)


def test_a_publisher_that_stopped_posts_nothing_more() -> None:
    engine = frozen.FrozenEngine()
    with running(engine) as (publisher, posted):
        publisher.want(KEYS[:1], (), False)
        wait(lambda: of(posted, BoxRead))
        publisher.stop()
        count = settled(lambda: len(posted))
        engine.rows = engine.rows[:2]
        time.sleep(0.8)
        assert len(posted) == count


@pytest.mark.parametrize("name", ["fix-auth"])
async def test_a_slow_keeper_is_shown_in_its_own_pane_only(name: str) -> None:
    engine = frozen.FrozenEngine()
    stuck = threading.Event()
    engine.wait = lambda verb, ref: stuck.wait(150) if verb == "view" and ref.endswith(name) else None  # type: ignore
    async with play(engine) as stage:
        await stage.shows("~ the keeper has not answered yet; still asking", "Proceed with the upgrade?")
        panes = list(stage.app.screen.query(BoxPane))
        assert [pane.row.name for pane in panes if pane.trouble] == [name]
        await stage.press("right", "c")
        await stage.shows("not observed")
        stuck.set()
        await stage.until(lambda: not any(pane.trouble for pane in panes))


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::pytest.PytestUnraisableExceptionWarning")
async def test_a_diff_that_is_replaced_before_it_was_begun_leaves_nothing() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        changed: list[str] = []
        for screen in stage.app._screens():
            screen.patch_changed = lambda key, patch: changed.append(key)  # type: ignore[method-assign]
        before = set(stage.app.workers)
        for _ in range(3):  # none of them gets a turn before the next one comes
            stage.app.on_diff_read(DiffRead(KEYS[0], frozen.DIFF))
        await stage.until(lambda: changed)
        await stage.handled(before)
        gc.collect()
        assert changed == [KEYS[0]]
