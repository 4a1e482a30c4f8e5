"""Host names in the one spelling that is compared: lower case, no final dot, A-labels.

A name outside ASCII becomes its A-labels (``xn--``) by the standard library's IDNA 2003 (RFC 3490), and only
where nothing was mapped away on the way and no character is read differently by IDNA 2008 (RFC 5892, RFC 5894
section 7.2: sharp s, final sigma, joiners, other dots, fillers). For such a name both standards give the same
bytes; any other one is refused with the advice to write the A-label, which is taken as it is.
"""

from __future__ import annotations

import re

LONGEST = 253  # characters of a name (RFC 1035, section 2.3.4, without the length bytes)
LONGEST_LABEL = 63

# Underscores are no letters of host names (RFC 952) and common in DNS names all the same.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")
_HEX = re.compile(r"0x[0-9a-f]*")
_READ_DIFFERENTLY = frozenset("ß\u1e9eς\u200c\u200d\u3002\uff0e\uff61\u115f\u1160\u17b4\u17b5")
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def fold(text: str) -> str:
    """The compared spelling of the name ``text``. ValueError completes "TEXT: ...", also for an address."""
    if len(text) > LONGEST + 1:  # an A-label is never shorter than what it stands for
        raise ValueError(f"a name has at most {LONGEST} characters")
    name = text.lower() if text.isascii() else _ascii(text)
    name = name.removesuffix(".")
    if not name:
        raise ValueError("a name is missing")
    if len(name) > LONGEST:
        raise ValueError(f"a name has at most {LONGEST} characters")
    labels = name.split(".")
    for label in labels:
        if not label:
            raise ValueError("a part of the name between two dots is missing")
        if len(label) > LONGEST_LABEL:
            raise ValueError(f"a part of a name has at most {LONGEST_LABEL} characters")
        if not _LABEL.fullmatch(label):
            raise ValueError("a name is letters, digits and hyphens between dots")
    if numeric(name):
        raise ValueError("it is a number and no name: write an address as four decimal numbers")
    return name


def folded(text: str) -> str:
    """As :func:`fold`, with "" for what is no name: such a text equals no name of any rule."""
    try:
        return fold(text)
    except ValueError:
        return ""


def numeric(name: str) -> bool:
    """Whether a resolver could read ``name`` as an IPv4 address, in any of the forms of inet_aton(3).

    That is every name whose last part is a number (WHATWG URL, "ends in a number").
    """
    last = name.removesuffix(".").rpartition(".")[2]
    return last.isdigit() or _HEX.fullmatch(last) is not None


def is_loopback(name: str) -> bool:
    """Whether ``name`` always means the machine that asks (RFC 6761, section 6.3)."""
    return name in _LOOPBACK_NAMES or name.endswith(".localhost")


def _ascii(text: str) -> str:
    import unicodedata  # only for names outside ASCII: a keeper that starts need not pay for the tables
    from encodings import idna

    wanted = unicodedata.normalize("NFC", text.lower())
    # What was assigned after the old standard's Unicode 3.2, or is folded by today's, it cannot know about.
    newer = any(unicodedata.ucd_3_2_0.category(char) == "Cn" for char in wanted)
    mapped = unicodedata.normalize("NFKC", wanted).casefold() != wanted
    if newer or mapped or not _READ_DIFFERENTLY.isdisjoint(text):
        raise ValueError("two standards read this name differently: write its xn-- form")
    labels = []
    for written, label in zip(text.split("."), wanted.split("."), strict=True):
        try:
            encoded = idna.ToASCII(label) if label and not label.isascii() else label.encode("ascii")
            back = idna.ToUnicode(encoded.decode("ascii")) if encoded else ""
        except UnicodeError:
            raise ValueError("it is no name of the internet: write its xn-- form") from None
        if not written.isascii() and (label.isascii() or back != label):
            raise ValueError("two standards read this name differently: write its xn-- form")
        labels.append(encoded.decode("ascii").lower())
    return ".".join(labels)
