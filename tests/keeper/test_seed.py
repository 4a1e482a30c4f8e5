"""What a box's init comes of: a process that loaded nothing but what a launch runs in the box."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from backends.keeper.init import Settings
from backends.kernel.rlimits import Limits
from backends.kernel.shares import Share
from backends.tiers import grants, order
from backends.tiers.grants import Empty, File, Folder, Layer, Link, Mask, Overlay
from backends.tiers.order import Opening
from backends.tiers.root import RootPlan

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from backends.keeper import seed
print(json.dumps(sorted(sys.modules)))
"""
# What the memory of every init would hold a part of.
HEAVY = (
    "backends.boxes", "backends.errors", "backends.keeper.keeper", "backends.keeper.main",
    "backends.keeper.zygote", "backends.policy.model", "backends.tiers.launcher", "backends.tiers.protocol",
    "dataclasses", "ipaddress", "pathlib", "pickle", "subprocess", "typing", "urllib",
)  # fmt: skip


def test_nothing_is_loaded_in_it_that_no_init_runs() -> None:
    words = [sys.executable, "-I", "-S", "-c", SCRIPT, str(ROOT)]
    loaded = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    assert "backends.tiers.boundary" in loaded and "backends.keeper.init" in loaded
    assert [name for name in HEAVY if name in loaded] == []


texts = st.text(max_size=8)
steps = st.one_of(
    st.builds(Layer, texts, texts, st.binary(max_size=4)).map(lambda layer: Overlay("/a", (layer,))),
    st.builds(File, texts, st.booleans()),
    st.builds(Link, texts, texts),
    st.builds(Folder, texts),
    st.builds(Empty, texts),
    st.builds(Mask, texts, texts, texts),
)


@given(st.lists(steps, max_size=5), st.lists(texts, max_size=3), st.booleans())
def test_a_plan_is_the_same_once_it_was_packed(
    some: list[grants.Step], lowers: list[str], mapped: bool
) -> None:
    plan = RootPlan(
        "/mount", "/tree", "", "/home", (("/objects", "/inside"),), grants.Plan(tuple(some), ()),
        (("/etc/passwd", b"x"),), 1, 2, (0, 0), (Share("kernel/shm", b"1", "text"),), tuple(lowers),
    )  # fmt: skip
    told = order.Order("a", "/mount", True, (), b"", Settings("a", Limits(), None), None, order.pack(plan))
    again = order.decode(order.encode(told)).root(mapped)
    if mapped:
        assert again.lowers == tuple(f"/tree/{number}" for number in range(len(lowers)))
        again = again._replace(lowers=plan.lowers)
    assert again == plan
    assert [type(step) for step in again.grants.steps] == [type(step) for step in some]
    assert type(again) is RootPlan and type(again.shares[0]) is Share


def test_what_an_opening_asks_for_is_seen_without_unpacking_it(tmp_path: Path) -> None:
    plain = Opening(1, 2, "/tree", (), False)
    for opening, seen in (
        (plain, 0),
        (plain._replace(own_network=True), order.OWN_NETWORK),
        (plain._replace(shared=("/layer",)), order.SHARED),
        (plain._replace(environment=(("CLOCHE_TRACE", "x"),)), order.VARIABLES),
    ):
        path = tmp_path / "opening"
        path.write_bytes(order.encode_opening(opening) + b"what follows")
        with path.open("rb", buffering=0) as file:
            found = order.read_opening(file.fileno())
            assert found is not None and found[0] == seen and order.unpack(found[1]) == opening
            assert file.read() == b"what follows"
    path.write_bytes(b"")
    with path.open("rb", buffering=0) as file:
        assert order.read_opening(file.fileno()) is None
