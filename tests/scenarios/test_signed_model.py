"""Every interleaving of votes, holds, time, looks, adoption, two brokers and crashes, for small bounds.

The decisions inside are the product's own: `tally` over loaded policies, `barrier`, `next_step`, `may_call`. Around
them stands what the code promises to do in one transaction. What is looked for: a state in which an action ran, or ran
twice, without a standing quorum under the policy that was in force when it was spent. What "a standing quorum" is, is
written here a second time, over plain sets.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple

import pytest

from gitops_bot.core.errors import Reason
from gitops_bot.core.executions import Done, Failed, Known, Step, Unknown, known_of, may_call, next_step
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.model import Policy, VerbRule
from gitops_bot.policy.rules import QuorumState, tally
from gitops_bot.signed import barrier as barriers
from gitops_bot.signed.barrier import Over, World
from tests.signed_bundle import bundle, policy

VERB: Final = "payments.transfer"
PEOPLE: Final = ("alice", "bob", "carol")
HOUR: Final = 3_600_000
END: Final = 3
"""Hours that pass at most; the delay, where there is one, is an hour, and a grant lives for one more."""
A, D, R = "A", "D", "R"
OPEN, APPROVED, DENIED = "open", "approved", "denied"
MINTED, SPENT, REVOKED, LAPSED = "minted", "spent", "revoked", "lapsed"
CALLED: Final = {"done": Done("ok"), "failed": Failed("no"), "unclear": Unknown("?")}


def loaded(approve: int, voters: tuple[str, ...], delay: str | None, version: int) -> Policy:
    """Load one of the policies of the model."""

    def change(tables: dict[str, Any]) -> None:
        tables["version"] = version
        for name in (VERB, "policy.adopt"):
            rule = tables["verbs"][name] | {
                "approve": approve,
                "voters": {"people": list(voters)},
                "owner_may_approve": True,
            }
            tables["verbs"][name] = rule if delay is None else rule | {"delay": delay}
        tables["people"]["worker"]["owner"] = "carol"

    return policy(bundle(change))


class State(NamedTuple):
    """One state of the world. Votes are each person's decisions in order; `back` those who took something back after
    the verdict; `evidence` what each of two brokers verified and still holds: the policy, the hour."""

    votes: tuple[str, ...] = ("", "", "")
    ask: str = OPEN
    grant: str = ""
    minted: int = 0
    back: bool = False
    force: int = 0
    hour: int = 0
    looked: int = -1
    held: int = -1
    evidence: tuple[tuple[int, int] | None, ...] = (None, None)
    execution: str = ""
    unclear: bool = False
    begun: tuple[bool, bool] = (False, False)
    calls: int = 0
    sound: bool = True
    """Whether there was a standing quorum, and nothing else in the way, when it was spent; told by the second word."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is explored: the policies (the first is in force, the second may be adopted), how the executor is."""

    policies: tuple[Policy, ...]
    idempotent: bool

    def rule(self, force: int) -> VerbRule:
        """Give the verb's rule under one of the policies."""
        return self.policies[force].verbs[VERB]


@cache
def quorum(bounds: "Bounds", force: int, votes: tuple[str, ...]) -> QuorumState:
    """Ask the product how far an ask is."""
    words = {A: Decision.APPROVE, D: Decision.DENY, R: Decision.REVOKE}
    cast = [(PrincipalName(who), words[said]) for who, all_said in zip(PEOPLE, votes, strict=True) for said in all_said]
    worker = PrincipalName("worker")
    return tally(bounds.policies[force], bounds.rule(force), cast, requester=worker, agent_owner=worker).state


def standing(bounds: Bounds, state: State) -> bool:
    """Say in plain sets whether it may be spent now."""
    rule = bounds.rule(state.force)
    may = set(rule.voters.people)
    yes = {who for who, said in zip(PEOPLE, state.votes, strict=True) if said == A and who in may}
    no = {who for who, said in zip(PEOPLE, state.votes, strict=True) if said.endswith(D) and who in may}
    age = (state.hour - state.minted) * HOUR
    in_time = rule.delay <= age <= rule.delay + HOUR
    return len(yes) >= rule.approve and not no and not state.back and state.held <= state.hour and in_time


def voting(bounds: Bounds, state: State) -> Iterator[State]:
    """Let each person say what `votes.count` would take."""
    for place, said in enumerate(state.votes):
        for word in (A, D, R):
            if (word == A and said) or (word == R and said != A) or said[-1:] in (D, R):
                continue
            if state.ask == OPEN:
                # An approve of an ask whose policy is no longer in force is stale.
                if word == A and state.force != 0:
                    continue
                votes = (*state.votes[:place], said + word, *state.votes[place + 1 :])
                yield counted(bounds, state._replace(votes=votes))
            elif state.ask == APPROVED and word != A and state.grant != SPENT and not state.back:
                yield state._replace(back=True, grant=REVOKED if state.grant == MINTED else state.grant)


def counted(bounds: Bounds, state: State) -> State:
    """Draw what follows from a counted vote, as the mint does in the same transaction."""
    match quorum(bounds, state.force, state.votes):
        case QuorumState.APPROVED:
            return state._replace(ask=APPROVED, grant=MINTED, minted=state.hour)
        case QuorumState.DENIED:
            return state._replace(ask=DENIED)
        case _:
            return state


def world(state: State, verified: int) -> World:
    """Read the world as the spender does in its transaction."""
    return World(
        now=state.hour * HOUR,
        minted_at=state.minted * HOUR,
        revoked=state.back,
        looked_at=state.looked * HOUR,
        verified_at=verified * HOUR,
        held_until=state.held * HOUR if state.held > state.hour else None,
        unread=None,
        over_limit=None,
    )


def spending(bounds: Bounds, state: State) -> Iterator[State]:
    """Let each broker verify, and later spend on what it verified."""
    if state.grant != MINTED:
        return
    for broker in (0, 1):
        held = state.evidence[broker]

        def keeps(found: tuple[int, int] | None, of: int = broker) -> tuple[tuple[int, int] | None, ...]:
            return (found, state.evidence[1]) if of == 0 else (state.evidence[0], found)

        if held is None:
            if quorum(bounds, state.force, state.votes) is QuorumState.APPROVED:
                yield state._replace(evidence=keeps((state.force, state.hour)))
            else:
                yield state._replace(grant=REVOKED)
            continue
        force, verified = held
        if force != state.force:
            # `sound`, in the transaction of the spend: this broker decides by another policy than is pinned.
            yield state._replace(evidence=keeps(None))
            continue
        match barriers.barrier(world(state, verified), bounds.rule(force), HOUR // 2):
            case None:
                yield state._replace(
                    grant=SPENT, evidence=(None, None), execution="pending", sound=standing(bounds, state)
                )
            case Over(refused):
                yield state._replace(
                    grant=LAPSED if refused.reason is Reason.LAPSED else REVOKED, evidence=(None, None)
                )
            case _:
                yield state._replace(evidence=keeps(None))


def carrying_out(bounds: Bounds, state: State) -> Iterator[State]:
    """Let each broker attempt, call and write down; a call may be lost with its broker, or stand still before it."""
    idempotent = bounds.idempotent
    if state.execution in ("pending", "attempting", "settled"):
        # What a broker finds as `attempting` was cut off, or is another's that stands still.
        unclear = state.unclear or state.execution == "attempting"
        for broker in (0, 1):
            if state.begun[broker]:
                continue
            if may_call(idempotent=idempotent, unclear_before=unclear, same_receiver=True):
                begun = (True, state.begun[1]) if broker == 0 else (state.begun[0], True)
                yield state._replace(execution="attempting", unclear=unclear, begun=begun)
            else:
                yield state._replace(execution="unknown")
    for broker in (0, 1):
        if not state.begun[broker]:
            continue
        over = (False, state.begun[1]) if broker == 0 else (state.begun[0], False)
        yield state._replace(begun=over)  # it died before the call
        if state.calls < 2:
            yield state._replace(begun=over, calls=state.calls + 1)  # it died after the call
            for came in CALLED.values():
                yield settled(state._replace(begun=over, calls=state.calls + 1), known_of(came), idempotent)


def settled(state: State, known: Known, idempotent: bool) -> State:
    """Write down what came of an attempt."""
    step = next_step(known, idempotent=idempotent, unclear_before=state.unclear)
    if state.execution != "attempting":
        return state
    if step is Step.AGAIN:
        return state._replace(execution="settled", unclear=state.unclear or known is Known.UNCLEAR)
    return state._replace(execution=step.value)


def following(bounds: Bounds, state: State) -> Iterator[State]:
    """Give every state that may follow."""
    yield from voting(bounds, state)
    yield from spending(bounds, state)
    yield from carrying_out(bounds, state)
    if state.hour < END:
        yield state._replace(hour=state.hour + 1)
    if state.looked != state.hour:
        yield state._replace(looked=state.hour)
    if state.held <= state.hour < END and state.ask in (OPEN, APPROVED) and state.grant in ("", MINTED):
        yield state._replace(held=state.hour + 1)
    if state.force == 0 and len(bounds.policies) > 1:
        # One broker begins anew under what was adopted; the other still decides by the old one, and is closed.
        yield state._replace(force=1, evidence=(None, state.evidence[1]))


def wrong(bounds: Bounds, state: State) -> str | None:
    """Say what must never be, if it is."""
    if state.execution and not state.sound:
        return "it was spent without a standing quorum"
    if state.calls and state.grant != SPENT:
        return "it was called without a spent grant"
    if not bounds.idempotent and state.calls > 1:
        return "it was called twice"
    if state.execution == "failed" and state.calls > 1:
        return "two calls, and it says that nothing was done"
    if state.grant == MINTED and state.ask != APPROVED:
        return "a grant without its verdict"
    return None


def explore(bounds: Bounds, *, limit: int = 2_000_000) -> tuple[int, State | None, str | None, set[str]]:
    """Visit every state; give how many, the first that is wrong and why, and which ends of an execution were seen."""
    first = State()
    seen, todo, ends = {first}, deque([first]), set[str]()
    while todo:
        state = todo.popleft()
        why = wrong(bounds, state)
        if why is not None:
            return len(seen), state, why, ends
        ends.add(state.execution)
        for after in following(bounds, state):
            if after not in seen:
                seen.add(after)
                todo.append(after)
        assert len(seen) < limit
    return len(seen), None, None, ends


ALL: Final = PEOPLE
BOUNDS: Final = {
    "threshold raised": lambda: (loaded(2, ALL, None, 1), loaded(3, ALL, None, 2)),
    "person removed": lambda: (loaded(2, ALL, None, 1), loaded(2, ("alice", "carol"), None, 2)),
    "delay set": lambda: (loaded(2, ALL, None, 1), loaded(2, ALL, "1h", 2)),
    "delay dropped": lambda: (loaded(2, ALL, "1h", 1), loaded(2, ALL, None, 2)),
}


@pytest.mark.parametrize("idempotent", [True, False], ids=["dedupes", "at most once"])
@pytest.mark.parametrize("named", BOUNDS)
def test_nothing_runs_without_a_standing_quorum(
    named: str, idempotent: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = Bounds(BOUNDS[named](), idempotent)
    quorum.cache_clear()
    count, state, why, ends = explore(bounds)
    with capsys.disabled():
        print(f"\n{named}, {'dedupes' if idempotent else 'at most once'}: {count:,} states", end=" ")
    assert why is None, (why, state)
    assert {"done", "failed"} <= ends and ("unknown" in ends or idempotent)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("policy", "without a standing quorum"),
        ("revoked", "without a standing quorum"),
        ("held_until", "without a standing quorum"),
        ("may_call", "called twice"),
    ],
)
def test_the_model_finds_what_is_broken(broken: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twins: with one of the promises taken away the same search finds the state."""

    plain, asked = world, quorum
    if broken == "may_call":
        monkeypatch.setitem(globals(), "may_call", lambda **_: True)
    elif broken == "policy":
        monkeypatch.setitem(globals(), "quorum", lambda bounds, _force, votes: asked(bounds, 0, votes))
    else:
        value = {"revoked": False, "held_until": None}[broken]
        monkeypatch.setitem(globals(), "world", lambda *given: replace(plain(*given), **{broken: value}))
    if broken == "revoked":
        monkeypatch.setitem(globals(), "voting", _forgetful(voting))
    bounds = Bounds(BOUNDS["threshold raised"](), idempotent=broken != "may_call")
    _, state, why, _ = explore(bounds)
    assert state is not None and why is not None and said in why


def _forgetful(plain: Any) -> Any:
    """Take back nothing of a grant, so that the barrier alone stands against it."""

    def voting(bounds: Bounds, state: State) -> Iterator[State]:
        for after in plain(bounds, state):
            yield after._replace(grant=MINTED) if after.back and state.grant == MINTED else after

    return voting
