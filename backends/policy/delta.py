"""Carrying one change of a person's files over to the policy that a box was made with. Pure.

A box's policy is of the day when it was made; the files may say other things by now. Only what one change
makes of them is taken over, and nothing else that moved since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from backends.policy.model import Policy

_T = TypeVar("_T")


def carried(box: Policy, before: Policy, after: Policy) -> Policy:
    """``box`` with what differs between ``before`` and ``after``: entries of lists, and values of keys."""
    return box._replace(
        debug=_value(box.debug, before.debug, after.debug),
        fs=box.fs._replace(
            read=_entries(box.fs.read, before.fs.read, after.fs.read),
            write=_entries(box.fs.write, before.fs.write, after.fs.write),
            deny=_entries(box.fs.deny, before.fs.deny, after.fs.deny),
            hidden=_entries(box.fs.hidden, before.fs.hidden, after.fs.hidden),
        ),
        net=box.net._replace(
            egress=_entries(box.net.egress, before.net.egress, after.net.egress),
            unix=_value(box.net.unix, before.net.unix, after.net.unix),
        ),
        resources=box.resources._replace(
            **{
                name: _value(old, getattr(before.resources, name), getattr(after.resources, name))
                for name, old in box.resources._asdict().items()
            }
        ),
    )


def origins(
    box: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str], key: str
) -> dict[str, str]:
    """The origins that go with it: of ``key``, and of every entry that was not there before."""
    gone = set(before) - set(after)
    new = {one: where for one, where in after.items() if one not in before or one == key}
    return dict(sorted({**{one: where for one, where in box.items() if one not in gone}, **new}.items()))


def _value(box: _T, before: _T, after: _T) -> _T:
    return box if before == after else after


def _entries(box: tuple[_T, ...], before: tuple[_T, ...], after: tuple[_T, ...]) -> tuple[_T, ...]:
    gone = set(before) - set(after)
    return tuple(sorted((set(box) - gone) | (set(after) - set(before))))  # type: ignore[type-var]
