"""Where a supervised box's packets may go, as its keeper holds it now, and names looked up anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError, Refused
from backends.keeper import client
from backends.keeper.client import KeeperClient
from backends.snapshots import EgressRow, Repinned
from backends.verbs import authority

REPIN_LIMIT = 60.0  # seconds for all names of the list


def rows(paths: BoxPaths) -> tuple[EgressRow, ...]:
    """See ``Engine.egress``."""
    with client.connect(paths) as keeper:
        found = _call(keeper, paths, "egress")["rows"]
    return tuple(EgressRow(rule, name, tuple(places), *rest) for rule, name, places, *rest in found)


def repin(paths: BoxPaths, who: str) -> Repinned:
    """See ``Engine.repin``."""
    authority.require_outside("egress --repin")
    with client.connect(paths) as keeper:
        found = _call(keeper, paths, "repin", timeout=REPIN_LIMIT, who=who)
    return Repinned(
        found["names"],
        tuple((one["name"], tuple(one["old"]), tuple(one["new"])) for one in found["changed"]),
        tuple((one["name"], one["why"]) for one in found["kept"]),
    )


def _call(keeper: KeeperClient, paths: BoxPaths, operation: str, **fields: Any) -> Mapping[str, Any]:
    try:
        return keeper.call(operation, **fields)
    except ClocheError as error:
        if error.code != "unknown-operation":
            raise
        raise Refused(
            f"the destinations of {paths.name} are not told",
            "its keeper was started by a version of cloche that holds no list",
            f"end it and start it again: cloche stop {paths.name}",
            code="needs-restart",
        ) from error
