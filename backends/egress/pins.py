"""Names resolved once by the host, and the addresses that this opened: what a box may reach by name.

Every address that an answer holds is judged. One that is no ordinary address of the internet is left out with
its reason unless a rule names it; all the others are pinned, because a name with four addresses is one host
with four addresses. Nothing is looked up again until somebody asks for it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from backends.egress import addresses, hostnames
from backends.record import NamedTuple

MOST_NAMES = 4096
MOST_ADDRESSES = 64  # of one name
_THREADS = 16

Lookup = Callable[..., Iterable[tuple[Any, ...]]]  # getaddrinfo(3) as socket.getaddrinfo calls it
Answer = Callable[[str], addresses.Verdict]


class Pin(NamedTuple):
    """What one name stands for since ``when`` (seconds of the epoch, by the host's clock).

    ``refused``: addresses of the answer that are not pinned, each with the reason. ``error`` is "" when the
    name was resolved, otherwise why there is no address.
    """

    name: str
    addresses: tuple[str, ...]
    when: float
    refused: tuple[tuple[str, str], ...] = ()
    error: str = ""


class Pins:
    """The pins of one box, by name and by address. At most ``MOST_NAMES`` names."""

    def __init__(self, pins: Iterable[Pin] = ()) -> None:
        self._pins: dict[str, Pin] = {}
        self._names: dict[str, set[str]] = {}
        for pin in pins:
            self.put(pin)

    def __len__(self) -> int:
        return len(self._pins)

    def __iter__(self) -> Iterator[Pin]:
        return iter(self._pins.values())

    def put(self, pin: Pin) -> bool:
        """Pins a name, in place of what it stood for. False if it is new and there is no room."""
        if pin.name not in self._pins and len(self._pins) >= MOST_NAMES:
            return False
        self.drop(pin.name)
        self._pins[pin.name] = pin
        for address in pin.addresses:
            self._names.setdefault(address, set()).add(pin.name)
        return True

    def drop(self, name: str) -> None:
        """Forgets a name, if it is pinned."""
        pin = self._pins.pop(name, None)
        for address in pin.addresses if pin else ():
            left = self._names[address]
            left.discard(name)
            if not left:
                del self._names[address]

    def get(self, name: str) -> Pin | None:
        """The pin of a name in any spelling, None if it has none."""
        return self._pins.get(hostnames.folded(name))

    def addresses(self, name: str) -> tuple[str, ...]:
        """The pinned addresses of a name in any spelling, IPv4 first."""
        pin = self.get(name)
        return pin.addresses if pin else ()

    def names(self, address: str) -> tuple[str, ...]:
        """The names that pinned an address, sorted; the address in any spelling, a mapped one as IPv4."""
        return tuple(sorted(self._names.get(spelled(address), ())))

    def by_name(self) -> Mapping[str, tuple[str, ...]]:
        """Each name with its addresses, as :meth:`backends.egress.matcher.Matcher.elements` takes them."""
        return {name: pin.addresses for name, pin in self._pins.items()}

    def as_json(self) -> list[dict[str, object]]:
        """The pins as JSON values, sorted by name, for the journal."""
        return [
            {
                "name": pin.name,
                "addresses": list(pin.addresses),
                "when": pin.when,
                "refused": [list(one) for one in pin.refused],
                "error": pin.error,
            }
            for _, pin in sorted(self._pins.items())
        ]

    @classmethod
    def from_json(cls, value: object) -> Pins:
        """What ``as_json`` gave. ValueError for anything else."""
        if not isinstance(value, list):
            raise ValueError("pins are a list")
        return cls(_pin(one) for one in value)


def _pin(value: object) -> Pin:
    if not isinstance(value, dict):
        raise ValueError("this is no pin")
    try:
        name, when, error = value["name"], value["when"], value["error"]
        found = tuple(value["addresses"])
        refused = tuple((str(address), str(reason)) for address, reason in value["refused"])
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError("this is no pin") from problem
    if not isinstance(name, str) or hostnames.folded(name) != name or not isinstance(error, str):
        raise ValueError("this is no pin")
    if not isinstance(when, (int, float)) or any(spelled(one) != one for one in found):
        raise ValueError("this is no pin")
    return Pin(name, found, float(when), refused, error)


def spelled(address: object) -> str:
    """A numeric address in its one spelling, a mapped one as IPv4; "" for anything else."""
    raw = addresses.packed(address) if isinstance(address, str) else None
    if raw is None:
        return ""
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def judged(name: str, found: Iterable[str], answer: Answer, when: float) -> Pin:
    """The pin of a folded ``name`` that stands for the addresses ``found``, each judged by ``answer``."""
    kept: dict[str, None] = {}
    refused: dict[str, str] = {}
    for text in found:
        address = spelled(text)
        verdict = answer(address)
        if not verdict.allowed:
            refused[address or "no address"] = verdict.reason
        elif len(kept) < MOST_ADDRESSES:
            kept[address] = None
        elif address not in kept:
            refused[address] = f"more than {MOST_ADDRESSES} addresses"
    ordered = tuple(sorted(kept, key=lambda one: (":" in one, one)))
    error = "" if ordered else ("every address is refused" if refused else "it has no address")
    return Pin(name, ordered, when, tuple(sorted(refused.items())[:MOST_ADDRESSES]), error)


def look_up(name: str, lookup: Lookup, answer: Answer) -> Pin:
    """Resolves one folded name now. What fails is in the pin's ``error``."""
    try:
        rows = lookup(name, None, 0, socket.SOCK_STREAM)
        return judged(name, (str(row[4][0]) for row in rows), answer, time.time())
    except (OSError, UnicodeError) as problem:
        return Pin(name, (), time.time(), (), getattr(problem, "strerror", None) or str(problem))


def resolve(
    names: Iterable[str],
    lookup: Lookup = socket.getaddrinfo,
    timeout: float = 5.0,
    *,
    answer: Answer,
) -> Pins:
    """Resolves every name at once, by at most sixteen threads and in at most ``timeout`` seconds in all.

    ``answer`` judges each address: :meth:`backends.egress.matcher.Matcher.answer`. A name that failed or took
    too long is pinned to nothing, with its ``error``. ValueError for what is no name, before any lookup.
    """
    import queue
    import threading  # the keeper, which is lean, has its own helper for names below wildcards

    wanted = tuple(dict.fromkeys(hostnames.fold(name) for name in names))
    todo: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[Pin] = queue.SimpleQueue()
    for name in wanted:
        todo.put(name)

    def work() -> None:
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                return
            done.put(look_up(name, lookup, answer))

    for _ in range(min(_THREADS, len(wanted))):
        # A lookup that hangs cannot be ended; as a daemon its thread holds nobody up.
        threading.Thread(target=work, name="resolve", daemon=True).start()
    found: dict[str, Pin] = {}
    end = time.monotonic() + timeout
    while len(found) < len(wanted):
        try:
            pin = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        found[pin.name] = pin
    while not todo.empty():
        try:
            todo.get_nowait()
        except queue.Empty:
            break
    late = f"no answer in {timeout:g} s"
    return Pins(found.get(name) or Pin(name, (), time.time(), (), late) for name in wanted)
