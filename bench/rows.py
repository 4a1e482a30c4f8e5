"""Every row of the table: what is measured, beside what, in which unit, and what it should stay below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Row(NamedTuple):
    """One measure. Samples are in base units: seconds, bytes, or shares of one core."""

    name: str
    group: str
    what: str  # what is timed or counted, in one sentence
    beside: str = ""  # the row that the ratio is over, "" for none
    unit: str = "ms"
    aim: float | None = None  # the median should stay below this, in ``unit``
    aim_ratio: float | None = None  # and its ratio to ``beside`` below this
    aim_p99: float | None = None  # and 99 of 100 samples below this, in ``unit``
    least_ratio: float | None = None  # or, where more is better, above this


MAKE = "Making a box, from a cold command line"
ENGINE = "Making a box, from a running engine"
COMMANDS = "A command in a box that is live"
PEERS = "What others take to run one confined command"
LOOK = "Looking"
END = "Removing"
RECORD = "Writing evidence"
SIZE = "What one box keeps"
SCALE = "Many live boxes"
DIFF = "Seeing a change"
REVIEW = "Reviewing a diff of 100,000 lines"
RELAY = "Through the egress relay"
TIERS = "Every tier, from a running engine"
GROUPS = (MAKE, ENGINE, COMMANDS, PEERS, TIERS, LOOK, END, RECORD, SIZE, SCALE, DIFF, REVIEW, RELAY)

EMULATED = "microvm (emulated)"
TIERS_MEASURED = ("process", "supervised", "container", "microvm", EMULATED)
ACTS = ("create", "first command", "second command")
PLAIN_QEMU = "plain QEMU, emulated, boot and off"

WORKTREE = "git worktree add"
BWRAP = "bwrap true"
SANDLOCK = "sandlock, true from a running process"
SANDLOCK_COLD = "sandlock, true from a cold interpreter"
SRT = "srt true"
PODMAN = "podman run true"
PODMAN_EXEC = "podman exec true"
ONE = "new NAME -- true"
ONE_ALONE = "new NAME -- true, nothing of Cloche running"
ONE_AHEAD = "new NAME -- true, base one commit ahead"
LIVE = "create and first command"
LIVE_5 = "create and first command, 5,000 files"
LIVE_50 = "create and first command, 50,000 files"
LIVE_AHEAD = "create and first command, base one commit ahead"
FIRST_50 = "create and first command, first box of 50,000 files"
WORKTREE_50 = "git worktree add, 50,000 files"
PROBED, PROBED_BEFORE = "probe, all of it", "probe, kept answer"
BESIDE = "a workbench beside all live boxes"
KEY = "key press to paint, all boxes live"
LISTED = "listing with 40 processes in each box"
DRAWN = "a write inside until the workbench draws it"
WATCHING = "a workbench that watches while nothing changes"
OPENED, PAGED, FAR = "open the diff", "a page on", "to the end, or back"
SELECTED, SEARCHED = "select all of it", "search all of it"
DECIDED, DECIDED_ALL = "accept a hunk", "accept everything"
HELD, HELD_ALL = "memory that the diff takes", "memory once all was selected and searched"
GIT_DIFF, DELTA = "git diff of the same", "delta on the same"
DIRECT, RELAYED, SPLICED = "throughput, direct", "throughput, relay", "throughput, splice(2)"
FIRST_DIRECT, FIRST_RELAYED = "connect to first byte, direct", "connect to first byte, relay"
ADDED = "what the relay adds to the first byte"

_ACT_TEXTS = ("`Engine.create`", "`Engine.run` of `true`, which starts the keeper", "the same once more")


def of_tier(tier: str, act: str) -> str:
    """The name of a row of the tiers."""
    return f"{tier}: {act}"


def _of_tiers() -> Iterator[Row]:
    beside = {"container": ("", PODMAN, PODMAN_EXEC), EMULATED: ("", PLAIN_QEMU, "")}
    for tier in TIERS_MEASURED:
        for act, text, other in zip(ACTS, _ACT_TEXTS, beside.get(tier, ("", "", "")), strict=True):
            # A kept guest must make one more command cheap, also where its processor is emulated.
            aim = 500 if (tier, act) == (EMULATED, ACTS[2]) else None
            yield Row(of_tier(tier, act), TIERS, text, other, aim=aim)


ROWS = (
    Row("new, first box of a base", MAKE, "`cloche new` of a base that no box had; one sample", WORKTREE),
    Row("new", MAKE, "`cloche new NAME` of a known base", WORKTREE),
    Row("new, then run true", MAKE, "`cloche new NAME`, then `cloche run NAME -- true`", WORKTREE),
    Row(ONE, MAKE, "one command line that makes a box and runs `true` in it", WORKTREE, aim=150),
    Row(ONE_ALONE, MAKE, "the same with no process of Cloche's left from earlier commands", WORKTREE),
    Row(ONE_AHEAD, MAKE, "the same of a base that no box had, one commit after a known one", WORKTREE),
    Row(WORKTREE, MAKE, "`git worktree add` of the same commit: a checkout, no boundary"),
    Row(LIVE, ENGINE, "`Engine.create` and `Engine.run` of `true`, in one process", WORKTREE, aim=60),
    Row(LIVE_AHEAD, ENGINE, "the same of a base one commit after a known one", WORKTREE, aim=200),
    Row(LIVE_5, ENGINE, "the same in a generated repository of 5,000 files"),
    Row(LIVE_50, ENGINE, "the same in a generated repository of 50,000 files", LIVE_5, aim_ratio=1.2),
    Row(FIRST_50, ENGINE, "the same for the first box of that base; one sample", WORKTREE_50),
    Row(WORKTREE_50, ENGINE, "`git worktree add` of the same 50,000 files"),
    Row("run true, first command", COMMANDS, "`cloche run BOX -- true` that starts the keeper", BWRAP),
    Row("run true", COMMANDS, "`cloche run BOX -- true`, box live, end to end", BWRAP, aim=70),
    Row("true from a running engine", COMMANDS, "`Engine.run` of `true`, box live", BWRAP, aim_ratio=1.5),
    Row(
        "true over an open connection",
        COMMANDS,
        "a keeper client's `run` of `true` until its exit event",
        BWRAP,
        aim_ratio=1.5,
    ),
    Row(
        BWRAP,
        PEERS,
        "`bwrap --unshare-all` with the host read-only: no limits, record or proofs",
        "exec true",
    ),
    Row(SANDLOCK, PEERS, "`Sandbox.run` where it is imported already", BWRAP),
    Row(SANDLOCK_COLD, PEERS, "Python's start, the import and `Sandbox.run`", BWRAP),
    Row(SRT, PEERS, "`srt true` with no network and no writable folder", BWRAP),
    Row(PODMAN, PEERS, "a container of a minimal image without network, made and removed", BWRAP),
    Row(PODMAN_EXEC, PEERS, "a second command in such a container that runs", BWRAP),
    Row("exec true", PEERS, "posix_spawn(3) and waitpid(2) of `true`: no boundary"),
    *_of_tiers(),
    Row(PLAIN_QEMU, TIERS, "QEMU with the same kernel and a first process that turns the machine off"),
    Row("ls", LOOK, "`cloche ls` with a few boxes", "python -c pass"),
    Row(PROBED, LOOK, "`cloche probe --fresh`: each claim of each tier tried in real boxes", "ls", aim=3000),
    Row(PROBED_BEFORE, LOOK, "`cloche probe` while nothing changed that its answer depends on", "ls"),
    Row("python -c pass", LOOK, "the interpreter's own start"),
    Row(
        "first paint of the workbench",
        LOOK,
        "from its start until a box's name is drawn",
        "import textual.app",
    ),
    Row("import textual.app", LOOK, "what any program on this toolkit begins with"),
    Row("rm", END, "`cloche rm --force` of a box whose keeper lingers", "git worktree remove"),
    Row("remove from a running engine", END, "`Engine.remove` of the same", "git worktree remove", aim=50),
    Row("git worktree remove", END, "`git worktree remove --force`"),
    Row("journal record", RECORD, "one record appended, chained, under the lock", "append of as many bytes"),
    Row("append of as many bytes", RECORD, "open(2), write(2), close(2)"),
    Row("journal record, on disk", RECORD, "the same with fsync(2)", "append with fsync"),
    Row("append with fsync", RECORD, "open(2), write(2), fsync(2), close(2)"),
    Row(
        "disk of a new box", SIZE, "blocks allocated below its folder right after `new`", unit="KiB", aim=1024
    ),
    Row("disk of a box that ran true", SIZE, "the same after its first command", unit="KiB"),
    Row("memory of its keeper", SIZE, "PSS of the only live box's keeper", unit="MiB", aim=25),
    Row("memory of its init", SIZE, "PSS of the box's first process", unit="MiB", aim=4),
    Row("memory of the zygote", SIZE, "PSS of what keepers are forked from, one for each user", unit="MiB"),
    Row("a keeper among many", SCALE, "PSS of each keeper with all boxes live", unit="MiB", aim=25),
    Row("an init among many", SCALE, "PSS of each box's first process", unit="MiB", aim=4),
    Row("all keepers and inits", SCALE, "their PSS together, without payload", unit="MiB", aim=1536),
    Row("idle boxes", SCALE, "processor time of all keepers and inits in 3 s with nothing to do", unit="%"),
    Row("ls with all boxes live", SCALE, "`cloche ls`", "ls"),
    Row("listing with all boxes live", SCALE, "`Engine.boxes`", aim=30),
    Row("create and first command, all boxes live", SCALE, "as above, beside live boxes", LIVE),
    Row("remove, all boxes live", SCALE, "`Engine.remove` of one more", "remove from a running engine"),
    Row(
        BESIDE,
        SCALE,
        "processor time of a workbench that shows them, each with 40 processes",
        unit="%",
        aim=15,
    ),
    Row(KEY, SCALE, "from a key press in that workbench until the frame has moved", aim_p99=50),
    Row(LISTED, SCALE, "`Engine.boxes` of these boxes with all their processes", aim=30),
    Row(DRAWN, DIFF, "the end of the write in the box until the new line is drawn, 5,000 files", aim=150),
    Row(WATCHING, DIFF, "processor time of the workbench in 5 s with its Changes open", unit="%"),
    Row(
        OPENED,
        REVIEW,
        "from the patch in memory to a drawn screen of 160x50, with the search for misleading characters",
        GIT_DIFF,
        aim=100,
    ),
    Row(PAGED, REVIEW, "one page down, lexed and drawn; 30 a second are 33 ms each", aim=33),
    Row(FAR, REVIEW, "from the first line to the last, drawn, or the other way"),
    Row(SELECTED, REVIEW, "a range over all lines, drawn", GIT_DIFF),
    Row(SEARCHED, REVIEW, "every row that holds a word is found, and the first drawn"),
    Row(DECIDED, REVIEW, "one hunk accepted or opened again: kept on disk, then drawn", aim=50),
    Row(DECIDED_ALL, REVIEW, "all lines of all files accepted: kept on disk, then drawn"),
    Row(
        HELD,
        REVIEW,
        "growth in PSS of a process that holds patch and rows, paged through",
        unit="MiB",
        aim=20,
    ),
    Row(HELD_ALL, REVIEW, "the same after a range over all lines and a search", unit="MiB", aim=20),
    Row(GIT_DIFF, REVIEW, "`git diff`, the whole command, its output thrown away"),
    Row(DELTA, REVIEW, "`delta` given that patch, its output thrown away", GIT_DIFF),
    Row(DIRECT, RELAY, "bytes a second between two processes over loopback", unit="MB/s"),
    Row(RELAYED, RELAY, "the same through the relay", DIRECT, "MB/s", least_ratio=0.6),
    Row(SPLICED, RELAY, "the same through a relay that does nothing but splice(2)", DIRECT, "MB/s"),
    Row(FIRST_DIRECT, RELAY, "connect(2), a TLS hello, and one byte back"),
    Row(FIRST_RELAYED, RELAY, "the same through the relay, which reads the name in the hello", FIRST_DIRECT),
    Row(ADDED, RELAY, "the difference of the two, round by round", aim=2),
)

MORE_IS_BETTER = frozenset({"MB/s"})  # units of rates
NAMES = frozenset(row.name for row in ROWS)
