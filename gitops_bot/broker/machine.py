"""The only transition table of captures: (state, event) → (state, commands). What it does not list does not happen.

`authority` says how an ask ended, adapters say how a job went; this says what that means for the capture. It reads no
row and sends nothing: `broker.captures` writes the state and puts the commands into the outbox, in one transaction.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitops_bot.core.captures import CaptureState as S


class Event(StrEnum):
    """Everything that can happen to a capture."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    REVOKED = "revoked"
    HEAD_MOVED = "head_moved"
    MOVED_TOO_OFTEN = "moved_too_often"
    ALL_LEFT = "all_left"
    SUBMITTED = "submitted"
    STARTED = "started"
    MEASURED = "measured"
    JOB_FAILED = "job_failed"
    GAVE_UP = "gave_up"
    ARTEFACT_LOST = "artefact_lost"
    ALL_TOLD = "all_told"


class Command(StrEnum):
    """What follows from a transition, carried out through the outbox after commit."""

    TELL_RESCOPE = "tell_rescope"
    TELL_DENY = "tell_deny"
    CANCEL_JOB = "cancel_job"
    SHOW = "show"
    CLOSE = "close"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Transition:
    """The next state and the commands, in order."""

    state: S
    commands: tuple[Command, ...]


_SHOW, _CLOSE, _DENY, _CANCEL = Command.SHOW, Command.CLOSE, Command.TELL_DENY, Command.CANCEL_JOB


def _to(state: S, *commands: Command) -> Transition:
    return Transition(state, commands)


_NO: Final = {
    # A deny ends it for every loop; so does expiry, which approves nothing (I5).
    Event.DENIED: _to(S.DENIED, _DENY, _SHOW, _CLOSE),
    Event.EXPIRED: _to(S.DENIED, _DENY, _SHOW, _CLOSE),
}
_STOP: Final = {
    Event.REVOKED: _to(S.CANCELLED, _CANCEL, _DENY, _SHOW, _CLOSE),
    Event.WITHDRAWN: _to(S.CANCELLED, _CANCEL, _DENY, _SHOW, _CLOSE),
    Event.ALL_LEFT: _to(S.CANCELLED, _CANCEL, _SHOW, _CLOSE),
    # The old pull request closes after its successor was opened, which `successors` sees to.
    Event.HEAD_MOVED: _to(S.REQUESTED, _CANCEL),
    Event.MOVED_TOO_OFTEN: _to(S.DENIED, _CANCEL, _DENY, _SHOW, _CLOSE),
}
_JOB: Final = {
    Event.MEASURED: _to(S.READY, _SHOW, Command.TELL_RESCOPE),
    # Tried again under a new job name while attempts are left.
    Event.JOB_FAILED: _to(S.APPROVED, _CANCEL),
    Event.GAVE_UP: _to(S.FAILED, _CANCEL, _DENY, _SHOW, _CLOSE),
}

TABLE: Final = {
    S.REQUESTED: {Event.APPROVED: _to(S.APPROVED, _SHOW), **_NO, **_STOP},
    S.APPROVED: {Event.SUBMITTED: _to(S.SUBMITTED), **_STOP},
    S.SUBMITTED: {Event.STARTED: _to(S.RUNNING, _SHOW), **_JOB, **_STOP},
    S.RUNNING: {**_JOB, **_STOP},
    S.READY: {
        Event.ALL_TOLD: _to(S.RESCOPED, Command.RECORD, _SHOW),
        Event.ARTEFACT_LOST: _to(S.FAILED, _DENY, _SHOW, _CLOSE),
        Event.REVOKED: _STOP[Event.REVOKED],
        Event.WITHDRAWN: _STOP[Event.WITHDRAWN],
        Event.HEAD_MOVED: _STOP[Event.HEAD_MOVED],
        Event.MOVED_TOO_OFTEN: _STOP[Event.MOVED_TOO_OFTEN],
        # ALL_LEFT is not listed: a finished trace stays a hit for whoever asks next.
    },
    S.RESCOPED: {},
    S.DENIED: {},
    S.FAILED: {},
    S.CANCELLED: {},
}
"""Terminal states list nothing."""


def advance(state: S, event: Event) -> Transition | None:
    """Give the transition, or None where the event means nothing in this state."""
    return TABLE[state].get(event)
