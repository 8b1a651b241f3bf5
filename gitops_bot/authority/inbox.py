"""Who needs what: the open asks that one person may answer, and the gated ones, newest first, at a bounded cost.

A person's asks come from a few sources, each an index of open asks (their agents' questions, each verb they may vote
on, each gated verb), merged lazily by id. At most `LOOKED` rows are looked at for one page: where a filter leaves too
little of them the page is short and its cursor goes on from the last row that was looked at. So a page costs the same
with a thousand open asks and with a hundred thousand.

Nothing is decided here: `settling` asks the policy again, at the answer.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from gitops_bot.authority.blocking import badges, blocked, shown
from gitops_bot.authority.queries import sentence
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.core.asks import Ask, AskKind
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import IdentityKind, Principal, PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.lookup import may_vote
from gitops_bot.policy.model import Policy, Risk, VerbRule
from gitops_bot.policy.rules import stands, tally
from gitops_bot.store import agents, inbox
from gitops_bot.store.engine import Tx
from gitops_bot.store.inbox import FIRST, Open, Source

MOST: Final = 100
LOOKED: Final = 400
MOST_SOURCES: Final = 64
"""A person who votes on more verbs than these walks all that is open instead: most of it is theirs."""
_BATCH: Final = 50
_PERSONAL: Final = (Channel.WORKSPACE, Channel.FORGE, Channel.OPERATOR)


@dataclass(frozen=True, slots=True)
class Filters:
    """What a page is narrowed to; None narrows nothing. `text` is looked for in the question, its reason, the verb, our
    sentence of the action and the agent's name. `snoozed` shows what the person put off, and nothing else."""

    agent: str | None = None
    verb: str | None = None
    kind: AskKind | None = None
    risk: Risk | None = None
    channel: Channel | None = None
    text: str | None = None
    snoozed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One ask as a list shows it. `agent` is its slug, `channels` are those by which this person may answer, `blocks`
    says in our words what stands still, `missing` counts the approvals still needed."""

    ask: Ask
    agent: str
    summary: str | None
    answerable: bool
    channels: tuple[str, ...]
    risk: str
    missing: int
    approve_needed: int
    snoozed_until: int | None
    blocks: str
    badges: bool


@dataclass(frozen=True, slots=True)
class Inbox:
    """A page, the cursor of the next (None at the end), and how many badge, at most 100 whatever the filters are."""

    rows: tuple[Row, ...]
    next: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Need:
    """Why an open ask is in somebody's inbox: the rule it is decided by, and the channels that they may answer by."""

    rule: VerbRule
    channels: tuple[Channel, ...]

    @property
    def answerable(self) -> bool:
        """Tell whether it is answered at the workspace."""
        return Channel.WORKSPACE in self.channels


def needs_you(tx: Tx, rules: Rules, person: PrincipalName, filters: Filters, before: str | None, limit: int) -> Inbox:
    """Read a page of what a person is needed for, below an id (None for the first page). That the person is the one who
    asks is *not* checked."""
    rules = standing_rules(tx, rules)
    wanted = max(1, min(limit, MOST))
    walk = _walked(tx, rules, person, filters, before)
    found: list[tuple[Open, Need]] = []
    following: str | None = None
    looked = 0
    for one, need in walk:
        looked += 1
        if need is not None:
            found.append((one, need))
        if len(found) == wanted or looked == LOOKED:
            following = one.ask.id
            break
    if before is None and filters == Filters():
        count = _badge(tx, chain(found, walk), LOOKED - looked + len(found))
    else:
        count = badge(tx, rules, person)
    return Inbox(_rows(tx, rules, found), following, count)


def badge(tx: Tx, rules: Rules, person: PrincipalName) -> int:
    """Count what badges for a person, at most 100; of a longer inbox the newest `LOOKED` rows are looked at."""
    return _badge(tx, _walked(tx, standing_rules(tx, rules), person, Filters(), None), LOOKED)


def need_of(rules: Rules, ask: Ask, person: Principal) -> Need | None:
    """Tell by which channels somebody may answer an ask, and None when they are not needed for it: they may not, or
    could only deny. A gated ask concerns every person of the policy, for any of them may stop it. Whether they voted
    already is *not* looked at; the rules are standing ones."""
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return None
    if ask.kind is AskKind.GATED or rule.gated:
        return Need(rule, (Channel.SIGNED,))
    channels = tuple(channel for channel in _PERSONAL if _may(rules.policy, rule, ask, person, channel))
    return Need(rule, channels) if channels else None


def _may(policy: Policy, rule: VerbRule, ask: Ask, person: Principal, channel: Channel) -> bool:
    """Tell whether somebody may approve or answer; what must be read on the forge first is not a no (I14)."""
    if channel not in rule.channels:
        return False
    decision = Decision.ANSWER if rule.question else Decision.APPROVE
    allowed = may_vote(
        policy,
        rule,
        person,
        channel,
        decision=decision,
        requester=ask.requester,
        agent_owner=ask.owner,
        candidates=ask.candidates,
        account=_account(person) if channel is Channel.FORGE else None,
    )
    if isinstance(allowed, Refused):
        return False
    return channel is not Channel.FORGE or _account(person) is not None


def _account(person: Principal) -> int | None:
    accounts = (int(one.value) for one in person.identities if one.kind is IdentityKind.GITHUB)
    return next(accounts, None)


def _sources(tx: Tx, policy: Policy, person: Principal, filters: Filters) -> list[tuple[Source, str | None]]:
    """Name what a person's asks are walked by; every row is judged on its own all the same."""
    if filters.agent is not None:
        agent = agents.by_slug(tx, storable(filters.agent))
        return [] if agent is None else [(Source.AGENT, agent.id)]
    if filters.snoozed:
        return [(Source.SNOOZED, None)]
    found: list[tuple[Source, str | None]] = []
    question = policy.question
    if question is not None and filters.verb is None and filters.kind in (None, AskKind.QUESTION):
        if _named(question, person, owner=False):
            found.append((Source.QUESTIONS, None))
        elif question.voters.owner:
            found.append((Source.OWNER, person.name))
    verbs = policy.verbs if filters.verb is None else {filters.verb: policy.verbs.get(filters.verb)}
    for name, rule in verbs.items():
        if rule is not None and _concerns(rule, person, filters):
            found.append((Source.VERB, name))
    return found if len(found) <= MOST_SOURCES else [(Source.ALL, None)]


def _concerns(rule: VerbRule, person: Principal, filters: Filters) -> bool:
    if filters.kind is AskKind.QUESTION or filters.risk not in (None, rule.risk):
        return False
    if filters.channel is not None and filters.channel not in rule.channels:
        return False
    return rule.gated or any(_named(tier, person, owner=True) for tier in rule.every_tier)


def _named(rule: VerbRule, person: Principal, *, owner: bool) -> bool:
    voters = rule.voters
    return person.name in voters.people or voters.undeclared or (owner and voters.owner)


def _walked(
    tx: Tx, rules: Rules, person: PrincipalName, filters: Filters, before: str | None
) -> Iterator[tuple[Open, Need | None]]:
    """Walk a person's sources, newest first; each row with the need for them, None where there is none."""
    known = rules.policy.people.get(person)
    if known is None or not stands(rules.policy, person):
        return
    start = FIRST if before is None else storable(before)[: len(FIRST)]
    principal = known.principal
    walks = [inbox.walk(tx, source, of, person, start) for source, of in _sources(tx, rules.policy, principal, filters)]
    needle = None if filters.text is None else filters.text.casefold()
    judged = _Judged(rules, principal)
    for one in heapq.merge(*walks, key=lambda one: one.ask.id, reverse=True):
        yield one, _needed(tx, judged, filters, needle, one)


class _Judged:
    """What the policy says of one person and a kind of ask, asked once where nothing else of the ask decides it."""

    def __init__(self, rules: Rules, person: Principal) -> None:
        self._rules = rules
        self._person = person
        self._known: dict[tuple[object, ...], Need | None] = {}

    def need(self, ask: Ask) -> Need | None:
        """Tell why somebody is needed for an ask; None when they are not."""
        rule = self._rules.policy.verbs.get(ask.verb or "")
        # The parameters decide where there are tiers, and where they were held against the schema of another policy.
        if ask.binding.policy != self._rules.policy.digest or (rule is not None and rule.tiers):
            return need_of(self._rules, ask, self._person)
        key = (ask.kind, ask.verb, ask.requester, ask.owner, ask.candidates)
        if key not in self._known:
            self._known[key] = need_of(self._rules, ask, self._person)
        return self._known[key]


def _needed(tx: Tx, judged: _Judged, filters: Filters, needle: str | None, one: Open) -> Need | None:
    ask = one.ask
    if one.voted or (ask.expires_at is not None and ask.expires_at <= tx.now):
        return None
    put_off = one.snoozed_until is not None and one.snoozed_until > tx.now
    if put_off is not filters.snoozed:
        return None
    if filters.verb not in (None, ask.verb) or filters.kind not in (None, ask.kind):
        return None
    need = judged.need(ask)
    if need is None or filters.risk not in (None, need.rule.risk):
        return None
    if needle is not None and not _mentions(needle, one, need):
        return None
    return None if filters.channel is not None and filters.channel not in need.channels else need


def _mentions(needle: str, one: Open, need: Need) -> bool:
    """Tell whether an ask holds what is looked for; our sentence of the action is made only where nothing else does."""
    ask = one.ask
    if any(needle in words.casefold() for words in (ask.text, ask.why, ask.verb or "", one.slug)):
        return True
    return needle in (sentence(need.rule, ask) or "").casefold()


def _badge(tx: Tx, walk: Iterable[tuple[Open, Need | None]], most: int) -> int:
    """Count what badges among the next rows of a walk, at most so many of them."""
    count = 0
    batch: list[Open] = []
    for one, need in islice(walk, most):
        if need is not None:
            batch.append(one)
        if len(batch) == _BATCH:
            count += _badging(tx, batch)
            batch = []
        if count >= MOST:
            break
    return min(MOST, count + _badging(tx, batch))


def _badging(tx: Tx, batch: Sequence[Open]) -> int:
    if not batch:
        return 0
    waits = inbox.waits(tx, [one.ask.id for one in batch])
    return sum(badges(one, blocked(waits.get(one.ask.id, ()), one.run_state)) for one in batch)


def _rows(tx: Tx, rules: Rules, found: Sequence[tuple[Open, Need]]) -> tuple[Row, ...]:
    if not found:
        return ()
    these = [one.ask.id for one, _ in found]
    options, candidates = inbox.parts(tx, these)
    cast, waits = inbox.cast(tx, these), inbox.waits(tx, these)
    rows = []
    for one, need in found:
        ask = replace(one.ask, options=options.get(one.ask.id, ()), candidates=candidates.get(one.ask.id, ()))
        votes = cast.get(ask.id, [])
        quorum = tally(rules.policy, need.rule, votes, requester=ask.requester, agent_owner=ask.owner)
        held = blocked(waits.get(ask.id, ()), one.run_state)
        row = Row(
            ask=ask,
            agent=one.slug,
            summary=sentence(need.rule, ask),
            answerable=need.answerable,
            channels=tuple(channel.value for channel in need.channels),
            risk=Risk.HIGH.value if ask.kind is AskKind.GATED else need.rule.risk.value,
            missing=quorum.missing,
            approve_needed=quorum.approve_needed,
            snoozed_until=one.snoozed_until if (one.snoozed_until or 0) > tx.now else None,
            blocks=shown(one, held),
            badges=badges(one, held),
        )
        rows.append(row)
    return tuple(rows)
