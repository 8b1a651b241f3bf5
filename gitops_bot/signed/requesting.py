"""Each open gated ask gets the one request that its voters sign, built by the broker and stored once.

Everything in it comes from the ask's row and the policy in force; what an agent wrote beside the action is not in it.
An ask whose action cannot be shown or signed is withdrawn with the reason, for nobody could ever vote on it.
"""

from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.closing import withdraw
from gitops_bot.authority.rules import Rules, params_of, rule_of
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.policy.summary import render
from gitops_bot.signed.channel import Known, Place
from gitops_bot.signed.rendering import Request, check_request, in_seconds, read_request, request_bytes
from gitops_bot.store import asks, ledger, requests
from gitops_bot.store.engine import Database, Tx

BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Requested:
    """What a round of building requests did: those that were stored, and asks that nobody could sign."""

    stored: tuple[AskId, ...]
    withdrawn: tuple[AskId, ...]


def build(rules: Rules, place: Place, ask: Ask) -> Request | Refused:
    """Build the request of an open gated ask under the policy that it binds."""
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return rule
    if ask.action is None or ask.verb is None or ask.expires_at is None or rule.summary is None:
        return refuse(Reason.BAD_PARAMS, "A gated ask has an action, an end and a summary.")
    params = params_of(ask.action)
    try:
        request = Request(
            repository=place.repository,
            repository_id=place.repository_id,
            environment=place.environment,
            epoch=place.epoch,
            ask=ask.id,
            verb=ask.verb,
            params=params,
            requester=ask.requester,
            run=ask.run,
            run_version=ask.binding.run_version,
            policy=ask.binding.policy,
            opened_at=in_seconds(ask.opened_at),
            expires_at=in_seconds(ask.expires_at),
            summary=render(rule.summary, params),
            action_hash=ask.binding.action_hash,
        )
        refused = check_request(request)
        if refused is None:
            request_bytes(request)
    except Malformed as error:
        return refuse(Reason.BAD_PARAMS, str(error))
    return request if refused is None else refused


def store_missing(database: Database, rules: Rules, place: Place) -> Requested:
    """Store the request of each open gated ask that has none yet, each in a transaction of its own."""
    with database.read() as tx:
        missing = requests.missing(tx, rules.policy.digest, BATCH)
    stored: list[AskId] = []
    withdrawn: list[AskId] = []
    for ask_id in missing:
        with database.write() as tx:
            ask = asks.get(tx, ask_id, lock=True)
            if ask is None or requests.get(tx, ask_id) is not None:
                continue
            request = build(rules, place, ask)
            if isinstance(request, Refused):
                _give_up(tx, ask, request)
                withdrawn.append(ask.id)
            else:
                requests.store(tx, ask.id, request_bytes(request))
                stored.append(ask.id)
    return Requested(tuple(stored), tuple(withdrawn))


def _give_up(tx: Tx, ask: Ask, refused: Refused) -> None:
    entry = Entry(
        EventKind.ASK_REFUSED,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=ask.requester,
        reason=refused.reason,
        facts={"verb": ask.verb, "detail": refused.detail[:500]},
    )
    ledger.append(tx, entry)
    withdraw(tx, ask.id, "broker", f"{refused.reason.value}: {refused.sentence}")


def known(tx: Tx, ask_id: AskId) -> Known | None:
    """Read a gated ask with its stored request; None where there is none, or no request was ever stored."""
    content = requests.get(tx, ask_id)
    ask = None if content is None else asks.get(tx, ask_id)
    if ask is None or content is None:
        return None
    return Known(ask, read_request(content))
