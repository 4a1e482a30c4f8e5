"""The few values of the person's Git configuration that apply needs, read as text and checked.

Git itself runs without that configuration (:mod:`backends.trees.git`): a box at the ``workspace`` tier can
write the source repository's, and much of it names programs. What is taken over here can name none.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from backends.trees.git import Git
from backends.trees.values import Source

_BOOLEAN = re.compile(r"(?i:true|false|yes|no|on|off|0|1|)\Z")
# git-config(1). How files of the work tree are compared and written, and who commits.
KEYS: Mapping[str, re.Pattern[str]] = {
    "user.name": re.compile(r"[^\0\n<>]+\Z"),
    "user.email": re.compile(r"[^\0\n<>]+\Z"),
    "core.filemode": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "core.ignorecase": _BOOLEAN,
    "core.trustctime": _BOOLEAN,
    "core.checkstat": re.compile(r"(?i:default|minimal)\Z"),
    "core.autocrlf": re.compile(r"(?i:true|false|input|yes|no|on|off|0|1)\Z"),
    "core.eol": re.compile(r"(?i:lf|crlf|native)\Z"),
    "core.sharedrepository": re.compile(r"(?i:group|all|world|everybody|umask|true|false|0[0-7]{3}|0|1|2)\Z"),
}


def read(source: Source) -> dict[str, str]:
    """The effective value of each of ``KEYS`` that the person set, lower-case names; others are absent."""
    home = os.environ.get("HOME", "")
    user = os.environ.get("XDG_CONFIG_HOME", "") or f"{home}/.config"
    files = (
        Path("/etc/gitconfig"),
        Path(user) / "git" / "config",
        Path(home) / ".gitconfig",
        Path(source.common_dir) / "config",
        Path(source.git_dir) / "config.worktree",
    )
    git = Git(Path(source.git_dir), variables={"HOME": home} if home else {})
    pattern = "^(" + "|".join(key.replace(".", "\\.") for key in KEYS) + ")$"
    found: dict[str, str] = {}
    for file in files:
        if file.is_absolute() and file.is_file():
            text = git.run("config", "--file", file, "--includes", "-z", "--get-regexp", pattern, check=False)
            for item in os.fsdecode(text).split("\0"):
                key, _, value = item.partition("\n")
                if key.lower() in KEYS and KEYS[key.lower()].match(value):
                    found[key.lower()] = value
    return found


def identity(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that tell Git who commits (git(1), "Git Commits"): the person's, else login and host."""
    login = pwd.getpwuid(os.geteuid())
    name = os.environ.get("GIT_COMMITTER_NAME") or settings.get("user.name")
    email = os.environ.get("GIT_COMMITTER_EMAIL") or settings.get("user.email")
    name = name or login.pw_gecos.split(",")[0].strip() or login.pw_name
    email = email or f"{login.pw_name}@{socket.gethostname()}"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }
