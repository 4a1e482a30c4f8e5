"""``cloche policy check``: is a file valid, and what would each of its profiles become on this host?"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from backends.boxes.layout import config_dir
from backends.errors import ClocheError, UsageError
from backends.policy import files
from backends.policy.canonical import digest, encode
from backends.policy.danger import PolicyWarning
from backends.policy.resolve import merge_files


class ProfileCheck(NamedTuple):
    """One profile of a checked file. ``problem`` is None when it resolves; then ``digest`` is set."""

    name: str
    where: str
    digest: str
    warnings: tuple[PolicyWarning, ...]
    problem: ClocheError | None


def check_file(path: Path) -> tuple[ProfileCheck, ...]:
    """Every profile that the file at ``path`` states, resolved with it in its place.

    The user's own configuration is checked as such; any other file as a repository's trusted ``cloche.toml``.
    UsageError if the file is missing or malformed; what is wrong with one profile is in its ``problem``.
    """
    user_path = config_dir() / files.USER_FILE
    own = list(files.built_in().values())
    is_user = path.absolute() == user_path.absolute()
    if not is_user and (user := files.user_file()) is not None:
        own.append(user)
    checked = files.read(path, "user" if is_user else "repository")
    if checked is None:
        raise UsageError(
            f"{path} cannot be checked", "there is no such file", "name an existing file", code="no-file"
        )
    own.append(checked)
    return tuple(_check(text, own, path.absolute().parent) for text in checked.profiles.values())


def _check(text: files.ProfileText, own: list[files.ProfileFile], folder: Path) -> ProfileCheck:
    try:
        resolved = merge_files(text.name, own, [], repository=folder)
    except ClocheError as problem:
        return ProfileCheck(text.name, text.where, "", (), problem)
    return ProfileCheck(text.name, text.where, digest(encode(resolved.policy)), resolved.warnings, None)
