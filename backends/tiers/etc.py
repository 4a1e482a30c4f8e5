"""The ``/etc`` that a confined box gets: made here, so that accounts and names of the host stay outside."""

from __future__ import annotations

from collections.abc import Iterable

USER = "box"
UID = 1000
HOME = "/home/box"
TREE = "/work"

_NO_RESOLVER = "# This box has no network: names are looked up in /etc/hosts only.\n"
_OWN_RESOLVER = "# The box's keeper answers here, for listed names only.\nnameserver 127.0.0.1\n"


def synthesize(
    name: str,
    shell: str,
    *,
    host_network: bool,
    pinned: Iterable[tuple[str, Iterable[str]]] | None = None,
) -> dict[str, bytes]:
    """Path and content of each file. ``name`` is the box's, its host name inside.

    ``pinned``: names with their addresses, where a name server of the box's own answers; None without one.
    """
    passwd = (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"{USER}:x:{UID}:{UID}:{USER}:{HOME}:{shell}\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    group = f"root:x:0:\ntty:x:5:\n{USER}:x:{UID}:\nnogroup:x:65534:\n"
    hosts = hosts_file(name)
    resolver = _NO_RESOLVER
    lookup = "files"
    if host_network:
        hosts += _host_file("/etc/hosts")
        resolver = _host_file("/etc/resolv.conf")
        lookup = "files dns"
    elif pinned is not None:
        hosts = hosts_file(name, pinned)
        resolver = _OWN_RESOLVER
        lookup = "files dns"
    nsswitch = (
        "passwd: files\ngroup: files\nshadow: files\n"
        f"hosts: {lookup}\n"
        "networks: files\nprotocols: files\nservices: files\n"
    )
    texts = {
        "/etc/passwd": passwd,
        "/etc/group": group,
        "/etc/hosts": hosts,
        "/etc/hostname": f"{name}\n",
        "/etc/nsswitch.conf": nsswitch,
        "/etc/resolv.conf": resolver,
    }
    if pinned is not None:
        texts["/etc/host.conf"] = "multi on\n"  # or glibc takes the first address of a name only
    return {path: text.encode("utf-8", "surrogateescape") for path, text in texts.items()}


def hosts_file(name: str, pinned: Iterable[tuple[str, Iterable[str]]] = ()) -> str:
    """Loopback, the box's own ``name``, and each pinned name with its addresses (hosts(5))."""
    own = f"127.0.0.1 localhost {name}\n::1 localhost ip6-localhost ip6-loopback\n"
    return own + "".join(f"{address} {host}\n" for host, found in pinned for address in found)


def _host_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return ""
