"""What a path inside a box can do, by the policy's grants: the rules of the mount plan as a pure function.

It judges names for the tally. It does not enforce: mounts and Landlock do, on the file that is really there.
"""

from __future__ import annotations

from backends.policy.model import Policy
from backends.record import NamedTuple

READ, WRITE, EXEC = "read", "write", "exec"

# The box's own places, whatever the policy grants.
_OWN = (b"/tmp", b"/var/tmp", b"/run", b"/var/run", b"/dev/shm", b"/dev/pts")
_DEVICES = frozenset(
    b"/dev/" + name
    for name in b"null zero full random urandom tty ptmx fd stdin stdout stderr shm pts".split()
)
# Written for the box by its tier; the host's files of these names are not shown.
_MADE = frozenset(
    b"/etc/" + name
    for name in (
        b"passwd group hosts hostname resolv.conf nsswitch.conf shells machine-id host.conf gai.conf mtab "
        b"subuid subgid"
    ).split()
)
_PROCESS = (b"self", b"thread-self")


class Verdict(NamedTuple):
    """``rule`` is the policy's word that decided, ``grant`` the entry of its list that allowed.

    ``own`` is set for places that only the box writes, ``covers`` where such a place hides one of the host's.
    """

    allowed: bool
    rule: str
    own: bool = False
    covers: bool = False
    grant: bytes = b""


class Reach:
    """Grants as sets of path prefixes. ``tree`` and ``home`` are their paths inside the box, ``person`` is
    the home folder of whoever started it.
    """

    def __init__(self, policy: Policy, tree: str, home: str, person: str) -> None:
        self.home = _bytes(home)
        self._own = {_bytes(tree), self.home, *_OWN}
        self._person = _bytes(person)
        self._write = {_bytes(path) for path in policy.fs.write}
        self._read = {_bytes(path) for path in policy.fs.read} | _MADE
        self._deny = {_bytes(path): path for path in policy.fs.deny}
        self._folders = {
            parent for path in self._own | self._write | self._read | _DEVICES for parent in _parents(path)
        }

    def judge(self, path: bytes, want: str) -> Verdict:
        """Whether ``path`` (absolute, normal) may be read, written or executed."""
        prefixes = [path, *_parents(path)]
        masked = next((self._deny[prefix] for prefix in prefixes if prefix in self._deny), None)
        if any(prefix in self._own for prefix in prefixes):
            rule = "fs.read" if masked is None else f"fs.deny = {masked}"
            return Verdict(True, rule, own=True, covers=any(prefix in _OWN for prefix in prefixes))
        if masked is not None:
            return Verdict(False, f"fs.deny = {masked}")
        grant = next((prefix for prefix in prefixes if prefix in self._write), b"")
        if grant:
            return Verdict(True, "fs.write", grant=grant)
        grant = next((prefix for prefix in prefixes if prefix in self._read), b"")
        if grant and want != WRITE:
            return Verdict(True, "fs.read", grant=grant)
        if path in _DEVICES:
            return Verdict(True, "devices")
        if path.startswith(b"/proc/"):
            of_process = path.split(b"/")[2]
            if want != WRITE or of_process in _PROCESS or of_process.isdigit():
                return Verdict(True, "proc")
            return Verdict(False, "fs.write")
        if want == WRITE:
            return Verdict(False, "fs.write")
        if path in self._folders or path == b"/proc":
            return Verdict(True, "folders")
        return Verdict(False, "fs.read")

    def masked_in_home(self, path: bytes) -> str:
        """The masked place of the person's home that ``path`` would be if the box's home were theirs; or "".

        A look for ``~/.ssh`` lands in the box's own, empty home: refused by absence.
        """
        if not path.startswith(self.home + b"/"):
            return ""
        there = self._person + path[len(self.home) :]
        for prefix in (there, *_parents(there)):
            if prefix in self._deny:
                return self._deny[prefix]
        return ""


def normal(path: bytes) -> bytes:
    """An absolute path without empty parts, ``.`` and ``..``, by its text alone."""
    parts: list[bytes] = []
    for part in path.split(b"/"):
        if part == b"..":
            if parts:
                parts.pop()
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/" + b"/".join(parts)


def _bytes(path: str) -> bytes:
    return normal(path.encode("utf-8", "surrogateescape"))


def _parents(path: bytes) -> list[bytes]:
    """Every folder above ``path``, the nearest first."""
    found = []
    while len(path) > 1:
        path = path[: path.rfind(b"/")] or b"/"
        found.append(path)
    return found
