"""A snapshot: what a box's tree holds now, as a tree object in the quarantine.

The caller freezes the box for as long as this takes where it can; the reader is safe without, but a tree
that changes under it may show a state that never was as a whole. The box's own lock files are never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError, Refused
from backends.kernel import modes
from backends.snapshots import DiffStat
from backends.trees import findings, layers, quarantine
from backends.trees.git import Output, failure
from backends.trees.values import Finding, Limits, TreeSnapshot

FDS = ("tree", "listing", "rules", "tracked", "cache", "records", "stream", "report")
WALKER = Path(__file__).with_name("walker.py")
IMPORT = ("-c", "core.compression=1", "fast-import", "--quiet", "--done", "--force", "--depth=0")
GRACE = 5.0  # seconds beyond the walker's own limit, before it is killed
UNCONFINED_READER = (
    "the tree was read by a process that nothing confined: this host's kernel lacks Landlock or seccomp"
)


def snapshot(
    paths: BoxPaths,
    base_tree: str,
    *,
    lower: str = "",
    limits: Limits | None = None,
    confine: bool = True,
    apart: str = "",
) -> TreeSnapshot:
    """Read the tree of a box and return it as a tree object of its quarantine, compared with ``base_tree``.

    ``lower`` is the tree over which an overlay lays the box's changes, where that is not ``base_tree``.
    ``apart`` names what lies at the top and is left out unless ``base_tree`` has it, as an ignored file is.
    What stands out in the tree, and in the box's own repository (:mod:`backends.trees.findings`), is told.

    ``Refused`` when a limit is met or the tree cannot be read whole, naming the path. ``confine=False``
    reads also where the kernel has neither Landlock nor seccomp, for the tier that confines nothing.
    """
    limits = limits or Limits()
    with quarantine.locked(paths):
        read_over = lower if lower and layers.used(paths) else base_tree
        tree, report = _read(paths, read_over, base_tree, limits, confine, apart)
    found = [Finding(kind, _path(path), words) for kind, path, words in report["findings"]]
    if not report["confined"]:
        found.append(Finding("reader", b".", UNCONFINED_READER))
    return TreeSnapshot(
        tree=tree,
        stat=stat(paths, base_tree, tree),
        skipped=tuple((_path(path), why) for path, why in report["skipped"]),
        findings=(*found, *findings.find(paths)),
        ignored=report["ignored"],
        ignored_names=tuple(_path(path) for path in report["ignored_names"]),
        unlisted=report["unlisted"],
        read=report["read"],
        confined=report["confined"],
    )


def stat(paths: BoxPaths, base_tree: str, tree: str) -> DiffStat:
    """Files, added and deleted lines between two trees of a quarantine; binary files count as files."""
    if base_tree == tree:
        return DiffStat(0, 0, 0)
    from backends.trees.diff import changes

    rows = changes(quarantine.git(paths), base_tree, tree)
    return DiffStat(len(rows), sum(row.added or 0 for row in rows), sum(row.deleted or 0 for row in rows))


def listing(paths: BoxPaths, tree: str) -> Path:
    """A file with ``git ls-tree -r -z`` of ``tree``, made once for one tree."""
    layer = layers.find(tree) if layers.used(paths) else None
    if layer is not None:
        return layer.listing
    kept = paths.quarantine / f"listing-{tree}"
    if not kept.exists():
        fresh = paths.quarantine / f"listing-{tree}.{os.getpid()}"
        with open(fresh, "wb") as file:
            quarantine.git(paths).run("ls-tree", "-r", "-z", "--full-tree", tree, stdout=file.fileno())
        fresh.rename(kept)
    return kept


def rules(paths: BoxPaths, tree: str) -> Path:
    """The ``.gitignore`` files of ``tree`` in one, as :func:`backends.trees.layering.rules` gives them."""
    layer = layers.find(tree)
    if layer is not None:
        return layer.rules
    kept = paths.quarantine / f"rules-{tree}"
    if not kept.exists():
        fresh = paths.quarantine / f"rules-{tree}.{os.getpid()}"
        from backends.trees import layering

        fresh.write_bytes(layering.rules(quarantine.git(paths), listing(paths, tree).read_bytes()))
        fresh.rename(kept)
    return kept


def _path(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read(
    paths: BoxPaths, base_tree: str, tracked: str, limits: Limits, confine: bool, apart: str
) -> tuple[str, dict[str, Any]]:
    """The tree's id and the walker's report. What is in the tree ``tracked`` is carried, ignored or not."""
    cache = paths.quarantine / quarantine.STAT_CACHE
    fresh = paths.quarantine / quarantine.STAT_CACHE_NEW
    with contextlib.ExitStack() as stack:

        def opened(path: Path, flags: int) -> int:
            fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, fd)
            return fd

        layered = bool(layers.used(paths))
        place = paths.upper if layered else paths.tree
        try:
            modes.open_up(os.fspath(place))  # the box may have closed it, and with it its own work
            tree = opened(place, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ClocheError(
                f"the files of {paths.name} cannot be read",
                f"{place}: {error.strerror}",
                f"look at what is there, or remove the box: cloche rm {paths.name}",
                code="no-tree",
            ) from error
        job: dict[str, Any] = {
            "tree": tree,
            "listing": opened(listing(paths, base_tree), os.O_RDONLY),
            "rules": opened(rules(paths, base_tree), os.O_RDONLY) if layered else None,
            "tracked": opened(listing(paths, tracked), os.O_RDONLY) if tracked != base_tree else None,
            "cache": opened(cache, os.O_RDONLY) if cache.exists() else None,
            "records": opened(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            "base_tree": base_tree,
            "hash": "sha256" if len(base_tree) == 64 else "sha1",
            "limits": limits._asdict(),
            "confine": confine,
            "apart": apart,
            "mapped": paths.mapped.exists(),
        }
        try:
            report, answer = _run(paths, job, limits.seconds + GRACE)
            if "stop" in report:
                raise _refused(paths, *report["stop"])
        except BaseException:
            quarantine.sweep(paths)
            raise
    fresh.rename(cache)
    if not report["changes"]:
        return base_tree, report
    # "040000 SP tree SP id HT LF", see "ls" in git-fast-import(1)
    return answer.split(b"\t", 1)[0].split(b" ")[2].decode("ascii"), report


def _run(paths: BoxPaths, job: dict[str, Any], seconds: float) -> tuple[dict[str, Any], bytes]:
    """Run the walker into ``git fast-import``; the report of the one and the answer of the other."""
    import subprocess

    stream_read, stream_write = os.pipe2(os.O_CLOEXEC)
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    try:
        importer = quarantine.git(paths).start(*IMPORT, stdin=stream_read)
    except BaseException:
        for fd in (stream_read, stream_write, report_read, report_write):
            os.close(fd)
        raise
    os.close(stream_read)
    with importer:
        job |= {"stream": stream_write, "report": report_write}
        fds = [job[key] for key in FDS]
        try:
            walker = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(WALKER), json.dumps(job), _import_path()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=walker_environment(),
                cwd="/",
                pass_fds=[fd for fd in fds if fd is not None],
            )
        finally:
            os.close(stream_write)
            os.close(report_write)
        try:
            with walker:
                try:
                    text = _until_end(report_read, seconds)
                    _, complaint = walker.communicate(timeout=GRACE)
                except subprocess.TimeoutExpired:
                    raise _refused(
                        paths, "too-slow", "", f"reading did not end within {seconds:.0f} seconds"
                    ) from None
                finally:
                    walker.kill()
            if not text:
                if b"BrokenPipeError" in complaint:  # the import ended first
                    answer, complaint = importer.communicate(timeout=GRACE)
                    raise failure(("fast-import",), Output(importer.returncode, answer, complaint))
                raise _died(paths, walker.returncode, complaint)
            report: dict[str, Any] = json.loads(text)
            answer, complaint = importer.communicate(timeout=seconds)
        finally:
            importer.kill()
            os.close(report_read)
    if importer.returncode != 0 and "stop" not in report:
        # The record may name blobs that the quarantine lost: the next snapshot reads everything again.
        (paths.quarantine / quarantine.STAT_CACHE).unlink(missing_ok=True)
        raise failure(("fast-import",), Output(importer.returncode, answer, complaint))
    return report, answer


def _until_end(fd: int, seconds: float) -> bytes:
    """All that is written to a pipe; ``TimeoutExpired`` when it stays open for longer than ``seconds``."""
    import select
    import subprocess
    import time

    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    while True:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise subprocess.TimeoutExpired("walker", seconds)
        part = os.read(fd, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def walker_environment() -> dict[str, str]:
    """The whole environment of the walker."""
    return {"LC_ALL": "C"}


def _import_path() -> str:
    """Where the walker, which starts isolated, finds this project."""
    return str(Path(__file__).parents[2])


NEXT_STEPS = {
    "file-too-large": "remove the file in the box, or ignore it with .gitignore",
    "tree-too-large": "remove what is not part of the change, or ignore it with .gitignore",
    "too-many-entries": "remove what is not part of the change, or ignore it with .gitignore",
    "too-deep": "remove the folder in the box",
    "path-too-long": "remove the folder in the box",
    "tree-changed": "stop what writes in the box, then run the command again",
    "unconfined": "boot with Landlock (lsm=landlock,...) and a kernel that has seccomp: cloche probe",
}


def _refused(paths: BoxPaths, code: str, path: str, why: str) -> Refused:
    where = f"{path}: " if path else ""
    return Refused(
        f"the files of {paths.name} cannot be taken",
        where + why,
        NEXT_STEPS.get(code, "look at what the box writes: cloche ps; then run the command again"),
        code=code,
    )


def _died(paths: BoxPaths, status: int, complaint: bytes) -> ClocheError:
    import signal

    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return _refused(paths, "too-slow", "", "the process that reads it used up its time")
    said = os.fsdecode(complaint).strip().splitlines()
    return ClocheError(
        f"the files of {paths.name} cannot be read",
        f"the process that reads them ended with status {status}: {said[-1] if said else 'no word'}",
        "cloche doctor",
        code="walker-died",
    )
