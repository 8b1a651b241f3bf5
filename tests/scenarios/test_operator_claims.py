"""What an operator decided at a loop's bridge: a vote of the person who is named, or one refusal with its reason."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from gitops_bot.authority import operator_claims
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.operator_claims import MOST_AN_HOUR, OperatorClaims, refusal_of
from gitops_bot.broker import loops
from gitops_bot.broker.loops import Listener
from gitops_bot.broker.successors import head_moved
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.errors import Refused
from gitops_bot.store import captures, due, votes
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, SeatState
from gitops_bot.store.tables import claims
from gitops_bot.store.work_tables import ledger
from tests.capture_stage import REGIME, CaptureStage
from tests.decisions import PEOPLE, rules_of
from tests.policy_bundles import CAPTURE, Patch
from tests.store_fixtures import FreshDatabase

OPERATOR: Patch = {f"{CAPTURE}/channels": ["workspace", "operator"]}


class Logs:
    """A link that gives the lines which a test put into a loop's log."""

    def __init__(self) -> None:
        self.lines: list[Mapping[str, object]] = []

    def send(self, *_: Any) -> Any:
        raise AssertionError("nothing is sent")

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, Mapping[str, object]], ...]:
        return tuple(enumerate(self.lines, 1))[after:] if not address.startswith("loop-2") else ()


class Bridge:
    """A stage with a loop that waits for `REGIME`, and what its operator says at its bridge."""

    def __init__(self, stage: CaptureStage, operator: str = "bob", *, trust_shared: bool = True) -> None:
        self.trust_shared = trust_shared
        self.stage, self.operator, self.logs = stage, operator, Logs()
        self.capture = stage.requested()

    def hear(self) -> None:
        """Read the log and settle what it holds."""
        database, pace = self.stage.database, Pace(batch=50, first_ms=1, most_ms=20)
        listener = Listener(database, self.logs, 1_000, listen_ms=1)  # type: ignore[arg-type] # a stand-in
        settler = OperatorClaims(database, self.stage.rules, self.operator, self.trust_shared)
        for duty in (
            RowDuty(loops.DUTY, database, listener.one, pace),
            RowDuty(operator_claims.DUTY, database, settler.one, pace),
        ):
            duty.step()

    def say(self, decision: str = "approve", key: str = "k", **more: object) -> None:
        """Let the operator decide, and the broker hear of it."""
        said = {"v": 1, "kind": "approval_claimed", "trace_id": REGIME.trace_id, "decision": decision, "key": key}
        self.logs.lines.append({**said, "reason": "", **more})
        self.stage.write(self._due)
        self.hear()

    @staticmethod
    def _due(tx: Tx) -> None:
        due.set_due(tx, loops.DUTY, "loop-1", tx.now)

    def claims(self) -> list[tuple[str, str | None]]:
        found = select(claims.c.state, claims.c.reason).order_by(claims.c.id)
        return self.stage.read(lambda tx: [(row.state, row.reason) for row in tx.execute(found)])

    def refusals(self) -> list[str]:
        found = select(ledger.c.reason).where(ledger.c.kind == "vote.refused", ledger.c.channel == "operator")
        return self.stage.read(lambda tx: [row.reason for row in tx.execute(found.order_by(ledger.c.id))])

    @property
    def state(self) -> CaptureState:
        return self.stage.capture(self.capture).state

    def ask_state(self, capture: Capture | None = None) -> AskState:
        ask = self.stage.capture(capture or self.capture).ask
        assert ask is not None
        return self.stage.get(ask).state


@pytest.fixture
def stage(database: FreshDatabase, tmp_path: Path) -> Iterator[CaptureStage]:
    rules = rules_of({**PEOPLE, **OPERATOR})
    return CaptureStage(database.open(Role.BROKER), rules, folder=tmp_path, forge=False)


@pytest.fixture
def bridge(stage: CaptureStage) -> Bridge:
    return Bridge(stage)


def test_what_a_loop_s_own_agent_could_say_approves_nothing(stage: CaptureStage) -> None:
    """I15: an agent that shares its loop's user can read the operator's token. A deny takes away only, so it counts;
    the accepting twin is every other test here, on a host where somebody accepted that."""
    bridge = Bridge(stage, trust_shared=False)
    bridge.say()
    assert bridge.claims() == [("refused", "not_authorised")]
    assert bridge.refusals() == ["not_authorised"]
    assert bridge.ask_state() is AskState.OPEN
    bridge.say("deny", key="d", reason="too dear")
    assert bridge.claims()[1:] == [("counted", None)]
    assert bridge.ask_state() is AskState.DENIED


def test_an_operator_s_approve_is_the_vote_of_the_person_who_is_named(bridge: Bridge) -> None:
    """I10, I19: the capture goes its ordinary way, and the ledger says who, by which channel, on what evidence."""
    bridge.say()
    assert bridge.claims() == [("counted", None)]
    ask = bridge.stage.capture(bridge.capture).ask
    assert ask is not None
    (vote,) = bridge.stage.read(lambda tx: votes.of_ask(tx, ask))
    assert (vote.principal, vote.channel, vote.decision) == ("bob", "operator", "approve")
    assert json.loads(vote.evidence)["loop"] == "loop-1"
    assert bridge.state is CaptureState.REQUESTED
    assert bridge.stage.link.taken() == []
    bridge.stage.settle()
    assert bridge.stage.link.taken() == [f"loop-1:1 rescope:{ask}"]
    assert len(bridge.stage.outside.calls("submit")) == 1


def test_an_operator_s_deny_carries_its_reason_to_the_loop(bridge: Bridge) -> None:
    bridge.say("deny", reason="too dear")
    assert bridge.claims() == [("counted", None)]
    bridge.stage.settle()
    (sent,) = bridge.stage.outside.calls("send")
    assert (sent["cmd"], sent["reason"]) == ("deny", "too dear")
    assert bridge.state is CaptureState.DENIED


def test_a_deny_after_the_approve_takes_away_what_is_not_done(bridge: Bridge) -> None:
    bridge.say()
    bridge.say("deny", key="k2", reason="changed my mind")
    assert bridge.claims() == [("counted", None), ("counted", None)]
    bridge.stage.settle()
    assert bridge.state is CaptureState.CANCELLED
    assert bridge.stage.outside.calls("submit") == []


def test_the_same_line_heard_twice_is_one_claim(bridge: Bridge) -> None:
    bridge.say()
    bridge.say()
    assert bridge.claims() == [("counted", None)]


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        pytest.param("", "unknown_principal", id="nobody is named"),
        pytest.param("mallory", "unknown_principal", id="somebody whom the policy does not know"),
        pytest.param("agent", "service_identity", id="a service"),
        pytest.param("carol", "not_authorised", id="a person who may not"),
        pytest.param("bob", None, id="a person who may"),
    ],
)
def test_who_is_named_decides_and_each_refusal_is_in_the_ledger(
    bridge: Bridge, operator: str, reason: str | None
) -> None:
    bridge.operator = operator
    bridge.say()
    assert bridge.claims() == [("counted" if reason is None else "refused", reason)]
    assert bridge.refusals() == ([] if reason is None else [reason])
    assert bridge.ask_state() is (AskState.APPROVED if reason is None else AskState.OPEN)


def test_a_verb_that_does_not_list_the_channel_refuses_it(bridge: Bridge) -> None:
    """The accepting twin is the first test of this file."""
    bridge.stage.rules = rules_of(PEOPLE)
    bridge.say()
    assert bridge.claims() == [("refused", "wrong_channel")]
    assert bridge.refusals() == ["wrong_channel"]
    assert bridge.ask_state() is AskState.OPEN


def test_a_loop_is_told_beforehand_what_would_count_for_nothing() -> None:
    named = rules_of({**PEOPLE, **OPERATOR})
    assert refusal_of(named, "bob", "capture.approve") is None
    assert refusal_of(named, "", "capture.approve") == "no_operator"
    assert refusal_of(named, "mallory", "capture.approve") == "no_operator"
    assert refusal_of(named, "bob", "payments.transfer") == "gated"


def test_a_permission_that_this_channel_cannot_show_is_refused_and_not_guessed(bridge: Bridge) -> None:
    bridge.stage.rules = rules_of({f"{CAPTURE}/voters": {"people": ["bob"], "github_permission": "write"}, **OPERATOR})
    bridge.say()
    # The policy's digest differs too; who may vote is judged first.
    assert bridge.claims() == [("refused", "not_authorised")]


@pytest.mark.parametrize("opened", [True, False])
def test_a_loop_that_serves_everybody_gets_no_claim_taken(bridge: Bridge, opened: bool) -> None:
    bridge.logs.lines.append({"v": 1, "kind": "start", "insecure_bridge": opened})
    bridge.say()
    assert bridge.claims() == [("refused", "not_authorised") if opened else ("counted", None)]
    assert len(bridge.refusals()) == int(opened)


def test_a_loop_without_a_token_stays_open_whatever_its_log_says(bridge: Bridge) -> None:
    agent = bridge.stage.agent("agent-of-loop-1", AgentKind.LOOP)
    registered = bridge.stage.write(
        lambda tx: loops.register(
            tx, agent=agent, loop_id="loop-1", address="h:1", broker_token="", resume=True, open_bridge=True
        )
    )
    assert isinstance(registered, loops.Registered)
    bridge.logs.lines.append({"v": 1, "kind": "recovery", "insecure_bridge": False})
    bridge.say()
    assert bridge.claims() == [("refused", "not_authorised")]


def test_no_token_is_refused_unless_the_bridge_is_said_to_be_open(bridge: Bridge) -> None:
    agent = bridge.stage.agent("agent-of-loop-1", AgentKind.LOOP)
    refused = bridge.stage.write(
        lambda tx: loops.register(tx, agent=agent, loop_id="loop-1", address="h:1", broker_token="", resume=True)
    )
    assert isinstance(refused, Refused)


def test_i4_a_claim_of_an_earlier_start_does_not_answer_the_present_one(bridge: Bridge) -> None:
    """The line is heard, and before it is settled the loop starts anew."""
    bridge.logs.lines.append(
        {"kind": "approval_claimed", "trace_id": REGIME.trace_id, "decision": "approve", "key": "k"}
    )
    database, pace = bridge.stage.database, Pace(batch=50)
    listener = Listener(database, bridge.logs, 1_000, listen_ms=1)  # type: ignore[arg-type] # a stand-in
    RowDuty(loops.DUTY, database, listener.one, pace).step()
    bridge.stage.loop("loop-1", resume=False)
    bridge.logs.lines.clear()
    bridge.hear()
    assert bridge.claims() == [("refused", "stale_run")]
    assert bridge.refusals() == ["stale_run"]


def test_i4_an_ask_that_was_replaced_since_it_was_on_screen_is_not_answered(
    database: FreshDatabase, tmp_path: Path
) -> None:
    rules = rules_of({**PEOPLE, f"{CAPTURE}/channels": ["forge", "operator"]})
    stage = CaptureStage(database.open(Role.BROKER), rules, folder=tmp_path)
    bridge = Bridge(stage)
    stage.settle()
    shown = stage.capture(bridge.capture).ask
    stage.write(lambda tx: head_moved(tx, stage.rules, stage.place, bridge.capture.id))
    bridge.say(ask=shown, key="old")
    assert bridge.claims() == [("refused", "stale_head")]
    assert bridge.ask_state() is AskState.OPEN
    bridge.say(ask=stage.capture(bridge.capture).ask, key="new")
    assert bridge.claims()[1] == ("counted", None)


@pytest.mark.parametrize("named", ["01zzzzzzzzzzzzzzzzzzzzzzzz", "\x00", "x" * 5_000])
def test_an_ask_that_is_none_of_this_seat_s_is_refused(bridge: Bridge, named: str) -> None:
    bridge.say(ask=named)
    assert bridge.claims() == [("refused", "not_found")]


def test_another_loop_s_ask_is_not_answered_from_here(bridge: Bridge) -> None:
    """The loop says a trace id that it does not wait for; who waits for it is another loop."""
    bridge.stage.write(lambda tx: captures.leave(tx, captures.seats(tx, bridge.capture.id)[0], SeatState.GONE))
    bridge.stage.requested("loop-2")
    bridge.say()
    assert bridge.claims() == [("refused", "not_found")]
    assert bridge.ask_state() is AskState.OPEN


@pytest.mark.parametrize(
    "broken",
    [
        {"decision": "grant"},
        {"decision": ["approve"]},
        {"key": 7},
        {"trace_id": None},
        {"trace_id": {"a": 1}},
    ],
)
def test_a_line_that_is_no_claim_is_passed_over(bridge: Bridge, broken: dict[str, object]) -> None:
    bridge.say(**broken)
    assert bridge.claims() == []
    bridge.say(key="sound")
    assert bridge.claims() == [("counted", None)]


def test_i20_a_flood_of_claims_costs_a_bounded_number_of_rows(bridge: Bridge) -> None:
    bridge.operator = "carol"
    line = {"kind": "approval_claimed", "trace_id": REGIME.trace_id, "decision": "approve"}
    bridge.logs.lines += [{**line, "key": f"k{number}"} for number in range(3 * MOST_AN_HOUR)]
    for _ in range(3):
        bridge.hear()
    found = bridge.claims()
    assert len(found) == MOST_AN_HOUR + 1
    assert [reason for _, reason in found].count("rate_limited") == 1
    assert len(bridge.refusals()) == MOST_AN_HOUR + 1
