"""What a workflow run hands in: a hint, as every channel leaves it, and an answer by what the rows say.

The run was authenticated before (`forge.actions.tokens`); its token is used up in the transaction of the hint. Nothing
that the run says is believed beyond where to look: the comment is read fresh at intake.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from gitops_bot.authority.comments import leave_hint
from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.verdicts import Channel, ClaimState
from gitops_bot.forge.actions.grammar import IGNORED, LEEWAY, PENDING, REFUSED, Handed, Run, Told
from gitops_bot.store import asks, captures, claims, repositories, used_tokens
from gitops_bot.store.captures import PullRequestRow
from gitops_bot.store.engine import Tx

_ENDED: Final[Mapping[AskState, str]] = {
    AskState.APPROVED: "approve",
    AskState.DENIED: "deny",
    AskState.EXPIRED: "expired",
    AskState.WITHDRAWN: "withdrawn",
    AskState.SUPERSEDED: "superseded",
}


def take(tx: Tx, run: Run, hint: Handed) -> Told | Refused:
    """Leave a hint of a run, and tell how it stands with the ask."""
    known = repositories.is_known(tx, run.repository, run.repository_id)
    if hint.repository_id != run.repository_id or known is False:
        return refuse(Reason.NOT_AUTHORISED, "The run is of another repository.")
    # A minute more than it is taken for: both clocks are the database's, but a rounding must not open a gap.
    if not used_tokens.use(tx, f"actions:{run.token}", (run.expires_at + 2 * LEEWAY) * 1000):
        return refuse(Reason.NOT_AUTHORISED, "The token of the run was used before; each is good once.")
    row = captures.pull_request(tx, hint.repository_id, hint.pull_request)
    if row is None:
        return Told(IGNORED, "no_ask")
    leave_hint(tx, hint.repository_id, hint.comment_id, hint.pull_request)
    return _told(tx, row, f"{hint.repository_id}:{hint.comment_id}")


def _told(tx: Tx, row: PullRequestRow, source: str) -> Told:
    claim, ask = claims.by_source(tx, Channel.FORGE, source), asks.get(tx, row.ask)
    assert claim is not None and ask is not None
    if claim.state in (ClaimState.NEW, ClaimState.HELD):
        return Told(PENDING, claim.state.value, ask.id)
    if ask.state in _ENDED:
        return Told(_ENDED[ask.state], claim.reason or "settled", ask.id)
    match claim.state:
        case ClaimState.COUNTED:
            return Told(PENDING, claim.state.value, ask.id)
        case ClaimState.REFUSED:
            return Told(REFUSED, claim.reason or "not_found", ask.id)
        case ClaimState.IGNORED:
            return Told(IGNORED, "no_command", ask.id)
        case _:
            assert_never(claim.state)
