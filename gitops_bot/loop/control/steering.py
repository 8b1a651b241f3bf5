"""What steers a loop, shared by the bridge's thread and the driver: slots, levels, open asks, steers, status.

Every accepted command is in the admission ledger before it moves anything here. The driver reads the levers at the
iteration head, takes a slot only when it acts on it, and settles; it alone changes the loop. With a broker attached an
operator's `approve` or `deny` is a claim: it is written to the session log and nothing else happens here (I10, I19).
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.bridge.grammar import PERMITTED, Change, Kind, Level, accepted, duplicate, rejected
from gitops_bot.core.errors import Unavailable
from gitops_bot.loop.control.admissions import Admission, AdmissionLedger, Outcome
from gitops_bot.loop.vocabulary import Denial, Ending, OpenAsk, Rescope

NO_PENDING: Final = "no pending approval"
GATED: Final = "gated: only signed commits answer this verb, and no grant was minted"
NO_OPERATOR: Final = "no operator named"
OPEN_BRIDGE: Final = "not permitted: the bridge is open, so its broker takes no claim"


@dataclass(slots=True)
class Progress:
    """What `status` shows."""

    phase: str = "starting"
    iteration: int = 0
    best: float | None = None
    spend: float = 0.0


class Steering:
    """The levers of one loop. `log` writes one session line: (kind, members); `on_broker` remembers, for a resume, that
    a broker is attached."""

    def __init__(
        self,
        ledger: AdmissionLedger,
        log: Callable[[str, Mapping[str, object]], None],
        *,
        max_usd: float,
        on_broker: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._log = log
        self._on_broker = on_broker
        self._changed = threading.Condition()
        self._rescope: Rescope | None = None
        self._denial: Denial | None = None
        self._stop: str | None = None
        self._aborted = False
        self._steers: list[tuple[str, str]] = []
        self._asks: dict[str, OpenAsk] = {}
        self._claims: dict[str, list[Admission]] = {}
        self.paused = False
        self.max_usd = max_usd
        self.progress = Progress()
        self.broker_attached = False
        self.claims_refused: str | None = None

    # ---- the bridge's side

    def status(self) -> dict[str, object]:
        """Give the `status` object of the bridge."""
        with self._changed:
            seen = self.progress
            shown: dict[str, object] = {"phase": seen.phase, "iter": seen.iteration}
            if seen.best is not None:
                shown["best_score"] = seen.best
            shown |= {"spend": seen.spend, "paused": self.paused}
            if self.max_usd:
                shown["max_cost"] = self.max_usd
            return shown

    def attach_broker(self) -> None:
        """Note that a broker reads this loop; it stays attached for the life of the run."""
        with self._changed:
            if not self.broker_attached:
                self._on_broker()
            self.broker_attached = True

    def refuse_claims(self, why: str) -> None:
        """Answer every `approve` and `deny` that would be a claim with this error; nothing of it is recorded."""
        with self._changed:
            self.claims_refused = why

    def handle(self, change: Change, level: Level, *, authenticated: bool) -> dict[str, object]:
        """Admit a command and let it have its effect; give the reply. `authenticated` is False on an open bridge."""
        cmd = change.kind.cmd
        if level < PERMITTED[change.kind]:
            return rejected("not permitted", cmd=cmd)
        by_broker = authenticated and level is Level.BROKER
        with self._changed:
            try:
                reply = self._admit(change, by_broker=by_broker)
            except Unavailable as error:
                reply = self._unrecorded(change, str(error))
            self._changed.notify_all()
        return reply

    def _unrecorded(self, change: Change, why: str) -> dict[str, object]:
        if change.kind in (Kind.STOP, Kind.ABORT):
            self._halt(change.kind)
            return accepted(change.kind.cmd, unrecorded=True)
        return rejected(f"admission not recorded: {why}", cmd=change.kind.cmd, key=change.key)

    def _admit(self, change: Change, *, by_broker: bool) -> dict[str, object]:
        if change.key and (known := self._ledger.find(change.key)):
            return _again(change, known)
        claim = change.kind in (Kind.APPROVE, Kind.DENY) and self.broker_attached and not by_broker
        if claim and self.claims_refused is not None:
            return rejected(self.claims_refused, cmd=change.kind.cmd, key=change.key)
        if change.kind is Kind.APPROVE:
            return self._approve(change, claim=claim)
        if claim:
            return self._claim(change, change.key or _fresh("deny"))
        key = change.key or _fresh(change.kind.cmd)
        admission = self._ledger.admit(change.kind, change.arguments, key)
        self._apply(admission)
        shown = {name: value for name, value in change.arguments.items() if name in ("regime", "reason", "usd")}
        return accepted(change.kind.cmd, **shown, key=key)

    def _apply(self, admission: Admission) -> None:
        key = admission.key
        match admission.kind:
            case Kind.RESCOPE:
                self._arm_rescope(Rescope(key, admission.text("regime") or ""))
            case Kind.DENY:
                self._arm_denial(Denial(key, admission.text("reason") or "", admission.text("trace_id")))
            case Kind.STEER:
                self._steers.append((key, admission.text("text") or ""))
            case Kind.SET_BUDGET:
                self.max_usd = float(admission.arguments.get("usd", 0.0))
                self._ledger.settle(key, Outcome.APPLIED)
            case Kind.PAUSE | Kind.RESUME:
                self.paused = admission.kind is Kind.PAUSE
                self._ledger.settle(key, Outcome.APPLIED)
            case Kind.STOP | Kind.ABORT:
                self._halt(admission.kind)
                self._ledger.settle(key, Outcome.APPLIED)
            case Kind.APPROVE:
                self._ledger.settle(key, Outcome.SUPERSEDED)

    def _arm_rescope(self, rescope: Rescope) -> None:
        if self._rescope is not None:
            self._ledger.settle(self._rescope.key, Outcome.SUPERSEDED)
        self._rescope = rescope

    def _arm_denial(self, denial: Denial) -> None:
        # A denied ask is no longer approvable, even before the driver saw the denial.
        for trace_id in [denial.trace_id] if denial.trace_id else list(self._asks):
            self._asks.pop(trace_id, None)
        if self._denial is not None:
            self._ledger.settle(self._denial.key, Outcome.SUPERSEDED)
        self._denial = denial

    def _halt(self, kind: Kind) -> None:
        self._stop = self._stop or f"{kind.value} on the bridge"
        self._aborted = self._aborted or kind is Kind.ABORT

    def _meant(self, change: Change) -> OpenAsk | None:
        trace_id = change.text("trace_id")
        if trace_id is not None:
            return self._asks.get(trace_id)
        return next(iter(self._asks.values())) if len(self._asks) == 1 else None

    def _approve(self, change: Change, *, claim: bool) -> dict[str, object]:
        ask = self._meant(change)
        if ask is None:
            key = change.key or _fresh("approve")
            self._ledger.admit(Kind.APPROVE, change.arguments, key)
            self._ledger.settle(key, Outcome.REJECTED, NO_PENDING)
            several = len(self._asks) > 1 and change.text("trace_id") is None
            return rejected("several asks are open: name trace_id" if several else NO_PENDING, cmd="approve", key=key)
        grant = self._grant_key(ask)
        key = change.key or grant
        if claim:
            return self._claim(change, key)
        if known := self._ledger.find(key):
            return duplicate("approve", key, known.outcome.value if known.outcome else None)
        self._ledger.admit(Kind.APPROVE, change.arguments, key)
        derived = f"rescope-from:{grant}"
        if self._ledger.find(derived) is None:
            try:
                admission = self._ledger.admit(Kind.RESCOPE, {"regime": ask.trace_id}, derived)
            except Unavailable:
                self._ledger.settle(key, Outcome.REJECTED, "the rescope was not recorded")
                raise
            self._apply(admission)
        self._ledger.settle(key, Outcome.APPLIED)
        return accepted("approve", regime=ask.trace_id, key=key)

    def _grant_key(self, ask: OpenAsk) -> str:
        """Give `approve:<trace id>`, numbered from the second time on that this regime is asked for."""
        key, number = f"approve:{ask.trace_id}", 1
        while True:
            approve, derived = self._ledger.find(key), self._ledger.find(f"rescope-from:{key}")
            spent = (derived or approve) and (derived is None or derived.outcome is not None)
            if not spent or (approve is not None and approve.outcome is None):
                return key
            number += 1
            key = f"approve:{ask.trace_id}#{number}"

    def _claim(self, change: Change, key: str) -> dict[str, object]:
        ask = self._meant(change)
        if ask is None:
            self._ledger.admit(change.kind, change.arguments, key)
            self._ledger.settle(key, Outcome.REJECTED, NO_PENDING)
            return rejected(NO_PENDING, cmd=change.kind.cmd, key=key)
        if known := self._ledger.find(key):
            return duplicate(change.kind.cmd, key, known.outcome.value if known.outcome else None)
        arguments = {**change.arguments, "trace_id": ask.trace_id}
        admission = self._ledger.admit(change.kind, arguments, key, claimed=True)
        self._announce(admission)
        return accepted(change.kind.cmd, claimed=True, reason=change.text("reason"), key=key)

    def _announce(self, claim: Admission) -> None:
        trace_id = claim.text("trace_id") or ""
        self._claims.setdefault(trace_id, []).append(claim)
        said: dict[str, object] = {"trace_id": trace_id, "decision": claim.kind.value, "key": claim.key}
        shown = {"ask": claim.text("ask")} if claim.text("ask") else {}
        self._log("approval_claimed", said | {"reason": claim.text("reason") or ""} | shown)

    # ---- the driver's side

    def levers(self) -> tuple[bool, Rescope | None, Denial | None, str | None]:
        """Look at what is armed, taking nothing: paused, rescope, denial, the reason to stop."""
        with self._changed:
            return self.paused, self._rescope, self._denial, self._stop

    def take(self, key: str) -> None:
        """Empty the slot that holds this key; a newer command in it stays."""
        with self._changed:
            if self._rescope is not None and self._rescope.key == key:
                self._rescope = None
            if self._denial is not None and self._denial.key == key:
                self._denial = None

    def settle(self, key: str, outcome: Outcome, note: str = "") -> None:
        """Settle an admission."""
        self._ledger.settle(key, outcome, note)

    def open(self, ask: OpenAsk) -> None:
        """Make an ask approvable; the same trace id again is the same ask."""
        with self._changed:
            self._asks[ask.trace_id] = ask

    def close(self, trace_id: str, ending: Ending) -> None:
        """Take an ask off the bridge, and settle what operators claimed about it."""
        decision = {Ending.GRANTED: Kind.APPROVE, Ending.DENIED: Kind.DENY}.get(ending)
        with self._changed:
            self._asks.pop(trace_id, None)
            for claim in self._claims.pop(trace_id, []):
                self._ledger.settle(claim.key, Outcome.APPLIED if claim.kind is decision else Outcome.SUPERSEDED)

    def steers(self) -> list[tuple[str, str]]:
        """Take the steers that no prompt carried yet, as (key, text)."""
        with self._changed:
            taken, self._steers = self._steers, []
            return taken

    def halt(self, reason: str) -> None:
        """Stop the loop from inside the process (a signal); safe in a signal handler, for it takes no lock."""
        self._stop = self._stop or reason

    @property
    def aborted(self) -> bool:
        """Whether the agent's processes are to be ended now."""
        return self._aborted

    def wait(self, seconds: float) -> None:
        """Sleep until something is admitted, at most `seconds`."""
        with self._changed:
            self._changed.wait(seconds)

    def publish(self, phase: str, iteration: int, best: float | None, spend: float) -> None:
        """Set what `status` shows."""
        with self._changed:
            self.progress = Progress(phase, iteration, best, spend)

    def restore(self, asks: Mapping[str, OpenAsk], applied: frozenset[str], announced: frozenset[str]) -> None:
        """Arm again what a killed run left unsettled. `applied` are the keys whose effect the session log shows,
        `announced` those of the claims in it."""
        with self._changed:
            self._asks = dict(asks)
            for admission in self._ledger.all():
                self._restore_level(admission)
                if admission.outcome is None:
                    self._restore(admission, applied, announced)

    def _restore_level(self, admission: Admission) -> None:
        if admission.kind is Kind.SET_BUDGET:
            self.max_usd = float(admission.arguments.get("usd", 0.0))
        elif admission.kind in (Kind.PAUSE, Kind.RESUME):
            self.paused = admission.kind is Kind.PAUSE

    def _restore(self, admission: Admission, applied: frozenset[str], announced: frozenset[str]) -> None:
        if admission.key in applied:
            self._ledger.settle(admission.key, Outcome.APPLIED)
        elif admission.claimed and admission.text("trace_id") in self._asks:
            if admission.key in announced:
                self._claims.setdefault(admission.text("trace_id") or "", []).append(admission)
            else:
                self._announce(admission)
        elif admission.claimed or admission.kind in (Kind.STOP, Kind.ABORT):
            self._ledger.settle(admission.key, Outcome.SUPERSEDED, "the run was resumed")
        elif admission.kind is Kind.APPROVE:
            granted = self._ledger.find(f"rescope-from:approve:{admission.text('trace_id')}") is not None
            granted = granted or self._ledger.find(f"rescope-from:{admission.key}") is not None
            self._ledger.settle(admission.key, Outcome.APPLIED if granted else Outcome.SUPERSEDED)
        else:
            self._apply(admission)


def _fresh(cmd: str) -> str:
    return f"{cmd}:{secrets.token_hex(12)}"


def _again(change: Change, known: Admission) -> dict[str, object]:
    cmd, key = change.kind.cmd, known.key
    given = dict(change.arguments)
    kept = dict(known.arguments)
    if known.claimed and "trace_id" not in given:
        kept.pop("trace_id", None)  # named by the loop, not by the sender
    if known.kind is not change.kind or kept != given:
        return rejected(f"idempotency conflict: {key} was another command", cmd=cmd, key=key)
    if known.kind is Kind.APPROVE and known.outcome is Outcome.REJECTED:
        return rejected(NO_PENDING, cmd=cmd, key=key)
    if known.kind is Kind.APPROVE and known.outcome is Outcome.SUPERSEDED:
        return rejected("this approve had no effect; send it again under another key", cmd=cmd, key=key)
    return duplicate(cmd, key, known.outcome.value if known.outcome else None)
