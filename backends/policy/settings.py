"""The keys of the user's ``config.toml`` that are not about boxes."""

from __future__ import annotations

from typing import NamedTuple

from backends.policy.files import ProfileFile, user_file


class Settings(NamedTuple):
    """How the user wants the workbench and exports. Empty texts and pairs leave the default."""

    profile: str  # of a box made without --profile
    theme: str
    keymap: tuple[tuple[str, str], ...]  # id of an action, the key that runs it
    sign: str = ""  # file of the key that signs receipts
    signers: str = ""  # file of allowed signers


def settings(file: ProfileFile | None = None) -> Settings:
    """The settings of ``file``, by default of the user's own. UsageError if the file is malformed."""
    file = user_file() if file is None else file
    stated = file.settings if file is not None else ()
    texts = {one.path: str(one.value) for one in stated if not one.name}
    keymap = tuple(sorted((one.name, str(one.value)) for one in stated if one.path == "keymap"))
    profile, theme, sign, signers = (texts.get(key, "") for key in ("profile", "theme", "sign", "signers"))
    return Settings(profile, theme, keymap, sign, signers)
