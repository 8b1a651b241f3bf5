"""Step 10, what stands around a grant at the moment of its spend: the one order in which it is asked, as values.

What ends the grant comes before what lets it wait. Reading the world in the transaction of the spend, and the commits
behind the grant, are the caller's.

Pure: no I/O, clock, randomness, logging or third-party library.
"""

from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import VerbRule

SPEND: Final = "signed.spend"
"""The duty that spends, whose rows the mint makes due when the delay is over."""
LOOK_AGAIN_MS: Final = 1_000
HELD_AGAIN_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Wait:
    """The grant stays minted; it is looked at again after so many ms. `refused` says why."""

    refused: Refused
    after_ms: int


@dataclass(frozen=True, slots=True)
class Over:
    """The grant ends unspent, with its reason; `lapsed` where only time did it."""

    refused: Refused
    lapsed: bool = False


Barrier = Wait | Over


@dataclass(frozen=True, slots=True)
class World:
    """What stands around a grant in one transaction; times in ms. `looked_at` is when the last whole look began,
    `verified_at` when the commits were judged; `unread` and `over_limit` say what else holds it."""

    now: int
    minted_at: int
    revoked: bool
    looked_at: int
    verified_at: int
    held_until: int | None
    unread: Refused | None
    over_limit: Refused | None


def lapsed(minted_at: int, rule: VerbRule, now: int) -> Over | None:
    """Let a grant lapse by its time alone."""
    if now <= minted_at + rule.spend_within:
        return None
    return Over(refuse(Reason.LAPSED, minted_at=minted_at), lapsed=True)


def barrier(world: World, rule: VerbRule, max_fetch_age: int) -> Barrier | None:
    """Give the first thing that stands against a spend now; None when nothing does."""
    now = world.now
    if world.revoked:
        return Over(refuse(Reason.WITHDRAWN_VOTE, "Somebody took it back after the verdict."))
    late = lapsed(world.minted_at, rule, now)
    if late is not None:
        return late
    after = world.minted_at + rule.delay
    if now < after:
        return Wait(refuse(Reason.DELAYED, until=after), after - now)
    # A look in the future is none: the clock was set back since.
    if not now - max_fetch_age <= world.looked_at <= now:
        return Wait(refuse(Reason.STALE_FETCH, looked_at=world.looked_at), LOOK_AGAIN_MS)
    if world.verified_at < now - max_fetch_age:
        return Wait(refuse(Reason.STALE_FETCH, "Its commits were verified too long ago."), 0)
    if world.held_until is not None:
        wait = min(world.held_until - now, HELD_AGAIN_MS)
        return Wait(refuse(Reason.HELD, "Somebody holds it.", until=world.held_until), wait)
    if world.unread is not None:
        return Wait(world.unread, HELD_AGAIN_MS)
    # The window of a limit moves on: what does not fit now may fit before the grant lapses.
    return None if world.over_limit is None else Wait(world.over_limit, HELD_AGAIN_MS)
