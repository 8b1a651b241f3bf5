"""The policy changes under its own rule: proposed by the bot's service, voted under the old bundle, then one pointer.

A bundle whose bytes are stored is a proposal and nothing more. From the moment the pointer moves, every older ask is
`stale_policy` by comparison; a duty replaces the open ones, one transaction each, or withdraws what nobody could decide
any more.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.closing import carry_over, withdraw
from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.authority.rules import Rules, params_of
from gitops_bot.authority.suspension import reinstate
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.core.errors import Fact, Malformed, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.adoption import adopt_check
from gitops_bot.policy.bundles import pack, unpack
from gitops_bot.policy.model import ADOPT, Policy
from gitops_bot.policy.people import REQUESTS_ROLE
from gitops_bot.signed.looking import PUBLISH
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
    """Store a bundle, make its bytes due on the requests branch, and open the ask to adopt it, under what is in force.

    The same bundle proposed again is the same open ask.

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
    opened = open_ask(tx, rules, wish)
    if isinstance(opened, Refused):
        agents.end_run(tx, run.id, "refused")
        return opened
    due.ensure(tx, PUBLISH, f"bundle:{new.digest}")
    if not opened.repeated:
        facts: dict[str, Fact] = {"digest": new.digest, "version": new.version, "previous": rules.policy.digest}
        entry = Entry(EventKind.POLICY_PROPOSED, tx.now, ask=opened.ask.id, channel="signed", facts=facts)
        ledger.append(tx, entry)
    return opened


def ever_named(tx: Tx, load: Load) -> Collection[PrincipalName]:
    """Name every principal of every stored bundle; a removed name is never used again."""
    names: set[PrincipalName] = set()
    for digest in bundles.digests(tx):
        stored = bundles.get(tx, digest)
        assert stored is not None
        names |= set(load(unpack(stored.content)).people)
    return names


@dataclass(frozen=True, slots=True)
class Adoption:
    """A stored bundle that may follow the one before it, and both policies."""

    bundle: bundles.Bundle
    old: Policy
    new: Policy


def adopted(tx: Tx, ask: Ask, load: Load) -> Adoption | Refused:
    """Read the bundle that an ask of `policy.adopt` names, if it may follow the one in force now."""
    force = bundles.in_force(tx)
    return follows(tx, ask, load, None if force is None else force[0])


def follows(tx: Tx, ask: Ask, load: Load, force: str | None) -> Adoption | Refused:
    """Read the bundle that an ask of `policy.adopt` names, if it may follow a given one. Who voted for it is *not*
    looked at."""
    assert ask.action is not None
    params = params_of(ask.action)
    stored = bundles.get(tx, str(params["digest"]))
    if stored is None:
        return refuse(Reason.NOT_FOUND, "The bundle's bytes are not stored.", digest=str(params["digest"]))
    if force is None or force != params["previous"]:
        return refuse(Reason.STALE_POLICY, "Another bundle was adopted since it was asked.")
    before = bundles.get(tx, force)
    if before is None:
        return refuse(Reason.NOT_FOUND, "The bytes of the bundle before it are not stored.", digest=force)
    try:
        old, new = load(unpack(before.content)), load(unpack(stored.content))
        if new.digest != stored.digest or new.version != params["version"]:
            return refuse(Reason.BYTES_DIFFER, "The stored bundle is not the one that was approved.")
        if old.digest != force:
            return refuse(Reason.BYTES_DIFFER, "The stored bundle before it is not the one that is in force.")
        adopt_check(old, new)
    except Malformed as error:
        return refuse(Reason.STALE_POLICY, str(error))
    return Adoption(stored, old, new)


def adopter(load: Load) -> Callable[[Tx, Ask, Grant], Refused | None]:
    """Make the built-in executor: it moves the pointer in the transaction that ends the execution."""

    def adopt(tx: Tx, ask: Ask, grant: Grant) -> Refused | None:
        found = adopted(tx, ask, load)
        if isinstance(found, Refused):
            return found
        digest = found.new.digest
        bundles.put_in_force(tx, digest, ask.id)
        due.set_due(tx, SUPERSEDE, digest, tx.now)
        facts: dict[str, Fact] = {"digest": digest, "version": found.new.version, "grant": grant.id}
        ledger.append(tx, Entry(EventKind.POLICY_ADOPTED, tx.now, ask=ask.id, channel="signed", facts=facts))
        reinstate(tx, found.old, found.new, ask.id)
        return None

    return adopt


def replace(tx: Tx, rules: Rules, ask_id: AskId) -> None:
    """Ask anew under the policy in force what an open ask of an older one asked, or withdraw it to the backlog."""
    carry_over(tx, rules, ask_id)


class Superseding:
    """Replaces the open asks of older policies; `one` is the handler of the duty `policy.supersede`."""

    def __init__(
        self, database: Database, rules: Rules, replaced: Callable[[Tx, Rules, AskId], None] = replace
    ) -> None:
        """Take the rules that this process decides by; `replaced` replaces one open ask of an older policy."""
        self._database = database
        self._rules = rules
        self._replaced = replaced

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
                ask = asks.get(tx, ask_id)
                if ask is not None and ask.verb == ADOPT:
                    # It named the bundle that it was to follow, which is in force no longer.
                    why = f"{Reason.STALE_POLICY.value}: another bundle was adopted; propose this one again"
                    withdraw(tx, ask_id, "broker", why)
                else:
                    self._replaced(tx, self._rules, ask_id)
        return Again(0) if len(old) == BATCH else FINISHED
