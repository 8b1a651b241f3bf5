"""What happened to an ask: votes, refused attempts, its end, the last denial of its action, holds, what was taken back.

Of what may be many the newest are read. A code that this version does not know is shown as it is.
"""

from typing import Final

from gitops_bot.authority.card_values import plain
from gitops_bot.authority.queries import AskView
from gitops_bot.authority.shown import AgentText, Attempt, Denial, HoldShown, Outcome, Surroundings, Taken, Voted
from gitops_bot.core.asks import Ask, AskKind, AskState
from gitops_bot.core.errors import SENTENCES, Reason
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.store import card_rows, holds, signed_commits, signed_votes, votes
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import CommitState

MOST_ATTEMPTS: Final = 50
_ENDS: Final = {
    AskState.APPROVED: "Approved.",
    AskState.DENIED: "Denied.",
    AskState.ANSWERED: "Answered.",
    AskState.WITHDRAWN: "Withdrawn: nothing was decided, and nothing was approved.",
    AskState.EXPIRED: "Expired without enough votes: nothing was approved.",
    AskState.SUPERSEDED: "Replaced by a new ask; nothing was approved.",
}


def voted_on(tx: Tx, view: AskView) -> tuple[Voted, ...]:
    """Give every vote in the order in which it was cast; a gated ask's are its signed votes."""
    if view.ask.kind is AskKind.GATED:
        return _signed(tx, view.ask)
    standing = {(vote.principal, vote.seq) for vote in votes.standing(list(view.cast))}
    return tuple(
        Voted(
            vote.principal,
            vote.decision.value,
            vote.option,
            vote.text,
            vote.channel.value,
            vote.cast_at,
            (vote.principal, vote.seq) in standing,
        )
        for vote in sorted(view.cast, key=lambda vote: (vote.cast_at, vote.seq))
    )


def _signed(tx: Tx, ask: Ask) -> tuple[Voted, ...]:
    cast = signed_votes.of_ask(tx, ask.id)
    last = {vote.principal: vote.seq for vote in cast}
    return tuple(
        Voted(
            vote.principal,
            vote.decision.value,
            None,
            None,
            Channel.SIGNED.value,
            vote.received_at,
            last[vote.principal] == vote.seq and vote.decision is not Decision.REVOKE,
            vote.key,
        )
        for vote in cast
    )


def attempts_on(tx: Tx, ask: Ask, surroundings: Surroundings) -> tuple[Attempt, ...]:
    """Give the newest refused answers, each with its reason, a sentence and what to do."""
    found = [_refused_vote(row, surroundings) for row in _refused(tx, ask)]
    if ask.kind is AskKind.GATED:
        found += [
            _refused_commit(one, surroundings) for one in signed_commits.refused_of_ask(tx, ask.id, MOST_ATTEMPTS)
        ]
    return tuple(sorted(found, key=lambda one: one.when, reverse=True)[:MOST_ATTEMPTS])


def _refused(tx: Tx, ask: Ask) -> list[card_rows.RefusedVote]:
    """The ledger's rows; those of signed commits are told by the commits themselves."""
    rows = card_rows.refused_votes(tx, ask.id, MOST_ATTEMPTS)
    return [row for row in rows if row.channel != Channel.SIGNED.value]


def _refused_vote(row: card_rows.RefusedVote, surroundings: Surroundings) -> Attempt:
    account = row.facts.get("account")
    who = row.principal or (
        f"github:{account}" if isinstance(account, int) else "somebody whom the policy does not know"
    )
    code = row.reason or ""
    return Attempt(
        plain(who), row.at, plain(row.channel or ""), plain(code), sentence_of(code), surroundings.remedy(code)
    )


def _refused_commit(commit: signed_commits.SignedCommit, surroundings: Surroundings) -> Attempt:
    held = commit.state is CommitState.HELD
    code = commit.code or Reason.HELD.value
    sentence = f"{'Waits, and is tried again by itself. ' if held else ''}{sentence_of(code)}"
    # What was found may repeat bytes that were pushed.
    detail = AgentText(commit.detail, "what the broker found in the commit") if commit.detail else None
    return Attempt(
        commit.person,
        commit.judged_at or commit.received_at,
        Channel.SIGNED.value,
        code,
        sentence,
        surroundings.remedy(code),
        detail,
        commit.commit_id,
    )


def sentence_of(code: str) -> str:
    """Say what a code of a refusal means."""
    return SENTENCES[Reason(code)] if code in tuple(Reason) else "Refused."


def outcome_of(tx: Tx, view: AskView) -> Outcome | None:
    """Say how an ask ended: who, when, through which channel, how long it took; None while it is open."""
    ask, verdict = view.ask, view.verdict
    if ask.ended_at is None:
        return None
    sentence = _ENDS[ask.state]
    words = None
    if ask.state is AskState.SUPERSEDED:
        sentence = f"{sentence} {sentence_of(ask.end_reason or '')}"
    elif ask.end_reason and ask.state is AskState.WITHDRAWN:
        words = AgentText(ask.end_reason, f"{plain(ask.ended_by or 'whoever')} withdrew it")
    who = verdict.by if verdict is not None else (plain(ask.ended_by),) if ask.ended_by else ()
    return Outcome(
        state=ask.state.value,
        who=tuple(who),
        channel=card_rows.channel_of_end(tx, ask.id) if verdict is not None else None,
        at=ask.ended_at,
        took_ms=ask.ended_at - ask.opened_at,
        option=verdict.option if verdict is not None else None,
        text=verdict.text if verdict is not None else None,
        sentence=sentence,
        words=words,
    )


def last_denial_of(tx: Tx, ask: Ask) -> Denial | None:
    """Find the newest earlier denial of this very action, by whomever it was asked."""
    if ask.action is None:
        return None
    found = card_rows.last_denied(tx, ask.binding.action_hash, ask.id)
    return None if found is None else Denial(found.ask, found.by, found.at, found.words)


def holds_on(tx: Tx, ask: Ask) -> tuple[HoldShown, ...]:
    """Give the holds of a gated ask, those that ended included, newest first."""
    if ask.kind is not AskKind.GATED:
        return ()
    found = holds.of_ask(tx, ask.id)[-MOST_ATTEMPTS:]
    return tuple(
        HoldShown(one.principal, one.placed_at, one.until, one.until > tx.now, one.reason) for one in reversed(found)
    )


def taken_back(view: AskView) -> tuple[Taken, ...]:
    """Give what came after the end and takes authority away."""
    return tuple(Taken(one.principal, one.decision, one.channel, one.at, one.text) for one in view.revocations)
