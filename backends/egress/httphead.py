"""The host that the head of an HTTP/1 request names, before anything is answered.

Pure and incremental; nothing is found before the empty line, because a second Host may stand just before it.
What two servers could read differently is Bad and not guessed. One head is read; whoever passes a connection
on must ask again for each later request, which may name another host.

Sources: RFC 9112 (sections 2.2, 3.2, 5.1, 5.2), RFC 9110 (sections 4.2, 5.6.2, 7.2), RFC 9113 (section 3.4).
"""

from __future__ import annotations

import re

from backends.egress import spoken
from backends.egress.spoken import LIMIT, NEED, Bad, Found, Result

_END = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_METHOD = re.compile(_TOKEN + rb"{1,64}")
_REQUEST = re.compile(rb"(" + _TOKEN + rb"{1,64}) ([\x21-\x7e]+) HTTP/(\d\.\d)")
_FIELD = re.compile(rb"(" + _TOKEN + rb"+):([\t\x20-\x7e\x80-\xff]*)")
_AUTHORITY = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#]+)(?::\d{0,5})?")
_ABSOLUTE = re.compile(rb"(?i:http)://([^/?#]*)[^#]*")
_PREFACE = b"PRI * HTTP/2.0\r\n"


class HttpHead:
    """Reads one request head from the first bytes of a connection."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._result: Result = NEED

    def feed(self, data: bytes) -> Result:
        """The next bytes. After Found or Bad the answer stays what it is."""
        if self._result is not NEED:
            return self._result
        searched = max(0, len(self._head) - len(_END) + 1)
        self._head += data[: LIMIT - len(self._head)]
        end = self._head.find(_END, searched)
        if end >= 0:
            self._result = _host(bytes(self._head[:end]))
        elif not _may_begin(bytes(self._head[:65])):
            self._result = Bad("it begins with no HTTP request")
        elif len(self._head) >= LIMIT:
            self._result = Bad(f"no whole HTTP head in the first {LIMIT} bytes")
        if self._result is not NEED:
            self._head.clear()
        return self._result


def _may_begin(start: bytes) -> bool:
    """Whether the first bytes can still be a method: a hello of another protocol need not be waited out."""
    method, space, _ = start.partition(b" ")
    return not start or (_METHOD.fullmatch(method) is not None and (bool(space) or len(start) < 65))


def _host(head: bytes) -> Result:
    if head.startswith(_PREFACE[:-2]):
        return Bad("HTTP/2 without TLS")
    first, *lines = head.split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        return Bad("it begins with no HTTP request")
    method, target, version = request.groups()
    if version not in (b"1.0", b"1.1"):
        return Bad(f"HTTP/{version.decode()} is not known")
    hosts: list[bytes] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            return Bad("a header of the HTTP request is folded")
        field = _FIELD.fullmatch(line)
        if field is None:
            return Bad("a header of the HTTP request is malformed")
        if field[1].lower() == b"host":
            hosts.append(field[2].strip(b" \t"))
    if len(hosts) > 1:
        return Bad("the HTTP request has several Host headers")
    return _named(method, target, hosts[0] if hosts else None)


def _named(method: bytes, target: bytes, field: bytes | None) -> Result:
    if method == b"CONNECT":
        return Bad("CONNECT asks a proxy for another host")
    said = None if field is None else _authority(field)
    if said == "":
        return Bad("the Host header is no host")
    if target[:1] != b"/" and not (target == b"*" and method == b"OPTIONS"):
        absolute = _ABSOLUTE.fullmatch(target)
        named = _authority(absolute[1]) if absolute else ""
        if not named:
            return Bad("the target of the HTTP request is malformed")
        if said is not None and said != named:
            return Bad("the HTTP request names one host in its target and another in its Host header")
        said = named
    return Found(said) if said else Bad("the HTTP request has no Host header")


def _authority(raw: bytes) -> str:
    match = _AUTHORITY.fullmatch(raw)
    return spoken.host(match[1]) if match else ""
