"""What an interpreter makes after its holes were filled lies together, whatever it had freed before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from backends.keeper import holes
made = [bytes(size) for size in (31, 63, 200, 400) for _ in range(600)]
del made[::2]  # a hole beside every object
if sys.argv[2] == "fill":
    holes.fill()
apart = {}
for size in (64, 96, 233, 433):
    size = -(-size // 16) * 16
    new = [bytes(size - 33) for _ in range(24)]
    places = sorted(map(id, new))
    apart[size] = sum(after - before != size for before, after in zip(places, places[1:]))
print(json.dumps([apart, holes.fill()]))
"""


def _run(how: str) -> tuple[dict[str, int], int]:
    words = [sys.executable, "-I", "-S", "-c", SCRIPT, str(ROOT), how]
    told = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    return told[0], told[1]


def test_new_objects_lie_side_by_side_once_the_holes_are_filled() -> None:
    before, _ = _run("leave")
    after, _ = _run("fill")
    assert all(count > 12 for count in before.values())
    assert after == {"64": 0, "96": 0, "240": 0, "448": 0}


def test_what_fills_them_is_bounded() -> None:
    from backends.keeper import holes

    assert _run("fill")[1] <= 2 * sum(holes.MOST * holes.POOL // size for size in holes.SIZES)
