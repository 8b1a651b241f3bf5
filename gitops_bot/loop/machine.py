"""Every decision of the loop (protocols/loop.md): the order of the iteration head, modes, park, outcomes, keep or not.

Pure: `advance(state, event)` gives the next state and the commands that the driver carries out in their order. The
driver feeds what it saw (levers at the head, a turn's end, a measurement) and decides nothing itself. Each command that
is a line of the session log comes before the command that settles its admission, and an ask is logged before the row of
its turn, so that a crash between them is repaired from the log.
"""

from dataclasses import replace
from typing import Final, assert_never

from gitops_bot.loop.grammar import Escalation, Marker, Mode
from gitops_bot.loop.vocabulary import (
    Baselined,
    Command,
    Denial,
    DropDenial,
    Ending,
    Escalate,
    Event,
    Finish,
    Head,
    Hold,
    Judged,
    Measure,
    Note,
    OpenAsk,
    OpenSegment,
    Park,
    Rebaseline,
    Resolve,
    Row,
    RunTurn,
    Settle,
    State,
    Step,
    Tampered,
    TurnEnded,
    Wait,
)

MAX_FAILED_TURNS: Final = 3


def exit_code(state: State, outcome: str) -> int:
    """Give the exit status: 0 improved or solved, 1 no improvement, 2 escalated."""
    if outcome == "escalated":
        return 2
    return 0 if outcome != "error" and (state.improved or outcome == "solved") else 1


def advance(state: State, event: Event) -> Step:
    """Take one event; the last command is the one whose result is the next event, or `Finish`, or there is none and the
    head comes next."""
    match event:
        case Head():
            return _head(state, event)
        case Baselined():
            return _baselined(state, event)
        case TurnEnded():
            return _turn_ended(state, event)
        case Judged():
            return _judged(state, event)
        case Tampered():
            return _escalated(state, Escalation("tampered", f"{event.what} changed while the loop ran"))
        case _:
            assert_never(event)


def _head(state: State, seen: Head) -> Step:
    """pause · park · drain rescope · drain deny · interrupt · (waits that ran out) · budget · iteration."""
    if state.owed is not None:
        return _escalated(replace(state, owed=None), state.owed)
    if seen.paused and seen.stop is None:
        return state, (Hold(),)
    blocking = state.blocking
    wakes = seen.rescope or seen.denial or seen.stop or (blocking and blocking.trace_id in seen.overdue)
    if blocking is not None and not wakes:
        return state, (Park(blocking),)
    if seen.rescope is not None:
        return state, (Rebaseline(seen.rescope),)
    if seen.denial is not None:
        return _denied(state, seen.denial)
    if seen.stop is not None:
        return state, (Finish("stopped", seen.stop),)
    if late := [ask for ask in state.asks if ask.trace_id in seen.overdue]:
        return _end_asks(state, late, Ending.TIMEOUT, "nobody answered within --max-park", key=None)
    if seen.exceeded is not None:
        return state, (Finish("budget", seen.exceeded),)
    if state.iteration >= state.max_iterations:
        return state, (Finish("finished", "all iterations are done"),)
    return replace(state, iteration=state.iteration + 1), (RunTurn(state.iteration + 1),)


def _denied(state: State, denial: Denial) -> Step:
    if denial.trace_id is not None:
        meant = [ask for ask in state.asks if ask.trace_id == denial.trace_id]
    else:
        meant = [state.blocking] if state.blocking else list(state.asks)
    if not meant:
        settle = Settle(denial.key, applied=False, note="no such ask is open")
        return state, (DropDenial(denial.key), Note("a deny came for no open ask"), settle)
    state, commands = _end_asks(state, meant, Ending.DENIED, denial.reason, key=denial.key)
    return state, (DropDenial(denial.key), *commands)


def _end_asks(state: State, ended: list[OpenAsk], ending: Ending, reason: str, key: str | None) -> Step:
    """End asks without the new regime: in `continue` the frozen regime goes on, in `block` nothing is left to do."""
    commands: list[Command] = [Resolve(ask, ending, reason, key) for ask in ended]
    state = replace(state, asks=tuple(ask for ask in state.asks if ask not in ended))
    settled = (Settle(key, applied=True),) if key else ()
    if any(ask.mode is Mode.BLOCK for ask in ended):
        state, rest = _escalated(state, needs_info(ended[0].trace_id, ended[0].handle, ending, reason))
        return state, (*commands, *settled, *rest)
    commands.append(Note(f"{ended[0].trace_id}: {ending.value} ({reason}); going on in {state.regime}"))
    return state, (*commands, *settled)


def needs_info(trace_id: str, handle: str, ending: Ending, reason: str) -> Escalation:
    """Build the escalation of a block ask that ended without its regime."""
    return Escalation("needs-info", f"{trace_id} was not provisioned: {ending.value} ({reason})", f"handle: {handle}")


def _escalated(state: State, escalation: Escalation) -> Step:
    return state, (Escalate(escalation), Finish("escalated", escalation.reason))


def _baselined(state: State, event: Baselined) -> Step:
    regime = event.rescope.regime if event.rescope else state.regime
    if event.measurement is None:
        # The admission stays unsettled: a resume arms the same rescope again.
        return state, (Finish("error", f"no baseline in {regime}: {event.detail}"),)
    matching = [ask for ask in state.asks if ask.trace_id == regime]
    granted = (matching or [ask for ask in state.asks if ask.mode is Mode.BLOCK]) if event.rescope else []
    key = event.rescope.key if event.rescope else None
    score = event.measurement.score
    kept = tuple(ask for ask in state.asks if ask not in granted)
    state = replace(state, regime=regime, baseline=score, best=score, asks=kept)
    names = tuple(ask.trace_id for ask in granted)
    return state, (
        OpenSegment(state.fingerprint, score, regime, key, names),
        *(Resolve(ask, Ending.GRANTED, regime, key) for ask in granted),
        *((Settle(key, applied=True),) if key else ()),
    )


def _turn_ended(state: State, turn: TurnEnded) -> Step:
    """a failed turn · `ESCALATION.json` · `PROVISIONING_PENDING.json` · judge."""
    if turn.failed is not None:
        state = replace(state, failed_turns=state.failed_turns + 1)
        row = Row(state.iteration, "failed", None, keep=False, note=turn.failed)
        if state.failed_turns >= MAX_FAILED_TURNS:
            return state, (row, Finish("error", f"{MAX_FAILED_TURNS} turns in a row failed: {turn.failed}"))
        return state, (row,)
    state = replace(state, failed_turns=0)
    if turn.escalation is not None:
        return _escalated(state, turn.escalation)
    if turn.marker is None:
        return state, (Measure(),)
    if turn.candidate:
        return replace(state, taken=turn.marker), (Measure(),)
    row = Row(state.iteration, "ask", None, keep=False, note=turn.marker.trace_id)
    state, commands = _asked(state, turn.marker, turn.marker.mode or Mode.BLOCK)
    return state, _with_row(row, commands)


def _with_row(row: Row, asked: tuple[Command, ...]) -> tuple[Command, ...]:
    ends = any(isinstance(command, Finish) for command in asked)
    return (row, *asked) if ends else (*asked, row)


def _asked(state: State, marker: Marker, mode: Mode) -> Step:
    if marker.trace_id == state.regime:
        return state, (Note(f"{marker.trace_id} is the present regime; nothing is asked"),)
    if not state.surface:
        if mode is Mode.CONTINUE:
            return state, (Note(f"no approval surface; {marker.trace_id} cannot be had, going on in {state.regime}"),)
        reason = f"{marker.trace_id} needs a person and this run has no approval surface"
        return _escalated(state, Escalation("needs-info", reason, f"handle: {marker.handle}"))
    known = next((ask for ask in state.asks if ask.trace_id == marker.trace_id), None)
    ask = OpenAsk(marker.trace_id, marker.handle, mode)
    if known is not None and (known.mode is Mode.BLOCK or mode is Mode.CONTINUE):
        return state, (Note(f"{marker.trace_id} is asked for already"),)
    others = tuple(other for other in state.asks if other.trace_id != marker.trace_id)
    return replace(state, asks=(*others, ask)), (Wait(ask),)


def _judged(state: State, event: Judged) -> Step:
    measured = event.measurement
    keep = measured is not None and (state.best is None or state.direction.better(measured.score, state.best))
    solved = measured is not None and measured.solved
    keep = keep or solved
    row = Row(
        state.iteration,
        "keep" if keep else "discard",
        measured.score if measured else None,
        keep=keep,
        solved=solved,
        note=event.detail,
    )
    if keep and measured is not None:
        state = replace(state, best=measured.score, improved=True)
    marker, state = state.taken, replace(state, taken=None)
    if solved:
        return state, (row, Finish("solved", "the judge says that the goal is reached"))
    if marker is None:
        return state, (row,)
    state, commands = _asked(state, marker, marker.mode or (Mode.CONTINUE if measured else Mode.BLOCK))
    return state, _with_row(row, commands)
