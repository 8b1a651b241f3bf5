"""What can be known of asks, read and never changed: one ask with all of its decision, pages by cursor, the backlog.

A page is read in order of id after a cursor; its last id is the cursor of the next page. Who may see what is the
caller's work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.rules import Rules, params_of, rule_of
from gitops_bot.authority.settling import quorum_of
from gitops_bot.core.asks import Ask
from gitops_bot.core.errors import Malformed, Refused
from gitops_bot.core.verdicts import Verdict
from gitops_bot.policy.model import VerbRule
from gitops_bot.policy.rules import Quorum
from gitops_bot.policy.summary import render
from gitops_bot.store import asks, threads, votes
from gitops_bot.store.engine import Tx
from gitops_bot.store.threads import BacklogEntry
from gitops_bot.store.votes import StoredRevocation, StoredVote

MOST: Final = 200


@dataclass(frozen=True, slots=True)
class AskView:
    """An ask with all that is known of its decision now; `quorum` is a refusal where the policy lost its verb.
    `summary` is the verb's sentence with these parameters, None where the policy has none."""

    ask: Ask
    cast: tuple[StoredVote, ...]
    quorum: Quorum | Refused
    verdict: Verdict | None
    revocations: tuple[StoredRevocation, ...]
    summary: str | None = None


def view(tx: Tx, rules: Rules, ask_id: str) -> AskView | None:
    """Read one ask whole: options, candidates, votes, who is missing, its verdict and what was revoked."""
    ask = asks.get(tx, ask_id)
    if ask is None:
        return None
    return AskView(
        ask,
        tuple(votes.of_ask(tx, ask.id)),
        quorum_of(tx, rules, ask),
        votes.verdict(tx, ask.id),
        tuple(votes.revocations_of(tx, ask.id)),
        summary_of(rules, ask),
    )


def summary_of(rules: Rules, ask: Ask) -> str | None:
    """Write what an action would do in one sentence, money in its currency; None where the policy has no sentence."""
    rule = rule_of(rules, ask) if ask.action is not None else None
    return None if rule is None or isinstance(rule, Refused) else sentence(rule, ask)


def sentence(rule: VerbRule, ask: Ask) -> str | None:
    """Write an ask's action as its rule words it; None where the rule has no sentence for it."""
    if ask.action is None or rule.summary is None:
        return None
    try:
        return render(rule.summary, params_of(ask.action))
    except Malformed:
        return None


def page(
    tx: Tx, after: str, limit: int, *, only_open: bool = False, agent: str | None = None
) -> tuple[Sequence[Ask], str | None]:
    """Read asks after a cursor ('' for the first page); options and candidates are left out of a list."""
    wanted = min(limit, MOST)
    found = asks.page(tx, after, wanted, only_open=only_open, agent=agent)
    return found, found[-1].id if len(found) == wanted else None


def backlog(tx: Tx, after: str, limit: int) -> tuple[Sequence[BacklogEntry], str | None]:
    """Read the decisions that ended without a verdict and were not reopened, after a cursor."""
    wanted = min(limit, MOST)
    found = threads.open_backlog(tx, after, wanted)
    return found, found[-1].ask if len(found) == wanted else None
