"""The head of a request to an HTTP proxy: where it wants to go, and what of it may go on.

Pure and incremental. Two forms are known: ``CONNECT host:port``, and an absolute ``http:`` target. Nothing is
said before the empty line. What two readers might take for two different things is wrong and not guessed:
several Host fields, folded or bare lines, a Host that is not the target, two lengths, user information,
numbers that stand for addresses, fields that a Connection field would take away from under the next reader.

A plain request goes on as its server expects it (RFC 9112, section 3.2.1): with the path alone, with the Host
of the target, without the fields that are between client and proxy, and with ``Connection: close``, because
the next request of the client may be for another server.

Sources: RFC 9112 (sections 2.2, 3.2, 5, 6, 9.6), RFC 9110 (sections 7.1, 7.2, 7.6.1, 9.3.6), RFC 3986 (3.2).
"""

from __future__ import annotations

import re

from backends.egress import addresses, spoken
from backends.egress.spoken import NEED, Need
from backends.record import NamedTuple

LIMIT = spoken.LIMIT  # bytes of a head
_END = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_METHOD = re.compile(_TOKEN + rb"{1,64}")
_REQUEST = re.compile(rb"(" + _TOKEN + rb"{1,64}) ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"(" + _TOKEN + rb"+):([\t\x20-\x7e\x80-\xff]*)")
_AUTHORITY = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#%\\]+)(?::(\d{1,5}))?")
_ABSOLUTE = re.compile(rb"(?i:http)://([^/?#]*)(/[^#?]*)?(\?[^#]*)?")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
_HTTP_PORT = 80
# Between two neighbours only (RFC 9110, section 7.6.1), and what is said to a proxy alone.
_HOP = frozenset(
    (
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"te",
        b"upgrade",
        b"proxy-authorization",
        b"proxy-authenticate",
        b"http2-settings",
    )
)
# What a Connection field must not name: the next reader would find another message, or another host.
_NEEDED = frozenset((b"host", b"content-length", b"transfer-encoding", b"trailer"))


class Target(NamedTuple):
    """Where a request wants to go.

    ``host``: a folded name, or an address without brackets. ``head``: of a plain request what its server is
    to be sent; b"" of CONNECT.
    """

    host: str
    port: int
    tunnel: bool  # CONNECT
    head: bytes = b""

    @property
    def is_address(self) -> bool:
        return addresses.packed(self.host) is not None


class Wrong(NamedTuple):
    """What is no request that a proxy takes: the status to answer with, and why, a phrase to show. Final."""

    status: int
    reason: str


Result = Need | Target | Wrong


class _Bad(Exception):
    """Carries a ``Wrong`` out of this module's functions; it never leaves this module."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.wrong = Wrong(status, reason)


class ProxyHead:
    """Reads one head from the first bytes of a connection. ``rest``: what came after it."""

    __slots__ = ("_head", "_result", "rest")

    def __init__(self) -> None:
        self._head = bytearray()
        self._result: Result = NEED
        self.rest = b""

    @property
    def begun(self) -> bool:
        """Whether anything was said at all."""
        return bool(self._head) or self._result is not NEED

    def feed(self, data: bytes) -> Result:
        """The next bytes. After Target or Wrong the answer stays what it is."""
        if self._result is not NEED:
            return self._result
        searched = max(0, len(self._head) - len(_END) + 1)
        self._head += data
        end = self._head.find(_END, searched, LIMIT)
        if end >= 0:
            self.rest = bytes(self._head[end + len(_END) :])
            try:
                self._result = _target(bytes(self._head[:end]))
            except _Bad as bad:
                self._result = bad.wrong
        elif not _may_begin(bytes(self._head[:65])):
            self._result = Wrong(400, "it begins with no HTTP request")
        elif len(self._head) >= LIMIT:
            self._result = Wrong(431, f"no whole HTTP head in the first {LIMIT} bytes")
        if self._result is not NEED:
            self._head.clear()
        return self._result


def _may_begin(start: bytes) -> bool:
    """Whether the first bytes can still be a method: a TLS hello need not be waited out."""
    method, space, _ = start.partition(b" ")
    return not start or (_METHOD.fullmatch(method) is not None and (bool(space) or len(start) < 65))


def _target(head: bytes) -> Target:
    first, *lines = head.split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise _Bad("it begins with no HTTP/1 request")
    method, target, minor = request.groups()
    fields = [_field(line) for line in lines]
    hosts = [value for name, value in fields if name == b"host"]
    if len(hosts) > 1:
        raise _Bad("it has several Host headers")
    if method == b"CONNECT":
        return _tunnel(target, fields, hosts)
    return _plain(method, target, minor, fields, hosts)


def _field(line: bytes) -> tuple[bytes, bytes]:
    if line[:1] in (b" ", b"\t"):
        raise _Bad("a header is folded")
    field = _FIELD.fullmatch(line)
    if field is None:
        raise _Bad("a header is malformed")
    return field[1].lower(), field[2].strip(b" \t")


def _authority(raw: bytes, default: int | None) -> tuple[str, int]:
    """Host and port as they are compared. ``default``: the port where none stands, None when one must."""
    match = _AUTHORITY.fullmatch(raw)
    host = spoken.host(match[1]) if match else ""
    if match is None or not host:
        raise _Bad("the target is no host")
    if match[2] is None:
        if default is None:
            raise _Bad("the target has no port")
        return host, default
    port = int(match[2])
    if not 0 < port < 65536 or match[2][:1] == b"0":
        raise _Bad("the target's port is none")
    return host, port


def _tunnel(target: bytes, fields: list[tuple[bytes, bytes]], hosts: list[bytes]) -> Target:
    host, port = _authority(target, None)
    # Older clients say no Host beside CONNECT, and some say it without the port.
    if hosts and _authority(hosts[0], port) != (host, port):
        raise _Bad("its Host header is not its target")
    for name, value in fields:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            raise _Bad("CONNECT has no body")
    return Target(host, port, True)


def _plain(
    method: bytes, target: bytes, minor: bytes, fields: list[tuple[bytes, bytes]], hosts: list[bytes]
) -> Target:
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        scheme = _SCHEME.match(target)
        if scheme is not None and scheme[0].lower() != b"http://":
            raise _Bad("a proxy is asked for http: targets, and by CONNECT for all others")
        raise _Bad("this is a proxy: it is asked for whole http: targets, or by CONNECT")
    host, port = _authority(absolute[1], _HTTP_PORT)
    if not hosts and minor == b"1":
        raise _Bad("it has no Host header")
    if hosts and _authority(hosts[0], _HTTP_PORT) != (host, port):
        raise _Bad("its Host header is not its target")
    gone = _HOP | _named(fields)
    _check_length(fields, minor)
    path = (absolute[2] or b"/") + (absolute[3] or b"")
    if method == b"OPTIONS" and not absolute[2] and not absolute[3]:
        path = b"*"  # RFC 9112, section 3.2.4
    shown = f"[{host}]" if ":" in host else host
    where = shown.encode() + (b"" if port == _HTTP_PORT else b":%d" % port)
    out = [b"%s %s HTTP/1.%s" % (method, path, minor), b"Host: " + where]
    out += [name + b": " + value for name, value in fields if name != b"host" and name not in gone]
    out.append(b"Connection: close")
    return Target(host, port, False, b"\r\n".join(out) + _END)


def _named(fields: list[tuple[bytes, bytes]]) -> set[bytes]:
    """The fields that the Connection field names, which end here."""
    found = {
        token.strip(b" \t").lower()
        for name, value in fields
        if name == b"connection"
        for token in value.split(b",")
    }
    if found & _NEEDED:
        raise _Bad("its Connection header names what the server needs")
    return found


def _check_length(fields: list[tuple[bytes, bytes]], minor: bytes) -> None:
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value.lower() for name, value in fields if name == b"transfer-encoding"]
    doubtful = codings and (codings != [b"chunked"] or lengths or minor == b"0")
    if doubtful or len(lengths) > 1 or (lengths and not re.fullmatch(rb"[0-9]{1,18}", lengths[0])):
        raise _Bad("a body whose length two readers may take for two")
