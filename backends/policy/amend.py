"""One change of a ``cloche.toml``, with every comment, blank and order of the person's own text kept.

Elements and values are changed in place; a table that is not there yet is added at the end. What comes out is
read back by ``tomllib`` and must say exactly what was said before plus the one change, or nothing is done.
"""

from __future__ import annotations

import copy
import difflib
import json
import tomllib
from typing import TYPE_CHECKING, Any

from backends.errors import Refused
from backends.policy import schema, values

if TYPE_CHECKING:
    from tomlkit.items import Array


def amend(text: str, profile: str, key: str, value: str) -> str:
    """``text`` with ``value`` stated for ``key`` of ``profile``: added to a list, or in place of a value.

    ``value`` is spelled as in :class:`backends.policy.remedy.Change`. Returns ``text`` itself when it says so
    already. Refused when the text is no TOML, or is written in a way that cannot be changed in place.
    """
    told = schema.BY_PATH[key]
    plain = _plain(told, value)
    path = ("profiles", profile, *key.split("."))
    before = _read(text)
    wanted = _with(before, path, plain, is_list=told.is_list)
    if wanted == before:
        return text
    after = _edited(text, path, plain, is_list=told.is_list)
    if _read(after) != wanted:
        after = _appended(text, path, plain, is_list=told.is_list)
    try:
        said = tomllib.loads(after)
    except ValueError:
        said = None
    if said != wanted:
        raise Refused(
            f"{key} cannot be changed in place",
            "the file states this profile in a way that one line cannot be added to",
            f"write it yourself: [profiles.{profile}] {key} = {_toml(plain, is_list=told.is_list)}",
            code="not-amendable",
        )
    return after


def unified(file: str, before: str | None, after: str) -> str:
    """The change as a unified diff (POSIX diff -u); ``before`` is None for a file that is not there yet."""
    if before == after:
        return ""
    lines = difflib.unified_diff(
        _lines(before or ""), _lines(after), "/dev/null" if before is None else file, file, n=3
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    # Not str.splitlines, which breaks lines also at form feeds and U+2028.
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _plain(key: schema.Key, value: str) -> object:
    """The value as TOML holds it: numbers and flags bare, all else text."""
    if key.kind == "flag":
        return values.flag(value)
    if key.kind == "count" and value != values.UNLIMITED:
        return values.count(value)
    return value


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise Refused(
            "the file cannot be changed", f"it is not valid TOML: {error}", "correct it first"
        ) from error


def _with(document: dict[str, Any], path: tuple[str, ...], value: object, *, is_list: bool) -> dict[str, Any]:
    """What the file shall say."""
    wanted = copy.deepcopy(document)
    at: Any = wanted
    for part in path[:-1]:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise Refused(
                "the file cannot be changed",
                f"{part} is a value and no table",
                "correct it first",
                code="not-a-table",
            )
    if not is_list:
        at[path[-1]] = value
    elif value not in (held := at.setdefault(path[-1], [])):
        held.append(value)
    return wanted


def _edited(text: str, path: tuple[str, ...], value: object, *, is_list: bool) -> str:
    """The text with an existing list or key changed in place, or unchanged when there is none."""
    import tomlkit
    from tomlkit.items import Array

    document = tomlkit.parse(text)
    at: Any = document
    for part in path[:-1]:
        if part not in at:
            return text
        at = at[part]
    if path[-1] in at and is_list:
        held = at[path[-1]]
        if not isinstance(held, Array):
            return text
        _append(held, value)
    else:
        at[path[-1]] = [value] if is_list else value
    edited = tomlkit.dumps(document)
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        # The library ends the lines that it adds with a line feed alone.
        edited = edited.replace("\r\n", "\n").replace("\n", "\r\n")
    return edited


def _append(held: Array, value: object) -> None:
    """One more element: on a line of its own where the others have one."""
    shown = held.as_string()
    if "\n" not in shown:
        held.append(value)
        return
    last = [line for line in shown.split("\n")[1:-1] if line.strip()]
    indent = last[-1][: len(last[-1]) - len(last[-1].lstrip())] if last else "  "
    held.add_line(value, indent=indent)


def _appended(text: str, path: tuple[str, ...], value: object, *, is_list: bool) -> str:
    """The text with a new table at its end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    header = ".".join(part if _bare(part) else json.dumps(part) for part in path[:-1])
    body = _toml(value, is_list=is_list)
    return f"{text}{gap}[{header}]{newline}{path[-1]} = {body}{newline}"


def _bare(part: str) -> bool:
    return part.isascii() and part.replace("-", "a").replace("_", "a").isalnum()


def _toml(value: object, *, is_list: bool) -> str:
    # JSON's texts, numbers and flags are TOML's too, as long as nothing beyond the BMP is escaped in pairs.
    text = json.dumps(value, ensure_ascii=False)
    return f"[{text}]" if is_list else text
