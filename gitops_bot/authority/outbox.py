"""Effects leave after commit: one lane at a time and in order, each attempt written down before it begins (I12).

An effect that was attempted before and has no result may have reached the outside: its deliverer looks before it acts,
or, where it cannot, the effect ends as `unknown` and is shown, never run again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.store import due, ledger, outbox
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.outbox import StoredEffect
from gitops_bot.store.states import EffectState

MOST_ATTEMPTS: Final = 12
TURNED_AWAY_MS: Final = 1_000
"""The least wait after an attempt that a limit turned away."""
MOST_PER_CLAIM: Final = 3
"""Deliveries under one claim, so that a lease outlasts them all (each is bounded by the time-outs of its adapter)."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """It is done; `result` is what the waiter hears."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Impossible:
    """The outside said no for good; trying again would not help."""

    why: str


Delivery = Delivered | Impossible
Deliverer = Callable[[StoredEffect], Delivery]
"""Acts on the outside; raises `Unavailable` to be called again. Must be safe to call twice for one effect."""

Admission = Callable[[Tx, StoredEffect], int]
"""Says how many ms an effect has to wait before it may be attempted (0: now), and counts it in when it may."""

Landing = Callable[[Tx, StoredEffect, Mapping[str, Any]], None]
"""Writes down what a delivery gave, in the transaction that ends the effect."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one kind of effect leaves. With `at_most_once` an unclear attempt ends as `unknown`."""

    deliver: Deliverer
    landed: Landing | None = None
    at_most_once: bool = False
    most_attempts: int | None = MOST_ATTEMPTS
    """None: tried for ever (a wake that must arrive)."""
    admit: Admission | None = None
    """Looked at before an attempt is written down; to wait is no failed attempt."""


class Outbox:
    """Delivers lanes; `lane` is the handler of the duty `outbox`."""

    def __init__(self, database: Database, routes: Mapping[str, Route]) -> None:
        self._database = database
        self._routes = routes

    def lane(self, claimed: Claimed) -> Outcome:
        """Deliver what is pending in one lane, oldest first, until it is empty or something must wait."""
        for _ in range(MOST_PER_CLAIM):
            with self._database.write() as tx:
                effect = outbox.next_in_lane(tx, claimed.key)
                if effect is None:
                    return FINISHED
                route = self._routes.get(effect.kind)
                if route is None:
                    self._fail(tx, effect, EffectState.FAILED, f"no route for {effect.kind}")
                    continue
                if effect.attempted_before and route.at_most_once:
                    self._fail(tx, effect, EffectState.UNKNOWN, "the process ended during the attempt")
                    continue
                wait = 0 if route.admit is None else route.admit(tx, effect)
                if wait > 0:
                    return Again(wait, firm=True)
                outbox.attempt(tx, effect)
            waited = self._deliver(effect, route)
            if waited is not None:
                return waited
        return Again(0)

    def _deliver(self, effect: StoredEffect, route: Route) -> Again | None:
        try:
            delivery = route.deliver(effect)
        except Unavailable as error:
            return self._later(effect, route, error)
        with self._database.write() as tx:
            match delivery:
                case Delivered(result):
                    if outbox.end(tx, effect, EffectState.DONE, result):
                        facts = {"key": effect.key, "kind": effect.kind}
                        ledger.append(tx, Entry(EventKind.EFFECT_DONE, tx.now, facts=facts))
                        if route.landed is not None:
                            route.landed(tx, effect, result)
                        _reply(tx, effect)
                case Impossible(why):
                    self._fail(tx, effect, EffectState.FAILED, why)
        return None

    def _later(self, effect: StoredEffect, route: Route, error: Unavailable) -> Again | None:
        attempts = effect.attempts + 1
        with self._database.write() as tx:
            if error.retry_after is not None and not route.at_most_once:
                # It was turned away by a limit. That is no failure of the effect, however often it happens.
                outbox.postpone(tx, effect, str(error))
                return Again(max(TURNED_AWAY_MS, int(error.retry_after * 1000)), firm=True)
            outbox.note(tx, effect, str(error))
            if route.at_most_once:
                self._fail(tx, effect, EffectState.UNKNOWN, str(error))
                return None
            if route.most_attempts is not None and attempts >= route.most_attempts:
                self._fail(tx, effect, EffectState.FAILED, str(error))
                return None
        wait = due.back_off(attempts, first_ms=500, most_ms=300_000)
        # Firm: what was put into the lane meanwhile must not make it look before an unclear attempt has landed.
        return Again(wait, firm=True)

    def _fail(self, tx: Tx, effect: StoredEffect, state: EffectState, why: str) -> None:
        if not outbox.end(tx, effect, state, {}, why[:500]):
            return
        kind = EventKind.EFFECT_UNKNOWN if state is EffectState.UNKNOWN else EventKind.EFFECT_FAILED
        ledger.append(
            tx, Entry(kind, tx.now, reason=None, facts={"key": effect.key, "kind": effect.kind, "why": why[:500]})
        )
        _reply(tx, effect)


def _reply(tx: Tx, effect: StoredEffect) -> None:
    if effect.reply is not None:
        kind, waiter = effect.reply
        due.set_due(tx, f"wake.{kind}", waiter, tx.now)
