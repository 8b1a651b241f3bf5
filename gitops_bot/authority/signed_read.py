"""The signed channel as people see it: each person's branch, when it was looked at, what froze it, what was refused,
the bot's own branch and who else wrote there, the gated asks that wait for signatures.

Refused commits and foreign ones are read from the newest entries of the ledger, as many as `LOOKED_BACK`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.card_history import sentence_of
from gitops_bot.authority.card_values import plain
from gitops_bot.authority.queries import summary_of
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import quorum_of
from gitops_bot.authority.shown import AgentText, Attempt, Surroundings
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.asks import AskId
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import Policy
from gitops_bot.policy.rules import Quorum, obstacle
from gitops_bot.store import branches, inbox, ledger_pages
from gitops_bot.store.branches import Branch
from gitops_bot.store.engine import Tx
from gitops_bot.store.inbox import FIRST, Source
from gitops_bot.store.ledger_pages import LedgerEntry
from gitops_bot.store.states import BranchState

MOST_REFUSED: Final = 50
MOST_FOREIGN: Final = 20
MOST_WAITING: Final = 50
LOOKED_BACK: Final = 20_000
NEVER: Final = "never_seen"
_STATES: Final = {
    BranchState.READ.value: "Read up to its tip.",
    BranchState.FROZEN.value: "Frozen: nothing new of this person counts, and grants that count them are held.",
    BranchState.UNREADABLE.value: "It was seen and cannot be read now; grants that count this person are held.",
    NEVER: "Never seen; the first vote begins it.",
}


@dataclass(frozen=True, slots=True)
class BranchShown:
    """A person's branch. `why` says what froze it or keeps it from being read; `detail` may repeat what was pushed."""

    person: PrincipalName
    ref: str
    state: str
    sentence: str
    tip: str | None
    seen: str | None
    root: str | None
    reason: str | None
    why: str | None
    remedy: str | None
    detail: AgentText | None
    looked_at: int | None
    changed_at: int | None
    can_sign: bool


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit on the requests branch that is not the bot's; the broker published on top of it."""

    at: int
    facts: tuple[tuple[str, AgentText], ...]


@dataclass(frozen=True, slots=True)
class WaitingAsk:
    """An open gated ask: who approved, how many are missing, who could still sign."""

    ask: AskId
    verb: str
    summary: str | None
    approved_by: tuple[PrincipalName, ...]
    missing: int
    may_still: tuple[PrincipalName, ...]
    opened_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class SignedChannelShown:
    """The whole channel. `used` is False where the policy gates no verb; `looked_at` is of the last whole look."""

    used: bool
    repository: str | None
    requests_branch: str
    looked_at: int | None
    now: int
    branches: tuple[BranchShown, ...]
    foreign: tuple[ForeignCommit, ...]
    refused: tuple[Attempt, ...]
    waiting: tuple[WaitingAsk, ...]


def signed_channel(tx: Tx, rules: Rules, surroundings: Surroundings, looked_at: int | None) -> SignedChannelShown:
    """Read the channel; `looked_at` is when the broker last looked at every branch (ms), None when it never did."""
    policy = standing_policy(tx, rules.policy)
    folder = f"refs/heads/gated/{rules.environment}"
    known = {one.person: one for one in branches.every(tx)}
    people = dict.fromkeys([*_signers(policy), *known])
    return SignedChannelShown(
        used=bool(rules.policy.gated),
        repository=surroundings.approvals,
        requests_branch=f"{folder}/requests",
        looked_at=looked_at,
        now=tx.now,
        branches=tuple(_branch(policy, name, known.get(name), folder, surroundings) for name in people),
        foreign=_foreign(tx),
        refused=_refused(tx, surroundings),
        waiting=tuple(_waiting(tx, rules)),
    )


def _signers(policy: Policy) -> Iterable[PrincipalName]:
    """The people whom a gated verb names."""
    named = {name for rule in policy.gated for tier in rule.every_tier for name in tier.voters.people}
    return sorted(named)


def _can_sign(policy: Policy, name: PrincipalName) -> bool:
    person = policy.people.get(name)
    if person is None or person.principal.kind is not PrincipalKind.HUMAN:
        return False
    return any(name in rule.voters.people and obstacle(person, rule) is None for rule in policy.gated)


def _branch(
    policy: Policy, name: PrincipalName, known: Branch | None, folder: str, surroundings: Surroundings
) -> BranchShown:
    state = NEVER if known is None else known.state.value
    reason = None if known is None else known.reason
    detail = None if known is None or not known.detail else AgentText(known.detail, "what git or the broker found")
    return BranchShown(
        person=name,
        ref=f"{folder}/approvals/{name}",
        state=state,
        sentence=_STATES[state],
        tip=None if known is None else known.tip,
        seen=None if known is None else known.seen,
        root=None if known is None else known.root,
        reason=reason,
        why=None if reason is None else sentence_of(reason),
        remedy=None if reason is None else surroundings.remedy(reason),
        detail=detail,
        looked_at=None if known is None else known.looked_at,
        changed_at=None if known is None else known.changed_at,
        can_sign=_can_sign(policy, name),
    )


def _foreign(tx: Tx) -> tuple[ForeignCommit, ...]:
    found = ledger_pages.recent(tx, (EventKind.REQUESTS_FOREIGN.value,), MOST_FOREIGN, looked=LOOKED_BACK)
    return tuple(
        ForeignCommit(
            entry.at,
            tuple((plain(name), AgentText(str(fact), "the requests branch")) for name, fact in entry.facts.items()),
        )
        for entry in found
    )


def _refused(tx: Tx, surroundings: Surroundings) -> tuple[Attempt, ...]:
    kind = EventKind.VOTE_REFUSED.value
    found = ledger_pages.recent(tx, (kind,), MOST_REFUSED, looked=LOOKED_BACK, channel=Channel.SIGNED.value)
    return tuple(_attempt(entry, surroundings) for entry in found)


def _attempt(entry: LedgerEntry, surroundings: Surroundings) -> Attempt:
    code = plain(entry.reason or "")
    detail, commit = entry.facts.get("detail"), entry.facts.get("commit")
    return Attempt(
        who=plain(entry.principal or ""),
        when=entry.at,
        channel=Channel.SIGNED.value,
        reason=code,
        sentence=sentence_of(code),
        remedy=surroundings.remedy(code),
        detail=AgentText(detail, "what the broker found in the commit") if isinstance(detail, str) and detail else None,
        commit=plain(commit) if isinstance(commit, str) else None,
        ask=None if entry.ask is None else AskId(entry.ask),
    )


def _waiting(tx: Tx, rules: Rules) -> Iterable[WaitingAsk]:
    left = MOST_WAITING
    for rule in rules.policy.gated:
        if left <= 0:
            return
        found, _ = inbox.step(tx, Source.VERB, rule.name, "", FIRST, left)
        left -= len(found)
        for one in found:
            quorum = quorum_of(tx, rules, one.ask)
            known = quorum if isinstance(quorum, Quorum) else None
            yield WaitingAsk(
                ask=one.ask.id,
                verb=rule.name,
                summary=summary_of(rules, one.ask),
                approved_by=() if known is None else known.approved_by,
                missing=0 if known is None else known.missing,
                may_still=() if known is None else known.may_still,
                opened_at=one.ask.opened_at,
                expires_at=one.ask.expires_at,
            )
