"""A list of destinations as a proxy holds it: which way a target leads, and where programs find the proxy.

Pure. The matcher and the pins are those of tier ``supervised``; what differs is that here the box names the
host, and never an address that a name was looked up for.
"""

from __future__ import annotations

from backends.egress.matcher import Matcher
from backends.egress.pins import Pins
from backends.egress.proxyhead import Target
from backends.record import NamedTuple

PORT = 3128
ADDRESS = "127.0.0.1"


MOST_WAYS = 4  # addresses that are tried of one name


class Way(NamedTuple):
    """Where a target leads. ``addresses`` is () when it is refused, and ``reason`` says why.

    ``raw``: the connection need not say the name that it asked for. ``unknown``: a name below a wildcard
    that was not looked up yet, and may be.
    """

    addresses: tuple[str, ...]
    raw: bool
    reason: str
    unknown: bool = False


def way(matcher: Matcher, pins: Pins, target: Target) -> Way:
    """Whether the list lets ``target`` through, and to which addresses."""
    host, port = target.host, target.port
    if target.is_address:
        verdict = matcher.destination(host, port)
        return Way((host,) if verdict.allowed else (), verdict.allowed, verdict.reason)
    rules = matcher.name(host)
    fitting = [rule for rule in rules if rule.port == port]
    if not fitting:
        other = f"{host} is allowed on port {rules[0].port} only" if rules else "no rule allows it"
        return Way((), False, other)
    pin = pins.get(host)
    if pin is None or not pin.addresses:
        why = pin.error if pin is not None and pin.error else "its name was not looked up"
        return Way((), False, why, unknown=any(rule.kind == "wildcard" for rule in fitting))
    verdicts = [(one, matcher.destination(one, port, (host,), host)) for one in pin.addresses]
    found = tuple(one for one, verdict in verdicts if verdict.allowed)[:MOST_WAYS]
    reason = fitting[0].text + " allows it" if found else verdicts[0][1].reason
    return Way(found, any(rule.raw for rule in fitting), reason)


def variables(address: str = ADDRESS, port: int = PORT) -> dict[str, str]:
    """The environment that names the proxy. Loopback stays the box's own.

    curl, git, pip, apt, Go and most libraries read these variables, and Node.js when it is told to. A program
    that reads none of them reaches nothing.
    """
    where = f"http://{address}:{port}"
    own = "localhost,127.0.0.1,::1"
    return {
        "http_proxy": where,
        "https_proxy": where,
        "HTTPS_PROXY": where,
        "ALL_PROXY": where,
        "no_proxy": own,
        "NO_PROXY": own,
        "NODE_USE_ENV_PROXY": "1",
    }
