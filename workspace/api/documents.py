"""What the API shows of a row: JSON objects with the names of design/interfaces.md; times are ms since 1970 UTC."""

from collections.abc import Sequence
from typing import Any

from gitops_bot.authority.queries import AskView
from gitops_bot.authority.remedies import remedy_of
from gitops_bot.authority.shown import Attempt, Voted
from gitops_bot.broker.captures import Answered
from gitops_bot.core.asks import Ask, AskKind
from gitops_bot.core.captures import CHECK_STATE
from gitops_bot.core.errors import SENTENCES, Refused
from gitops_bot.core.strictjson import loads
from gitops_bot.policy.rules import Quorum
from gitops_bot.store.captures import Capture
from workspace.problems import status_of


def ask_short(ask: Ask) -> dict[str, Any]:
    """Show an ask in a list; options and votes are in `GET /asks/ID`."""
    return {
        "id": ask.id,
        "kind": ask.kind.value,
        "state": ask.state.value,
        "verb": ask.verb,
        "text": ask.text,
        "why": ask.why,
        "binding": {
            "action_hash": ask.binding.action_hash,
            "policy": ask.binding.policy,
            "run_version": ask.binding.run_version,
        },
        "run": ask.run,
        "requester": ask.requester,
        "owner": ask.owner,
        "opened_at": ask.opened_at,
        "expires_at": ask.expires_at,
        "due_at": ask.due_at,
        "ended_at": ask.ended_at,
        "ended_by": ask.ended_by,
        "end_reason": ask.end_reason,
        "superseded_by": ask.superseded_by,
    }


def ask_whole(
    view: AskView, environment: str, approvals: str | None, voted: Sequence[Voted], attempts: Sequence[Attempt]
) -> dict[str, Any]:
    """Show an ask with its options, action, votes, refused answers, who is missing, and its verdict; a gated one also
    says that only signed commits answer it, and to which branch of the repository of approvals they are pushed."""
    ask, verdict = view.ask, view.verdict
    return {
        **ask_short(ask),
        "options": [{"id": option.id, "label": option.label} for option in ask.options],
        "candidates": list(ask.candidates),
        # Stored bytes are canonical and ours.
        "action": None if ask.action is None else loads(ask.action),
        "summary": view.summary,
        "signed": _signed(ask, environment, approvals),
        "votes": [
            {
                "principal": vote.name,
                "decision": vote.decision,
                "option": vote.option,
                "text": vote.text,
                "channel": vote.channel,
                "at": vote.at,
                "counts": vote.counts,
            }
            for vote in voted
        ],
        "attempts": [
            {
                "who": one.who,
                "at": one.when,
                "channel": one.channel,
                "reason": one.reason,
                "sentence": one.sentence,
                "remedy": one.remedy,
                "commit": one.commit,
            }
            for one in attempts
        ],
        "quorum": _quorum(view.quorum),
        "verdict": None
        if verdict is None
        else {
            "state": verdict.state.value,
            "option": verdict.option,
            "text": verdict.text,
            "by": list(verdict.by),
            "at": verdict.at,
        },
    }


def _signed(ask: Ask, environment: str, approvals: str | None) -> dict[str, Any] | None:
    if ask.kind is not AskKind.GATED:
        return None
    return {
        "answered_by": "signed commits alone; every other way is refused",
        "repository": approvals,
        "branch": f"gated/{environment}/approvals/PERSON",
        "command": f"gitops-bot approval sign {ask.id}",
    }


def _quorum(quorum: Quorum | Refused) -> dict[str, Any]:
    if isinstance(quorum, Refused):
        return {"refused": quorum.reason.value, "detail": quorum.sentence}
    return {
        "state": quorum.state.value,
        "approve_needed": quorum.approve_needed,
        "deny_needed": quorum.deny_needed,
        "approved_by": list(quorum.approved_by),
        "denied_by": list(quorum.denied_by),
        "missing": quorum.missing,
        "may_still": list(quorum.may_still),
        "undeclared": quorum.undeclared,
    }


def capture(row: Capture) -> dict[str, Any]:
    """Show a capture; `state` as `check_capture` calls it, `exact` as the rows do."""
    return {
        "id": row.id,
        "handle": row.id,
        "state": CHECK_STATE[row.state],
        "exact": row.state.value,
        "trace_id": row.trace_id,
        "regime": row.regime.params(),
        "environment": row.environment,
        "ask": row.ask,
        "approval": row.url or row.ask,
        "url": row.url,
        "why": row.why,
        "requester": row.requester,
        "attempt": row.attempt,
        "knobs": None if row.knobs is None else dict(row.knobs),
        "digest": row.digest,
        "error": row.error,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "ready_at": row.ready_at,
    }


def answered(result: Answered, trace_id: str) -> dict[str, Any]:
    """Show what an agent is told that asked for a capture."""
    row = result.capture
    document: dict[str, Any] = {
        "status": result.status,
        "trace_id": trace_id,
        "handle": None if row is None else row.id,
        "approval": None if row is None else row.url or result.ask,
        "reason": result.reason,
    }
    if row is not None and row.knobs is not None:
        document["knobs"] = dict(row.knobs)
    return document


def refusal(refused: Refused) -> dict[str, Any]:
    """Show a refusal as its problem document says it, where it is one of several results."""
    return {
        "type": f"urn:gitops-bot:refusal:{refused.reason.value}",
        "title": SENTENCES[refused.reason],
        "status": status_of(refused.reason),
        "detail": refused.sentence,
        "reason": refused.reason.value,
        "remedy": remedy_of(refused.reason.value),
        "facts": {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in refused.facts.items()},
    }
