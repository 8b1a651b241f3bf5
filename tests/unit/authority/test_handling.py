"""Claim, hand on, put off, hold, withdraw: who may, how far, and what the history keeps; each refusal with its twin."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import insert

from gitops_bot.authority import handling
from gitops_bot.authority.handling import DAY, MOST_HOLD, MOST_SNOOZE, Handled
from gitops_bot.authority.settling import Settled
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import holds, notices, snoozes
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.decisions import Stage, facts_of, reason_of
from tests.store_fixtures import FreshDatabase

TRANSFER = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
ALICE, BOB, CAROL, DAVE = (PrincipalName(name) for name in ("alice", "bob", "carol", "dave"))


@pytest.fixture
def stage(database: FreshDatabase) -> Stage:
    return Stage(database.open(Role.WORKSPACE))


def gated(stage: Stage) -> Ask:
    return stage.ask(verb="payments.transfer", params=TRANSFER)


def claim(stage: Stage, who: str, ask: str) -> Handled | Refused:
    return stage.write(lambda tx: handling.claim(tx, stage.rules, PrincipalName(who), ask))


def delegate(stage: Stage, who: str, ask: str, to: str) -> Handled | Refused:
    return stage.write(lambda tx: handling.delegate(tx, stage.rules, PrincipalName(who), ask, PrincipalName(to)))


def snooze(stage: Stage, who: str, ask: str, ahead: int | None) -> Handled | Refused:
    def work(tx: Tx) -> Handled | Refused:
        until = None if ahead is None else tx.now + ahead
        return handling.snooze(tx, stage.rules, PrincipalName(who), ask, until)

    return stage.write(work)


def hold(stage: Stage, who: str, ask: str, lasts: int = DAY, reason: str | None = None) -> Handled | Refused:
    return stage.write(lambda tx: handling.hold(tx, stage.rules, PrincipalName(who), ask, lasts, reason))


def withdraw(stage: Stage, who: str, ask: str, reason: str = "") -> Handled | Refused:
    return stage.write(lambda tx: handling.withdraw(tx, stage.rules, PrincipalName(who), ask, reason))


def entry(stage: Stage, ask: Ask, kind: str) -> dict[str, Any]:
    (found,) = [one for one in stage.entries(ask) if one["kind"] == kind]
    return found


def test_a_claim_that_is_taken_over_keeps_both_names(stage: Stage) -> None:
    """Stealing is allowed, and the history says from whom; claiming again what is one's own writes nothing."""
    ask = stage.ask()
    first = claim(stage, "bob", ask.id)
    assert isinstance(first, Handled) and first.ask.assignee == BOB and not first.repeated
    again = claim(stage, "bob", ask.id)
    assert isinstance(again, Handled) and again.repeated
    claim(stage, "carol", ask.id)
    assert stage.get(ask).assignee == CAROL
    told = [(one["principal"], one["facts"]["from"], one["facts"]["to"]) for one in stage.entries(ask)[1:]]
    assert told == [("bob", None, "bob"), ("carol", "bob", "carol")]


def test_a_claim_is_given_back_by_who_has_it(stage: Stage) -> None:
    """Nobody gives back what another takes care of; given back twice is once."""
    ask = stage.ask()
    claim(stage, "bob", ask.id)
    other = stage.write(lambda tx: handling.release(tx, stage.rules, CAROL, ask.id))
    assert (reason_of(other), facts_of(other)["by"]) == ("not_authorised", "bob")
    for repeated in (False, True):
        given = stage.write(lambda tx: handling.release(tx, stage.rules, BOB, ask.id))
        assert isinstance(given, Handled) and given.ask.assignee is None and given.repeated is repeated
    assert stage.entries(ask)[-1]["facts"] == {"from": "bob", "to": None}


def test_a_claim_keeps_nobody_from_answering(stage: Stage) -> None:
    """It says who takes care; the policy alone says who may."""
    stage = stage.under({"verbs/release.cut/approve": 1})
    ask = stage.ask()
    claim(stage, "carol", ask.id)
    assert isinstance(stage.answer(ask, "bob", "approve"), Settled)
    late = claim(stage, "carol", ask.id)
    assert (reason_of(late), facts_of(late)["by"]) == ("already_settled", "bob")


def test_who_may_not_answer_may_not_claim(stage: Stage) -> None:
    """Each with what is in the way; the twin of each may."""
    ask, named = stage.ask(), stage.ask(params={"version": "2"}, candidates=(CAROL,))
    cases = {
        ("dave", ask.id): "not_authorised",
        ("bob", named.id): "not_candidate",
        ("agent", ask.id): "service_identity",
    }
    for (who, of), reason in cases.items():
        assert reason_of(claim(stage, who, of)) == reason
    assert reason_of(claim(stage, "nobody\x00", ask.id)) == "unknown_principal"
    assert reason_of(claim(stage, "bob", gated(stage).id)) == "gated"
    assert reason_of(claim(stage, "bob", "no such")) == "not_found"
    assert isinstance(claim(stage, "bob", ask.id), Handled)
    assert isinstance(claim(stage, "carol", named.id), Handled)
    assert stage.events(ask).count("act.refused") == 3


def test_an_ask_is_handed_on_to_who_may_answer_it(stage: Stage) -> None:
    """They are told, the history names both, and whoever may not answer gets nothing."""
    ask = stage.ask()
    refused = delegate(stage, "bob", ask.id, "dave")
    assert (reason_of(refused), facts_of(refused)["voter"]) == ("not_authorised", "dave")
    assert reason_of(delegate(stage, "dave", ask.id, "bob")) == "not_authorised"
    assert reason_of(delegate(stage, "bob", ask.id, "agent")) == "service_identity"
    assert stage.get(ask).assignee is None
    handed = delegate(stage, "bob", ask.id, "carol")
    assert isinstance(handed, Handled) and handed.ask.assignee == CAROL
    assert entry(stage, ask, "ask.delegated")["facts"] == {"from": None, "to": "carol"}
    (notice,) = stage.read(lambda tx: notices.page(tx, "carol", 10))
    assert (notice.kind, ask.id in notice.text, "bob" in notice.text) == ("delegated", True, True)
    again = delegate(stage, "bob", ask.id, "carol")
    assert isinstance(again, Handled) and again.repeated
    assert len(stage.read(lambda tx: notices.page(tx, "carol", 10))) == 1


def test_a_suspended_person_is_handed_nothing(stage: Stage, database: FreshDatabase) -> None:
    """The suspension of this very transaction counts, for either of the two."""
    from gitops_bot.store import suspensions

    ask = stage.ask()
    with database.open(Role.HOST).write() as tx:
        suspensions.suspend(tx, CAROL, None)
    assert reason_of(delegate(stage, "bob", ask.id, "carol")) == "suspended"
    assert reason_of(claim(stage, "carol", ask.id)) == "suspended"
    assert isinstance(delegate(stage, "bob", ask.id, "alice"), Handled)


@pytest.mark.parametrize(
    ("ahead", "reason"),
    [
        (-1, "bad_params"),
        (0, "bad_params"),
        (MOST_SNOOZE + 60_000, "limit_exceeded"),
        (MOST_SNOOZE, None),
        (1_000, None),
    ],
)
def test_a_snooze_is_for_at_most_thirty_days(stage: Stage, ahead: int, reason: str | None) -> None:
    """And never into the past."""
    ask = stage.ask()
    assert reason_of(snooze(stage, "bob", ask.id, ahead)) == reason
    assert (stage.read(lambda tx: snoozes.until(tx, ask.id, BOB)) is not None) == (reason is None)


def test_a_snooze_is_taken_up_again(stage: Stage) -> None:
    """By its own person; another's stays as it was, and each is in the history."""
    ask = stage.ask()
    for who in ("bob", "carol"):
        snooze(stage, who, ask.id, DAY)
    taken = snooze(stage, "bob", ask.id, None)
    assert isinstance(taken, Handled) and taken.until is None and not taken.repeated
    nothing = snooze(stage, "bob", ask.id, None)
    assert isinstance(nothing, Handled) and nothing.repeated
    assert stage.read(lambda tx: (snoozes.until(tx, ask.id, BOB), snoozes.until(tx, ask.id, CAROL) is None)) == (
        None,
        False,
    )
    assert stage.events(ask).count("ask.snoozed") == 3


def test_what_is_put_off_at_once_is_limited(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each person by themselves."""
    monkeypatch.setattr(handling, "MOST_SNOOZED", 1)
    first, second = stage.ask(), stage.ask(params={"version": "2"})
    assert isinstance(snooze(stage, "bob", first.id, DAY), Handled)
    assert reason_of(snooze(stage, "bob", second.id, DAY)) == "limit_exceeded"
    assert isinstance(snooze(stage, "carol", second.id, DAY), Handled)


def test_any_person_holds_a_gated_ask(stage: Stage) -> None:
    """Also one who could not sign it; what is not gated is denied instead, and a service holds nothing."""
    ask = gated(stage)
    held = hold(stage, "alice", ask.id, 3_600_000, "wait for me")
    assert isinstance(held, Handled) and held.until is not None
    assert stage.read(lambda tx: holds.held_until(tx, ask.id)) == held.until
    assert entry(stage, ask, "ask.held")["facts"] == {"until": held.until, "why": "wait for me"}
    again = hold(stage, "alice", ask.id, 3_600_000)
    assert isinstance(again, Handled) and again.repeated
    longer = hold(stage, "dave", ask.id, 2 * 3_600_000)
    assert isinstance(longer, Handled) and not longer.repeated
    assert reason_of(hold(stage, "agent", ask.id)) == "service_identity"
    assert reason_of(hold(stage, "alice", stage.ask().id)) == "bad_params"


@pytest.mark.parametrize(
    ("lasts", "reason"),
    [
        (MOST_HOLD, None),
        (MOST_HOLD + 1, "limit_exceeded"),
        (60_000, None),
        (0, "limit_exceeded"),
        (-5, "limit_exceeded"),
    ],
)
def test_a_hold_is_for_at_most_72_hours(stage: Stage, lasts: int, reason: str | None) -> None:
    """Longer is refused and not cut, so that nobody relies on what they did not get."""
    ask = gated(stage)
    assert reason_of(hold(stage, "bob", ask.id, lasts)) == reason
    assert stage.count("holds") == (0 if reason else 1)


@pytest.mark.parametrize(("state", "reason"), [("MINTED", None), ("SPENT", "spent"), ("REVOKED", "lapsed")])
def test_a_grant_is_held_until_it_is_spent(
    stage: Stage, database: FreshDatabase, state: str, reason: str | None
) -> None:
    """After the quorum the hold stops the spend; after the spend there is nothing to stop."""
    ask = gated(stage)
    owner = database.open(Role.OWNER)
    with owner.write() as tx:
        tables = metadata.tables
        ended = None if state == "MINTED" else tx.now
        tx.execute(
            tables["asks"].update().where(tables["asks"].c.id == ask.id).values(state="APPROVED", ended_at=tx.now)
        )
        row = {
            "id": "g1", "ask": ask.id, "action_hash": ask.binding.action_hash, "state": state, "epoch": 1,
            "minted_at": tx.now, "spend_after": tx.now, "spend_before": tx.now + DAY, "ended_at": ended, "nonce": None,
        }  # fmt: skip
        tx.execute(insert(tables["grants"]), row)
    assert reason_of(hold(stage, "alice", ask.id)) == reason


def test_the_owner_withdraws_gated_asks_too(stage: Stage) -> None:
    """It mints nothing; who neither asked nor owns the agent may not."""
    for ask in (stage.ask(), stage.question(), gated(stage)):
        assert reason_of(withdraw(stage, "bob", ask.id)) == "not_authorised"
        done = withdraw(stage, "alice", ask.id, "not needed")
        assert isinstance(done, Handled)
        assert (done.ask.state, done.ask.ended_by, done.ask.end_reason) == (AskState.WITHDRAWN, "alice", "not needed")
        again = withdraw(stage, "alice", ask.id)
        assert isinstance(again, Handled) and again.repeated
        assert stage.count("verdicts") == 0


def test_a_reason_has_its_limits(stage: Stage) -> None:
    """500 characters that a database can hold."""
    ask = stage.ask()
    assert reason_of(withdraw(stage, "alice", ask.id, "x" * 501)) == "limit_exceeded"
    assert reason_of(withdraw(stage, "alice", ask.id, "a\x00b")) == "unprintable"
    done = withdraw(stage, "alice", ask.id, "x" * 500)
    assert isinstance(done, Handled) and done.ask.end_reason == "x" * 500


def test_7_an_ask_whose_time_is_over_takes_no_act(stage: Stage) -> None:
    """It expires at the act, as it does at an answer, and says so."""
    acts: list[Callable[[Ask], Handled | Refused]] = [
        lambda ask: claim(stage, "bob", ask.id),
        lambda ask: snooze(stage, "bob", ask.id, DAY),
        lambda ask: withdraw(stage, "alice", ask.id),
    ]
    for act in acts:
        ask = stage.expiring(params={"version": str(stage.count("asks"))})
        assert reason_of(act(ask)) == "expired"
        assert stage.get(ask).state is AskState.EXPIRED
