"""Commit objects that came out of a box, read strictly (git-commit-tree(1), Documentation of fsck). Pure.

Git itself reads leniently: it takes unknown headers, a NUL that hides the rest of a message, signatures that
a later ``git log --show-signature`` hands to another program. A commit with any of these is not taken.
"""

from __future__ import annotations

import re

from backends.gate.commits.values import LARGEST_COMMIT, Commit, Identity, Unfit
from backends.gate.wording import OWN

_OID = rb"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_HEADERS = re.compile(
    rb"tree (?P<tree>" + _OID + rb")\n"
    rb"(?P<parents>(?:parent " + _OID + rb"\n)*)"
    rb"author (?P<author>[^\n]*)\n"
    rb"committer (?P<committer>[^\n]*)\n"
    rb"(?:encoding (?P<encoding>[^\n]*)\n)?"
    rb"(?P<more>(?:[^\n]+\n)*)"
    rb"\n"
)
_IDENTITY = re.compile(rb"(?P<name>[^<>]*?) ?<(?P<email>[^<>]*)> (?P<time>\d{1,15}) (?P<zone>[+-]\d{4})")
_ENCODING = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")
_LATEST = 1 << 40  # seconds; far beyond any clock, and below what a date formatter overflows at


def parse(oid: str, data: bytes) -> Commit:
    """Read one commit object. ``Unfit`` for anything but tree, parents, author, committer and encoding."""
    short = oid[:12]
    if len(data) > LARGEST_COMMIT:
        raise Unfit(f"commit {short} is {len(data)} bytes large")
    if b"\0" in data:
        raise Unfit(f"commit {short} holds a NUL, which hides what follows it")
    match = _HEADERS.match(data)
    if match is None:
        raise Unfit(f"commit {short} is not as Git writes one")
    more = match["more"]
    if more:
        name = more.split(b" ", 1)[0].split(b"\n", 1)[0][:30].decode("ascii", "backslashreplace")
        why = "is signed, by a key that nobody here vouches for" if name.startswith("gpgsig") else ""
        raise Unfit(f"commit {short} {why or f'has the header {name}'}")
    encoding = match["encoding"]
    if encoding is not None and not _ENCODING.fullmatch(encoding):
        raise Unfit(f"commit {short} names no encoding that can be")
    parents = tuple(line[7:].decode("ascii") for line in match["parents"].splitlines())
    if len(set(parents)) != len(parents):
        raise Unfit(f"commit {short} names a parent twice")
    made = Commit(
        oid,
        match["tree"].decode("ascii"),
        parents,
        _identity(short, "author", match["author"]),
        _identity(short, "committer", match["committer"]),
        "" if encoding is None else encoding.decode("ascii"),
        data[match.end() :],
    )
    for text in readings(made):
        forged = OWN.search(text)
        if forged:
            raise Unfit(f"commit {short} has a line {forged[1]}: only the gate writes such")
    return made


def readings(commit: Commit) -> tuple[str, ...]:
    """What a person may read where Git shows the message and who made it: as it is, and, since ``git log``
    decodes it, in the encoding that it names. ``Unfit`` where it is not of that encoding."""
    parts = (commit.message, commit.author.name, commit.author.email, commit.committer.name,
             commit.committer.email)  # fmt: skip
    data = b"\n".join(parts)
    plain = data.decode("utf-8", "surrogateescape")
    if not commit.encoding:
        return (plain,)
    try:
        return (plain, data.decode(commit.encoding))
    except (LookupError, UnicodeError):
        raise Unfit(f"commit {commit.id[:12]} cannot be read in the encoding that it names") from None


def _identity(short: str, role: str, text: bytes) -> Identity:
    match = _IDENTITY.fullmatch(text)
    if match is None or int(match["time"]) > _LATEST:
        raise Unfit(f"commit {short} has no {role} as Git writes one")
    if any(byte < 32 or byte == 127 for byte in match["name"] + match["email"]):
        raise Unfit(f"commit {short} has a control character in its {role}")
    return Identity(match["name"], match["email"], int(match["time"]), match["zone"])
