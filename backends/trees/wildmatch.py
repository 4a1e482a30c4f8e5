"""Git's path patterns (``wildmatch`` of Git's wildmatch.c, with ``WM_PATHNAME``), in time linear in the name.

Patterns are hostile. Git's own matcher, and a plain translation into a regular expression, try every way to
share a name out between stars, which takes time that grows with each star. No star needs a second try: what
stands between two stars has a fixed length, so its first occurrence leaves the most for what follows. The
expressions made here say so with atomic groups, and ``**`` is matched likewise, component by component.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

Test = Callable[[bytes], object]

_CLASSES: dict[bytes, Callable[[bytes], bool]] = {
    b"alnum": bytes.isalnum,
    b"alpha": bytes.isalpha,
    b"blank": lambda one: one in b" \t",
    b"cntrl": lambda one: one < b" " or one == b"\x7f",
    b"digit": bytes.isdigit,
    b"graph": lambda one: b"!" <= one <= b"~",
    b"lower": bytes.islower,
    b"print": lambda one: b" " <= one <= b"~",
    b"punct": lambda one: b"!" <= one <= b"~" and not one.isalnum(),
    b"space": bytes.isspace,
    b"upper": bytes.isupper,
    b"xdigit": lambda one: one in b"0123456789abcdefABCDEF",
}
_EVERY = tuple(bytes([value]) for value in range(256))
_SLASH, _STAR, _STARS, _ANY = "slash", "star", "stars", "any"

Token = str | bytes | frozenset[bytes]


class Pattern(NamedTuple):
    """A pattern over path components: runs of tests, between which ``**`` stands."""

    runs: tuple[tuple[Test, ...], ...]

    def matches(self, parts: Sequence[bytes]) -> bool:
        """Whether a path, as its components, matches whole."""
        head, *rest = self.runs
        if not rest:
            return len(parts) == len(head) and _stands(head, parts, 0)
        if len(parts) < sum(map(len, self.runs)) or not _stands(head, parts, 0):
            return False
        at = len(head)
        for run in rest[:-1]:
            while not _stands(run, parts, at):
                at += 1
                if at + len(run) > len(parts):
                    return False
            at += len(run)
        tail = rest[-1]
        if not tail:  # "a/**" is what lies in a, not a itself
            return at < len(parts)
        return len(parts) - len(tail) >= at and _stands(tail, parts, len(parts) - len(tail))


def _stands(run: Sequence[Test], parts: Sequence[bytes], at: int) -> bool:
    return at + len(run) <= len(parts) and all(
        test(part) for test, part in zip(run, parts[at : at + len(run)], strict=True)
    )


def whole(pattern: bytes) -> Pattern:
    """The pattern over the components of a path. ``ValueError`` for one that can match nothing."""
    components: list[list[Token]] = [[]]
    for token in _tokens(pattern):
        if token == _SLASH:
            components.append([])
        else:
            components[-1].append(token)
    runs: list[list[Test]] = [[]]
    for component in components:
        if component == [_STARS]:
            runs.append([])
        else:
            runs[-1].append(_test(component))
    return Pattern(tuple(map(tuple, runs)))


def component(pattern: bytes) -> Test:
    """A test of one component by a pattern without a slash. ``ValueError`` for one that can match nothing."""
    return _test(_tokens(pattern))


def _test(tokens: Sequence[Token]) -> Test:
    chunks: list[list[bytes | frozenset[bytes]]] = [[]]
    for token in tokens:
        if token in (_STAR, _STARS):
            chunks.append([])
        elif isinstance(token, str):
            chunks[-1].append(frozenset(_EVERY))
        else:
            chunks[-1].append(token)
    literal = [b"".join(chunk) for chunk in chunks if all(isinstance(one, bytes) for one in chunk)]  # type: ignore[arg-type]
    if len(literal) == len(chunks):
        if len(chunks) == 1:
            return literal[0].__eq__
        if len(chunks) == 2 and not literal[0]:
            suffix = literal[1]
            return lambda name: name.endswith(suffix)
    head, *middle = (b"".join(map(_expression, chunk)) for chunk in chunks)
    text = head
    if middle:
        text += b"".join(b"(?>.*?%b)" % chunk for chunk in middle[:-1] if chunk) + b".*" + middle[-1]
    return re.compile(text + rb"\Z", re.DOTALL).match


def _expression(token: bytes | frozenset[bytes]) -> bytes:
    if isinstance(token, bytes):
        return re.escape(token)
    if len(token) == len(_EVERY):
        return b"."
    if not token:
        return b"(?!)"
    return b"[%b]" % b"".join(b"\\x%02x" % one[0] for one in sorted(token))


def _tokens(pattern: bytes) -> list[Token]:
    out: list[Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"\\":
            if at == len(pattern):
                raise ValueError("it ends in a backslash")
            char = pattern[at : at + 1]
            at += 1
            out.append(_SLASH if char == b"/" else char)
        elif char == b"/":
            out.append(_SLASH)
        elif char == b"?":
            out.append(_ANY)
        elif char == b"*":
            end = at
            while pattern[end : end + 1] == b"*":
                end += 1
            out.append(_STARS if end > at else _STAR)
            at = end
        elif char == b"[":
            found, at = _bracket(pattern, at)
            out.append(found)
        else:
            out.append(char)
    return out


def _bracket(pattern: bytes, at: int) -> tuple[frozenset[bytes], int]:
    """The bytes that a bracket expression takes, and where it ends; ``at`` is behind its ``[``."""
    negated = pattern[at : at + 1] in (b"!", b"^") and pattern[at : at + 1] != b""
    at += negated
    held: set[bytes] = set()
    before = b""
    first = True
    while True:
        char = pattern[at : at + 1]
        if not char:
            raise ValueError("a bracket is not closed")
        if char == b"]" and not first:
            break
        first = False
        at += 1
        if char == b"[" and pattern[at : at + 1] == b":":
            end = pattern.find(b"]", at + 1)
            if end < 0:
                raise ValueError("a bracket is not closed")
            if end > at + 1 and pattern[end - 1 : end] == b":":
                name = pattern[at + 1 : end - 1]
                if name not in _CLASSES:
                    raise ValueError("there is no such class of characters")
                held.update(one for one in _EVERY if _CLASSES[name](one))
                before, at = b"", end + 1
                continue
        elif char == b"-" and before and pattern[at : at + 1] not in (b"", b"]"):
            char, at = _escaped(pattern, at)
            held.update(bytes([value]) for value in range(before[0], char[0] + 1))
            before = b""
            continue
        elif char == b"\\":
            char, at = _escaped(pattern, at - 1)
        held.add(char)
        before = char
    return frozenset(_EVERY) - held if negated else frozenset(held), at + 1


def _escaped(pattern: bytes, at: int) -> tuple[bytes, int]:
    if pattern[at : at + 1] == b"\\":
        at += 1
    char = pattern[at : at + 1]
    if not char:
        raise ValueError("a bracket is not closed")
    return char, at + 1
