"""The life of an ask at the level of rows, on every engine; each test names its row of the table of cases."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gitops_bot.authority import closing
from gitops_bot.authority.asking import Opened
from gitops_bot.authority.settling import Counted, Revoked, Settled
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.faults import DoesNotLoad
from gitops_bot.store import agents, asks, fleet, threads, votes, waiters
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, AgentState, RunState, WaiterKind
from tests.decisions import VERB, Stage, facts_of, policy_of, reason_of
from tests.fleet_stage import FleetStage
from tests.policy_bundles import GONE
from tests.store_fixtures import FreshDatabase

VOTERS = f"verbs/{VERB}"


@pytest.fixture
def stage(database: FreshDatabase) -> Iterator[Stage]:
    return Stage(database.open(Role.BROKER))


def one_vote(stage: Stage) -> Stage:
    return stage.under({f"{VOTERS}/approve": 1})


def test_2_an_answer_before_the_run_waits_is_not_lost(stage: Stage) -> None:
    """The run is live and has not parked; the wake is a row that its settling finds."""
    stage = one_vote(stage)
    agent = FleetStage(stage.database, stage.rules).member("one")
    run = stage.run(agent, state=RunState.LIVE)
    ask = stage.ask(agent, run)
    assert stage.cause(ask) is None
    assert isinstance(stage.answer(ask, "bob", "approve"), Settled)
    stage.write(lambda tx: agents.set_run_state(tx, run.id, RunState.PARKED))
    assert stage.cause(ask) == "APPROVED"
    standing = stage.read(lambda tx: fleet.get(tx, agent.id))
    assert standing is not None and standing.due_reason == "answer"


def test_2_whoever_joins_an_ask_that_has_ended_is_told_so(stage: Stage) -> None:
    stage = one_vote(stage)
    ask = stage.ask(idempotency_key="k")
    stage.answer(ask, "bob", "approve")
    again = stage.try_ask(stage.wish(idempotency_key="k"))
    assert isinstance(again, Opened) and again.repeated
    assert again.ask.state is AskState.APPROVED


@pytest.mark.parametrize(("first", "second"), [("approve", "deny"), ("deny", "approve")])
def test_4_yes_and_no_give_one_verdict_and_the_other_is_told(stage: Stage, first: str, second: str) -> None:
    stage = one_vote(stage)
    ask = stage.ask()
    won = stage.answer(ask, "alice", first)
    assert isinstance(won, Settled)
    lost = stage.answer(ask, "bob", second)
    if second == "approve":
        assert reason_of(lost) == "already_settled"
        assert facts_of(lost)["state"] == "DENIED"
        assert (facts_of(lost)["by"], facts_of(lost)["at"]) == ("alice", won.verdict.at)
    else:
        assert isinstance(lost, Revoked), "a late deny takes away what was not executed"
    assert stage.count("verdicts") == 1
    assert stage.events(ask).count("ask.answered") == 1


def test_5_the_same_answer_twice_is_the_same_result_twice(stage: Stage) -> None:
    stage = one_vote(stage)
    ask = stage.ask()
    first = stage.answer(ask, "bob", "approve", idempotency_key="k")
    second = stage.answer(ask, "bob", "approve", idempotency_key="k")
    assert isinstance(first, Settled) and isinstance(second, Settled)
    assert (first.repeated, second.repeated) == (False, True)
    assert first.verdict == second.verdict
    assert stage.count("votes") == 1


def test_5_a_vote_that_waits_for_more_is_repeated_too(stage: Stage) -> None:
    ask = stage.ask()
    for repeated in (False, True):
        counted = stage.answer(ask, "bob", "approve", idempotency_key="k")
        assert isinstance(counted, Counted) and counted.repeated is repeated
        assert counted.quorum.missing == 1
    assert stage.count("votes") == 1


def test_5_one_key_with_another_body_is_a_conflict(stage: Stage) -> None:
    ask = stage.ask()
    assert isinstance(stage.answer(ask, "bob", "approve", idempotency_key="k"), Counted)
    assert reason_of(stage.answer(ask, "bob", "deny", idempotency_key="k")) == "idempotency_conflict"
    assert isinstance(stage.answer(ask, "bob", "deny", idempotency_key="k2"), Settled)


def test_5_a_wish_with_one_key_is_one_ask_and_another_wish_is_a_conflict(stage: Stage) -> None:
    first = stage.ask(idempotency_key="k")
    again = stage.try_ask(stage.wish(idempotency_key="k", why="said otherwise"))
    assert isinstance(again, Opened) and again.repeated and again.ask.id == first.id
    other = stage.try_ask(stage.wish(idempotency_key="k", params={"version": "2.0"}))
    assert reason_of(other) == "idempotency_conflict"
    assert isinstance(stage.try_ask(stage.wish(idempotency_key="k2", params={"version": "2.0"})), Opened)


@pytest.mark.parametrize("wrong", ["", "nothing", "01jdxm2r7q8v9w0a1b2c3d4e5f", "\x00", "\ud800", "x" * 5_000])
def test_6_an_unknown_id_is_a_visible_refusal_and_nothing_else(stage: Stage, wrong: str) -> None:
    ask = stage.ask()
    before = (stage.count("votes"), stage.count("ledger"))
    assert reason_of(stage.answer(wrong, "bob", "approve", binding=ask.binding)) == "not_found"
    assert (stage.count("votes"), stage.count("ledger")) == before
    assert reason_of(stage.write(lambda tx: closing.withdraw(tx, wrong, "x", "y"))) == "not_found"


def test_6_an_option_or_binding_of_another_ask_is_refused(stage: Stage) -> None:
    ask, other = stage.ask(), stage.question(["left", "right"])
    assert reason_of(stage.answer(ask, "bob", "o1")) == "unknown_option"
    assert reason_of(stage.answer(ask, "bob", "approve", binding=other.binding)) == "stale_action"
    assert stage.get(ask).state is AskState.OPEN
    assert isinstance(stage.answer(other, "alice", "o1"), Settled)
    assert isinstance(stage.answer(ask, "bob", "approve"), Counted)


def test_7_a_late_approve_is_refused_as_expired_and_a_late_deny_recorded(stage: Stage) -> None:
    """Nobody waits for the duty to come by: the clock of the answer's own transaction decides."""
    stage = one_vote(stage)
    ask = stage.expiring()
    late = stage.answer(ask, "bob", "approve")
    assert reason_of(late) == "expired"
    assert facts_of(late)["state"] == "EXPIRED"
    assert isinstance(stage.answer(ask, "bob", "deny"), Revoked)
    stage.expire_all()
    assert stage.get(ask).state is AskState.EXPIRED
    assert stage.verdict(ask) is None
    assert stage.events(ask).count("ask.expired") == 1
    assert [one.principal for one in stage.read(lambda tx: votes.revocations_of(tx, ask.id))] == ["bob"]


def test_7_an_answer_in_time_wins_over_an_expiry_that_comes_after(stage: Stage) -> None:
    stage = one_vote(stage)
    ask = stage.ask(expires_in=60_000)
    assert isinstance(stage.answer(ask, "bob", "approve"), Settled)
    stage.expire_all()
    lost = stage.write(lambda tx: closing.expire(tx, ask.id))
    assert reason_of(lost) == "already_settled"
    assert stage.get(ask).state is AskState.APPROVED


def test_8_an_expired_ask_pauses_its_agent_and_reaches_the_backlog(stage: Stage) -> None:
    agent = stage.agent()
    run = stage.run(agent)
    ask = stage.expiring(agent=agent, run=run)
    stage.expire_all()
    stage.expire_all()
    after = stage.read(lambda tx: (agents.get(tx, agent.id), agents.run(tx, run.id)))
    assert after[0] is not None and after[0].state is AgentState.PAUSED
    assert after[1] is not None and after[1].state is RunState.ENDED
    assert [entry.ask for entry in stage.backlog()] == [ask.id]
    assert [message.kind for message in stage.reports(agent)] == ["report"]
    assert stage.events(ask).count("ask.expired") == 1
    assert stage.verdict(ask) is None
    assert stage.cause(ask) == "EXPIRED"


def test_8_a_run_with_another_open_ask_or_a_body_is_not_released(stage: Stage) -> None:
    agent = stage.agent()
    run = stage.run(agent)
    stage.ask(agent, run, params={"version": "2.0"})
    stage.expiring(agent=agent, run=run)
    live = stage.run(agent, state=RunState.LIVE)
    stage.expiring(agent=agent, run=live, params={"version": "3.0"})
    stage.expire_all()
    states = stage.read(lambda tx: [agents.run(tx, one.id) for one in (run, live)])
    assert [one.state for one in states if one] == [RunState.PARKED, RunState.LIVE]


@pytest.mark.parametrize("text", [None, "", "  \t", "\u3000\u2003", "\u200b\u2060", "\u2800", "\u0301"])
def test_9_an_empty_text_is_empty_in_every_script(stage: Stage, text: str | None) -> None:
    ask = stage.question()
    assert reason_of(stage.answer(ask, "alice", None, text)) == "empty"
    assert stage.get(ask).state is AskState.OPEN


def test_9_an_option_that_was_never_offered_is_unknown(stage: Stage) -> None:
    ask = stage.question(["left", "right"])
    for option in ("o3", "left", "approve", ""):
        assert reason_of(stage.answer(ask, "alice", option)) == "unknown_option"
    settled = stage.answer(ask, "alice", "o2", "because")
    assert isinstance(settled, Settled)
    assert (settled.verdict.option, settled.verdict.text) == ("o2", "because")


def test_11_the_same_value_is_the_same_action_and_nothing_else_is(stage: Stage) -> None:
    first = stage.ask(params={"a": 1, "b": None, "c": "\u00e9"})
    again = stage.try_ask(stage.wish(params={"c": "\u00e9", "b": None, "a": 1}))
    assert isinstance(again, Opened) and again.ask.id == first.id
    others = [
        {"a": "1", "b": None, "c": "\u00e9"},
        {"a": True, "b": None, "c": "\u00e9"},
        {"a": 1, "c": "\u00e9"},
        {"a": 1, "b": None, "c": "e\u0301"},
    ]
    ids = {stage.ask(params=params).id for params in others}
    assert len(ids | {first.id}) == 5


def test_12_the_same_action_with_new_words_is_one_open_ask(stage: Stage) -> None:
    first = stage.ask()
    agent = stage.agent()
    other_run = stage.run(agent)
    again = stage.try_ask(stage.wish(agent, other_run, text="Please?", why="really"))
    assert isinstance(again, Opened) and again.repeated and again.ask.id == first.id
    waiting = stage.read(lambda tx: waiters.of_ask(tx, first.id))
    assert {waiter for _, waiter in waiting} == {first.run, other_run.id}, "both runs are woken by the one answer"


def test_12_an_action_that_ended_is_asked_anew(stage: Stage) -> None:
    first = stage.ask()
    stage.withdraw(first)
    assert stage.ask().id != first.id


def test_13_a_policy_that_changed_supersedes_in_one_transaction(stage: Stage) -> None:
    ask = stage.ask()
    stage.answer(ask, "bob", "approve")
    later = stage.under({"version": 4})
    assert reason_of(later.answer(ask, "alice", "approve")) == "stale_policy"
    opened = later.write(lambda tx: closing.supersede(tx, later.rules, ask.id, Reason.STALE_POLICY))
    assert isinstance(opened, Opened)
    assert stage.get(ask).state is AskState.SUPERSEDED
    late = later.answer(ask, "alice", "approve")
    assert (reason_of(late), facts_of(late)["successor"]) == ("stale_policy", opened.ask.id)
    assert later.cause(ask) is None and stage.read(lambda tx: waiters.of_ask(tx, ask.id)) == []
    assert stage.read(lambda tx: waiters.of_ask(tx, opened.ask.id)) == [(WaiterKind.RUN, ask.run)]
    assert isinstance(later.answer(opened.ask, "alice", "approve"), Counted), "votes do not move to a new binding"


def test_15_the_requester_and_a_service_never_approve(stage: Stage) -> None:
    stage = one_vote(stage)
    ask = stage.ask()
    assert reason_of(stage.answer(ask, "agent", "approve")) == "service_identity"
    own = stage.ask(stage.agent("bobs", AgentKind.APPLICATION, principal="bob"), params={"version": "9"})
    assert reason_of(stage.answer(own, "bob", "approve")) == "self_approval"
    assert reason_of(stage.answer(own, None, "approve")) == "unknown_principal"
    assert isinstance(stage.answer(own, "alice", "approve"), Settled)


def test_15_the_requester_may_deny(stage: Stage) -> None:
    own = stage.ask(stage.agent("bobs", AgentKind.APPLICATION, principal="bob"))
    settled = stage.answer(own, "bob", "deny")
    assert isinstance(settled, Settled) and settled.verdict.state is AskState.DENIED


def test_31_two_accounts_of_one_person_are_one_vote(stage: Stage) -> None:
    ask = stage.ask()
    first = stage.answer(ask, "bob", "approve", channel=Channel.WORKSPACE)
    again = stage.answer(ask, "bob", "approve", channel=Channel.FORGE, account=1002)
    assert isinstance(first, Counted) and isinstance(again, Counted)
    assert (again.repeated, again.quorum.missing) == (True, 1)
    assert stage.get(ask).state is AskState.OPEN
    assert isinstance(stage.answer(ask, "carol", "approve", channel=Channel.FORGE, account=1003), Settled)


@pytest.mark.parametrize(
    "patch",
    [
        {f"{VOTERS}/approve": 0},
        {f"{VOTERS}/approve": GONE},
        {f"{VOTERS}/voters": {"people": []}},
        {f"{VOTERS}/voters": GONE},
        {f"{VOTERS}/channels": []},
        {f"{VOTERS}/approve": 4},
    ],
    ids=["zero", "missing", "nobody", "no voters", "no channel", "more than there are"],
)
def test_32_an_empty_quorum_rule_does_not_load(patch: dict[str, object]) -> None:
    with pytest.raises(DoesNotLoad):
        policy_of(patch)
    assert policy_of({f"{VOTERS}/approve": 3})


def test_33_the_databases_clock_decides_whatever_the_process_believes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = stage.ask(expires_in=600_000)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3_600)
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + 3_600) * 1e9))
    stage.expire_all()
    assert reason_of(stage.write(lambda tx: closing.expire(tx, ask.id))) == "already_settled"
    assert stage.get(ask).state is AskState.OPEN
    assert isinstance(stage.answer(ask, "bob", "approve"), Counted)


def reopened(stage: Stage, ask: Ask) -> Ask:
    opened = stage.write(lambda tx: closing.reopen(tx, stage.rules, ask.id, PrincipalName("alice")))
    assert isinstance(opened, Opened)
    return opened.ask


def test_44_an_expired_ask_is_reopened_from_the_backlog_with_a_fresh_binding(stage: Stage) -> None:
    ask = stage.expiring()
    stage.expire_all()
    later = stage.under({"version": 4})
    fresh = reopened(later, ask)
    assert fresh.id != ask.id and fresh.state is AskState.OPEN
    assert fresh.binding.action_hash == ask.binding.action_hash
    assert fresh.binding.policy == later.rules.policy.digest != ask.binding.policy
    assert (fresh.expires_at or 0) > (ask.expires_at or 0)
    assert stage.backlog() == []
    assert isinstance(later.answer(fresh, "bob", "approve"), Counted)
    assert stage.events(ask)[-1] == "ask.reopened"


def test_44_only_what_is_in_the_backlog_is_reopened_and_only_once(stage: Stage) -> None:
    stage = one_vote(stage)
    ask = stage.expiring()
    settled, withdrawn, still = (stage.ask(params={"version": number}) for number in ("2", "3", "4"))
    stage.answer(settled, "bob", "approve")
    stage.withdraw(withdrawn)
    stage.expire_all()
    reopened(stage, ask)
    runs, open_asks = stage.count("runs"), stage.count("asks")
    for other, reason in (
        (ask, "not_found"),
        (settled, "already_settled"),
        (withdrawn, "not_found"),
        (still, "already_settled"),
    ):
        refused = stage.write(
            lambda tx, other=other: closing.reopen(tx, stage.rules, other.id, PrincipalName("alice"))  # type: ignore[misc] # bound now
        )
        assert reason_of(refused) == reason
    assert (stage.count("runs"), stage.count("asks")) == (runs, open_asks), "a refusal has written nothing"


def test_44_what_moved_too_often_is_reopened_though_it_was_approved(stage: Stage) -> None:
    """The third move in a row puts an approved decision into the backlog; it is open to nobody until it is reopened."""
    stage = one_vote(stage)
    ask = stage.ask()
    stage.answer(ask, "bob", "approve")
    stage.write(lambda tx: threads.enter_backlog(tx, ask.id, "stale_head"))
    assert reopened(stage, ask).state is AskState.OPEN


def test_44_an_action_that_is_asked_already_is_not_asked_twice(stage: Stage) -> None:
    ask = stage.expiring()
    stage.expire_all()
    again = stage.ask()
    refused = stage.write(lambda tx: closing.reopen(tx, stage.rules, ask.id, PrincipalName("alice")))
    assert isinstance(refused, Refused) and refused.facts["ask"] == again.id
    stage.withdraw(again)
    assert reopened(stage, ask).state is AskState.OPEN


def test_a_superseded_ask_that_is_over_expires_and_gets_no_new_time(stage: Stage) -> None:
    ask = stage.expiring()
    refused = stage.write(lambda tx: closing.supersede(tx, stage.rules, ask.id, Reason.STALE_POLICY))
    assert reason_of(refused) == "expired"
    assert stage.count("asks") == 1


def test_a_repeated_wish_follows_to_the_ask_that_stands_for_it_now(stage: Stage) -> None:
    ask = stage.ask(idempotency_key="k")
    opened = stage.write(lambda tx: closing.supersede(tx, stage.rules, ask.id, Reason.STALE_HEAD))
    assert isinstance(opened, Opened)
    again = stage.try_ask(stage.wish(idempotency_key="k"))
    assert isinstance(again, Opened) and again.ask.id == opened.ask.id
    assert len(stage.read(lambda tx: waiters.of_ask(tx, opened.ask.id))) == 2


def test_a_verb_that_became_gated_is_asked_anew_as_gated(stage: Stage) -> None:
    ask = stage.ask()
    gated = {
        VOTERS: {
            "gated": True,
            "summary": "Cut {version}",
            "voters": {"people": ["alice", "bob", "carol", "dave"]},
            "keys": "verified",
            "approve": 1,
            "expires": "1h",
            "params": {"version": {"match": "[0-9.]{1,9}"}},
            "executor": {"http": "https://releases.internal/", "idempotent": True},
        }
    }
    later = stage.under(gated)
    assert reason_of(later.answer(ask, "bob", "approve")) == "gated"
    opened = later.write(lambda tx: closing.supersede(tx, later.rules, ask.id, Reason.STALE_POLICY))
    assert isinstance(opened, Opened) and opened.ask.kind.value == "gated"


def test_a_persons_deny_replaces_their_own_approve_and_nothing_follows_it(stage: Stage) -> None:
    two = stage.under({f"{VOTERS}/deny": 2})
    ask = two.ask()
    assert isinstance(two.answer(ask, "bob", "approve"), Counted)
    changed = two.answer(ask, "bob", "deny")
    assert isinstance(changed, Counted) and changed.quorum.denied_by == ("bob",)
    assert reason_of(two.answer(ask, "bob", "approve")) == "withdrawn_vote"
    assert [one.decision for one in two.read(lambda tx: votes.of_ask(tx, ask.id))] == [Decision.APPROVE, Decision.DENY]
    assert isinstance(two.answer(ask, "carol", "deny"), Settled)


def test_a_deny_said_anew_after_the_others_approved_takes_their_verdict_away(stage: Stage) -> None:
    two = stage.under({f"{VOTERS}/deny": 2})
    ask = two.ask()
    two.answer(ask, "carol", "deny", idempotency_key="k")
    two.answer(ask, "alice", "approve")
    assert isinstance(two.answer(ask, "bob", "approve"), Settled)
    assert reason_of(two.answer(ask, "carol", "deny", idempotency_key="k")) == "already_settled", (
        "a retry is no new deny"
    )
    assert isinstance(two.answer(ask, "carol", "deny"), Revoked)
    again = two.answer(ask, "carol", "deny")
    assert isinstance(again, Revoked) and again.repeated
    assert two.cause(ask) == "REVOKED"


def test_an_asks_floods_are_counted_for_each_agent(stage: Stage) -> None:
    limits = replace(stage.rules.limits, max_open_bound=2)
    stage = replace(stage, rules=replace(stage.rules, limits=limits))
    first, _ = (stage.ask(params={"version": number}) for number in ("1", "2"))
    assert reason_of(stage.try_ask(stage.wish(params={"version": "3"}))) == "too_many_open"
    other = stage.agent("agent-2")
    assert stage.ask(other, params={"version": "3"})
    stage.withdraw(first)
    assert stage.ask(params={"version": "4"})


def test_a_denied_action_rests(stage: Stage) -> None:
    ask = stage.ask()
    stage.answer(ask, "bob", "deny")
    refused = stage.try_ask(stage.wish(stage.agent("agent-2")))
    assert (reason_of(refused), facts_of(refused)["ask"]) == ("repeat_too_soon", ask.id)
    soon = replace(stage, rules=replace(stage.rules, limits=replace(stage.rules.limits, repeat_after=0)))
    assert soon.ask()


def test_asks_are_paged_by_agent_and_by_what_is_open(stage: Stage) -> None:
    mine, other = stage.agent(), stage.agent("agent-2")
    first, second = (stage.ask(mine, params={"version": number}) for number in ("1", "2"))
    third = stage.ask(other, params={"version": "3"})
    stage.withdraw(first)

    def ids(**which: object) -> set[str]:
        return {ask.id for ask in stage.read(lambda tx: asks.page(tx, "", 10, **which))}  # type: ignore[arg-type] # the filters of a page

    assert ids() == {first.id, second.id, third.id}
    assert ids(only_open=True) == {second.id, third.id}
    assert ids(agent=mine.id) == {first.id, second.id}
    assert ids(agent=mine.id, only_open=True) == {second.id}
    pages = stage.read(lambda tx: [ask.id for ask in asks.page(tx, first.id, 1)])
    assert len(pages) == 1
