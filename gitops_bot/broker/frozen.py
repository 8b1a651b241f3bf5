"""Measuring again inside a loop's frozen regime changes no judge: it needs a standing approval and a free place, and no
person.

The frozen regime is the one whose rescope this start of the loop acknowledged last, by our own rows; what a loop says
of itself does not count. Such a capture is not published: its knobs are for the agent, and a segment's judge stays.
"""

from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState, Regime
from gitops_bot.store import agents, asks, captures, votes
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Tx


def approved(tx: Tx, ask_id: str | None) -> int | None:
    """Give the instant at which an ask was approved, None unless it was and no revocation came after."""
    ask = asks.get(tx, ask_id) if ask_id else None
    if ask is None or ask.state is not AskState.APPROVED or votes.revocations_of(tx, ask.id):
        return None
    return ask.ended_at


def measured_before(tx: Tx, run: agents.Run, regime: Regime) -> Capture | None:
    """Find the capture of a run's frozen regime, when that is what is wanted and its approval stands."""
    last = captures.last_rescoped(tx, run.id, run.version)
    if last is None or last.trace_id != regime.trace_id or approved(tx, last.ask) is None:
        return None
    return last


def fresh(
    tx: Tx,
    regime: Regime,
    *,
    environment: str,
    repository: str,
    agent: agents.Agent,
    run: str,
    why: str,
    ask: str,
    id: str,
) -> Capture:
    """Give the row of a capture that is asked for now. It is *not* written."""
    return Capture(
        id=id,
        trace_id=regime.trace_id,
        environment=environment,
        repository=repository,
        state=CaptureState.REQUESTED,
        ask=ask,
        agent=agent.id,
        run=run,
        requester=agent.principal,
        why=why,
        artefact=None,
        digest=None,
        knobs=None,
        error=None,
        attempt=0,
        successor=0,
        moved_heads=0,
        branch=None,
        pull_request=None,
        url=None,
        head=None,
        base=None,
        status_comment=None,
        created_at=tx.now,
        updated_at=tx.now,
        ready_at=None,
        version=0,
    )
