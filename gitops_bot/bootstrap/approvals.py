"""The signed channel as a person on the broker's host sees it: asks, who signed what, what was refused and why.

Everything is read from the database in the host's role and given as plain documents, in the form that `--json` prints.
Nothing is decided here; thawing is `bootstrap.thawing`'s, explaining a commit `bootstrap.verifying`'s.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.config import Settings
from gitops_bot.core.asks import Ask, AskId, AskKind, AskState
from gitops_bot.core.errors import Malformed, Reason, Refusal, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.strictjson import loads
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.rules import tally
from gitops_bot.policy.summary import render
from gitops_bot.signed import by_hand
from gitops_bot.signed.announcing import decisions_of, sentence_of
from gitops_bot.signed.looking import LOOKED_AT
from gitops_bot.signed.publication import request_folder
from gitops_bot.signed.remedies import remedy
from gitops_bot.signed.rendering import Request, read_request, render_file, render_message, short_code
from gitops_bot.store import asks, branches, ledger, requests, signed_commits, signed_votes
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Tx
from gitops_bot.store.signed_commits import COUNTED, REVOCATION, ROOT, SignedCommit
from gitops_bot.store.states import BranchState, CommitState

Document = dict[str, Any]

_PAGE: Final = 200
_RECENT: Final = 1_000
_ACCEPTED: Final = frozenset({COUNTED, REVOCATION, ROOT})
_SUFFIX: Final = "<8 to 32 of a-z and 0-9>"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose file `show` is to give; without a decision an approve, where they may give it."""

    person: PrincipalName
    decision: Decision | None = None


def overview(
    tx: Tx, rules: Rules, *, ended: bool = False, after: str = "", limit: int = 50, attempts: int = 0
) -> Document:
    """List gated asks with their votes, the branches that are not in order, and the last refused attempts."""
    found = list(_gated(tx, after, limit, only_open=not ended))
    looked = stored.cursor(tx, LOOKED_AT)
    return {
        "items": [_listed(tx, rules, ask) for ask in found],
        "next": found[-1].id if len(found) == limit else None,
        "branches": [_branch(one) for one in branches.every(tx) if one.state is not BranchState.READ],
        "attempts": list(_attempts(tx, attempts)),
        "looked_at": None if looked is None else int(looked),
    }


def whole(tx: Tx, settings: Settings, rules: Rules, ask_id: str, wanted: Wanted | None = None) -> Document:
    """Give one gated ask with its request, votes, refused attempts and ledger; `wanted` adds a file to sign.

    Raises:
        Refusal: no such gated ask (`not_found`), or the person may not give that decision (`not_authorised`).
    """
    ask = asks.get(tx, ask_id)
    if ask is None or ask.kind is not AskKind.GATED:
        raise Refusal(refuse(Reason.NOT_FOUND, f"No gated ask {ascii(ask_id)[1:-1][:64]}."))
    content = requests.get(tx, ask.id)
    request = None if content is None else read_request(content)
    may = decisions_of(rules, ask)
    document = _listed(tx, rules, ask)
    document |= {
        "ended_at": ask.ended_at,
        "ended_by": ask.ended_by,
        "end_reason": ask.end_reason,
        "superseded_by": ask.superseded_by,
        "action_hash": ask.binding.action_hash,
        "policy": ask.binding.policy,
        "run_version": ask.binding.run_version,
        "request": None if content is None else loads(content),
        "may_give": {person: [decision.value for decision in decisions] for person, decisions in may.items()},
        "votes": [_vote(vote) for vote in signed_votes.of_ask(tx, ask.id)],
        "attempts": [_attempt(one) for one in signed_commits.of_ask(tx, ask.id) if _is_refused(one) or _is_held(one)],
        "ledger": ledger.of_ask(tx, ask.id),
        "file": None,
    }
    if wanted is not None:
        document["file"] = _file(settings, request, may, wanted)
    return document


def is_open(tx: Tx, ask_id: str) -> bool:
    """Tell whether an ask is there and open."""
    ask = asks.get(tx, ask_id)
    return ask is not None and ask.state is AskState.OPEN


def _gated(tx: Tx, after: str, limit: int, *, only_open: bool) -> Iterator[Ask]:
    left = limit
    while left:
        page = asks.page(tx, after, _PAGE, only_open=only_open)
        for ask in page:
            if ask.kind is AskKind.GATED:
                yield ask
                left -= 1
                if not left:
                    return
        if len(page) < _PAGE:
            return
        after = page[-1].id


def _listed(tx: Tx, rules: Rules, ask: Ask) -> Document:
    commits = signed_commits.of_ask(tx, ask.id)
    return {
        "ask": ask.id,
        "state": ask.state.value,
        "verb": ask.verb,
        "summary": _summary(tx, rules, ask),
        "requester": ask.requester,
        "owner": ask.owner,
        "opened_at": ask.opened_at,
        "expires_at": ask.expires_at,
        **_standing(tx, rules, ask),
        "refused": sum(_is_refused(one) for one in commits),
        "held": sum(_is_held(one) for one in commits),
    }


def _summary(tx: Tx, rules: Rules, ask: Ask) -> str:
    content = requests.get(tx, ask.id)
    if content is not None:
        return read_request(content).summary
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused) or rule.summary is None or ask.action is None:
        return ask.text
    try:
        return render(rule.summary, loads(ask.action)["params"])
    except Malformed:
        return ask.text


def _standing(tx: Tx, rules: Rules, ask: Ask) -> Document:
    """Say how far an ask is, under the policy in force."""
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return {"approved_by": [], "denied_by": [], "needed": None, "may_still": [], "standing": rule.sentence}
    cast = signed_votes.decisions(signed_votes.of_ask(tx, ask.id))
    policy = standing_policy(tx, rules.policy)
    quorum = tally(policy, rule, cast, requester=ask.requester, agent_owner=ask.owner)
    said = f"{len(quorum.approved_by)} of {quorum.approve_needed}"
    if quorum.denied_by:
        said += f", denied by {', '.join(quorum.denied_by)}"
    if quorum.missing and quorum.may_still:
        said += f", missing {', '.join(quorum.may_still)}"
    return {
        "approved_by": list(quorum.approved_by),
        "denied_by": list(quorum.denied_by),
        "needed": quorum.approve_needed,
        "may_still": list(quorum.may_still),
        "standing": said,
    }


def _branch(branch: branches.Branch) -> Document:
    return {
        "person": branch.person,
        "state": branch.state.value,
        "reason": branch.reason,
        "detail": branch.detail,
        "remedy": remedy(branch.reason or ""),
        "tip": branch.tip,
        "seen": branch.seen,
        "changed_at": branch.changed_at,
    }


def _attempts(tx: Tx, limit: int) -> Iterable[Document]:
    if not limit:
        return []
    refused = [one for one in signed_commits.recent(tx, _RECENT) if _is_refused(one) or _is_held(one)]
    return [_attempt(one) for one in refused[:limit]]


def _is_refused(commit: SignedCommit) -> bool:
    return commit.state is CommitState.JUDGED and commit.code not in _ACCEPTED


def _is_held(commit: SignedCommit) -> bool:
    return commit.state is CommitState.HELD


def _attempt(commit: SignedCommit) -> Document:
    code = commit.code or Reason.HELD.value
    return {
        "person": commit.person,
        "commit": commit.commit_id,
        "ask": commit.ask,
        "decision": commit.decision,
        "key": commit.key,
        "code": code,
        "sentence": sentence_of(code, commit.detail or ""),
        "remedy": remedy(code),
        "received_at": commit.received_at,
        "judged_at": commit.judged_at,
    }


def _vote(vote: signed_votes.SignedVote) -> Document:
    return {
        "person": vote.principal,
        "decision": vote.decision.value,
        "commit": vote.commit_id,
        "key_kind": vote.key_kind,
        "key": vote.key,
        "counter": vote.counter,
        "key_set": vote.key_set,
        "received_at": vote.received_at,
    }


def _file(
    settings: Settings, request: Request | None, may: Mapping[PrincipalName, Iterable[Decision]], wanted: Wanted
) -> Document:
    """Give the exact file and message for a person, and the commands that sign them."""
    if request is None:
        raise Refusal(
            refuse(Reason.NOT_FOUND, "The broker has not stored this ask's request yet, so there is nothing to sign.")
        )
    allowed = tuple(may.get(wanted.person, ()))
    if not allowed:
        detail = f"{ascii(wanted.person)[1:-1][:40]} is no voter of it; voters: {', '.join(may) or 'none'}."
        raise Refusal(refuse(Reason.NOT_AUTHORISED, detail))
    decision = wanted.decision or (Decision.APPROVE if Decision.APPROVE in allowed else Decision.DENY)
    if decision not in allowed:
        said = ", ".join(one.value for one in allowed)
        raise Refusal(refuse(Reason.NOT_AUTHORISED, f"{wanted.person} may only {said} here.", may=said))
    file = render_file(request, wanted.person, decision)
    folder = request_folder(request.ask).removeprefix("asks/")
    remote = settings.signed.remote or "<address of the approvals repository>"
    named = by_hand.assignments(
        remote, request.repository, request.environment, wanted.person, AskId(request.ask), decision
    )
    return {
        "person": wanted.person,
        "decision": decision.value,
        "path": f"approvals/{folder}/{wanted.person}.{decision.value}.{_SUFFIX}",
        "content": file.decode("ascii"),
        "message": render_message(request, wanted.person, decision).decode("ascii"),
        "sha256": hashlib.sha256(file).hexdigest(),
        "short_code": short_code(file),
        "commands": named + by_hand.TAKE + by_hand.VOTE,
    }
