"""A triage bundle: what a host and its boxes say of themselves, as one JSON file, without what is private.

Written for a stranger: secrets are replaced as in the journal, the person's home, name and host name by
words, and no file of any box is in it. Read as if by an enemy: bounded, and every value's type is checked;
whoever shows it escapes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import pwd
import re
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import load
from backends.errors import ClocheError, Refused
from backends.evidence import journal
from backends.evidence.redact import MARK, is_secret_name, redact_argv, redact_text
from backends.policy import canonical
from backends.snapshots import Finding
from backends.snapshots_doctor import Triage
from backends.snapshots_host import HostReport

SCHEMA = "cloche.triage/1"
TAIL = 200  # records of each journal
MOST_BOXES = 64
LARGEST = 8 << 20  # bytes of a bundle
MOST_ROWS = 10_000
LONGEST = 4096  # characters of one text
_MARGIN = 1024

Clean = Callable[[Any], Any]


def made(boxes: list[BoxPaths], report: HostReport, findings: tuple[Finding, ...]) -> bytes:
    """The bundle's bytes, never more than can be read back: long journals are then told by fewer records."""
    clean = cleaner()
    value = {
        "schema": SCHEMA,
        "made": time.time(),
        "versions": versions(),
        "facts": [[fact.id, fact.text, fact.value] for fact in report.facts],
        "proofs": [proof._asdict() for proof in report.proofs],
        "findings": [row._asdict() for row in findings[:MOST_ROWS]],
    }
    for tail in (TAIL, TAIL // 10, 1, 0):
        told = value | {"boxes": [_box(paths, tail) for paths in boxes[:MOST_BOXES]]}
        data = json.dumps(clean(told), ensure_ascii=True, indent=1, sort_keys=True).encode() + b"\n"
        if len(data) <= LARGEST:
            break
    return data


def versions() -> dict[str, str]:
    """What the bundle's host runs."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "kernel": os.uname().release, "machine": os.uname().machine}
    with contextlib.suppress(PackageNotFoundError):
        found["cloche"] = version("cloche")
    found["system"] = sys.platform
    return found


def _box(paths: BoxPaths, tail: int) -> dict[str, Any]:
    said: dict[str, Any] = {"key": paths.key}
    try:
        said["manifest"] = load(paths)._asdict()
        policy = canonical.decode(paths.policy.read_bytes())
        names = dict.fromkeys((name for name, _ in policy.env.set), MARK)
        said["policy"] = json.loads(canonical.encode(policy)) | {
            "env": {"passed": policy.env.passed, "set": names}
        }
    except (ClocheError, OSError) as error:
        said["unreadable"] = str(error)
    try:
        said["journal"] = [record._asdict() for record in deque(journal.read(paths.journal), tail)]
    except (ClocheError, OSError) as error:
        said["journal_unreadable"] = str(error)
    return said


def cleaner() -> Clean:
    """What takes private things out of any value: secrets, the person's home and name, the host's name."""
    words: list[tuple[str, str]] = [(str(Path.home()), "~")]
    with contextlib.suppress(KeyError):
        entry = pwd.getpwuid(os.getuid())
        words += [(entry.pw_dir, "~"), (entry.pw_name, "[user]")]
    words.append((os.uname().nodename, "[host]"))
    replaced = [
        (re.compile(rf"(?<![\w-]){re.escape(old)}(?![\w-])"), new)
        for old, new in words
        if len(old) > 1 and old != "root"
    ]

    def text(value: str) -> str:
        # Cut once before, so that it takes no long, and once after: half a secret is not known for one.
        value = redact_text(value[: LONGEST + _MARGIN])[:LONGEST]
        for pattern, new in replaced:
            value = pattern.sub(new, value)
        return value.encode("utf-8", "backslashreplace").decode()

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            return {
                text(str(key)): MARK
                if one and isinstance(one, str) and is_secret_name(str(key))
                else clean(one)
                for key, one in value.items()
            }
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(one, str) for one in value):
                return [text(one) for one in redact_argv(list(value))]
            return [clean(one) for one in value]
        return value

    return clean


def read(data: bytes) -> Triage:
    """The bundle in ``data``. ``Refused`` for anything that :func:`made` does not write."""
    if len(data) > LARGEST:
        raise _refused(f"it has more than {LARGEST >> 20} MiB")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(f"it is not JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise _refused(f"it does not say that it is {SCHEMA}")
    try:
        return Triage(
            float(value["made"]),
            {_text(key): _text(one) for key, one in _rows(_table(value["versions"]).items())},
            tuple((_text(i), _text(name), _text(seen)) for i, name, seen in _rows(value["facts"])),
            tuple(_table(row) for row in _rows(value["proofs"])),
            tuple(_finding(row) for row in _rows(value["findings"])),
            tuple(_table(row) for row in _rows(value["boxes"])),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _refused(f"a member has another form: {str(error)[:200]}") from error


def _finding(row: object) -> Finding:
    table = _table(row)
    found = Finding(*(_text(table[name]) for name in Finding._fields))
    if found.verdict not in ("ok", "note", "warn", "fail"):
        raise ValueError("a verdict is none")
    return found._replace(fix="")  # nothing of another host is repaired here


def _rows(value: Any) -> list[Any]:
    rows = list(value) if not isinstance(value, str) else [None] * (MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise ValueError("a list is too long, or none")
    return rows


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object is none")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return value[:LONGEST]


def _refused(why: str) -> Refused:
    return Refused("this is no triage bundle", why, "make one: cloche doctor --bundle FILE", code="bundle")
