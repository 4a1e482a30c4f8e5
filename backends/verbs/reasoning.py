"""Which tier a box would get, and why: weighed for the profile of a request, with what this host proved."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from backends.boxes.place import locate
from backends.policy.resolve import resolve
from backends.snapshots_choice import Reasoning
from backends.snapshots_host import HostReport
from backends.tiers import choosing
from backends.verbs.values import NewBox


def reason(request: NewBox, cwd: Path) -> Reasoning:
    """Every tier beside the policy that ``request`` asks for; the tier that it names counts for nothing.

    ``UsageError`` for a profile that is not there or written wrongly. What a base that is not checked out
    states in a ``cloche.toml`` of its own can only narrow, and is read when the box is made.
    """
    foreign = bool(request.clone)
    place = None if foreign or request.empty else locate(cwd)
    resolved = resolve(
        request.profile or None,
        repository=Path(place.work_tree) if place and place.work_tree else None,
        trusted=not foreign,
        tier="auto",
        overrides={"image": request.image} if request.image else {},
        protected=(Path(place.common_dir),) if place else (),
    )
    report = _report()
    return choosing.weigh(resolved.policy, report.verdict, age=report.age)


def proved() -> choosing.Verdict:
    """What this host proved of each tier, asked for when it is first needed: kept answers where they still
    hold, otherwise run now."""

    @cache
    def once() -> HostReport:
        return _report()

    return lambda name: once().verdict(name)


def _report() -> HostReport:
    from backends.verbs import host

    return host.report()
