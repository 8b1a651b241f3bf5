"""Values of closed lists as people see them on pages: a word, its colour, what it means and what to do about it.

A value that is not listed is shown as itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flask import Flask

from gitops_bot.core.captures import CaptureState, parse_trace_id
from gitops_bot.core.errors import SENTENCES, Malformed, Reason
from gitops_bot.core.status import AgentStatus


@dataclass(frozen=True, slots=True)
class Shown:
    """A word, the tone of its chip ('': neutral), and a sentence."""

    word: str
    tone: str
    meaning: str


STATUSES: Final[Mapping[str, Shown]] = {
    AgentStatus.RETIRED: Shown("retired", "", "Ended for good; its tokens stand for nobody."),
    AgentStatus.DRAFT: Shown("draft", "", "Not started yet."),
    AgentStatus.PAUSED: Shown("paused", "warn", "Nothing starts it until a person resumes it."),
    AgentStatus.RUNNING: Shown("running", "good", "It is at work."),
    AgentStatus.WAITING_HUMAN: Shown("waits for a person", "accent", "An ask is open that a person can answer."),
    AgentStatus.BLOCKED: Shown("blocked", "danger", "Only signed commits, or a decision in the backlog, let it go on."),
    AgentStatus.WAITING_RESOURCE: Shown("waits for its turn", "", "A place is taken; it goes on by itself."),
    AgentStatus.BACKING_OFF: Shown("tries again later", "", "Something outside failed; it goes on by itself."),
    AgentStatus.DUE: Shown("about to start", "", "It is due, and starts by itself."),
    AgentStatus.SCHEDULED: Shown("scheduled", "", "It starts at its time."),
    AgentStatus.WAITING_EVENT: Shown("waits for an event", "", "It starts when what it listens for happens."),
    AgentStatus.MANUAL: Shown("idle", "", "It is started by hand, or asks through its token."),
}
CAPTURES: Final[Mapping[str, Shown]] = {
    CaptureState.REQUESTED: Shown("waits for a person", "accent", "Its ask is open; nothing is measured before."),
    CaptureState.APPROVED: Shown("approved", "good", "Approved; it is measured as soon as there is a place."),
    CaptureState.SUBMITTED: Shown("submitted", "", "Handed over to be measured; it has not begun."),
    CaptureState.RUNNING: Shown("measuring", "", "Being measured now."),
    CaptureState.READY: Shown("ready", "good", "Measured and checked; the loops that wait are being told."),
    CaptureState.RESCOPED: Shown("in use", "good", "Measured, and the loop goes on in this regime."),
    CaptureState.DENIED: Shown("denied", "danger", "A person denied it; nothing is measured."),
    CaptureState.FAILED: Shown(
        "failed", "danger", "It failed after its retries; the loops were told that none will come."
    ),
    CaptureState.CANCELLED: Shown("cancelled", "warn", "Taken back, or nobody waits for it any more."),
}
CAUSES: Final[Mapping[str, Shown]] = {
    "expired": Shown(
        "expired", "warn", "Nobody decided in its time. That approved nothing, and its agent stands still."
    ),
    "withdrawn": Shown("withdrawn", "", "Taken back before anybody decided, as when its agent is retired."),
    Reason.STALE_HEAD: Shown("moved too often", "warn", "The pull request kept moving while the ask was open."),
    Reason.EPOCH: Shown("new epoch", "warn", "The host was pinned anew, which ended everything that was open."),
}


def status_words(status: str) -> Shown:
    """Say what the status of an agent is called and means."""
    return STATUSES[status]


def capture_words(state: str) -> Shown:
    """Say what the state of a capture is called and means."""
    return CAPTURES[CaptureState(state)]


def cause_words(cause: str) -> Shown:
    """Say why a decision is in the backlog."""
    known = CAUSES.get(cause.lower())
    if known is not None:
        return known
    return Shown(cause.replace("_", " ").lower(), "", SENTENCES[Reason(cause)] if cause in tuple(Reason) else "")


def regime_words(trace_id: str | None) -> str:
    """Say in short which regime a trace id names; the first regime of a loop has none."""
    if trace_id is None:
        return "the regime that it began with"
    try:
        one = parse_trace_id(trace_id)
    except Malformed:
        return trace_id
    long = f", {one.long_frac} of them {one.long_tokens} long" if one.long_tokens else ""
    return f"{one.model}: {one.concurrency} at once, {one.prefixes} prefixes, {one.max_tokens} tokens out{long}"


def install(app: Flask) -> None:
    """Give the templates these words."""
    app.jinja_env.globals.update(
        status_words=status_words, capture_words=capture_words, cause_words=cause_words, regime_words=regime_words
    )
