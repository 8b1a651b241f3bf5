"""What came of an ask outside, as the rows know it: decision and execution are shown apart, and unknown as unknown.

Nothing is concluded from silence: what nobody wrote down is said to be not recorded.
"""

from collections.abc import Mapping
from typing import Any, Final

from gitops_bot.authority.shown import AgentText, EffectShown
from gitops_bot.core.asks import Ask, AskKind, AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.store import captures, card_rows, executions, grants_read, outbox
from gitops_bot.store.captures import Capture, Seat
from gitops_bot.store.engine import Tx
from gitops_bot.store.executions import Execution
from gitops_bot.store.states import EffectState, GrantState, SeatState

CAPTURE: Final = "capture.approve"
MOST_SEATS: Final = 50
UNKNOWN: Final = (
    "It may have been done or not, and it is never run again by itself."
    " Look where it would have happened, and settle it there; asking again is a new action with a new approval."
)
_EXECUTION: Final[Mapping[EffectState, str]] = {
    EffectState.PENDING: "Not begun yet.",
    EffectState.ATTEMPTING: "Under way, or cut off in the middle; nobody knows yet whether it was done.",
    EffectState.DONE: "Done.",
    EffectState.FAILED: "Failed: nothing was done. The grant is spent; it must be asked again.",
    EffectState.UNKNOWN: UNKNOWN,
}
_GRANT: Final[Mapping[GrantState, str]] = {
    GrantState.MINTED: "A grant was minted and is not spent yet.",
    GrantState.SPENT: "The grant is spent.",
    GrantState.REVOKED: "The grant was revoked before it was spent; nothing was done.",
    GrantState.LAPSED: "The grant lapsed before it was spent; nothing was done. Have it asked again.",
}
_CAPTURE: Final[Mapping[CaptureState, tuple[str, str]]] = {
    CaptureState.REQUESTED: ("pending", "Requested; nothing is measured."),
    CaptureState.APPROVED: ("pending", "Approved; it waits for a place to measure."),
    CaptureState.SUBMITTED: ("attempting", "Submitted; it has not begun to measure."),
    CaptureState.RUNNING: ("attempting", "Being measured."),
    CaptureState.READY: ("done", "Measured; the loop is not told yet."),
    CaptureState.RESCOPED: ("done", "Measured, and the loop goes on in the new regime."),
    CaptureState.DENIED: ("stopped", "Denied; nothing is measured."),
    CaptureState.FAILED: ("failed", "It failed after its retries; the loop was told to go on without it."),
    CaptureState.CANCELLED: ("stopped", "Cancelled; nothing is told to the loop."),
}
_SIGNAL: Final[Mapping[EffectState, str]] = {
    EffectState.PENDING: "The signal to the loop waits to be sent.",
    EffectState.ATTEMPTING: "The signal to the loop was sent; its answer is not known.",
    EffectState.DONE: "The loop acknowledged the signal.",
    EffectState.FAILED: "The loop refused the signal.",
    EffectState.UNKNOWN: "The signal to the loop was sent, and nobody knows whether it arrived. See the loop's log.",
}


def effects_of(tx: Tx, ask: Ask) -> tuple[EffectShown, ...]:
    """Give the state of everything that this ask was about to do outside."""
    if ask.kind is AskKind.GATED:
        return _gated(tx, ask)
    if ask.kind is AskKind.QUESTION:
        return ()
    if ask.verb == CAPTURE and (capture := captures.of_ask(tx, ask.id)) is not None:
        return effects_of_capture(tx, capture)
    if ask.state is not AskState.APPROVED:
        return ()
    if ask.verb == CAPTURE:
        detail = "Nothing came of this approval: the capture goes on under another ask, or is gone."
        return (EffectShown("capture", "stopped", detail, None),)
    detail = "Whoever asked reads the approval and acts on it; what they did with it is not recorded here."
    return (EffectShown(ask.verb or "action", "not_recorded", detail, None),)


def _gated(tx: Tx, ask: Ask) -> tuple[EffectShown, ...]:
    named = card_rows.execution_of(tx, ask.id)
    execution = None if named is None else executions.get(tx, named)
    found = [] if execution is None else [_execution(execution)]
    grant = grants_read.of_ask(tx, ask.id)
    if grant is None or (grant.state is GrantState.SPENT and found):
        return tuple(found)
    state = {GrantState.MINTED: "pending", GrantState.SPENT: "unknown"}.get(grant.state, "stopped")
    detail = _GRANT[grant.state] + (f" {UNKNOWN}" if state == "unknown" else "")
    return (EffectShown("grant", state, detail, grant.ended_at or grant.minted_at), *found)


def _execution(one: Execution) -> EffectShown:
    detail = _EXECUTION[one.state]
    attempts = one.told.get("attempts")
    if isinstance(attempts, int) and attempts > 1:
        detail = f"{detail} {attempts} attempts."
    return EffectShown(
        "execution", one.state.value, detail, one.ended_at or one.attempted_at or one.created_at, _told(one.told)
    )


def _told(told: Mapping[str, Any]) -> AgentText | None:
    said = next((told[name] for name in ("text", "why", "reason") if isinstance(told.get(name), str)), None)
    return None if not said else AgentText(said, "the executor's last word")


def effects_of_capture(tx: Tx, capture: Capture) -> tuple[EffectShown, ...]:
    """Give how far a capture is, and what became of the signal to each loop that waits or waited for it."""
    state, detail = _CAPTURE[capture.state]
    told = AgentText(capture.error, "the capture program") if capture.error else None
    seats = captures.seats(tx, capture.id)[:MOST_SEATS]
    signals = [shown for seat in seats if (shown := _signal(tx, capture, seat)) is not None]
    return (EffectShown("capture", state, detail, capture.updated_at, told), *signals)


def _signal(tx: Tx, capture: Capture, seat: Seat) -> EffectShown | None:
    for what in ("rescope", "deny"):
        sent = outbox.get(tx, f"{what}:{capture.ask}:{seat.loop}:{seat.run_version}")
        if sent is not None:
            told = AgentText(sent.last_error, "the bridge of the loop") if sent.last_error else None
            return EffectShown(f"{what} of {seat.loop}", sent.state.value, _SIGNAL[sent.state], None, told)
    if seat.state is SeatState.GONE:
        return EffectShown(f"signal to {seat.loop}", "stopped", "The loop went away before it was told anything.", None)
    return None
