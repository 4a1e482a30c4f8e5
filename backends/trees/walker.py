"""The confined process that reads a box's tree and writes what changed as a ``git fast-import`` stream.

Started by :mod:`backends.trees.snapshot` as a script, on descriptors: the tree's folder, the base's listing,
the record of the last walk, the import stream and a report. It confines itself before it reads anything of
the tree (:mod:`backends.trees.walk`); of an overlay it reads the box's changes alone
(:mod:`backends.trees.upper`).
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # isolated (-I -S): neither the project nor its libraries are on the path yet
    sys.path += sys.argv[2].split(os.pathsep)

import json
from typing import Any

from backends.trees import statcache
from backends.trees.listing import Listing
from backends.trees.mapped import MappedWalk
from backends.trees.stream import Import
from backends.trees.upper import UpperWalk, parse_rules
from backends.trees.walk import CHUNK, Stop, Walk, WholeWalk, text


def parse_listing(data: bytes) -> dict[bytes, bytes]:
    """The output of ``git ls-tree -r -z`` as path to ``mode SP type SP id``."""
    tracked: dict[bytes, bytes] = {}
    for record in data.split(b"\0")[:-1]:
        meta, _, path = record.partition(b"\t")
        tracked[path] = meta
    return tracked


def whole(fd: int) -> bytes:
    with open(fd, "rb", closefd=True) as file:
        return file.read()


def main(job: dict[str, Any]) -> int:
    """Read one tree as ``job`` says (see :func:`backends.trees.snapshot.snapshot`); 0 when it was read."""
    from backends.trees import confine

    layered = job["rules"] is not None
    tracked = {} if layered else parse_listing(whole(job["listing"]))
    base = Listing.of(job["listing"]) if layered else Listing(b"")
    compared = Listing.of(job["tracked"]) if job["tracked"] is not None else None
    rules = parse_rules(whole(job["rules"])) if layered else {}
    cache = statcache.parse(whole(job["cache"])) if job["cache"] is not None else {}
    report: dict[str, Any] = {"confined": ""}
    try:
        memory = (4 << 30) + 4 * job["limits"]["file_size"]
        report["confined"] = confine.enter(job["tree"], job["limits"]["seconds"], memory)
    except OSError as error:
        if job["confine"]:
            report["stop"] = ["unconfined", "", f"the process that reads it cannot be confined: {error}"]
            return finish(job, report)
    with open(job["stream"], "wb", buffering=CHUNK) as stream:
        walk: Walk
        if layered:
            out = Import(stream, job["hash"], base, set(), set())
            walk = UpperWalk(job["limits"], base, rules, cache, out, compared)
        else:
            out = Import.of_all(stream, job["hash"], tracked)
            walk = (MappedWalk if job["mapped"] else WholeWalk)(job["limits"], tracked, cache, out)
        walk.apart = os.fsencode(job["apart"])
        try:
            walk.root(job["tree"])
            out.commit(job["base_tree"])
            with open(job["records"], "wb") as file:
                file.write(statcache.serialise(walk.records))
        except Stop as stop:
            report["stop"] = [stop.code, text(stop.path), stop.why]
        except (MemoryError, RecursionError):
            report["stop"] = ["too-large", "", "reading it needs more memory than one reader may use"]
    report.update(
        changes=len(out.changes) + len(out.missing),
        skipped=[[text(path), why] for path, why in walk.skipped],
        findings=[[kind, text(path), words] for kind, path, words in walk.findings],
        ignored=walk.ignored,
        ignored_names=[text(path) for path in walk.ignored_names],
        unlisted=walk.unlisted,
        read=walk.read,
    )
    return finish(job, report)


def finish(job: dict[str, Any], report: dict[str, Any]) -> int:
    with open(job["report"], "wb") as file:
        file.write(json.dumps(report).encode())  # UTF-8: a codec that need not be read from disk
    return 1 if "stop" in report else 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
