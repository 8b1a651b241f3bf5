"""What the runs about to be opened are told: each claimed agent's capsule, written from rows in one transaction.

A run that is dispatched again is told exactly what it was told before; what ended since then waits for the next one.
Opening the runs and consuming the items is left to `store.due_agents`, in the same transaction.
"""

import secrets
from collections.abc import Collection, Sequence
from typing import Final

from gitops_bot.fleet.capsule import (
    MAX_DECIDED,
    MAX_MESSAGES,
    Author,
    AuthorKind,
    CapsuleFacts,
    Decided,
    Message,
    render,
)
from gitops_bot.fleet.machine import WakeReason
from gitops_bot.store import due_agents, told
from gitops_bot.store.due_agents import Claimed, Opening
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import HarnessKind
from gitops_bot.store.told import Told, ToldAsk, ToldMessage

_TOKEN_BYTES: Final = 16
_NOTHING: Final = Told()
_AUTHORS: Final = {"person": AuthorKind.PERSON, "agent": AuthorKind.AGENT}


def openings(tx: Tx, claimed: Sequence[Claimed], keeping: Collection[HarnessKind] = ()) -> list[Opening]:
    """Write the capsules of claimed agents. `keeping` are the harnesses that keep sessions: an agent of theirs without
    one gets a new name for it."""
    kept = due_agents.kept(tx, [one.again for one in claimed if one.again is not None])
    anew = [one.agent.id for one in claimed if one.again not in kept]
    untold = told.untold(tx, anew, MAX_DECIDED, MAX_MESSAGES) if anew else {}
    found: list[Opening] = []
    for one in claimed:
        before = kept.get(one.again or "")
        if before is not None and one.again is not None:
            version, capsule, depth = before.version + 1, before.capsule, before.depth
            opening = Opening(one, one.again, version, capsule, depth, (), _session(one, one.again, keeping))
        else:
            run, news = new_id(tx.now), untold.get(one.agent.id, _NOTHING)
            capsule = render(_facts(tx, one, news))
            opening = Opening(one, run, 1, capsule, news.depth, news.items, _session(one, run, keeping))
        found.append(opening)
    return found


def _session(one: Claimed, run: str, keeping: Collection[HarnessKind]) -> str | None:
    if one.setup.harness not in keeping:
        return None
    return one.session or f"{one.agent.slug}-{run}"


def _facts(tx: Tx, one: Claimed, news: Told) -> CapsuleFacts:
    return CapsuleFacts(
        one.agent.slug,
        one.agent.owner,
        one.agent.purpose,
        WakeReason(one.reason),
        tx.now,
        secrets.token_hex(_TOKEN_BYTES),
        tuple(_decided(ask) for ask in news.asks),
        tuple(_message(message) for message in news.messages),
        one.report,
        news.more,
    )


def _decided(ask: ToldAsk) -> Decided:
    return Decided(ask.id, ask.state, ask.question, ask.at, ask.verb, ask.option, ask.label, ask.text, ask.by)


def _message(message: ToldMessage) -> Message:
    kind = _AUTHORS.get(message.author_kind, AuthorKind.SERVICE)
    return Message(Author(kind, message.author), message.text, message.at)
