"""The network of a box without a route on the keeper's side: its list, held by a proxy.

Nothing leads out of the box but the proxy's listener, so nothing else has to be told of a change, and what
programs send past the proxy is refused by the empty namespace, where nobody counts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from backends.egress import pins as pinning
from backends.egress import proxied, routes
from backends.egress.matcher import Matcher
from backends.keeper.listed import WHY, Listed, Record, Routed
from backends.keeper.log import Log
from backends.keeper.lookup import Found, Lookups
from backends.keeper.loop import Loop
from backends.keeper.packets import Deny
from backends.keeper.proxy import Proxy
from backends.policy.model import Policy
from backends.tiers.protocol import BoxProxy

LIVE_NAMES = 1024  # names below wildcards that are pinned at a time
LIVE_FOR = 300.0  # seconds until one of them is looked up again


class ProxyEgress(Listed):
    """Owns the listener of ``given``. See :class:`backends.keeper.listed.Listed`."""

    def __init__(
        self, loop: Loop, log: Log, policy: Policy, given: BoxProxy, deny: Deny, record: Record
    ) -> None:
        super().__init__(loop, log, policy, given.pins, given.own, deny, record)
        self._listener = given.listener
        self.variables = dict(given.variables) or proxied.variables()
        self._proxy: Proxy | None = None
        self._waiting: dict[str, list[Callable[[str], None]]] = {}

    def begin(self) -> None:
        """The box is proved: serve from now on."""
        self._lookups = Routed(Lookups(self._loop, self._log))
        self._relay = self._proxy = Proxy(
            self._loop,
            self._log,
            (self._listener,),
            self._matcher,
            self._pins,
            deny=self._deny,
            look_up=self._look_up,
        )
        self._repin_later()
        self._record("pins", {"pins": self._pins.as_json(), "own": list(self._own)})

    def tick(self) -> None:
        """Once a second."""
        if self._lookups is None or self._closed:
            return
        self._lookups.tick()
        self._look_at_host()
        self._forget_old()
        self._in_time()

    def count_up(self) -> None:
        """All is counted when it is refused."""

    def close(self) -> None:
        """Tell a last time, end every connection and close the listener; twice does no harm."""
        if self._closed:
            return
        self.tell()
        self._closed = True
        if self._proxy is not None:
            self._proxy.close()
        else:
            self._listener.close()
        if self._lookups is not None:
            self._lookups.close()

    def _use(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._judge_by(matcher)

    def _judge_by(self, matcher: Matcher) -> None:
        if self._proxy is not None:
            self._proxy.use(matcher, self._pins)

    # ------------------------------------------------------------ names below wildcards

    def _look_up(self, name: str, done: Callable[[str], None]) -> None:
        """Have the host look ``name`` up, once for all who wait for it, and pin what it may lead to."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append(done)
        if len(waiting) == 1:
            assert self._lookups is not None
            self._lookups.ask(name, lambda answer: self._looked_up(name, answer))

    def _looked_up(self, name: str, answer: Found) -> None:
        why = WHY.get(answer.error, answer.error)
        if not why:
            pin = pinning.judged(name, answer.addresses, routes.answer(self._matcher), time.time())
            why = pin.error
            if pin.addresses:
                if name not in self._live and len(self._live) >= LIVE_NAMES:
                    self._drop(next(iter(self._live)))
                if self._pins.put(pin):
                    self._live.pop(name, None)
                    self._live[name] = None
                else:
                    why = "no room is left for its addresses"
            elif pin.refused:
                why = f"{pin.error}: {pin.refused[0][1]}"
        for done in self._waiting.pop(name, ()):
            done(why)

    def _forget_old(self) -> None:
        """Names below wildcards are looked up again after a while; the oldest come first."""
        old = time.time() - LIVE_FOR
        for name in list(self._live):
            pin = self._pins.get(name)
            if pin is not None and pin.when > old:
                return
            self._drop(name)

    def _drop(self, name: str) -> None:
        del self._live[name]
        self._pins.drop(name)
