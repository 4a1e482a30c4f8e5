"""``cloche policy explain``: each value of a policy with the place that stated it.

The sources are kept beside the policy as JSON, outside the digest: one policy may be stated in many ways.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from backends.errors import Refused
from backends.policy import schema, values
from backends.policy.model import Policy
from backends.record import NamedTuple

NOT_RECORDED = "not recorded"
NOTHING = "(nothing)"


class ExplainRow(NamedTuple):
    """One value in a person's words, and where it was stated: "file:line", or a default."""

    key: str
    value: str
    source: str


def explain(policy: Policy, sources: Mapping[str, str]) -> tuple[ExplainRow, ...]:
    """Every value of ``policy`` in the order of the schema, lists and tables one row for each element."""
    rows = [ExplainRow("profile", policy.profile, sources.get("profile", NOT_RECORDED))]
    for key in schema.KEYS:
        value = value_of(policy, key.path)
        if key.is_list:
            rows += [
                ExplainRow(key.path, one, sources.get(f"{key.path}[{one}]", NOT_RECORDED))
                for one in _texts(value)
            ]
        elif key.kind == "table":
            rows += [
                ExplainRow(f"{key.path}.{name}", text, sources.get(f"{key.path}.{name}", NOT_RECORDED))
                for name, text in _pairs(value)
            ]
        else:
            rows.append(ExplainRow(key.path, values.show(key, value), sources.get(key.path, NOT_RECORDED)))
        if (key.is_list or key.kind == "table") and not value:
            rows.append(ExplainRow(key.path, NOTHING, sources.get(key.path, "nobody stated one")))
    return tuple(rows)


def value_of(policy: Policy, path: str) -> object:
    """The resolved value of a schema key: ``env.pass`` is ``policy.env.passed``, the rest by its own name."""
    value: object = policy
    for part in path.split("."):
        value = getattr(value, "passed" if path == "env.pass" and part == "pass" else part)
    return value


def encode_sources(sources: Mapping[str, str]) -> bytes:
    """The text of the file that is kept beside ``policy.json``."""
    return json.dumps(sources, sort_keys=True, indent=1).encode("ascii") + b"\n"


def decode_sources(data: bytes) -> dict[str, str]:
    """What ``encode_sources`` wrote. Refused for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _broken(str(error)) from error
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _broken("it is not an object of texts")
    return value


def _broken(why: str) -> Refused:
    return Refused(
        "the origin of the policy's values cannot be read",
        f"sources.json: {why}",
        "the policy itself is not affected: cloche policy show",
        code="sources-broken",
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, tuple) else ()


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(value) if isinstance(value, tuple) else ()
