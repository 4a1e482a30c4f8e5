"""Just enough of Seatbelt's language to ask a profile what it says: of rules that match, the last decides."""

from __future__ import annotations

import re
from typing import Any

TOKEN = re.compile(r'\s+|(#?"(?:[^"\\]|\\.)*")|([()])|([^\s()"]+)')


def parse(text: str) -> list[Any]:
    """The profile's forms; strings as ``("str", value)``, words as they are. Fails on anything unbalanced."""
    stack: list[list[Any]] = [[]]
    place = 0
    while place < len(text):
        found = TOKEN.match(text, place)
        assert found, text[place : place + 40]
        place = found.end()
        string, bracket, word = found.groups()
        if string:
            stack[-1].append(("str", re.sub(r"\\(.)", r"\1", string.removeprefix("#")[1:-1])))
        elif bracket == "(":
            stack.append([])
        elif bracket == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif word:
            stack[-1].append(word)
    assert len(stack) == 1
    return stack[0]


def allows(text: str, operation: str, path: str) -> bool:
    """Whether ``operation`` on ``path`` is allowed."""
    decided = False
    for act, *rest in parse(text):
        if act not in ("allow", "deny") or rest == ["default"]:
            continue
        names = [one for one in rest if isinstance(one, str)]
        filters = [one for one in rest if isinstance(one, list)]
        if not any(_covers(name, operation) for name in names):
            continue
        if not filters or any(_matches(one, path) for one in filters):
            decided = act == "allow"
    return decided


def _covers(name: str, operation: str) -> bool:
    return operation.startswith(name[:-1]) if name.endswith("*") else operation == name


def _matches(one: list[Any], path: str) -> bool:
    kind, value = one[0], one[1]
    if kind == "literal":
        return bool(path == value[1])
    return kind == "subpath" and (path == value[1] or path.startswith(value[1] + "/"))
