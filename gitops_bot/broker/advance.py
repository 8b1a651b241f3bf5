"""A capture's way after its ask ended: submitted, measured, re-checked, told; each step looks at the rows again.

The head and the pull request's state are read again before the submission and before the rescope; the artefact is
hashed again before the rescope (I10). What is done outside is done by idempotent names: a job by capture and attempt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.authority.comments import standing
from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.authority.rules import Rules
from gitops_bot.broker import captures as moves
from gitops_bot.broker.captures import Place, apply, record, tell
from gitops_bot.broker.machine import Event
from gitops_bot.broker.successors import BLANK, follow, head_moved, told
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.captures import CaptureState, TraceId
from gitops_bot.core.errors import Reason
from gitops_bot.ports import CaptureFailed, Capturer, CaptureResult, Forge
from gitops_bot.store import asks, captures, outbox, turns, votes
from gitops_bot.store.captures import Capture
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database
from gitops_bot.store.states import SeatState

DUTY: Final = moves.DUTY
STEPS: Final = 6
PLACE_MS: Final = 1_000
GO_ON: Final = Again(0)
"""Look at the rows again at once."""

Publish = Callable[[TraceId, Mapping[str, str], str], None]
"""Puts a finished calibration (trace id, knobs, digest) where judges on this host look for it; twice is once."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """Where captures run, how often one is tried, how often it is looked at (ms), where its knobs are published."""

    capturer: Capturer
    attempts: int
    poll_ms: int
    publish: Publish | None = None


class Advance:
    """Moves captures along; `one` is the handler of the duty of waiters of kind capture."""

    def __init__(
        self, database: Database, rules: Rules, place: Place, forge: Forge | None, measuring: Measuring | None
    ) -> None:
        self._database = database
        self._rules = rules
        self._place = place
        self._forge = forge
        self._measuring = measuring

    def one(self, claimed: Claimed) -> Outcome:
        """Take a capture as far as it goes now."""
        for _ in range(STEPS):
            outcome = self._step(claimed.key)
            if outcome != GO_ON:
                return outcome
        return GO_ON

    def _step(self, capture_id: str) -> Outcome:
        with self._database.read() as tx:
            capture = captures.get(tx, capture_id)
            ask = asks.get(tx, capture.ask) if capture is not None and capture.ask else None
            revoked = ask is not None and bool(votes.revocations_of(tx, ask.id))
        if capture is None or ask is None:
            return FINISHED
        match capture.state:
            case CaptureState.REQUESTED:
                return self._requested(capture, ask, revoked)
            case CaptureState.APPROVED | CaptureState.SUBMITTED | CaptureState.RUNNING | CaptureState.READY if revoked:
                return self._apply(capture, Event.REVOKED, "revoked")
            case CaptureState.APPROVED:
                return self._approved(capture)
            case CaptureState.SUBMITTED:
                return self._submitted(capture)
            case CaptureState.RUNNING:
                return self._running(capture)
            case CaptureState.READY:
                return self._ready(capture)
            case CaptureState.RESCOPED:
                return self._tell(capture)
            case _:
                return FINISHED

    def _apply(self, capture: Capture, event: Event, reason: str | None = None, **values: object) -> Outcome:
        """Apply an event; a row that changed since is looked at again by the next step."""
        with self._database.write() as tx:
            if event is Event.MEASURED:
                values = {**values, "ready_at": tx.now}
            apply(tx, capture, event, reason, **values)
        return GO_ON

    def _requested(self, capture: Capture, ask: Ask, revoked: bool) -> Outcome:
        match ask.state:
            case AskState.OPEN:
                return FINISHED
            case AskState.SUPERSEDED:
                return self._follow(capture, ask)
            case AskState.APPROVED:
                return self._apply(capture, Event.REVOKED if revoked else Event.APPROVED)
            case AskState.DENIED:
                with self._database.read() as tx:
                    verdict = votes.verdict(tx, ask.id)
                said = verdict.text if verdict is not None and verdict.text else "denied"
                return self._apply(capture, Event.DENIED, said[:500])
            case AskState.EXPIRED:
                return self._apply(capture, Event.EXPIRED, "expired")
            case _:
                return self._apply(capture, Event.WITHDRAWN, "withdrawn")

    def _follow(self, capture: Capture, ask: Ask) -> Outcome:
        """A superseded ask (a policy was adopted): the capture goes on under its successor, on a new draft."""
        with self._database.write() as tx:
            if ask.superseded_by is None:
                return FINISHED
            if captures.change(tx, capture, ask=ask.superseded_by, successor=capture.successor + 1, **BLANK):
                changed = captures.get(tx, capture.id)
                assert changed is not None
                follow(tx, self._rules, self._place, capture, changed)
        return GO_ON

    def _moved(self, capture: Capture) -> bool:
        """Read the pull request again; when it is not as the bot made it, re-ask or stop. True: nothing goes on."""
        if self._forge is None or capture.pull_request is None or capture.ask is None:
            return False
        with self._database.read() as tx:
            row = captures.pull_request_of(tx, capture.id, capture.ask)
            past = told(tx, capture) or outbox.get(tx, f"record:{capture.id}") is not None
        if row is None or past:
            return False  # somebody was told to go on, and the record moves the head itself
        gone = standing(self._forge.pull_request(capture.repository, capture.pull_request), row)
        if gone is None:
            return False
        with self._database.write() as tx:
            if gone.reason is Reason.STALE_HEAD:
                head_moved(tx, self._rules, self._place, capture.id)
            else:
                apply(tx, capture, Event.REVOKED, gone.reason.value)
        return True

    def _approved(self, capture: Capture) -> Outcome:
        if self._measuring is None:
            return Again(5_000)  # another host of this database measures
        if self._moved(capture):
            return GO_ON
        with self._database.write() as tx:
            # Two that are measured at once measure each other: a free place is taken by one of all brokers.
            turns.take(tx, f"measuring:{capture.environment}")
            if captures.count_measured(tx, capture.environment) >= self._place.slots:
                return Again(PLACE_MS)
            apply(tx, capture, Event.SUBMITTED)
        return GO_ON

    def _submitted(self, capture: Capture) -> Outcome:
        if self._measuring is None:
            return Again(5_000)
        self._measuring.capturer.submit(capture.job, capture.regime)
        return self._apply(capture, Event.STARTED)

    def _running(self, capture: Capture) -> Outcome:
        if self._measuring is None:
            return Again(5_000)
        try:
            result = self._measuring.capturer.poll(capture.job)
        except CaptureFailed as failure:
            return self._failed(capture, failure.reason, self._measuring.attempts)
        if result is None:
            return Again(self._measuring.poll_ms)
        return self._measured(capture, result)

    def _failed(self, capture: Capture, reason: str, attempts: int) -> Outcome:
        if capture.attempt + 1 < attempts:
            return self._apply(capture, Event.JOB_FAILED, reason, attempt=capture.attempt + 1, error=reason)
        return self._apply(capture, Event.GAVE_UP, reason, error=reason)

    def _measured(self, capture: Capture, result: CaptureResult) -> Outcome:
        knobs = {name: str(value) for name, value in result.knobs.items()}
        return self._apply(capture, Event.MEASURED, artefact=str(result.artefact), digest=result.digest, knobs=knobs)

    def _ready(self, capture: Capture) -> Outcome:
        if self._measuring is None:
            return Again(5_000)
        if self._moved(capture):
            return GO_ON
        return self._tell(capture)

    def _tell(self, capture: Capture) -> Outcome:
        """Tell every loop that waits, after the artefact was hashed again; finish when all were told."""
        with self._database.read() as tx:
            seats = captures.seats(tx, capture.id)
        waiting = [seat for seat in seats if seat.state is SeatState.WAITING]
        if waiting:
            if self._measuring is None or capture.artefact is None or capture.digest is None:
                return FINISHED
            if self._measuring.capturer.rehash(Path(capture.artefact)) != capture.digest:
                if capture.state is CaptureState.READY:
                    return self._apply(capture, Event.ARTEFACT_LOST, "the trace is not the one that was measured")
                return self._deny(capture, "the trace is gone; ask again")
            if self._measuring.publish is not None and capture.knobs is not None:
                self._measuring.publish(capture.trace_id, capture.knobs, capture.digest)
        with self._database.write() as tx:
            for seat in waiting:
                tell(tx, capture, seat, "rescope", capture.ask or "")
            if capture.state is CaptureState.READY and not waiting:
                if any(seat.state is SeatState.RESCOPED for seat in seats):
                    apply(tx, capture, Event.ALL_TOLD)
                else:
                    record(tx, capture)
        return FINISHED

    def _deny(self, capture: Capture, reason: str) -> Outcome:
        with self._database.write() as tx:
            for seat in captures.seats(tx, capture.id):
                if seat.state is SeatState.WAITING:
                    tell(tx, capture, seat, "deny", capture.ask or "", reason)
        return FINISHED
