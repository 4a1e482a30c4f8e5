"""One commit as a mail that ``git am`` reads (git-format-patch(1), git-mailinfo(1), RFC 5322 and 2047).

Two forms: the plain one, which people can read as it is, and a quoted-printable one that also carries what
the plain one would lose: carriage returns, lines that begin a mail, a message that begins like a header.
Pure.
"""

from __future__ import annotations

import base64
import datetime
import re

from backends.gate.commits.values import Commit

MAGIC = b"Mon Sep 17 00:00:00 2001"  # the date by which mbox readers know a patch from mail
LONGEST_NAME = 52  # bytes of the subject in a file's name, as git-format-patch(1) has it
_WORD = 45  # bytes of text in one encoded word: 60 digits and 12 more, of at most 75
_DAYS = (b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun")
_MONTHS = (
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"
)  # fmt: skip
_ATOM = re.compile(rb"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ \x80-\xff-]*")
_LITERAL = re.compile(rb"[!-<>-~]")
_LINE = 72


def file_name(number: int, commit: Commit) -> str:
    """``0001-subject.patch``; of the subject only what is harmless in any shell and on any file system."""
    slug = re.sub(rb"[^A-Za-z0-9_.]+", b"-", commit.subject)[:LONGEST_NAME].strip(b"-.").decode("ascii")
    return f"{number:04d}-{re.sub('[.]{2,}', '.', slug) or 'commit'}.patch"


def compose(commit: Commit, patch: bytes, number: int, total: int, *, armoured: bool) -> bytes:
    """The mail. ``armoured``: in the form that carries more."""
    subject, _, body = commit.message.partition(b"\n")
    body = body.lstrip(b"\n") if body.startswith(b"\n") else body
    sender = _address(commit.author.name, commit.author.email)
    text = (body + b"\n" if body and not body.endswith(b"\n") else body) + b"---\n\n" + patch
    if armoured:
        # After one header in the body and an empty line nothing else in it is taken for a header.
        text = b"From: " + sender + b"\n\n" + text
    head = [
        b"From %s %s" % (commit.id.encode(), MAGIC),
        b"From: " + sender,
        b"Date: " + date(commit.author.seconds, commit.author.zone),
        b"Subject: [PATCH %d/%d] " % (number, total) + _words(subject),
        b"MIME-Version: 1.0",
        b"Content-Type: text/plain; charset=UTF-8",
        b"Content-Transfer-Encoding: " + (b"quoted-printable" if armoured else b"8bit"),
    ]
    return b"\n".join(head) + b"\n\n" + (quoted_printable(text) if armoured else text)


def date(seconds: int, zone: bytes) -> bytes:
    """A time as a mail has it, "" for one that no mail can have."""
    ahead = (int(zone[1:3]) * 60 + int(zone[3:5])) * (-60 if zone.startswith(b"-") else 60)
    try:
        at = datetime.datetime.fromtimestamp(seconds + ahead, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return b""
    clock = at.strftime("%H:%M:%S").encode()
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return b"%s, %d %s %d %s %s" % (day, at.day, month, at.year, clock, zone)


def _address(name: bytes, email: bytes) -> bytes:
    if not _ATOM.fullmatch(name):
        # git-mailinfo(1) takes quotes and comments away after it decoded words: they go inside the words.
        name = b'"' + name.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return _words(name) + b" <" + email + b">"


def _words(text: bytes) -> bytes:
    """Text of a header; what is not plain ASCII as encoded words, none of which parts a character."""
    if text.isascii() and b"=?" not in text:
        return text
    words: list[bytes] = []
    at = 0
    while at < len(text):
        end = min(at + _WORD, len(text))
        while end < len(text) and end > at + 1 and text[end] & 0xC0 == 0x80:
            end -= 1
        words.append(b"=?UTF-8?B?" + base64.b64encode(text[at:end]) + b"?=")
        at = end
    return b"\n ".join(words)


def quoted_printable(text: bytes) -> bytes:
    """RFC 2045, 6.7: every byte comes back, and no line begins with "From "."""
    out: list[bytes] = []
    for line in text.split(b"\n"):
        room = bytearray()
        for at, byte in enumerate(line):
            one = line[at : at + 1]
            blank = byte in b" \t" and at + 1 < len(line)
            plain = (blank or _LITERAL.fullmatch(one)) and not (at == 0 and byte == 0x46)
            room += one if plain else b"=%02X" % byte
            if len(room) - (room.rfind(b"\n") + 1) >= _LINE and at + 1 < len(line):
                room += b"=\n"
        out.append(bytes(room))
    return b"\n".join(out)
