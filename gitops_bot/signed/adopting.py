"""The policy changes under its own rule: proposed by the bot's service, voted under the old bundle, then one pointer.

A bundle whose bytes are stored is a proposal and nothing more. From the moment the pointer moves, every older ask is
`stale_policy` by comparison; a duty replaces the open ones, one transaction each, or withdraws what nobody could decide
any more.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.closing import supersede, withdraw
from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.authority.rules import Rules, params_of
from gitops_bot.core.asks import Ask
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Fact, Malformed, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.adoption import adopt_check
from gitops_bot.policy.bundles import pack, unpack
from gitops_bot.policy.model import ADOPT, Policy
from gitops_bot.policy.people import REQUESTS_ROLE
from gitops_bot.store import agents, asks, bundles, due, ledger
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.grants_read import Grant
from gitops_bot.store.states import AgentKind, RunState, WaiterKind

SUPERSEDE: Final = "policy.supersede"
SLUG: Final = "policy"
"""The agent in whose name bundles are proposed; its principal is the bot's service, so no voter is spent on asking."""
BATCH: Final = 100

Load = Callable[[Mapping[str, bytes]], Policy]
"""Loads a bundle from its files, certificates included; raises `Malformed`."""


def propose(tx: Tx, rules: Rules, files: Mapping[str, bytes], load: Load) -> Opened | Refused:
    """Store a bundle and open the ask to adopt it, under the policy in force.

    Raises:
        Malformed: it does not load, or may not follow the one in force (`DoesNotLoad`).
    """
    if ADOPT not in rules.policy.verbs:
        return refuse(Reason.UNKNOWN_VERB, "The policy in force has no policy.adopt; re-pin on the host instead.")
    new = load(files)
    adopt_check(rules.policy, new, ever_named(tx, load))
    bundles.keep(tx, bundles.Bundle(new.digest, new.version, pack(files)))
    bot = next((name for name, one in rules.policy.people.items() if one.principal.role == REQUESTS_ROLE), None)
    if bot is None:
        return refuse(Reason.SERVICE_IDENTITY, "The policy in force names no service for requests to ask by.")
    agent = agents.by_slug(tx, SLUG) or agents.add(tx, SLUG, AgentKind.APPLICATION, bot, None, "proposes bundles")
    run = agents.add_run(tx, agent.id, "request", RunState.PARKED)
    params = {"digest": new.digest, "version": new.version, "previous": rules.policy.digest}
    wish = Wish(agent, run, Waiter(WaiterKind.REQUEST, run.id), verb=ADOPT, params=params)
    return open_ask(tx, rules, wish)


def ever_named(tx: Tx, load: Load) -> Collection[PrincipalName]:
    """Name every principal of every stored bundle; a removed name is never used again."""
    names: set[PrincipalName] = set()
    for digest in bundles.digests(tx):
        stored = bundles.get(tx, digest)
        assert stored is not None
        names |= set(load(unpack(stored.content)).people)
    return names


def adopted(tx: Tx, ask: Ask, load: Load) -> tuple[bundles.Bundle, Policy] | Refused:
    """Read the bundle that an ask of `policy.adopt` names, if it may follow the one in force now."""
    assert ask.action is not None
    params = params_of(ask.action)
    force = bundles.in_force(tx)
    stored = bundles.get(tx, str(params["digest"]))
    if stored is None:
        return refuse(Reason.NOT_FOUND, "The bundle's bytes are not stored.", digest=str(params["digest"]))
    if force is None or force[0] != params["previous"]:
        return refuse(Reason.STALE_POLICY, "Another bundle was adopted since it was asked.")
    before = bundles.get(tx, force[0])
    assert before is not None
    try:
        new = load(unpack(stored.content))
        if new.digest != stored.digest or new.version != params["version"]:
            return refuse(Reason.BYTES_DIFFER, "The stored bundle is not the one that was approved.")
        adopt_check(load(unpack(before.content)), new)
    except Malformed as error:
        return refuse(Reason.STALE_POLICY, str(error))
    return stored, new


def adopter(load: Load) -> Callable[[Tx, Ask, Grant], Refused | None]:
    """Make the built-in executor: it moves the pointer in the transaction that ends the execution."""

    def adopt(tx: Tx, ask: Ask, grant: Grant) -> Refused | None:
        found = adopted(tx, ask, load)
        if isinstance(found, Refused):
            return found
        stored, new = found
        bundles.put_in_force(tx, stored.digest, ask.id)
        due.set_due(tx, SUPERSEDE, stored.digest, tx.now)
        facts: dict[str, Fact] = {"digest": Digest(stored.digest), "version": new.version, "grant": grant.id}
        ledger.append(tx, Entry(EventKind.POLICY_ADOPTED, tx.now, ask=ask.id, channel="signed", facts=facts))
        return None

    return adopt


class Superseding:
    """Replaces the open asks of older policies; `one` is the handler of the duty `policy.supersede`."""

    def __init__(self, database: Database, rules: Rules) -> None:
        self._database = database
        self._rules = rules

    def one(self, claimed: Claimed) -> Outcome:
        """Replace a batch. Only the policy that this process decides by is acted for: another's row waits for it."""
        if claimed.key != self._rules.policy.digest:
            with self._database.read() as tx:
                force = bundles.in_force(tx)
            return FINISHED if force is None or force[0] != claimed.key else Again(1_000)
        with self._database.read() as tx:
            old = asks.open_under_other(tx, self._rules.policy.digest, BATCH)
        for ask_id in old:
            with self._database.write() as tx:
                replaced = supersede(tx, self._rules, ask_id, Reason.STALE_POLICY)
                if isinstance(replaced, Refused):
                    why = f"{Reason.STALE_POLICY.value}: {replaced.sentence}"
                    withdraw(tx, ask_id, "broker", why, to_backlog=True)
        return Again(0) if len(old) == BATCH else FINISHED
