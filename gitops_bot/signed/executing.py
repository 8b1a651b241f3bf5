"""After the spend: the marker is pushed, the attempt is committed, then the one call is made; each outcome is written.

The order is what makes it once (step 10): the spend, the trust file, the marker on the requests branch, `attempting`,
the trust file, the call. Whoever finds a marker that is not this row's own does not go on. A row is believed no more
than a grant: the commits behind it are verified before anything leaves (I17).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, assert_never, cast

from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.authority.rules import Rules, params_of
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.core.canonical import Digest, action_hash, canonical, digest
from gitops_bot.core.errors import Fact, Reason, Refused, Unavailable, refuse
from gitops_bot.core.executions import (
    Done,
    ExecutionResult,
    Failed,
    Known,
    NothingDone,
    Step,
    Unknown,
    execution_body,
    execution_key,
    given_up,
    known_of,
    may_call,
    next_step,
)
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.policy.lookup import lookup
from gitops_bot.policy.model import AdoptExecutor, HttpExecutor, ProcessExecutor, VerbRule
from gitops_bot.ports import Executor
from gitops_bot.signed.barrier import Barrier
from gitops_bot.signed.publication import spent_file, spent_path
from gitops_bot.signed.publishing import Publisher
from gitops_bot.signed.spend import Evidence
from gitops_bot.store import asks, due, executions, grants_read, ledger, waiters
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.executions import Execution
from gitops_bot.store.grants_read import Grant
from gitops_bot.store.states import EffectState, GrantState

MOST_ATTEMPTS: Final = 12
_EVENTS: Final = {
    EffectState.DONE: EventKind.EFFECT_DONE,
    EffectState.FAILED: EventKind.EFFECT_FAILED,
    EffectState.UNKNOWN: EventKind.EFFECT_UNKNOWN,
}
_ENDS: Final = {Step.DONE: EffectState.DONE, Step.FAILED: EffectState.FAILED, Step.UNKNOWN: EffectState.UNKNOWN}

Adopt = Callable[[Tx, Ask, Grant], Refused | None]
"""The built-in executor of `policy.adopt`: moves the pointer in the given transaction, or says why not."""


@dataclass(frozen=True, slots=True)
class Work:
    """What was read of one execution."""

    execution: Execution
    grant: Grant
    ask: Ask
    rule: VerbRule


@dataclass(frozen=True, slots=True)
class Stopped:
    """An execution that must not go on, and why."""

    execution: Execution
    refused: Refused


class Executing:
    """Carries out what was spent; `one` is the handler of the duty `signed.execute`."""

    def __init__(
        self,
        database: Database,
        rules: Rules,
        publisher: Publisher,
        executor_of: Callable[[VerbRule], Executor],
        adopt: Adopt,
        verify: Callable[[Ask, Grant, int], Evidence | Barrier],
        *,
        sound: Callable[[Tx], None],
        noted: Callable[[], None],
        adopted: Callable[[str], None],
    ) -> None:
        """Take what acts. `verify` asks the commits again as of a time; `noted` rewrites the trust file; `adopted` is
        called with the digest of the policy that was adopted."""
        self._database = database
        self._rules = rules
        self._publisher = publisher
        self._executor_of = executor_of
        self._adopt = adopt
        self._verify = verify
        self._sound = sound
        self._noted = noted
        self._adopted = adopted

    def one(self, claimed: Claimed) -> Outcome:
        """Go on with one execution.

        Raises:
            Unavailable: the branch, an engine or the receiver is not there; nothing was decided.
        """
        with self._database.read() as tx:
            self._sound(tx)
            work = self._read(tx, claimed.key)
        if work is None:
            return FINISHED
        if isinstance(work, Stopped):
            return self._stop(work.execution, work.refused)
        refused = self._warranted(work) or self._mark(work)
        if refused is not None:
            return self._stop(work.execution, refused)
        if isinstance(work.rule.executor, AdoptExecutor):
            return self._adopt_now(work)
        return self._attempt(work)

    def _stop(self, execution: Execution, refused: Refused) -> Outcome:
        """End an execution that must not go on: failed, or unknown where something may have left before."""
        with self._database.read() as tx:
            attempts = len(_entries(tx, execution, EventKind.EFFECT_ATTEMPTED))
            ended = _entries(tx, execution, *_EVENTS.values())
        # A row that was put back to before its attempt or its end is believed no more than the ledger.
        put_back = bool(ended) or attempts > execution.told.get("attempts", 0)
        unclear = _unclear(execution) or put_back
        step = next_step(Known.FAILED, idempotent=False, unclear_before=unclear)
        self._finish(execution, _ENDS[step], {**execution.told, "why": refused.sentence}, refused.reason)
        return FINISHED

    def _read(self, tx: Tx, key: str) -> Work | Stopped | None:
        execution = executions.get(tx, key)
        if execution is None or execution.state not in (EffectState.PENDING, EffectState.ATTEMPTING):
            return None
        found = self._behind(tx, execution)
        return Stopped(execution, found) if isinstance(found, Refused) else found

    def _behind(self, tx: Tx, execution: Execution) -> Work | Refused:
        grant = None if execution.grant is None else grants_read.get(tx, execution.grant)
        ask = asks.get(tx, AskId(execution.ask))
        if grant is None or ask is None or ask.verb is None or ask.action is None:
            return refuse(Reason.BAD_SIGNATURE, "No grant stands behind it.")
        if grant.state is not GrantState.SPENT or grant.nonce is None or grant.ask != ask.id:
            return refuse(Reason.BAD_SIGNATURE, "Its grant was not spent on it.")
        if not execution.action_hash == grant.action_hash == action_hash(ask.action):
            return refuse(Reason.BYTES_DIFFER, "It is another action than the grant's.")
        if not _is_told(tx, execution, grant):
            return refuse(Reason.BAD_SIGNATURE, "The ledger tells another story of it.")
        rule = lookup(self._rules.policy, ask.verb, params_of(ask.action))
        if isinstance(rule, Refused) or rule.executor is None:
            return refuse(Reason.STALE_POLICY, "The policy in force has no executor for it.")
        return Work(execution, grant, ask, rule)

    def _warranted(self, work: Work) -> Refused | None:
        """Verify the commits behind the grant, each key as of the spend; a row alone is no warrant."""
        at = work.grant.ended_at
        assert at is not None
        evidence = self._verify(work.ask, work.grant, at)
        return None if isinstance(evidence, Evidence) else evidence.refused

    def _mark(self, work: Work) -> Refused | None:
        """Push the marker that this ask's grant is spent, under this row's nonce; another's marker refuses. Once an
        attempt was made it must be there."""
        ask, grant = work.ask, work.grant
        assert grant.nonce is not None and grant.ended_at is not None
        wanted = spent_file(ask.id, Digest(grant.action_hash), grant.nonce, grant.ended_at)
        ours = wanted[spent_path(ask.id)]
        self._publisher.look()
        there = self._publisher.spent_marker(ask.id)
        if there is None and work.execution.state is EffectState.ATTEMPTING:
            return refuse(Reason.BAD_SIGNATURE, "It was attempted without a marker on the requests branch.")
        if there is None:
            self._publisher.publish(wanted, grant.ended_at)
            there = self._publisher.spent_marker(ask.id)
        if there == ours:
            return None
        return refuse(Reason.SPENT, "The requests branch says that this was spent before.", ask=ask.id)

    def _adopt_now(self, work: Work) -> Outcome:
        with self._database.write() as tx:
            self._sound(tx)
            locked = executions.get(tx, work.execution.id, lock=True)
            if locked is None or locked.state is not EffectState.PENDING:
                return FINISHED
            refused = self._adopt(tx, work.ask, work.grant)
            state = EffectState.DONE if refused is None else EffectState.FAILED
            told = {"text": "adopted"} if refused is None else {"why": refused.sentence}
            self._write_end(tx, work.execution.id, state, told, None if refused is None else refused.reason)
        if refused is None:
            self._noted()
            self._adopted(str(params_of(work.ask.action or b"")["digest"]))
        return FINISHED

    def _attempt(self, work: Work) -> Outcome:
        executor = self._executor_of(work.rule)
        execution = work.execution
        unclear, receiver = _unclear(execution), receiver_of(work.rule)
        same = execution.told.get("receiver", receiver) == receiver
        if not may_call(idempotent=executor.idempotent, unclear_before=unclear, same_receiver=same):
            why = "an attempt may have reached the receiver, and it must not be called again"
            self._finish(execution, EffectState.UNKNOWN, {**execution.told, "why": why}, None)
            return FINISHED
        body = execution_body(work.ask.action or b"", Digest(work.grant.action_hash), execution_key(work.grant.id))
        if isinstance(body, Refused):
            return self._stop(execution, body)
        attempts = int(execution.told.get("attempts", 0)) + 1
        told = {"attempts": attempts, "unclear": unclear, "settled": False, "receiver": receiver}
        with self._database.write() as tx:
            self._sound(tx)
            if not executions.attempt(tx, execution, told):
                return FINISHED  # another broker goes on with it
            facts: dict[str, Fact] = {"execution": execution.id, "grant": work.grant.id, "attempt": attempts}
            ledger.append(tx, _entry(EventKind.EFFECT_ATTEMPTED, tx, work.ask, None, facts))
        came: ExecutionResult | Unavailable
        try:
            self._noted()
        except Unavailable as error:
            # Nothing was called yet.
            return self._came(work, executor, told, NothingDone(str(error)))
        try:
            came = executor.execute(execution_key(work.grant.id), body)
        except Unavailable as error:
            came = error
        return self._came(work, executor, told, came)

    def _came(
        self, work: Work, executor: Executor, told: dict[str, Any], came: ExecutionResult | Unavailable
    ) -> Outcome:
        """Write down what came of an attempt, and what follows from it."""
        unclear = bool(told.get("unclear"))
        step = next_step(known_of(came), idempotent=executor.idempotent, unclear_before=unclear)
        said, code = _said(came)
        written, told = told, {**told, **said, "unclear": unclear or known_of(came) is Known.UNCLEAR, "settled": True}
        if step is Step.AGAIN and told["attempts"] >= MOST_ATTEMPTS:
            step = given_up(unclear=bool(told["unclear"]))
        if step is Step.AGAIN:
            with self._database.write() as tx:
                seen = executions.get(tx, work.execution.id, lock=True)
                if seen is None or seen.told != written:
                    return FINISHED  # another broker went on with it while this one stood still
                executions.attempt(tx, seen, told)
            wait = due.back_off(told["attempts"], first_ms=1_000, most_ms=300_000)
            if isinstance(came, Unavailable) and came.retry_after is not None:
                wait = max(wait, int(came.retry_after * 1000))
            return Again(wait, firm=True)
        with self._database.write() as tx:
            seen = executions.get(tx, work.execution.id, lock=True)
            # What was done is done, whoever went on meanwhile; any other end is that of the attempt it belongs to.
            if seen is not None and (step is Step.DONE or seen.told == written):
                self._write_end(tx, seen.id, _ENDS[step], told, code)
        return FINISHED

    def _finish(self, seen: Execution, state: EffectState, told: dict[str, Any], reason: Reason | None) -> None:
        """End an execution that is still as it was seen; else another broker goes on with it."""
        with self._database.write() as tx:
            if executions.get(tx, seen.id, lock=True) == seen:
                self._write_end(tx, seen.id, state, told, reason)

    def _write_end(
        self, tx: Tx, execution: str, state: EffectState, told: dict[str, Any], reason: Reason | None
    ) -> None:
        if not executions.end(tx, execution, state, told):
            return
        done = executions.get(tx, execution)
        ask = None if done is None else asks.get(tx, AskId(done.ask))
        facts: dict[str, Fact] = {"execution": execution, "grant": None if done is None else done.grant}
        facts |= {name: str(told[name])[:500] for name in ("text", "why", "dup") if name in told}
        ledger.append(tx, _entry(_EVENTS[state], tx, ask, reason, facts))
        if ask is not None:
            waiters.wake(tx, ask.id, f"EFFECT_{state.value.upper()}")


def _entry(kind: EventKind, tx: Tx, ask: Ask | None, reason: Reason | None, facts: dict[str, Fact]) -> Entry:
    entry = Entry(kind, tx.now, channel="signed", reason=reason, facts=facts)
    return entry if ask is None else replace(entry, ask=ask.id, run=ask.run, agent=ask.agent)


def _entries(tx: Tx, execution: Execution, *kinds: EventKind) -> list[Mapping[str, Any]]:
    """Read what the ledger tells of one execution, as the facts of its entries of some kinds."""
    found = [cast(Mapping[str, Any], one["facts"]) for one in ledger.of_ask(tx, execution.ask) if one["kind"] in kinds]
    return [facts for facts in found if facts.get("execution") == execution.id]


def _is_told(tx: Tx, execution: Execution, grant: Grant) -> bool:
    """Hold the rows against the ledger: spent once, for this execution and under this nonce, never ended, and attempted
    as often as the row says."""
    spent = [(facts.get("grant"), facts.get("nonce")) for facts in _entries(tx, execution, EventKind.GRANT_SPENT)]
    ended = _entries(tx, execution, *_EVENTS.values())
    attempts = len(_entries(tx, execution, EventKind.EFFECT_ATTEMPTED))
    return spent == [(grant.id, grant.nonce)] and not ended and attempts == execution.told.get("attempts", 0)


def receiver_of(rule: VerbRule) -> str:
    """Name who is called, so that an executor that was adopted meanwhile is seen to be another one."""
    match rule.executor:
        case HttpExecutor(url, idempotent, _):
            named: list[object] = ["http", url, idempotent]
        case ProcessExecutor(argv, sha256, idempotent):
            named = ["process", list(argv), sha256, idempotent]
        case AdoptExecutor() | None:
            named = ["none"]
        case _:
            assert_never(rule.executor)
    return digest("gitops-bot/receiver/v1", canonical(named))


def _unclear(execution: Execution) -> bool:
    """Tell whether an attempt may have reached the receiver: one that said so, or one that a crash cut off."""
    cut_off = execution.state is EffectState.ATTEMPTING and not execution.told.get("settled", False)
    return cut_off or bool(execution.told.get("unclear", False))


def _said(came: ExecutionResult | Unavailable) -> tuple[dict[str, Any], Reason | None]:
    match came:
        case Done(text, dup):
            return {"text": text, "dup": dup}, None
        case Failed(reason, code):
            return {"why": reason}, code
        case Unknown(reason):
            return {"why": reason}, None
        case Unavailable():
            return {"why": str(came)}, None
        case _:
            assert_never(came)
