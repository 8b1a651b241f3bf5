"""Whatever is open, whoever looks, under whatever policy: the inbox is a filter over every ask, and no more than that.

The model reads each ask by itself and asks the policy; what is under test walks indexes, merges and stops early.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitops_bot.authority import inbox
from gitops_bot.authority.inbox import Filters
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.core.asks import APPROVAL_OPTIONS, Ask, AskId, AskKind, AskState, Binding
from gitops_bot.core.canonical import action_bytes, action_hash, question_hash
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import IdentityKind, PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel, Decision, Vote
from gitops_bot.policy.lookup import may_vote
from gitops_bot.policy.model import Risk
from gitops_bot.store import agents, asks, snoozes, suspensions, votes
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, RunState
from tests.policy_bundles import CAPTURE, GONE, Patch, load
from tests.store_fixtures import SqliteTemplates

PEOPLE: Final = ("alice", "bob", "carol", "dave")
VERBS: Final = ("one.do", "two.do")
GATED: Final = "payments.transfer"
TRANSFER: Final = {"amount_minor": 5, "currency": "EUR", "to": "DE89370400440532013000"}
some = st.sets(st.sampled_from(PEOPLE), max_size=3).map(sorted)
channels = st.sets(st.sampled_from(("workspace", "forge", "operator")), min_size=1).map(sorted)


@dataclass(frozen=True)
class Row:
    """What one ask of an example is like."""

    verb: str | None
    number: int
    owner: str
    requester: str
    candidates: tuple[str, ...]
    voted: tuple[str, ...]
    snoozed: tuple[str, ...]
    ended: bool
    over: bool


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    patch: Patch = {CAPTURE: GONE}
    for verb in VERBS:
        people, owner = draw(some), draw(st.booleans())
        if people or owner:
            voters: dict[str, Any] = {"owner": owner, **({"people": people} if people else {})}
            rule: dict[str, Any] = {"channels": draw(channels), "voters": voters, "approve": 1}
            rule["risk"] = draw(st.sampled_from(("low", "normal", "high")))
            if draw(st.booleans()) and rule["channels"] != ["operator"]:
                rule["voters"]["github_permission"] = "write"
            if "forge" in rule["channels"] and "github_permission" in rule["voters"] and draw(st.booleans()):
                rule["voters"]["undeclared"] = True
            patch[f"verbs/{verb}"] = rule
    if draw(st.booleans()):
        people = draw(some)
        patch["asks/question"] = {
            "channels": draw(channels),
            "voters": {"people": people} if people else {"owner": True},
        }
    return Rules(load(patch), "github.com/acme/ops", "test")


row = st.builds(
    Row,
    verb=st.sampled_from((None, *VERBS, GATED)),
    number=st.integers(0, 3),
    owner=st.sampled_from(PEOPLE),
    requester=st.sampled_from(("agent", "alice", "bob")),
    candidates=st.one_of(st.just(()), some.map(tuple)),
    voted=st.one_of(st.just(()), some.map(tuple)),
    snoozed=st.one_of(st.just(()), some.map(tuple)),
    ended=st.integers(0, 5).map(lambda one: one == 0),
    over=st.integers(0, 5).map(lambda one: one == 0),
)
filters = st.builds(
    Filters,
    agent=st.sampled_from((None, None, None, "agent-0", "agent-1", "agent-9")),
    verb=st.sampled_from((None, None, None, *VERBS, GATED)),
    kind=st.sampled_from((None, None, None, *AskKind)),
    risk=st.sampled_from((None, None, None, *Risk)),
    channel=st.sampled_from((None, None, None, *Channel)),
    text=st.sampled_from((None, None, None, "WHY-1", "two")),
    snoozed=st.sampled_from((False, False, False, True)),
)


def fill(tx: Tx, ruled: Rules, rows: list[Row]) -> None:
    """Write the asks of an example, as they are whoever asked them; nothing is judged here."""
    for place, one in enumerate(rows):
        agent = agents.by_slug(tx, f"agent-{place % 3}") or agents.add(
            tx, f"agent-{place % 3}", AgentKind.AGENT, PrincipalName("agent"), PrincipalName("alice"), ""
        )
        run = agents.add_run(tx, agent.id, "request", RunState.PARKED)
        params = {**TRANSFER, "amount_minor": place + 1} if one.verb == GATED else {"n": place}
        action = None if one.verb is None else action_bytes(ruled.repository, ruled.environment, one.verb, params)
        bound = question_hash("?", []) if action is None else action_hash(action)
        kind = AskKind.QUESTION if one.verb is None else AskKind.GATED if one.verb == GATED else AskKind.APPROVAL
        ask = Ask(
            id=AskId(f"{place * 7 % 10}{place:025d}"),
            kind=kind,
            state=AskState.OPEN,
            verb=one.verb,
            text="?",
            why=f"why-{one.number}",
            action=action,
            binding=Binding(bound, ruled.policy.digest, 1),
            options=() if action is None else APPROVAL_OPTIONS,
            candidates=tuple(PrincipalName(name) for name in one.candidates),
            agent=agent.id,
            run=run.id,
            requester=PrincipalName(one.requester),
            owner=PrincipalName(one.owner),
            opened_at=tx.now,
            expires_at=tx.now - 1 if one.over else None,
        )
        asks.insert_ask(tx, ask)
        for name in one.voted:
            decision = Decision.ANSWER if action is None else Decision.APPROVE
            vote = Vote(ask.id, PrincipalName(name), decision, None, "x", Channel.WORKSPACE, ask.binding, b"{}")
            votes.add(tx, vote, 1)
        for name in one.snoozed:
            snoozes.put_off(tx, ask.id, PrincipalName(name), tx.now + 60_000)
        if one.ended:
            asks.end(tx, ask.id, AskState.WITHDRAWN, "agent", "gone")


def wanted(tx: Tx, ruled: Rules, name: PrincipalName, narrowed: Filters) -> list[tuple[str, tuple[str, ...]]]:
    """Give, newest first, each ask that somebody is needed for and the channels that they may answer by."""
    standing = standing_rules(tx, ruled)
    person = standing.policy.people[name].principal
    if person.suspended or person.kind is not PrincipalKind.HUMAN:
        return []
    found = []
    for listed in asks.page(tx, "", 1_000):
        ask = asks.get(tx, listed.id)
        assert ask is not None
        agent = agents.get(tx, ask.agent)
        assert agent is not None
        rule = rule_of(standing, ask)
        if ask.state is not AskState.OPEN or isinstance(rule, Refused):
            continue
        if ask.expires_at is not None and ask.expires_at <= tx.now:
            continue
        if any(vote.principal == name for vote in votes.of_ask(tx, ask.id)):
            continue
        if (snoozes.until(tx, ask.id, name) is not None) != narrowed.snoozed:
            continue
        by = channels_of(standing, ask, name)
        words = f"{ask.text}\n{ask.why}\n{ask.verb or ''}\n{agent.slug}".lower()
        keeps = (
            by
            and narrowed.agent in (None, agent.slug)
            and narrowed.verb in (None, ask.verb)
            and narrowed.kind in (None, ask.kind)
            and narrowed.risk in (None, rule.risk)
            and narrowed.channel in (None, *by)
            and (narrowed.text is None or narrowed.text.lower() in words)
        )
        if keeps:
            found.append((ask.id, by))
    return sorted(found, reverse=True)


def channels_of(standing: Rules, ask: Ask, name: PrincipalName) -> tuple[str, ...]:
    rule = rule_of(standing, ask)
    assert not isinstance(rule, Refused)
    if rule.gated:
        return ("signed",)
    person = standing.policy.people[name].principal
    (account,) = (int(one.value) for one in person.identities if one.kind is IdentityKind.GITHUB)
    found = []
    for channel in (Channel.WORKSPACE, Channel.FORGE, Channel.OPERATOR):
        allowed = may_vote(
            standing.policy,
            rule,
            person,
            channel,
            decision=Decision.ANSWER if ask.kind is AskKind.QUESTION else Decision.APPROVE,
            requester=ask.requester,
            agent_owner=ask.owner,
            candidates=ask.candidates,
            account=account if channel is Channel.FORGE else None,
        )
        if not isinstance(allowed, Refused):
            found.append(channel.value)
    return tuple(found)


def walked(tx: Tx, ruled: Rules, name: PrincipalName, narrowed: Filters, limit: int) -> Iterator[inbox.Row]:
    """Read every page."""
    before: str | None = None
    while True:
        page = inbox.needs_you(tx, ruled, name, narrowed, before, limit)
        assert len(page.rows) <= limit
        yield from page.rows
        before = page.next
        if before is None:
            return


@given(
    ruled=rules(),
    rows=st.lists(row, max_size=10),
    who=st.sampled_from(PEOPLE),
    narrowed=filters,
    limit=st.integers(1, 4),
    stopped=st.sets(st.sampled_from(PEOPLE), max_size=1),
    looked=st.integers(1, 5),
    sources=st.integers(0, 4),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_inbox_is_a_filter_over_every_ask(
    sqlite_templates: SqliteTemplates,
    ruled: Rules,
    rows: list[Row],
    who: str,
    narrowed: Filters,
    limit: int,
    stopped: set[str],
    looked: int,
    sources: int,
) -> None:
    """The same rows in the same order with the same channels, on pages of any size, looked at in steps of any length,
    by sources or by all that is open."""
    fresh = sqlite_templates.copy("sqlite")
    try:
        database: Database = fresh.open(Role.OWNER)
        name = PrincipalName(who)
        with database.write() as tx:
            fill(tx, ruled, rows)
            for one in stopped:
                suspensions.suspend(tx, PrincipalName(one), None)
        with pytest.MonkeyPatch.context() as patch, database.read() as tx:
            patch.setattr(inbox, "LOOKED", looked)
            patch.setattr(inbox, "MOST_SOURCES", sources)
            found = list(walked(tx, ruled, name, narrowed, limit))
            expected = wanted(tx, ruled, name, narrowed)
        assert [(row.ask.id, row.channels) for row in found] == expected
        assert all(row.answerable == ("workspace" in row.channels) for row in found)
    finally:
        fresh.close()
