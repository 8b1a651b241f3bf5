"""Every interleaving of tick, stream, settle, answer, expiry, wake, pause and crash of one agent, for small bounds.

What follows from a turn is decided by the product's own `machine.settle`, whom an answer wakes by `machine.rouses`.
Around them stands what the code promises to do in one transaction, each of which is one step here; looks that come
before a step, and bodies that outlive their lease, are steps of their own. What is looked for is told in plain words
by `wrong`, over ghosts that the product has no row for.
"""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NamedTuple

import pytest

from gitops_bot.fleet import machine
from gitops_bot.fleet.grammar import Outcome
from gitops_bot.fleet.machine import Ending, Settled, TurnFacts, WakeReason
from gitops_bot.store.states import RunState, WakeOn, WakePolicy

OPEN, ANSWERED, EXPIRED = "open", "answered", "expired"
LIVE, PARKED, ENDED = RunState.LIVE, RunState.PARKED, RunState.ENDED
PERSON, EXPIRY = "person", "expiry"
NOBODY: Final = -1


class Asked(NamedTuple):
    """An ask of a run: how it stands, in how many capsules of different runs it was told."""

    run: int
    state: str = OPEN
    told: int = 0
    ends: int = 0
    verdict: bool = False
    rested: bool = True
    """Whether the agent rested at the end of the transaction that expired it."""


class Ran(NamedTuple):
    """A run: its state, its version, what its capsule tells, what of its body's text is kept."""

    state: RunState = LIVE
    version: int = 1
    capsule: frozenset[int] = frozenset()
    kept: bool = False
    landed: bool = False
    effects: int = 0
    settles: int = 0
    read: bool = False
    """Whether a body is known to have read its capsule."""


class Body(NamedTuple):
    """A process: of which run and version, whether it said its marker."""

    run: int
    version: int
    said: bool = False


class State(NamedTuple):
    """One state of the world: rows, processes, ghosts, and how much may happen yet."""

    runs: tuple[Ran, ...] = ()
    asks: tuple[Asked, ...] = ()
    bodies: tuple[Body, ...] = ()
    looks: frozenset[tuple[str, int]] = frozenset()
    due: str = ""
    later: bool = False
    resting: bool = False
    again: int = NOBODY
    blocked: bool = False
    moved: bool = False
    """Something from outside woke the agent since its live run was dispatched: its wake number is another."""
    overwritten: bool = False
    bumps: int = 0
    losses: int = 0


@dataclass(frozen=True)
class Bounds:
    """What is explored."""

    policy: WakePolicy
    wake_on: WakeOn
    runs: int = 2
    asks: int = 2
    bumps: int = 1
    losses: int = 1
    """Crashes, and leases that run out while the body lives."""
    versions: int = 2


class Rules:
    """What the code promises of its rows; each broken twin takes one promise away."""

    def keeps_wake(self, moved: bool) -> bool:
        """A settle leaves a wake that came meanwhile as it is."""
        return moved

    def ends(self, ask: Asked) -> bool:
        """An ask ends by a conditional update."""
        return ask.state == OPEN

    def lands(self, run: Ran) -> bool:
        """A marker lands where its row was inserted."""
        return not run.landed

    def settles(self, run: Ran, body: Body) -> bool:
        """A settle compares the run with what was dispatched."""
        return run.state is LIVE and run.version == body.version

    def tells(self, ask: Asked) -> bool:
        """A capsule takes what no capsule took."""
        return ask.state != OPEN and not ask.told

    def rests(self) -> bool:
        """Expiry pauses."""
        return True

    def decides(self) -> bool:
        """Expiry gives no verdict."""
        return False

    def tells_and_wakes(self) -> bool:
        """The end of an ask and the wake are one transaction."""
        return True

    def goes_on(self, settled: Settled) -> bool:
        """A run whose capsule may not have been read is dispatched again."""
        return settled.again


SOUND: Final = Rules()


@cache
def decided(
    ending: Ending, said: Outcome, policy: WakePolicy, opened: int, others: int, untold: WakeReason | None
) -> Settled:
    """Ask the product what follows from a turn; its times are told as now or later."""
    return machine.settle(TurnFacts(ending, said, policy, 0, opened, others, untold))


def live(state: State) -> int:
    """Give the run that is live."""
    return next((number for number, run in enumerate(state.runs) if run.state is LIVE), NOBODY)


def of(state: State, run: int) -> int:
    """Count the open asks of a run."""
    return sum(ask.run == run and ask.state == OPEN for ask in state.asks)


def put(state: State, number: int, run: Ran) -> State:
    return state._replace(runs=(*state.runs[:number], run, *state.runs[number + 1 :]))


def woken(state: State, reason: str) -> State:
    """Wake the agent from outside."""
    return state._replace(due=reason, later=False, moved=state.moved or live(state) != NOBODY)


def rousing(state: State, wake_on: WakeOn) -> WakeReason | None:
    """Say why something untold wakes the agent."""
    for ask in state.asks:
        if ask.state == OPEN or ask.told:
            continue
        reason = WakeReason.EXPIRED if ask.state == EXPIRED else WakeReason.ANSWER
        if machine.rouses(reason, wake_on, of(state, ask.run)):
            return reason
    return None


def ticking(bounds: Bounds, rules: Rules, state: State) -> Iterator[State]:
    """Open a run for an agent that is due, and start its body."""
    if not state.due or state.later or state.resting or live(state) != NOBODY or len(state.bodies) > 1:
        return
    cleared = state._replace(due="", again=NOBODY, moved=False, blocked=False)
    if state.again != NOBODY:
        run = state.runs[state.again]
        if run.version < bounds.versions:
            again = run._replace(state=LIVE, version=run.version + 1, kept=False)
            body = Body(state.again, again.version)
            yield put(cleared, state.again, again)._replace(bodies=(*state.bodies, body))
    elif len(state.runs) < bounds.runs:
        told = frozenset(number for number, ask in enumerate(state.asks) if rules.tells(ask))
        asks = tuple(ask._replace(told=ask.told + (number in told)) for number, ask in enumerate(state.asks))
        number = len(state.runs)
        runs = (*state.runs, Ran(capsule=told))
        yield cleared._replace(runs=runs, asks=asks, bodies=(*state.bodies, Body(number, 1)))


def landed(rules: Rules, run: Ran) -> Ran:
    """Land the one marker that every body says."""
    return run._replace(landed=True, effects=run.effects + 1) if rules.lands(run) else run


def speaking(bounds: Bounds, rules: Rules, state: State) -> Iterator[State]:
    """Let bodies speak, ask through the API, and end."""
    for place, body in enumerate(state.bodies):
        rest = (*state.bodies[:place], *state.bodies[place + 1 :])
        run = state.runs[body.run]
        stands = rules.settles(run, body)
        if not body.said:
            bodies = (*state.bodies[:place], body._replace(said=True), *state.bodies[place + 1 :])
            yield state._replace(bodies=bodies)  # said, and the database was away
            if stands:
                yield put(state, body.run, landed(rules, run)._replace(kept=True))._replace(bodies=bodies)
            else:
                yield state._replace(bodies=rest)  # told that its turn is over
        if stands and run.state is LIVE and len(state.asks) < bounds.asks:
            asked = put(state, body.run, run._replace(read=True))
            yield asked._replace(asks=(*state.asks, Asked(body.run)))
        gone = state._replace(bodies=rest)
        if not stands:
            yield gone
            continue
        heard = put(gone, body.run, landed(rules, run)) if body.said else gone
        for ending, said, questions in ENDS:
            if len(state.asks) + questions <= bounds.asks:
                yield from settled(bounds, rules, heard, body, ending, said, questions)


ENDS: Final = (
    (Ending.WHOLE, Outcome.WORK_DONE, 0),
    (Ending.WHOLE, Outcome.WORK_DONE, 1),
    (Ending.WHOLE, Outcome.BLOCKED, 0),
    (Ending.WHOLE, Outcome.BLOCKED, 2),
    (Ending.FAILED, Outcome.WORK_DONE, 0),
    (Ending.STOPPED, Outcome.WORK_DONE, 0),
    (Ending.RATE_LIMITED, Outcome.WORK_DONE, 0),
)


def settled(
    bounds: Bounds, rules: Rules, state: State, body: Body, ending: Ending, said: Outcome, questions: int
) -> Iterator[State]:
    """Settle a turn in one transaction."""
    before = state
    state = state._replace(asks=state.asks + (Asked(body.run),) * questions)
    untold = rousing(state, bounds.wake_on)
    if untold is None and rules.keeps_wake(state.moved) and state.due:
        untold = WakeReason(state.due)
    opened = of(state, body.run)
    come = decided(
        ending, said, bounds.policy, opened, sum(ask.state == OPEN for ask in before.asks) + questions, untold
    )
    if come.ask_blocked:
        if len(state.asks) == bounds.asks:
            return
        state = state._replace(asks=(*state.asks, Asked(body.run)))
    run = state.runs[body.run]
    whole = ending is Ending.WHOLE
    state = put(state, body.run, run._replace(state=come.run, settles=run.settles + 1, read=run.read or whole))
    state = state._replace(
        again=body.run if rules.goes_on(come) else NOBODY, blocked=come.outcome is Outcome.BLOCKED, moved=False
    )
    if not rules.keeps_wake(before.moved):
        wake = come.wake
        state = state._replace(due="" if wake is None else wake.reason.value, later=wake is not None and wake.at > 0)
    # Whatever follows from the turn: what a person wanted stands, now.
    stands = state.due and not state.later and WakeReason(state.due) not in machine.OWN
    yield state._replace(overwritten=before.moved and not stands)


def reconciling(bounds: Bounds, rules: Rules, state: State) -> Iterator[State]:
    """Find a live run whose body is gone, or whose lease is over while its body lives."""
    number = live(state)
    if number == NOBODY:
        return
    run = state.runs[number]
    has_body = any(body.run == number and body.version == run.version for body in state.bodies)
    if has_body and state.losses == bounds.losses:
        return
    heard = put(state, number, landed(rules, run)) if run.kept else state
    heard = heard._replace(losses=state.losses + has_body)
    yield from settled(bounds, rules, heard, Body(number, run.version), Ending.LOST, Outcome.WORK_DONE, 0)


def ending(bounds: Bounds, rules: Rules, state: State) -> Iterator[State]:
    """Let a person and the expiry end each ask, at once or on what they saw before the other did."""
    for number, ask in enumerate(state.asks):
        for who, other in ((PERSON, EXPIRY), (EXPIRY, PERSON)):
            is_stale = (who, number) in state.looks
            looked = state._replace(looks=state.looks - {(who, number)})
            if is_stale and not rules.ends(ask):
                yield looked  # told who won
            if not (is_stale or ask.state == OPEN) or not rules.ends(ask):
                continue
            by_person = who == PERSON
            after = ask._replace(
                state=ANSWERED if by_person else EXPIRED,
                ends=ask.ends + 1,
                verdict=ask.verdict or by_person or rules.decides(),
                rested=by_person or rules.rests(),
            )
            looked = looked._replace(
                asks=(*state.asks[:number], after, *state.asks[number + 1 :]),
                resting=state.resting or (not by_person and rules.rests()),
            )
            ended = told_and_woken(bounds, looked, ask.run, by_person) if rules.tells_and_wakes() else looked
            yield ended
            if not ended.looks:
                yield ended._replace(looks=frozenset({(other, number)}))  # the other had seen it open


def told_and_woken(bounds: Bounds, state: State, number: int, by_person: bool) -> State:
    """Let go of a parked run of which nothing is open, and wake the agent by its setting."""
    left, run = of(state, number), state.runs[number]
    if not left and run.state is PARKED:
        state = put(state, number, run._replace(state=ENDED))
    reason = WakeReason.ANSWER if by_person else WakeReason.EXPIRED
    return woken(state, reason.value) if machine.rouses(reason, bounds.wake_on, left) else state


def plain(state: State) -> State:
    """Forget what nothing depends on any more: of runs that ended well, of asks that were told once, of bodies whose
    turn is over."""
    runs = tuple(PAST if run.state is ENDED and is_well(run) else run for run in state.runs)
    asks = tuple(DONE if ask[1:] in (DONE[1:], LAPSED[1:]) else ask for ask in state.asks)
    bodies = tuple(body if SOUND.settles(runs[body.run], body) else body._replace(said=True) for body in state.bodies)
    return state._replace(runs=runs, asks=asks, bodies=bodies)


def is_well(run: Ran) -> bool:
    """Tell whether a run that ended has nothing wrong about it."""
    return run.effects <= 1 and run.settles <= run.version and (run.read or not run.capsule)


PAST: Final = Ran(ENDED, landed=True, effects=1, settles=1)
DONE: Final = Asked(NOBODY, ANSWERED, told=1, ends=1, verdict=True)
LAPSED: Final = Asked(NOBODY, EXPIRED, told=1, ends=1)


def following(bounds: Bounds, rules: Rules, state: State) -> Iterator[State]:
    """Give every state that may follow."""
    return map(plain, steps(bounds, rules, state))


def steps(bounds: Bounds, rules: Rules, state: State) -> Iterator[State]:
    """Let each of them do one thing."""
    yield from ticking(bounds, rules, state)
    yield from speaking(bounds, rules, state)
    yield from reconciling(bounds, rules, state)
    yield from ending(bounds, rules, state)
    if state.later:
        yield state._replace(later=False)
    if state.resting:
        yield woken(state._replace(resting=False), "resumed")
    if state.bumps < bounds.bumps:
        yield woken(state._replace(bumps=state.bumps + 1), "person")
    if state.bodies and state.losses < bounds.losses:
        yield state._replace(bodies=(), looks=frozenset(), losses=state.losses + 1)


def sleeps(bounds: Bounds, state: State) -> bool:
    """Tell whether nothing will ever wake the agent though something should."""
    if state.resting or state.due or live(state) != NOBODY or any(ask.state == OPEN for ask in state.asks):
        return False
    untold = any(not ask.told for ask in state.asks)
    return untold or state.again != NOBODY or (bounds.policy is WakePolicy.CONTINUOUS and not state.blocked)


def wrong(bounds: Bounds, state: State) -> str | None:
    """Say what must never be, if it is."""
    if any(ask.ends > 1 for ask in state.asks):
        return "I6: an ask ended twice"
    if any(ask.verdict != (ask.state == ANSWERED) for ask in state.asks):
        return "I5: a verdict by nobody"
    if any(not ask.rested for ask in state.asks):
        return "I5: expired, and the agent goes on"
    if any(run.effects > 1 for run in state.runs):
        return "I9: a marker landed twice"
    if state.overwritten:
        return "I2: a person's wake was overwritten"
    if any(run.settles > run.version for run in state.runs):
        return "a turn was settled twice"
    if any(ask.told > 1 for ask in state.asks):
        return "told in two capsules"
    if any(run.state is ENDED and run.capsule and not run.read for run in state.runs):
        return "told to nobody"
    if sum(run.state is LIVE for run in state.runs) > 1:
        return "two live runs"
    parked = (number for number, run in enumerate(state.runs) if run.state is PARKED)
    if any(not of(state, number) and state.again != number for number in parked):
        return "I1: a run waits for nothing"
    if sleeps(bounds, state):
        return "I1: it sleeps for ever"
    return None


class Found(NamedTuple):
    """What a search came to: how many states, the first that is wrong, and why."""

    states: int
    state: State | None
    why: str | None


def explore(bounds: Bounds, rules: Rules = SOUND, *, limit: int = 3_000_000) -> Found:
    """Visit every state, and end at the first that is wrong."""
    first = State(due=WakeReason.FIRST.value)
    seen, todo = {first}, deque([first])
    while todo:
        state = todo.popleft()
        why = wrong(bounds, state)
        if why is not None:
            return Found(len(seen), state, why)
        for after in following(bounds, rules, state):
            if after not in seen:
                seen.add(after)
                todo.append(after)
        assert len(seen) < limit
    return Found(len(seen), None, None)


CONTINUOUS, EVENT, ANY, ALL = WakePolicy.CONTINUOUS, WakePolicy.EVENT, WakeOn.ANY, WakeOn.ALL
QUICK: Final = {
    "continuous, any": Bounds(CONTINUOUS, ANY),
    "continuous, all, nothing lost": Bounds(CONTINUOUS, ALL, losses=0),
    "event, all": Bounds(EVENT, ALL),
    "event, any, nothing lost": Bounds(EVENT, ANY, losses=0),
}
LONG: Final = {
    f"{policy.value}, {wake_on.value}, {runs} runs, {losses} losses": Bounds(policy, wake_on, runs, losses=losses)
    for policy in (CONTINUOUS, EVENT)
    for wake_on in (ANY, ALL)
    for runs, losses in ((2, 2), (3, 1))
}
BOUNDS: Final = LONG if os.environ.get("HYPOTHESIS_PROFILE") == "long" else QUICK


@pytest.mark.parametrize("named", BOUNDS)
def test_no_order_of_events_breaks_an_invariant(named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """I1, I2, I5, I6, I9; each verdict in one capsule that is read; nobody sleeps for ever."""
    found = explore(BOUNDS[named])
    with capsys.disabled():
        print(f"\n{named}: {found.states:,} states", end=" ")
    assert found.why is None, (found.why, found.state)
    assert found.states > 10_000


BROKEN: Final[dict[str, tuple[str, object, str]]] = {
    "the wake is a second transaction": ("tells_and_wakes", lambda: False, "I1: "),
    "a settle writes its wake whatever came": ("keeps_wake", lambda _moved: False, "I2: "),
    "expiry approves": ("decides", lambda: True, "I5: a verdict by nobody"),
    "expiry does not pause": ("rests", lambda: False, "I5: expired, and the agent goes on"),
    "an ask ends whatever it was": ("ends", lambda _ask: True, "I6: "),
    "a marker lands as often as it is read": ("lands", lambda _run: True, "I9: "),
    "a settle does not compare": ("settles", lambda _run, _body: True, "settled twice"),
    "a capsule tells all that ended": ("tells", lambda ask: ask.state != OPEN, "told in two capsules"),
    "a lost run is not dispatched again": ("goes_on", lambda _settled: False, ""),
}


@pytest.mark.parametrize("named", BROKEN)
def test_the_model_finds_what_is_broken(named: str) -> None:
    """The twins: with one of the promises taken away the same search finds the state."""
    promise, instead, said = BROKEN[named]
    broken = Rules()
    vars(broken)[promise] = instead
    found = explore(Bounds(EVENT, ANY, runs=3, asks=1), broken)
    assert found.why is not None and said in found.why, found.why


def test_the_model_asks_the_product_whom_an_answer_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin in the product: where an answer wakes nobody while it was the last, somebody sleeps for ever."""
    monkeypatch.setattr(machine, "rouses", lambda reason, *_: reason is not WakeReason.ANSWER)
    found = explore(Bounds(EVENT, ALL, losses=0))
    assert found.why == "I1: it sleeps for ever"


def test_the_model_asks_the_product_what_follows_from_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other: where a run that failed is not to be dispatched again, nothing lets go of it."""
    follows = machine.settle

    def forgetful(facts: TurnFacts) -> Settled:
        return replace(follows(facts), again=False)

    decided.cache_clear()
    monkeypatch.setattr(machine, "settle", forgetful)
    found = explore(Bounds(EVENT, ANY, losses=0))
    decided.cache_clear()
    assert found.why == "I1: a run waits for nothing"
