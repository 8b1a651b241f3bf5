"""How often somebody may come to the door, at a bounded cost for whoever comes too often.

Each address, each session and the door as a whole has a bucket of tries that fills again with time. Ceremonies of
people who are not signed in take from the address and from the whole; a browser that was signed in here before has
tries of its own when those are used up, so that a flood, from its own address even, does not keep its person out.
Buckets are in memory, at most `MOST` of them, and of this process alone: the rows that a try may write are bounded by
them, nothing else is decided by them.
"""

import hashlib
import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from flask import Flask, current_app, request
from werkzeug.exceptions import TooManyRequests

from gitops_bot.store import sessions
from workspace.auth import cookies
from workspace.auth.csrf import SAFE, Door, door_of
from workspace.auth.people import secret_here
from workspace.serving import services

MOST: Final = 4_096
_KEY: Final = "gitops_bot.limits"


@dataclass(frozen=True, slots=True)
class Rate:
    """So many tries at once, and so many more a second."""

    burst: int
    refill: float


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of the door. A refused ceremony costs `failure` tries more: it writes to the ledger."""

    address: Rate = Rate(60, 1.0)
    whole: Rate = Rate(400, 20.0)
    known: Rate = Rate(20, 0.2)
    session: Rate = Rate(300, 20.0)
    failure: int = 9


class Limits:
    """The buckets of one process. `clock` in seconds, monotonic. Safe from several threads."""

    def __init__(self, rates: Rates | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rates = rates or Rates()
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, rate: Rate, cost: int = 1, *, debt: bool = False) -> float:
        """Take tries out of a bucket; give the seconds until there are enough, 0 when they were taken. With `debt` they
        are taken in any case, down to as many below nothing as the bucket holds."""
        with self._lock:
            now = self._clock()
            left, since = self._buckets.pop(key, (float(rate.burst), now))
            left = min(float(rate.burst), left + (now - since) * rate.refill)
            missing = cost - left
            if missing <= 0 or debt:
                left = max(left - cost, -float(rate.burst))
            self._buckets[key] = (left, now)
            while len(self._buckets) > MOST:
                self._buckets.popitem(last=False)
            return 0.0 if missing <= 0 or debt else missing / rate.refill

    def __len__(self) -> int:
        with self._lock:
            return len(self._buckets)


def address_of(remote: str | None) -> str:
    """Name an address for its bucket: an IPv6 network of 64 bits is one household."""
    try:
        found = ipaddress.ip_address(remote or "")
    except ValueError:
        return "nowhere"
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def _caller() -> str:
    """Name the address of the request at hand: what the proxy of this machine says last, where one must be there."""
    remote = address_of(request.remote_addr)
    behind = services().site.origin.startswith("https://") and remote in ("127.0.0.1", "::/64")
    said = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip() if behind else ""
    return f"address {address_of(said) if said else remote}"


def check() -> None:
    """Count the request at hand, before its view.

    Raises:
        TooManyRequests: too many came before it.
    """
    if request.method in SAFE or request.routing_exception is not None:
        return
    who = door_of(current_app.view_functions.get(request.endpoint or ""))
    _refuse_while(_session() if who is None else _ceremony(who))


def ceremony() -> None:
    """Count the request at hand as a ceremony, for a page that begins one.

    Raises:
        TooManyRequests: too many came before it.
    """
    _refuse_while(_ceremony(Door.BROWSER))


def _refuse_while(wait: float) -> None:
    if wait > 0:
        raise TooManyRequests("Too many, too fast; try again later.", retry_after=max(1, math.ceil(wait)))


def _session() -> float:
    secret = secret_here()
    if secret is None:
        return 0.0
    named = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    mine = limits()
    return mine.take(f"session {named}", mine.rates.session)


def _ceremony(who: Door) -> float:
    mine = limits()
    wait = mine.take(_caller(), mine.rates.address) or mine.take("whole", mine.rates.whole)
    if wait > 0 and who is Door.BROWSER and (known := _known()) is not None:
        return mine.take(f"known {known}", mine.rates.known)
    return wait


def _known() -> str | None:
    """Name the session that this browser has or had here, ended or not."""
    secret = cookies.read(request.headers.get("Cookie"))
    if secret is None:
        return None
    with services().database.read() as tx:
        found = sessions.by_secret(tx, secret)
    return None if found is None else found.id


def failed() -> None:
    """Let a ceremony that was refused cost more than one that was not."""
    mine = limits()
    mine.take(_caller(), mine.rates.address, mine.rates.failure, debt=True)
    mine.take("whole", mine.rates.whole, mine.rates.failure, debt=True)


def limits() -> Limits:
    """Give the buckets of this application."""
    return cast("Limits", current_app.extensions[_KEY])


def install(app: Flask, mine: Limits | None = None) -> None:
    """Let an application count its requests so."""
    app.extensions[_KEY] = Limits() if mine is None else mine
    app.before_request(check)
