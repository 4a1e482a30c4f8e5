"""Reading ``cloche.toml``, ``config.toml`` and the built-in profiles: strict, with a line for every value.

A file becomes a :class:`ProfileFile`: for each profile its :class:`Stated` values in file order.
Nothing is merged here; see :mod:`backends.policy.resolve`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from backends.boxes.layout import config_dir
from backends.errors import BadRule, UsageError
from backends.policy import lines, prepared, schema, values
from backends.policy.stated import ProfileText as ProfileText
from backends.policy.stated import Stated as Stated
from backends.record import NamedTuple

BUILT_IN = Path(__file__).parent / "profiles"
REPOSITORY_FILE = "cloche.toml"
USER_FILE = "config.toml"
LARGEST_FILE = 1 << 20

FOLDER_KINDS = ("built-in", "user", "repository", "foreign", "command line")


class ProfileFile(NamedTuple):
    """One file that was read: ``kind`` is one of ``FOLDER_KINDS``, ``folder`` anchors its relative paths."""

    label: str
    kind: str
    folder: Path
    profiles: Mapping[str, ProfileText]
    settings: tuple[Stated, ...]  # the keys beside the profiles


_built_in: dict[str, ProfileFile] = {}


def built_in() -> dict[str, ProfileFile]:
    """The profiles that come with cloche, by name; read once."""
    if not _built_in:
        ready = prepared.load(BUILT_IN)
        for path in sorted(BUILT_IN.glob("*.toml")):
            data = path.read_bytes()
            known = ready.get(prepared.digest(data))
            _built_in[path.stem] = (
                parse_built_in(path, data)
                if known is None
                else ProfileFile(_label(path), "built-in", path.parent, known, ())
            )
    return dict(_built_in)


def parse_built_in(path: Path, data: bytes) -> ProfileFile:
    """What ``data`` says, the content of a built-in profile's file."""
    return parse(data, _label(path), "built-in", path.parent)


def _label(path: Path) -> str:
    return f"built-in profile {path.stem}"


def user_file() -> ProfileFile | None:
    """The user's own ``config.toml``, or None where there is none."""
    return read(config_dir() / USER_FILE, "user")


def repository_file(repository: Path, *, trusted: bool) -> ProfileFile | None:
    """The ``cloche.toml`` at the top of a repository's files, or None where there is none."""
    return read(repository / REPOSITORY_FILE, "repository" if trusted else "foreign")


def read(path: Path, kind: str) -> ProfileFile | None:
    """The file at ``path``, or None if there is none. UsageError if it cannot be read or is not valid."""
    # A file that came with foreign code may be a link to a secret or a pipe that never answers.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if kind == "foreign" else 0)
    try:
        descriptor = os.open(path, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(LARGEST_FILE + 1)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read",
            error.strerror or str(error),
            "make it readable, or move it away",
            code="unreadable",
        ) from error
    return parse(data, str(path), kind, path.parent)


def parse(data: bytes, label: str, kind: str, folder: Path) -> ProfileFile:
    """``data`` as a file named ``label``. UsageError names the file, the line and the key of each fault."""
    if len(data) > LARGEST_FILE:
        raise _fault(label, "it is longer than 1 MiB", "keep profiles short", "too-long")
    import tomllib

    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _fault(label, f"it is not valid TOML: {error}", "correct the file", "not-toml") from error
    return _Reader(label, kind, lines.locate(text)).file(document, folder)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name closest to a mistyped one, "" if none is near."""
    from difflib import get_close_matches

    known = sorted(known)
    # "mem" is resources.mem written in the wrong table, not a slip of "image".
    last = {one.rpartition(".")[2]: one for one in known}
    if (misplaced := last.get(name.rpartition(".")[2])) is not None:
        return misplaced
    for candidate in (name, name.replace("-", "_")):
        match = get_close_matches(candidate, known, n=1, cutoff=0.5)
        if match:
            return match[0]
    match = get_close_matches(name.rpartition(".")[2], last, n=1, cutoff=0.6)
    return last[match[0]] if match else ""


def unknown(path: str, where: str, name: str, known: Iterable[str], prefix: str = "") -> UsageError:
    """The error for a key that the schema does not have."""
    near = nearest(name, known)
    return UsageError(
        f"unknown key {prefix}{path}",
        f"{where}: no such key" + (f"; the nearest known key is {prefix}{near}" if near else ""),
        f"write {prefix}{near}, or remove the line"
        if near
        else "remove the line; docs/policy.md lists every key",
        code="unknown-key",
    )


def bad_value(path: str, where: str, why: object) -> UsageError:
    """The error for a value of the wrong type or outside its range, or for a rule that nothing enforces."""
    if isinstance(why, BadRule):
        return UsageError(f"{path}: {why.what}", f"{where}: {why.why}", why.next_step, code=why.code)
    return UsageError(
        f"{path} has a value that cannot be used",
        f"{where}: {why}",
        "correct the line; docs/policy.md gives the type of every key",
        code="bad-value",
    )


def _fault(label: str, why: str, remedy: str, code: str) -> UsageError:
    return UsageError(f"{label} cannot be used", why, remedy, code=code)


class _Reader:
    def __init__(self, label: str, kind: str, where: dict[lines.Path, int]) -> None:
        self._label, self._kind, self._lines = label, kind, where

    def _where(self, path: lines.Path) -> str:
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self._label}:{self._lines.get(path, 1)}"

    def file(self, document: dict[str, object], folder: Path) -> ProfileFile:
        profiles: dict[str, ProfileText] = {}
        settings: list[Stated] = []
        keys = {key.path: key for key in schema.FILE_KEYS if self._kind == "user" or not key.user_only}
        for name, value in document.items():
            if name == "profiles":
                for profile, body in self._table(value, ("profiles",)).items():
                    profiles[profile] = self._profile(profile, body)
            elif name in keys:
                settings.extend(self._setting(keys[name], value))
            else:
                known = {*keys, "profiles"} | {f"profiles.NAME.{path}" for path in schema.BY_PATH}
                raise unknown(name, self._where((name,)), name, known)
        return ProfileFile(self._label, self._kind, folder, profiles, tuple(settings))

    def _table(self, value: object, path: lines.Path) -> dict[str, object]:
        if not isinstance(value, dict):
            raise bad_value(_dotted(path), self._where(path), "it is a value, and a table is needed")
        return value

    def _setting(self, key: schema.FileKey, value: object) -> list[Stated]:
        where = self._where((key.path,))
        if key.kind == "text":
            if isinstance(value, dict):
                raise bad_value(
                    key.path, where, "it is a table, and a text is needed; profiles are [profiles.NAME]"
                )
            if not isinstance(value, str) or not value:
                raise bad_value(key.path, where, f"{value!r} is not a text")
            return [Stated(key.path, "", value, where)]
        found = []
        for name, one in self._table(value, (key.path,)).items():
            where = self._where((key.path, name))
            if not isinstance(one, str):
                raise bad_value(f"{key.path}.{name}", where, f"{one!r} is not a text")
            found.append(Stated(key.path, name, one, where))
        return found

    def _profile(self, name: str, body: object) -> ProfileText:
        at: lines.Path = ("profiles", name)
        if not is_profile_name(name):
            raise bad_value(
                f"profiles.{name}", self._where(at), "a profile's name is up to 64 letters, digits, - and _"
            )
        extends: Stated | None = None
        stated: list[Stated] = []
        for key, value in self._table(body, at).items():
            if key == schema.EXTENDS:
                where = self._where((*at, key))
                if not isinstance(value, str) or not is_profile_name(value):
                    raise bad_value(
                        f"profiles.{name}.extends", where, f"{value!r} is not the name of a profile"
                    )
                extends = Stated(schema.EXTENDS, "", value, where)
            elif key in schema.TABLES and key not in schema.BY_PATH:
                for inner, one in self._table(value, (*at, key)).items():
                    stated.extend(self._value(name, f"{key}.{inner}", (*at, key, inner), one))
            else:
                stated.extend(self._value(name, key, (*at, key), value))
        return ProfileText(name, self._where(at), extends, tuple(stated))

    def _value(self, profile: str, path: str, at: lines.Path, value: object) -> list[Stated]:
        # A quoted key with a dot in it is another key than the dotted one, whatever it looks like.
        key = schema.BY_PATH.get(path) if path.count(".") == len(at) - 3 else None
        full = f"profiles.{profile}.{path}"
        if key is None:
            prefix = f"profiles.{profile}."
            known = {*schema.BY_PATH, schema.EXTENDS}
            raise unknown(path, self._where(at), path, known, prefix)
        if key.is_list:
            if not isinstance(value, list):
                raise bad_value(full, self._where(at), f"{value!r} is not a list of texts")
            return [self._checked(key, full, "", one, (*at, index)) for index, one in enumerate(value)]
        if key.kind == "table":
            table = self._table(value, at)
            return [
                self._checked(key, f"{full}.{name}", name, one, (*at, name)) for name, one in table.items()
            ]
        return [self._checked(key, full, "", value, at)]

    def _checked(self, key: schema.Key, full: str, name: str, value: object, at: lines.Path) -> Stated:
        where = self._where(at)
        try:
            return Stated(key.path, name, check(key, name, value), where)
        except (ValueError, BadRule) as error:
            raise bad_value(full, where, error) from None


def check(key: schema.Key, name: str, value: object) -> object:
    """The value that ``key`` takes from what was written; ValueError or BadRule says why there is none."""
    if key.is_list:
        return values.entry(key, value)
    if key.kind == "table":
        return values.pair(key, name, value)
    return values.scalar(key, value)


def is_profile_name(name: str) -> bool:
    """True for the names that a profile may have."""
    return 0 < len(name) <= 64 and name.isascii() and name.replace("-", "a").replace("_", "a").isalnum()


def _dotted(path: lines.Path) -> str:
    return ".".join(str(part) for part in path)
