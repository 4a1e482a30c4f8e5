"""Where a box lies on disk: ``$XDG_STATE_HOME/cloche/<repository key>/<box>/``.

Every other module asks here for a path, so that the layout is in one place.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from backends.digest import sha256
from backends.errors import Refused
from backends.record import NamedTuple


class BoxPaths(NamedTuple):
    """The files and folders of one box; ``root`` is 0700 and belongs to the user who made the box."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def repository_key(self) -> str:
        return self.root.parent.name

    @property
    def key(self) -> str:
        return f"{self.root.parent.name}/{self.root.name}"

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def policy(self) -> Path:
        """The resolved policy as canonical JSON; its SHA-256 is the digest."""
        return self.root / "policy.json"

    @property
    def sources(self) -> Path:
        """Which file and line stated each value of the policy; outside the digest."""
        return self.root / "sources.json"

    @property
    def origin(self) -> Path:
        """The bare repository of a detached box: what was cloned, or one empty commit."""
        return self.root / "origin.git"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def review(self) -> Path:
        """What a reviewer decided of the proposal (``backends.gate.decisions``)."""
        return self.root / "review.json"

    @property
    def review_lock(self) -> Path:
        """Held with flock(2) while the review is written."""
        return self.root / "review.lock"

    @property
    def receipts(self) -> Path:
        return self.root / "receipts"

    @property
    def tree(self) -> Path:
        """The working files, hostile once the box ran. ``.git`` in it is an inert, empty folder.

        Of a box of provider ``overlay`` an empty folder: its files are whole only inside.
        """
        return self.root / "tree"

    @property
    def upper(self) -> Path:
        """What a box of provider ``overlay`` changed, hostile as ``tree`` is."""
        return self.root / "upper"

    @property
    def written(self) -> Path:
        """Where the box's changes to its files lie: ``upper``, or ``tree`` where that holds all files."""
        return self.upper if self.layers.exists() else self.tree

    @property
    def mapped(self) -> Path:
        """There from the first launch in a virtual machine on (:mod:`backends.trees.mapped`)."""
        return self.root / "mapped"

    @property
    def work(self) -> Path:
        """The kernel's scratch beside ``upper``, on the same file system."""
        return self.root / "work"

    @property
    def layers(self) -> Path:
        """Which shared layers lie below ``upper``; absent where the provider is ``checkout``."""
        return self.root / "layers.json"

    @property
    def repo(self) -> Path:
        """The box's private git directory, mounted as ``.git`` only inside."""
        return self.root / "repo"

    @property
    def repo_work(self) -> Path:
        """The kernel's scratch beside ``repo``, where ``repo`` holds changes over a shared folder.

        That folder has the index of the base. Absent where the repository has an index of its own.
        """
        return self.root / "repo-work"

    @property
    def quarantine(self) -> Path:
        """The host-owned bare repository that snapshots are read into."""
        return self.root / "git"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def mount(self) -> Path:
        """An empty folder: the mount point on which a launch builds the box's root."""
        return self.root / "mount"

    @property
    def lock(self) -> Path:
        """Held with flock(2) by the live keeper, or by a verb that changes an idle box."""
        return self.root / "lock"

    @property
    def live(self) -> Path:
        """Written by the keeper: its own and init's pid and start time, socket path, proofs, enforcement."""
        return self.root / "live.json"

    @property
    def keeper_log(self) -> Path:
        return self.root / "keeper.log"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"


def state_dir() -> Path:
    """``$XDG_STATE_HOME/cloche`` (XDG Base Directory Specification), not created here."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "cloche"


def config_dir() -> Path:
    """``$XDG_CONFIG_HOME/cloche``, not created here."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".config"
    return root / "cloche"


def cache_dir() -> Path:
    """``$XDG_CACHE_HOME/cloche``: packs and checkouts that can be made again, not created here."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "cloche"


def runtime_dir() -> Path:
    """The 0700 folder of keeper sockets, made if missing.

    ``$XDG_RUNTIME_DIR/cloche``. Where no session manager made one: ``/tmp/cloche-<uid>``, or, since anybody
    may take that name first, ``.run`` below the state folder, which is kept to once it is there. Refused
    unless it is a real folder that belongs to us and nobody else can enter: whoever owns it could pose as a
    keeper.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    session = Path(base) if base.startswith("/") else None
    if session and session.is_dir():
        return _own(session / "cloche")
    private = state_dir() / ".run"
    shared = Path(f"/tmp/cloche-{os.geteuid()}")  # noqa: S108 (ownership and mode are checked)
    if not private.is_dir() and _may_be_ours(shared):
        return _own(shared)
    private.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _own(private)


def _may_be_ours(path: Path) -> bool:
    """Whether ``path`` is a folder of ours, made if nothing is there."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    except OSError:
        return False  # /tmp is full, or closed to us
    return True


def _own(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise _untrusted(path, "it is no folder", f"remove it: rm {path}") from None
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise _untrusted(path, "it is a link", f"remove it: rm {path}")
    if status.st_uid != os.geteuid():
        raise _untrusted(
            path,
            f"it belongs to user {status.st_uid}",
            "set XDG_RUNTIME_DIR to a folder of mode 0700 that belongs to you",
        )
    if status.st_mode & 0o077:
        raise _untrusted(
            path,
            f"others can enter it: its mode is {stat.S_IMODE(status.st_mode):04o}",
            f"stop your boxes and remove it: rm -r {path}",
        )
    return path


def _untrusted(path: Path, why: str, remedy: str) -> Refused:
    return Refused(f"the socket folder {path} cannot be trusted", why, remedy, code="runtime-dir")


def socket_path(paths: BoxPaths) -> Path:
    """The keeper's socket, named by a hash: a socket's path is short (see ``backends.keeper.address``)."""
    return runtime_dir() / (sha256(os.fsencode(paths.root)).hexdigest()[:20] + ".sock")


def repository_key(git_common_dir: Path) -> str:
    """The folder name for a repository's boxes: its readable name and a hash of where it lies."""
    real = git_common_dir.resolve()
    name = real.parent.name if real.name == ".git" else real.name.removesuffix(".git")
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name).strip(".-")[
        :32
    ]
    return f"{readable or 'repository'}-{sha256(os.fsencode(real)).hexdigest()[:10]}"
