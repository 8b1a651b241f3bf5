"""The invariants by name, as far as rows reach, on every engine. Each refusing test has its accepting twin in it."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, insert, text, update
from sqlalchemy.exc import DBAPIError

from gitops_bot.authority import closing, settling
from gitops_bot.authority.asking import Opened
from gitops_bot.authority.duties import FINISHED, Again, Outcome, Pace, RowDuty
from gitops_bot.authority.outbox import Delivered, Delivery, Impossible, Outbox, Route
from gitops_bot.authority.sealing import DUTY as SEAL
from gitops_bot.authority.sealing import Sealer, verify
from gitops_bot.authority.settling import Counted, Revoked, Settled
from gitops_bot.core.asks import AskId, AskState, Binding
from gitops_bot.core.canonical import Digest, action_hash, canonical
from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.readings import Permission
from gitops_bot.core.verdicts import Answer, Channel
from gitops_bot.policy.lookup import NeedsPermission
from gitops_bot.store import agents, asks, captures, due, fleet, ledger, outbox, waiters
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.outbox import StoredEffect
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, EffectState, SeatState, WaiterKind
from gitops_bot.store.tables import ask_options
from gitops_bot.store.tables import asks as asks_table
from gitops_bot.store.work_tables import due as due_table
from gitops_bot.store.work_tables import ledger as ledger_table
from gitops_bot.store.work_tables import waiters as waiters_table
from tests.asserted import asserted
from tests.capture_stage import CaptureStage
from tests.decisions import VERB, Stage, reason_of
from tests.fleet_stage import FleetStage
from tests.policy_bundles import GONE
from tests.store_fixtures import FreshDatabase
from tests.store_rows import contents

ONE: dict[str, Any] = {f"verbs/{VERB}/approve": 1}
WAKE = waiters.duty(WaiterKind.REQUEST)


@pytest.fixture
def stage(database: FreshDatabase) -> Iterator[Stage]:
    return Stage(database.open(Role.BROKER))


@pytest.fixture
def captures_stage(database: FreshDatabase, tmp_path: Path) -> Iterator[CaptureStage]:
    return CaptureStage(database.open(Role.BROKER), folder=tmp_path)


class Power(Exception):
    """The machine stops."""


# I1


def ways_to_end(stage: Stage) -> dict[str, Callable[[Tx, str], object]]:
    def answer(option: str) -> Callable[[Tx, str], object]:
        def work(tx: Tx, ask_id: str) -> object:
            ask = asks.get(tx, ask_id)
            assert ask is not None
            voice = stage.voice("bob", asserted=asserted(ask, "bob", option))
            return settling.answer(tx, stage.rules, ask_id, Answer(option, None, ask.binding), voice)

        return work

    return {
        "approve": answer("approve"),
        "deny": answer("deny"),
        "withdraw": lambda tx, ask_id: closing.withdraw(tx, ask_id, "agent-1", "gone", to_backlog=True),
        "supersede": lambda tx, ask_id: closing.supersede(tx, stage.rules, ask_id, Reason.STALE_HEAD),
    }


@pytest.mark.parametrize("how", ["approve", "deny", "withdraw", "supersede"])
def test_i1_one_transaction(database: FreshDatabase, how: str) -> None:
    """Whatever statement of an ending fails, nothing of it is there; when none fails, all of it is."""
    stage = Stage(database.open(Role.BROKER)).under(ONE)
    owner = database.open(Role.OWNER)
    agent = FleetStage(stage.database, stage.rules).member("one")
    ask = stage.ask(agent)
    before = contents(owner)
    end = ways_to_end(stage)[how]
    statements: list[str] = []
    fails_at = [0]

    def count(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")):
            statements.append(statement)
            if len(statements) == fails_at[0]:
                raise Power

    event.listen(stage.database.engine, "before_cursor_execute", count)
    while True:
        fails_at[0] += 1
        statements.clear()
        try:
            stage.write(lambda tx: end(tx, ask.id))
        except Power:
            assert contents(owner) == before
            continue
        break
    assert fails_at[0] > 5, "an ending is many statements"
    after = stage.get(ask)
    kinds = stage.events(ask)
    assert after.state is not AskState.OPEN
    assert kinds.count(f"ask.{'answered' if how in ('approve', 'deny') else after.state.value.lower()}") == 1
    assert (stage.verdict(ask) is not None) == (how in ("approve", "deny"))
    if how == "supersede":
        assert stage.read(lambda tx: waiters.of_ask(tx, after.superseded_by or "")) != []
    else:
        assert stage.cause(ask) == after.state.value
        woken = stage.read(lambda tx: fleet.get(tx, agent.id))
        assert woken is not None
        assert woken.due_reason == ("withdrawn" if how == "withdraw" else "answer") and woken.wake_seq == 1


# I2


def claim_one(stage: Stage, lease: int = 60_000) -> Claimed:
    (claimed,) = stage.write(lambda tx: due.claim(tx, WAKE, 1, lease))
    return claimed


def due_in(stage: Stage) -> int | None:
    return stage.read(lambda tx: None if (at := due.next_due(tx, WAKE)) is None else at - tx.now)


@pytest.mark.parametrize("settle", ["done", "again", "failed"])
def test_i2_a_wake_that_a_person_set_survives_the_settling_run(stage: Stage, settle: str) -> None:
    """The duty's row is leased while a person wakes it; however the run settles, it is due at once."""
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now))
    claimed = claim_one(stage)
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now))
    assert stage.write(lambda tx: due.claim(tx, WAKE, 1, 1_000)) == [], "the lease holds"
    match settle:
        case "done":
            assert stage.write(lambda tx: due.done(tx, claimed))
        case "again":
            assert stage.write(lambda tx: due.again(tx, claimed, tx.now + 3_600_000))
        case "failed":
            assert stage.write(lambda tx: due.again(tx, claimed, tx.now + 3_600_000, error="away"))
    assert (due_in(stage) or 0) <= 0
    assert claim_one(stage).key == "run"


@pytest.mark.parametrize(("settle", "left"), [("done", None), ("again", 3_600_000), ("failed", 3_600_000)])
def test_i2_without_a_wake_the_schedule_stands(stage: Stage, settle: str, left: int | None) -> None:
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now))
    claimed = claim_one(stage)
    match settle:
        case "done":
            stage.write(lambda tx: due.done(tx, claimed))
        case "again":
            stage.write(lambda tx: due.again(tx, claimed, tx.now + 3_600_000))
        case "failed":
            stage.write(lambda tx: due.again(tx, claimed, tx.now + 3_600_000, error="away"))
    found = due_in(stage)
    assert found is None if left is None else found is not None and left - 60_000 < found <= left


def test_i2_a_lease_that_ran_out_hides_no_later_wake(stage: Stage) -> None:
    """Whoever sets a far time after a lease ran out leaves no lease behind that the next wake would wait for."""
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now))
    claim_one(stage, lease=0)
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now + 3_600_000))
    assert (due_in(stage) or 0) > 60_000
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now))
    assert (due_in(stage) or 0) <= 0


def test_i2_more_work_does_not_outrank_a_back_off_and_a_set_time_does(stage: Stage) -> None:
    stage.write(lambda tx: due.ensure(tx, WAKE, "lane"))
    claimed = claim_one(stage)
    stage.write(lambda tx: due.ensure(tx, WAKE, "lane"))
    stage.write(lambda tx: due.again(tx, claimed, tx.now + 3_600_000, error="away"))
    stage.write(lambda tx: due.ensure(tx, WAKE, "lane"))
    assert (due_in(stage) or 0) > 60_000, "a forge that asked for a pause gets it"
    stage.write(lambda tx: due.set_due(tx, WAKE, "lane", tx.now))
    assert claim_one(stage).attempts == 2


def test_i2_who_lost_the_lease_changes_nothing(stage: Stage) -> None:
    stage.write(lambda tx: due.set_due(tx, WAKE, "run", tx.now))
    lost = claim_one(stage, lease=0)
    held = claim_one(stage)
    assert not stage.write(lambda tx: due.done(tx, lost))
    assert not stage.write(lambda tx: due.again(tx, lost, tx.now))
    assert not stage.write(lambda tx: due.renew(tx, lost, 1_000))
    assert stage.write(lambda tx: due.renew(tx, held, 1_000))
    assert stage.write(lambda tx: due.done(tx, held))


# I4

OTHER = Digest("sha256:" + "0" * 64)


def test_i4_a_verdict_binds_the_exact_action(database: FreshDatabase) -> None:
    stage = Stage(database.open(Role.BROKER)).under(ONE)
    ask = stage.ask()
    bound = ask.binding
    for echoed, reason in (
        (replace(bound, action_hash=OTHER), "stale_action"),
        (replace(bound, policy=OTHER), "stale_policy"),
        (replace(bound, run_version=2), "stale_run"),
    ):
        assert reason_of(stage.answer(ask, "bob", "approve", binding=echoed)) == reason
    unbound = stage.write(
        lambda tx: settling.answer(
            tx,
            stage.rules,
            ask.id,
            Answer("approve", None, None),
            stage.voice("bob", asserted=asserted(ask, "bob", "approve")),
        )
    )
    assert reason_of(unbound) == "unbindable"
    assert reason_of(stage.under({**ONE, "version": 4}).answer(ask, "bob", "approve")) == "stale_policy"
    assert stage.count("votes") == 0
    assert isinstance(stage.answer(ask, "bob", "approve", binding=Binding(*vars_of(bound))), Settled)


def vars_of(bound: Binding) -> tuple[Digest, Digest, int]:
    return bound.action_hash, bound.policy, bound.run_version


def test_i4_a_run_that_was_started_again_is_asked_again(stage: Stage) -> None:
    stage = stage.under(ONE)
    ask = stage.ask()
    stage.write(lambda tx: agents.raise_version(tx, ask.run))
    assert reason_of(stage.answer(ask, "bob", "approve")) == "stale_run"
    opened = stage.write(lambda tx: closing.supersede(tx, stage.rules, ask.id, Reason.STALE_RUN))
    assert isinstance(opened, Opened) and opened.ask.binding.run_version == 2
    assert isinstance(stage.answer(opened.ask, "bob", "approve"), Settled)


def test_i4_stored_bytes_that_were_changed_are_not_approved(database: FreshDatabase) -> None:
    stage = Stage(database.open(Role.BROKER)).under(ONE)
    ask, twin = stage.ask(), stage.ask(params={"version": "2.0"})
    owner = database.open(Role.OWNER)
    with owner.write() as tx:
        forged = (ask.action or b"").replace(b"1.0", b"6.6")
        tx.execute(update(asks_table).where(asks_table.c.id == ask.id).values(action=forged))
    assert reason_of(stage.answer(ask, "bob", "approve")) == "stale_action"
    assert isinstance(stage.answer(twin, "bob", "approve"), Settled)


# I5


def test_i5_expiry_never_approves(database: FreshDatabase) -> None:
    """Not with one vote of two, not for a question, not when the duty is late."""
    stage = Stage(database.open(Role.BROKER))
    half, question = stage.ask(), stage.question()
    assert isinstance(stage.answer(half, "bob", "approve"), Counted)
    with database.open(Role.OWNER).write() as tx:
        tx.execute(update(asks_table).values(expires_at=tx.now - 1))
        tx.execute(update(due_table).values(due_at=tx.now - 1))
    stage.expire_all()
    for ask in (half, question):
        assert stage.get(ask).state is AskState.EXPIRED
        assert stage.verdict(ask) is None
        assert stage.cause(ask) == "EXPIRED"
    assert reason_of(stage.answer(half, "alice", "approve")) == "expired"
    assert {entry.cause for entry in stage.backlog()} == {"expired"}
    assert isinstance(stage.answer(stage.question(), "alice", None, "left"), Settled)


def test_i5_an_ask_without_a_limit_never_expires(stage: Stage) -> None:
    question = stage.question()
    untimed = replace(question, id=AskId("0" + question.id[1:] + "0"), expires_at=None)
    stage.write(lambda tx: asks.insert_ask(tx, untimed))
    assert reason_of(stage.write(lambda tx: closing.expire(tx, untimed.id))) == "already_settled"
    assert isinstance(stage.answer(untimed, "alice", None, "left"), Settled)


# I6


def test_i6_one_winner(stage: Stage) -> None:
    """Whatever comes second is told who was first and when; see tests/integration/test_races.py for real processes."""
    stage = stage.under(ONE)
    ends: dict[str, Callable[[Any], object]] = {
        "approve": lambda ask: stage.answer(ask, "alice", "approve"),
        "deny": lambda ask: stage.answer(ask, "bob", "deny"),
        "withdraw": lambda ask: stage.withdraw(ask, by="agent-1"),
    }
    quick = replace(stage, rules=replace(stage.rules, limits=replace(stage.rules.limits, repeat_after=0)))
    for first, end in ends.items():
        for second, other in ends.items():
            if first == second:
                continue
            ask = quick.ask()
            end(ask)
            state = stage.get(ask)
            lost = other(ask)
            assert stage.get(ask) == state, f"{second} changed what {first} ended"
            assert isinstance(lost, Refused | Revoked)
            if isinstance(lost, Refused):
                assert (lost.facts["by"], lost.facts["at"]) == (state.ended_by, state.ended_at)
            endings = [kind for kind in stage.events(ask) if kind in ("ask.answered", "ask.withdrawn")]
            assert len(endings) == 1


# I9


def test_i9_a_wish_lands_once_a_run_however_often_it_is_read(stage: Stage) -> None:
    """As far as this reaches: streaming, the end of a turn and the reconciler name one key for one wish."""
    agent = stage.agent()
    run = stage.run(agent)
    key = "run-1:ask:digest"
    landed = {stage.ask(agent, run, verb=None, params=None, text="Which?", idempotency_key=key).id for _ in range(3)}
    assert len(landed) == 1
    assert stage.count("asks") == 1
    other = stage.ask(agent, run, verb=None, params=None, text="Which?", idempotency_key="run-2:ask:digest")
    assert other.id not in landed


# I10


@pytest.mark.parametrize("order", ["ready first", "revoked first"])
def test_i10_one_terminal_signal_for_each_capture_and_loop(captures_stage: CaptureStage, order: str) -> None:
    """The rescope waits in the outbox while the loop is away; a revocation meanwhile turns it into the one deny."""
    stage = captures_stage
    capture = stage.requested()
    ask = stage.get(capture.ask or "")
    stage.answer(ask, "bob", "approve")
    if order == "ready first":
        stage.settle()
    assert isinstance(stage.answer(ask, "alice", "deny"), Revoked)
    stage.settle()
    signals = [sent.split(" ", 1)[1] for sent in stage.link.taken()]
    assert signals == ([f"rescope:{ask.id}"] if order == "ready first" else [f"deny:{ask.id}"])
    states = {seat.state for seat in stage.read(lambda tx: captures.seats(tx, capture.id))}
    assert states == ({SeatState.RESCOPED} if order == "ready first" else {SeatState.DENIED})


@pytest.mark.parametrize("revoked", [True, False])
def test_i10_a_rescope_that_failed_once_is_not_sent_after_a_revocation(
    captures_stage: CaptureStage, revoked: bool
) -> None:
    """The loop was away at the first attempt; somebody says no before it is back; it hears the no alone."""
    stage = captures_stage
    capture = stage.requested()
    ask = stage.get(capture.ask or "")
    stage.outside.broken["send"] = 1
    stage.answer(ask, "bob", "approve")
    stage.settle()
    assert len(stage.outside.calls("send")) == 1 and stage.link.taken() == []
    if revoked:
        assert isinstance(stage.answer(ask, "alice", "deny"), Revoked)
        stage.settle()
    stage.write(lambda tx: due.set_due(tx, outbox.DUTY, "loop:loop-1", tx.now))
    stage.settle()
    said = "deny" if revoked else "rescope"
    assert [sent.split(" ", 1)[1] for sent in stage.link.taken()] == [f"{said}:{ask.id}"]


# I11 and lifecycle 24


def many_asks(stage: Stage, count: int) -> list[str]:
    """Open many asks by copying the rows of one, which takes a second and not a minute."""
    ask = stage.ask()
    columns = asks_table.select().where(asks_table.c.id == ask.id)
    whole = dict(stage.read(lambda tx: tx.execute(columns).one())._mapping)
    ids = [f"{number:05d}{ask.id[5:]}" for number in range(count)]
    actions = [canonical({"domain": {}, "params": {"n": number}, "verb": VERB}) for number in range(count)]

    def work(tx: Tx) -> None:
        pairs = list(zip(ids, actions, strict=True))
        rows = [{**whole, "id": one, "action": action, "action_hash": action_hash(action)} for one, action in pairs]
        tx.execute(insert(asks_table), rows)
        options = [
            {"ask": one, "id": o.id, "label": o.label, "position": n} for one in ids for n, o in enumerate(ask.options)
        ]
        tx.execute(insert(ask_options), options)
        tx.execute(insert(waiters_table), [{"ask": one, "kind": "run", "id": ask.run} for one in ids])
        due_rows = [{"duty": "expire", "key": one, "due_at": ask.expires_at} for one in ids]
        tx.execute(insert(due_table), due_rows)

    stage.write(work)
    return ids


def statements_of(database: Database, work: Callable[[], object]) -> int:
    count = 0

    def add(*_: Any) -> None:
        nonlocal count
        count += 1

    event.listen(database.engine, "before_cursor_execute", add)
    work()
    event.remove(database.engine, "before_cursor_execute", add)
    return count


def start(fresh: FreshDatabase) -> tuple[int, int]:
    """Open the database and run every duty of rows once; give the statements that took and the threads it left."""
    database = fresh.open(Role.BROKER)
    sealer = Sealer(database)

    def first_steps() -> None:
        Stage(database).expire_all()
        sealer.step(Claimed(SEAL, "ledger", 1, 1))
        RowDuty(WAKE, database, lambda _: FINISHED).step()
        RowDuty(outbox.DUTY, database, Outbox(database, {}).lane).step()

    before = threading.active_count()
    return statements_of(database, first_steps), threading.active_count() - before


def test_i11_and_24_ten_thousand_open_asks_cost_a_start_nothing_and_all_are_answerable(database: FreshDatabase) -> None:
    stage = Stage(database.open(Role.BROKER)).under(ONE)
    stage.ask(params={"version": "first"})
    statements, threads = start(database)
    ids = many_asks(stage, 10_000)
    more, grown = start(database)
    assert more <= statements + 5 and grown == threads, "neither statements nor threads grow with what is open"
    after, seen = "", 0
    while page := stage.read(lambda tx, after=after: asks.page(tx, after, 1_000, only_open=True)):  # type: ignore[misc] # bound now
        seen, after = seen + len(page), page[-1].id
    assert seen == 10_002
    for ask_id in (ids[0], ids[5_000], ids[-1]):
        assert isinstance(stage.answer(stage.get(ask_id), "bob", "approve"), Settled)


def test_i11_an_open_ask_holds_no_connection(database: FreshDatabase) -> None:
    opened = database.open(Role.BROKER)
    stage = Stage(opened)
    for number in range(30):
        stage.ask(params={"version": str(number)})
    assert opened.engine.pool.checkedout() == 0  # type: ignore[attr-defined] # a queue pool


# I12


def deliver(stage: Stage, route: Route) -> None:
    """Run the outbox as a broker that has just started."""
    duty = RowDuty(outbox.DUTY, stage.database, Outbox(stage.database, {"test": route}).lane, Pace(lease_ms=0))
    duty.step()


def put(stage: Stage, key: str, **given: Any) -> None:
    stage.write(lambda tx: outbox.enqueue(tx, outbox.Effect(key, "lane", "test", {"n": 1}, **given)))


def effect(stage: Stage, key: str) -> StoredEffect:
    found = stage.read(lambda tx: outbox.get(tx, key))
    assert found is not None
    return found


def test_i12_an_effect_is_repeated_under_its_key_until_its_result_is_written(stage: Stage) -> None:
    seen: list[tuple[str, bool]] = []

    def dies(found: StoredEffect) -> Delivery:
        seen.append((found.key, found.attempted_before))
        raise Power

    put(stage, "k", reply=("request", "r"))
    for _ in range(2):
        with pytest.raises(Power):
            deliver(stage, Route(dies))
        assert effect(stage, "k").state is EffectState.ATTEMPTING, "the attempt is written before it begins"

    def works(found: StoredEffect) -> Delivery:
        seen.append((found.key, found.attempted_before))
        return Delivered({"id": 7})

    deliver(stage, Route(works))
    assert seen == [("k", False), ("k", True), ("k", True)]
    assert (effect(stage, "k").state, effect(stage, "k").result) == (EffectState.DONE, {"id": 7})
    assert stage.read(lambda tx: due.next_due(tx, "wake.request")) is not None
    put(stage, "k")
    deliver(stage, Route(dies))
    assert len(seen) == 3, "a key that is known is never delivered again"


def test_i12_what_cannot_dedupe_is_tried_once_and_then_unknown(stage: Stage) -> None:
    calls: list[str] = []

    def dies(found: StoredEffect) -> Delivery:
        calls.append(found.key)
        raise Power

    put(stage, "k", reply=("request", "r"))
    with pytest.raises(Power):
        deliver(stage, Route(dies, at_most_once=True))
    deliver(stage, Route(dies, at_most_once=True))
    assert calls == ["k"]
    assert effect(stage, "k").state is EffectState.UNKNOWN
    assert stage.read(lambda tx: due.next_due(tx, "wake.request")) is not None, "who waits is told"
    put(stage, "k2")
    deliver(stage, Route(lambda _: Delivered({}), at_most_once=True))
    assert effect(stage, "k2").state is EffectState.DONE


def test_i12_a_lane_keeps_its_order_and_a_failure_ends(stage: Stage) -> None:
    order: list[str] = []

    def one(found: StoredEffect) -> Delivery:
        order.append(found.key)
        return Impossible("no") if found.key == "2" else Delivered({})

    for key in ("1", "2", "3"):
        put(stage, key)
    deliver(stage, Route(one))
    assert order == ["1", "2", "3"]
    assert [effect(stage, key).state.value for key in order] == ["done", "failed", "done"]


def test_i12_a_status_edit_overwrites_what_has_not_left(stage: Stage) -> None:
    put(stage, "s1", replace_key="status")
    stage.write(lambda tx: outbox.enqueue(tx, outbox.Effect("s2", "lane", "test", {"n": 2}, replace_key="status")))
    sent: list[Any] = []

    def send(found: StoredEffect) -> Delivery:
        sent.append(found.payload["n"])
        return Delivered({})

    deliver(stage, Route(send))
    assert sent == [2]
    put(stage, "s3", replace_key="status")
    deliver(stage, Route(send))
    assert sent == [2, 1]


def test_i12_an_outside_that_is_away_is_tried_again_and_given_up_after_a_limit(stage: Stage) -> None:
    put(stage, "k")
    tries = 0

    def away(_found: StoredEffect) -> Delivery:
        nonlocal tries
        tries += 1
        raise Unavailable("away")

    for _ in range(5):
        stage.write(lambda tx: due.set_due(tx, outbox.DUTY, "lane", tx.now))
        deliver(stage, Route(away, most_attempts=3))
    assert (tries, effect(stage, "k").state) == (3, EffectState.FAILED)
    assert stage.read(ledger.count) == 1


# I13


def test_i13_empty_means_no(stage: Stage) -> None:
    silent = stage.under({"asks": GONE})
    refused = silent.try_ask(silent.wish(verb=None, params=None))
    assert reason_of(refused) == "not_authorised"
    unknown = stage.try_ask(stage.wish(verb="nobody.knows"))
    assert reason_of(unknown) == "unknown_verb"
    ask = stage.ask()
    assert reason_of(stage.answer(ask, None, "approve")) == "unknown_principal"
    assert reason_of(stage.answer(ask, "dave", "approve")) == "not_authorised"
    assert reason_of(stage.answer(ask, "bob", "approve", channel=Channel.APP)) == "wrong_channel"
    assert isinstance(stage.answer(ask, "bob", "approve"), Counted)
    nobody_waits = replace(stage.wish(params={"v": 2}), waiter=None)
    assert reason_of(stage.try_ask(nobody_waits)) == "no_way_back"


# I14


def test_i14_what_must_be_looked_up_first_is_neither_granted_nor_refused(stage: Stage) -> None:
    floor = stage.under({f"verbs/{VERB}/voters": {"people": ["alice", "bob"], "github_permission": "write"}})
    ask = floor.ask()
    before = (stage.count("votes"), stage.count("ledger"))
    unknown = floor.answer(ask, "bob", "approve", channel=Channel.FORGE, account=1002)
    assert isinstance(unknown, NeedsPermission)
    assert (stage.count("votes"), stage.count("ledger")) == before
    known = {"channel": Channel.FORGE, "account": 1002}
    denied = floor.answer(ask, "bob", "approve", permission=Permission.READ, **known)
    assert reason_of(denied) == "not_authorised"
    assert isinstance(floor.answer(ask, "bob", "approve", permission=Permission.WRITE, **known), Counted)


# I15


def test_i15_nobody_approves_their_own_request(stage: Stage) -> None:
    stage = stage.under({f"verbs/{VERB}/approve": 1, f"verbs/{VERB}/deny": 1})
    own = stage.ask(stage.agent("bobs", AgentKind.APPLICATION, principal="bob", owner="alice"))
    for channel in (Channel.WORKSPACE, Channel.OPERATOR, Channel.FORGE):
        account = 1002 if channel is Channel.FORGE else None
        assert reason_of(stage.answer(own, "bob", "approve", channel=channel, account=account)) == "self_approval"
    for service in ("agent", "bot"):
        assert reason_of(stage.answer(own, service, "approve")) == "service_identity"
        assert reason_of(stage.answer(own, service, "deny")) == "service_identity"
    assert isinstance(stage.answer(own, "bob", "deny"), Settled), "denying is always allowed to a person"


def test_i15_an_owner_answers_their_agents_question_and_approves_ordinary_asks(stage: Stage) -> None:
    stage = stage.under(ONE)
    assert isinstance(stage.answer(stage.question(), "alice", None, "left"), Settled)
    assert isinstance(stage.answer(stage.ask(), "alice", "approve"), Settled)
    assert reason_of(stage.answer(stage.question(), "bob", None, "left")) == "not_authorised"


# I16 is a matter of comments: tests/unit/authority/test_comments.py

# I19


def seal_all(database: Database) -> None:
    sealer = Sealer(database)
    while sealer.step(Claimed(SEAL, "ledger", 1, 1)) == Again(0):
        continue


def busy(stage: Stage) -> None:
    stage = stage.under(ONE)
    ask = stage.ask()
    stage.answer(ask, "dave", "approve")
    stage.answer(ask, "bob", "approve")
    stage.answer(ask, "alice", "deny")
    stage.answer(stage.question(["left", "right"]), "alice", "o1")
    stage.withdraw(stage.ask(params={"version": "2"}))
    stage.expiring(params={"version": "3"})
    stage.try_ask(stage.wish(verb="nobody.knows"))
    stage.expire_all()


def test_i19_the_ledger_explains_every_accept_and_refusal(stage: Stage) -> None:
    busy(stage)
    seal_all(stage.database)
    found = verify(stage.database)
    assert found.faults == ()
    assert (found.unsealed, found.sealed) == (0, stage.count("ledger"))
    documents = stage.read(lambda tx: [one.document for one in ledger.sealed(tx, 0, 1_000)])
    refused = [one for one in documents if one["kind"] in ("vote.refused", "ask.refused")]
    assert {one["reason"] for one in refused} == {"not_authorised", "unknown_verb"}
    assert len([one for one in documents if one["kind"] == "vote.counted"]) == 2
    assert len([one for one in documents if one["kind"] == "verdict.revoked"]) == 1


TAMPERING: dict[str, str] = {
    "an entry's facts": "UPDATE ledger SET facts = '{}' WHERE id = 3",
    "an entry's kind": "UPDATE ledger SET kind = 'ask.answered' WHERE id = 1",
    "a seal gone": "DELETE FROM ledger_seals WHERE seq = 4",
    "a verdict turned": "UPDATE verdicts SET state = 'DENIED'",
    "a voter put in": 'UPDATE verdicts SET "by" = \'["carol"]\'',
    "a vote gone": "DELETE FROM votes",
    "a vote for something else": "UPDATE votes SET action_hash = 'sha256:0'",
    "an ask reopened": "UPDATE asks SET state = 'OPEN', ended_at = NULL",
    "a question reworded": "UPDATE asks SET text = 'Pay?' WHERE kind = 'question'",
}


@pytest.mark.parametrize("what", list(TAMPERING))
def test_i19_verify_finds_what_another_hand_changed(database: FreshDatabase, what: str) -> None:
    """Whoever owns the file can take the triggers away; the chain and the evidence still tell."""
    stage = Stage(database.open(Role.BROKER))
    busy(stage)
    seal_all(stage.database)
    owner = database.open(Role.OWNER)
    with owner.engine.begin() as connection:
        if owner.dialect == "sqlite":
            rows = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all()
            for (name,) in rows:
                connection.exec_driver_sql(f'DROP TRIGGER "{name}"')
        else:
            for table in ("ledger", "ledger_seals", "votes", "verdicts"):
                connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        connection.execute(text(TAMPERING[what]))
    assert verify(stage.database).faults != ()


def test_i19_the_ledger_is_append_only_in_the_database(database: FreshDatabase) -> None:
    stage = Stage(database.open(Role.BROKER))
    stage.ask()
    owner = database.open(Role.OWNER)
    for statement in ("UPDATE ledger SET kind = 'x'", "DELETE FROM ledger"):
        with pytest.raises(DBAPIError), owner.write() as tx:
            tx.execute(text(statement))
    assert stage.count("ledger") == 1


def test_i19_sealing_twice_or_after_a_restart_seals_nothing_twice(stage: Stage) -> None:
    busy(stage)
    seal_all(stage.database)
    first = stage.read(ledger.head)
    seal_all(stage.database)
    assert stage.read(ledger.head) == first
    stage.ask(params={"version": "after"})
    seal_all(stage.database)
    assert stage.read(ledger.head).seq == first.seq + 1
    assert verify(stage.database).faults == ()


def test_i19_an_entry_that_was_committed_late_is_sealed_after_later_ones(database: FreshDatabase) -> None:
    """A transaction may take its place in the table early and commit late; its entry is not skipped."""
    stage = Stage(database.open(Role.BROKER))
    for number in range(3):
        stage.ask(params={"version": str(number)})
    owner = database.open(Role.OWNER)
    with owner.write() as tx:
        row = {"id": 1_000, "kind": "later", "at": 1, "facts": "{}"}
        tx.execute(insert(ledger_table), [row])
    sealer = Sealer(stage.database)
    sealer.step(Claimed(SEAL, "ledger", 1, 1))
    with owner.write() as tx:
        tx.execute(insert(ledger_table), [{**row, "id": 999, "kind": "earlier"}])
    sealer.step(Claimed(SEAL, "ledger", 1, 1))
    documents = stage.read(lambda tx: [one.document["kind"] for one in ledger.sealed(tx, 0, 100)])
    assert documents[-2:] == ["later", "earlier"]
    assert verify(stage.database).faults == ()


def test_i19_an_idle_sealer_reads_only_the_end_of_the_ledger(sqlite_database: FreshDatabase) -> None:
    stage = Stage(sqlite_database.open(Role.BROKER))
    rows = [{"kind": "x", "at": 1, "facts": "{}"} for _ in range(30)]
    with sqlite_database.open(Role.OWNER).write() as tx:
        tx.execute(insert(ledger_table), rows)
    seal_all(stage.database)
    restarted = Sealer(stage.database)
    restarted.step(Claimed(SEAL, "ledger", 1, 1))
    assert restarted._highest == 30


# I20

HOSTILE = st.text(max_size=30) | st.text(st.sampled_from("\x00\ud800\udfff\n\u202e\u2028'\";%_\\"), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.tuples(HOSTILE, HOSTILE, HOSTILE, HOSTILE), option=HOSTILE | st.none(), junk=st.binary(max_size=30))
def test_i20_bad_input_costs_one_refusal(
    stage: Stage, words: tuple[str, str, str, str], option: str | None, junk: bytes
) -> None:
    """Whatever text arrives in whatever place: a value or a refusal, and the ledger holds what was accepted."""
    first, second, third, fourth = words
    wishes: list[dict[str, Any]] = [
        {"verb": None, "params": None, "text": first, "labels": (second, third), "why": fourth},
        {"verb": first, "params": {second: third}},
        {"params": {"version": first}, "why": second, "idempotency_key": third or None},
        {"params": {"version": [first, {second: third}]}, "text": fourth},
        {"verb": None, "params": None, "candidates": (first,)},
    ]
    for wanted in wishes:
        result = stage.try_ask(stage.wish(**wanted))
        assert isinstance(result, Opened | Refused)
    ask = stage.ask(params={"version": "hostile"})
    result = stage.answer(ask.id, "bob", option, first, binding=ask.binding, evidence=junk)
    assert isinstance(result, Refused | Counted | Settled)
    assert isinstance(stage.write(lambda tx: closing.withdraw(tx, ask.id, "agent-1", second)), closing.Ended | Refused)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"verb": None, "params": None, "text": "a\x00b"}, "unprintable"),
        ({"verb": None, "params": None, "text": "a\ud800b"}, "unprintable"),
        ({"why": "a\x00b"}, "unprintable"),
        ({"why": "x" * 8_001}, "limit_exceeded"),
        ({"idempotency_key": "x" * 201}, "limit_exceeded"),
        ({"idempotency_key": ""}, "limit_exceeded"),
        ({"params": {"version": 1.5}}, "bad_params"),
        ({"params": {"version": "\u202e"}}, "unprintable"),
        ({"expires_in": 0}, "bad_params"),
        ({"candidates": ("mallory",)}, "unknown_principal"),
        ({"candidates": ("agent",)}, "unknown_principal"),
        ({"verb": None, "params": None, "text": "?", "labels": ("one",)}, "bad_params"),
        ({"verb": None, "params": None, "text": "?", "labels": ("one", "one")}, "bad_params"),
        ({"verb": None, "params": None, "text": " \u3000"}, "empty"),
    ],
    ids=ascii,
)
def test_i20_each_bad_wish_has_its_reason(stage: Stage, wanted: dict[str, Any], reason: str) -> None:
    assert reason_of(stage.try_ask(stage.wish(**wanted))) == reason
    assert stage.count("asks") == 0
    good = {"why": "x" * 8_000, "idempotency_key": "x" * 200, "expires_in": 1_000, "candidates": ("bob",)}
    assert isinstance(stage.try_ask(stage.wish(**good)), Opened)


def test_i20_an_answer_of_any_size_is_bounded(stage: Stage) -> None:
    ask = stage.question()
    assert reason_of(stage.answer(ask, "alice", None, "x" * 8_001)) == "limit_exceeded"
    assert reason_of(stage.answer(ask, "alice", None, "a\x00b")) == "unprintable"
    assert isinstance(stage.answer(ask, "alice", None, "x" * 8_000), Settled)


def test_i20_a_document_without_a_canonical_form_never_reaches_the_ledger(stage: Stage) -> None:
    with pytest.raises(Malformed):
        stage.write(lambda tx: ledger.append(tx, Entry(EventKind.ASK_REFUSED, 1, facts={"x": "\ud800"})))
    assert stage.count("ledger") == 0


def test_a_duty_outlives_an_outside_that_is_away(stage: Stage) -> None:
    stage.write(lambda tx: due.set_due(tx, "test", "k", tx.now))
    outcomes: list[Outcome | Exception] = [Unavailable("away"), Again(0), FINISHED]

    def handle(_claimed: Claimed) -> Outcome:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    duty = RowDuty("test", stage.database, handle, Pace(first_ms=1, most_ms=1))
    while outcomes:
        duty.step()
    assert stage.read(lambda tx: due.next_due(tx, "test")) is None
