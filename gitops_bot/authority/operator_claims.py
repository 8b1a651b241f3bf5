"""What the holder of a loop's operator token decided becomes a claim, and the claim a vote of the person who is named.

A loop's log tells it (`approval_claimed`); nothing else is believed of it. The steps: the bridge let in only who showed
a token · the loop still waits, in the run that was asked, for what the claim names (I4) · the ask is the one that was
on screen, where the claim names one · then `settling.answer` as the operator, with the channel `operator`. Every
refusal is in the ledger; the capture goes its ordinary way afterwards (I10).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.duties import FINISHED, Finished
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import Result, Voice, answer
from gitops_bot.core.asks import APPROVE, DENY, MAX_TEXT, Ask, late
from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import Principal, PrincipalName
from gitops_bot.core.texts import storable
from gitops_bot.core.verdicts import Answer, Channel, ClaimState
from gitops_bot.policy.lookup import NeedsPermission
from gitops_bot.store import agents, asks, captures, claims, due, ledger
from gitops_bot.store.claims import Claim
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx

DUTY: Final = "operator"
MOST_AN_HOUR: Final = 60
MAX_NAME: Final = 1024
HOUR: Final = 3_600_000
_UNDECIDED: Final = (ClaimState.NEW, ClaimState.HELD)


def leave_claim(tx: Tx, loop: agents.Loop, seq: int, line: Mapping[str, object]) -> bool:
    """Leave a claim for an `approval_claimed` line; False when it is no such line, or was heard before.

    At most `MOST_AN_HOUR` of a loop are taken; the first beyond is refused, the rest is not even written down.
    """
    trace_id, decision, key = (line.get(name) for name in ("trace_id", "decision", "key"))
    run = agents.run(tx, loop.run)
    if not isinstance(trace_id, str) or decision not in (APPROVE, DENY) or not isinstance(key, str) or run is None:
        return False
    reason, ask = line.get("reason"), line.get("ask")
    facts: dict[str, Fact] = {
        "loop": loop.id,
        "run": run.id,
        "run_version": run.version,
        "seq": seq,
        "trace_id": storable(trace_id)[:MAX_NAME],
        "decision": str(decision),
        "key": storable(key)[:MAX_NAME],
        "reason": storable(reason)[:MAX_TEXT] if isinstance(reason, str) else "",
        "ask": storable(ask)[:MAX_NAME] if isinstance(ask, str) else "",
        "open_bridge": loop.open_bridge,
        "shares_user": loop.shares_user,
    }
    recent = claims.seen_since(tx, Channel.OPERATOR, tx.now - HOUR, f'"loop":"{loop.id}"')
    if recent > MOST_AN_HOUR:
        return False
    claim, is_new = claims.add(tx, Channel.OPERATOR, f"{loop.id}:{run.version}:{facts['key']}", facts)
    if is_new and recent == MOST_AN_HOUR:
        _refuse(tx, claim, None, refuse(Reason.RATE_LIMITED, most=MOST_AN_HOUR))
    elif is_new:
        due.set_due(tx, DUTY, claim.id, tx.now)
    return is_new


def refusal_of(rules: Rules, operator: str, verb: str) -> str | None:
    """Tell a loop why its operator's word would count for nothing: `gated`, `no_operator`; None when it may count."""
    rule = rules.policy.verbs.get(verb)
    if rule is not None and rule.gated:
        return "gated"
    return None if _operator(rules, operator) is not None else "no_operator"


def _operator(rules: Rules, name: str) -> Principal | None:
    person = rules.policy.people.get(PrincipalName(name))
    return None if person is None else person.principal


@dataclass(frozen=True, slots=True)
class OperatorClaims:
    """Settles claims of operators as the person that the settings name ('': nobody); `one` is the duty's handler.

    `trust_shared`: somebody accepted for this host that agents share its user, and so may hold an operator's token.
    """

    database: Database
    rules: Rules
    operator: str
    trust_shared: bool = False

    def one(self, claimed: Claimed) -> Finished:
        """Settle one claim, once."""
        with self.database.write() as tx:
            claim = claims.get(tx, claimed.key, lock=True)
            if claim is not None and claim.state in _UNDECIDED:
                self._settle(tx, claim)
        return FINISHED

    def _settle(self, tx: Tx, claim: Claim) -> None:
        ask = self._own(claim) or _meant(tx, claim)
        if isinstance(ask, Refused):
            return _refuse(tx, claim, None, ask)
        said = claim.facts
        voice = Voice(
            principal=_operator(self.rules, self.operator),
            channel=Channel.OPERATOR,
            evidence=canonical(dict(said)),
            claim=claim.id,
            idempotency_key=claim.id,
        )
        given = Answer(said["decision"], said["reason"] or None, ask.binding)
        result: Result = answer(tx, self.rules, ask.id, given, voice)
        if isinstance(result, NeedsPermission):
            detail = "The policy asks for a permission on the forge, which this channel cannot show."
            return _refuse(tx, claim, ask, refuse(Reason.NOT_AUTHORISED, detail, voter=self.operator))
        refused = result if isinstance(result, Refused) else None
        state = ClaimState.REFUSED if refused else ClaimState.COUNTED
        reason = refused.reason if refused else None
        claims.settle(tx, claim, state, reason, ask=ask.id, facts={}, evidence=voice.evidence)
        return None

    def _own(self, claim: Claim) -> Refused | None:
        """Refuse an approve that the asking agent itself could have made (I15). A deny takes authority away only."""
        if not claim.facts["shares_user"] or self.trust_shared or claim.facts["decision"] == DENY:
            return None
        detail = "The loop's agent shares its user and can read the operator's token; isolate it (docs/loop.md)."
        return refuse(Reason.NOT_AUTHORISED, detail, loop=str(claim.facts["loop"]))


def _meant(tx: Tx, claim: Claim) -> Ask | Refused:
    """Find the ask that a claim is about: of the seat that this start of this loop holds for this trace."""
    said = claim.facts
    if said["open_bridge"]:
        return refuse(Reason.NOT_AUTHORISED, "The loop's bridge is open: anybody on its host could have said this.")
    run = agents.run(tx, said["run"])
    if run is None or run.version != said["run_version"]:
        return refuse(Reason.STALE_RUN, asked=said["run_version"])
    for seat in captures.waiting_seats_of_loop(tx, said["loop"]):
        capture = captures.get(tx, seat.capture)
        mine = (seat.run, seat.run_version) == (said["run"], said["run_version"])
        if capture is None or not mine or capture.trace_id != said["trace_id"] or capture.ask is None:
            continue
        seen = asks.get(tx, said["ask"] or capture.ask)
        if seen is None:
            return refuse(Reason.NOT_FOUND, ask=said["ask"][:64])
        # What was on screen was replaced since: the operator has not seen what stands there now.
        return seen if seen.id == capture.ask else late(seen)
    return refuse(Reason.NOT_FOUND, "The loop does not wait for this trace.", trace_id=said["trace_id"][:400])


def _refuse(tx: Tx, claim: Claim, ask: Ask | None, refused: Refused) -> None:
    said = claim.facts
    seen = canonical(dict(said))
    of = ask.id if ask else None
    if not claims.settle(tx, claim, ClaimState.REFUSED, refused.reason, ask=of, facts={}, evidence=seen):
        return
    entry = Entry(
        EventKind.VOTE_REFUSED,
        tx.now,
        ask=of,
        run=said["run"],
        channel=Channel.OPERATOR.value,
        reason=refused.reason,
        facts={"claim": claim.id, "loop": said["loop"], "decision": said["decision"], **refused.facts},
    )
    ledger.append(tx, entry)
