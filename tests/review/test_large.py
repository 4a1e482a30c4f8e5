"""Kind U3 in the gate: 100,000 lines and one line of 5 MB are decided about, commented on and sent back."""

from __future__ import annotations

from app.screens.request import RequestScreen
from app.screens.review import ReviewScreen
from backends.snapshots import Diff, FileChange
from tests.workbench.deciding import gate, write

LINES = 100_000
HUGE = b"x" * 5_000_000
PATCH = (
    b"diff --git a/huge b/huge\nindex 1111111..2222222 100644\n--- a/huge\n+++ b/huge\n"
    b"@@ -1 +1 @@\n-" + HUGE + b"\n+" + HUGE + b"y\n"
    b"diff --git a/many b/many\nnew file mode 100644\nindex 0000000..3333333\n--- /dev/null\n+++ b/many\n"
    b"@@ -0,0 +1,%d @@\n" % LINES + b"".join(b"+line %d\n" % number for number in range(LINES))
)
DIFF = Diff(
    "3f2a9c1d" + "0" * 32,
    "9c1d" * 10,
    (
        FileChange(b"huge", None, "M", 0o100644, 0o100644, "1" * 40, "2" * 40, 1, 1),
        FileChange(b"many", None, "A", 0, 0o100644, "0" * 40, "3" * 40, LINES, 0),
    ),
    PATCH,
    (),
)


async def test_what_is_huge_is_decided_about_like_anything_else() -> None:
    async with gate(diff=DIFF) as found:
        await found.act("enter", "space")
        assert found.screen.total[:2] == (2, 0)
        await found.press("down", "down", "c")
        await write(found, "too long", "ctrl+s")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, ReviewScreen))
        await found.settled()
        (comment,) = found.kept.comments
        assert (comment.path, comment.line) == (b"huge", 1)
        assert len(comment.quote) < 10_000
        await found.act("J", "a", "a", "minus")
        assert found.screen.total == (2, LINES + 1, 0)
        assert found.kept.history == found.screen.decided.history  # type: ignore[union-attr]
        await found.act("z")
        assert found.screen.total[:2] == (2, 0)
        await found.press("R")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, RequestScreen))
        assert max(map(len, found.stage.text().splitlines())) < 1000
        await found.press("escape")
