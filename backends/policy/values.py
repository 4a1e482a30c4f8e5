"""What a person writes for one value ("2G", "30m", "none") and what it stands for.

Every parser returns the resolved value or raises ValueError with a sentence that completes "KEY: ...". A
destination that cannot be enforced raises BadRule, which also says what to write instead.
"""

from __future__ import annotations

import re

from backends.policy.model import OWN_VARIABLES
from backends.policy.schema import Key

SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
TIME_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
UNLIMITED = "none"
LARGEST = (1 << 63) - 1  # what the kernel's limits can hold

_SIZE = re.compile(r"([0-9]{1,19})([KMGT]?)(?:iB|B)?")
_DURATION = re.compile(r"(?:([0-9]{1,15})d)?(?:([0-9]{1,15})h)?(?:([0-9]{1,15})m)?(?:([0-9]{1,15})s)?")
_FILENAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.][A-Za-z0-9_.+-]{0,99}")
_GIT_NAME = re.compile(r"\.git(ignore|attributes|modules)?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def size(raw: object) -> int:
    """Bytes from a whole number or from text such as "2G" (units of 1024)."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return _positive(raw)
    match = _SIZE.fullmatch(raw.strip()) if isinstance(raw, str) else None
    if match is None:
        raise ValueError(f'{raw!r} is not a size: write "512M", "2G" or a number of bytes')
    return _positive(int(match[1]) * SIZE_UNITS[match[2]])


def duration(raw: object) -> int:
    """Seconds from a whole number or from text such as "30m" or "1h30m"."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return _positive(raw)
    text = raw.strip() if isinstance(raw, str) else ""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return _positive(int(text))
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f'{raw!r} is not a duration: write "90s", "30m", "1h30m" or a number of seconds')
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return _positive(days * 86400 + hours * 3600 + minutes * 60 + seconds)


def count(raw: object) -> int:
    """A whole number from 1 up."""
    if isinstance(raw, str) and raw.strip().isascii() and raw.strip().isdigit() and len(raw.strip()) < 19:
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise ValueError(f"{raw!r} is not a whole number")
    return _positive(raw)


def flag(raw: object) -> bool:
    """true or false; the words, too, for values that come from a command line."""
    if isinstance(raw, bool):
        return raw
    if raw in ("true", "false"):
        return raw == "true"
    raise ValueError(f"{raw!r} is neither true nor false")


def filename(raw: object) -> str:
    """The name of a file without any folder, which neither Git nor a shell takes for anything else."""
    if not isinstance(raw, str) or not _FILENAME.fullmatch(raw) or _GIT_NAME.fullmatch(raw):
        raise ValueError(
            f"{raw!r} is no name for a file at the top of the tree: up to 100 letters, digits, and any of "
            "._+- but no folder, and no name that Git reads"
        )
    return raw


def scalar(key: Key, raw: object) -> object:
    """The value of a key that is neither a list nor a table."""
    if key.unlimited and raw == UNLIMITED:
        return None
    if key.kind == "choice":
        if not isinstance(raw, str) or raw not in key.choices:
            raise ValueError(f"{raw!r} is not one of {', '.join(key.choices)}")
        return raw
    if key.kind == "text":
        if not isinstance(raw, str) or not raw.isprintable():
            raise ValueError(f"{raw!r} is not a text of one line")
        return raw
    if key.kind == "filename":
        return filename(raw)
    parse = {"size": size, "duration": duration, "count": count, "flag": flag}[key.kind]
    return parse(raw)


def entry(key: Key, raw: object) -> str:
    """One element of a list, with its "!" where it takes an inherited entry away. Paths stay as written."""
    if not isinstance(raw, str) or not raw.removeprefix("!"):
        raise ValueError(f"{raw!r} is not a text")
    if "\0" in raw or "\n" in raw:
        raise ValueError(f"{raw!r} contains a line break or a NUL")
    mark, text = ("!", raw[1:]) if raw.startswith("!") else ("", raw)
    if key.kind == "paths" or raw == "!*":
        return raw
    if key.kind == "hosts":
        from backends.egress import rules  # most policies list no destination

        return mark + rules.parse(text).text
    name = text.removesuffix("*") if key.path == "env.pass" else text
    if name and not _VARIABLE.fullmatch(name):
        raise ValueError(f"{text!r} is not a name: letters, digits and _")
    if text in OWN_VARIABLES and key.path == "env.pass":
        raise ValueError(f"{text} is the box's own and cannot be passed in")
    return raw


def pair(key: Key, name: str, raw: object) -> str:
    """The text of one name in a table."""
    if not isinstance(raw, str) or "\0" in raw:
        raise ValueError(f"{raw!r} is not a text")
    if key.path == "env.set":
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a variable: letters, digits and _")
        if name in OWN_VARIABLES:
            raise ValueError(f"{name} is the box's own and cannot be set")
    return raw


def _positive(number: int) -> int:
    if not 1 <= number <= LARGEST:
        raise ValueError(f"{number} is out of range: from 1 to 2^63-1")
    return number


def show(key: Key, value: object) -> str:
    """A resolved scalar in the words that a person would write for it."""
    if value is None:
        return UNLIMITED
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and key.kind == "size":
        return show_size(value)
    if isinstance(value, int) and key.kind == "duration":
        return show_duration(value)
    return str(value)


def show_size(value: int) -> str:
    """Bytes in the largest unit that divides them: 4294967296 is "4G"."""
    for unit in ("T", "G", "M", "K"):
        if value and value % SIZE_UNITS[unit] == 0:
            return f"{value // SIZE_UNITS[unit]}{unit}"
    return str(value)


def show_duration(value: int) -> str:
    """Seconds as days, hours, minutes, seconds: 5400 is "1h30m"."""
    text = ""
    for unit in ("d", "h", "m", "s"):
        amount, value = divmod(value, TIME_UNITS[unit])
        text += f"{amount}{unit}" if amount else ""
    return text or "0s"
