"""What a gated ask shows beside the rest: that nothing here answers it, whether a grant was minted, where authority is.

The exact file and message are rendered where requests can be read (`bootstrap.showing`), and put in there.
"""

from typing import Final

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.shown import Gated, GrantShown, Surroundings
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import VerbRule
from gitops_bot.policy.rules import voters_of
from gitops_bot.store import grants_read
from gitops_bot.store.engine import Tx
from gitops_bot.store.grants_read import Grant
from gitops_bot.store.states import GrantState

NO_GRANT: Final = "No grant was minted."
WHERE: Final = (
    "This page cannot answer it, and neither can anything else that is shown here: only commits that people sign with"
    " their own keys do, on the branch of each person in the repository of approvals."
)
GUARD: Final = (
    "That is a guard-rail against authority that an agent obtains through a thread, not a wall around an owner who has"
    " a shell."
)
_GRANTS: Final = {
    GrantState.MINTED: "A grant was minted from signed commits, and is not spent yet.",
    GrantState.SPENT: "A grant was minted from signed commits, and is spent.",
    GrantState.REVOKED: "A grant was minted from signed commits, and revoked before it was spent.",
    GrantState.LAPSED: "A grant was minted from signed commits, and lapsed before it was spent.",
}


def gated_of(tx: Tx, rules: Rules, rule: VerbRule | None, ask: Ask, surroundings: Surroundings) -> Gated:
    """Say of a gated ask where it is answered, and what its answer brought about so far."""
    grant = grants_read.of_ask(tx, ask.id)
    voters = () if rule is None else voters_of(rules.policy, rule, ask.owner)
    folder = f"refs/heads/gated/{rules.environment}"
    return Gated(
        sentence=_sentence(ask, grant),
        where=WHERE,
        limits_of_this=GUARD,
        repository=surroundings.approvals,
        requests_branch=f"{folder}/requests",
        branches={PrincipalName(name): f"{folder}/approvals/{name}" for name in voters},
        grant=None if grant is None else _shown(grant),
        command=f"gitops-bot approval sign {ask.id}",
    )


def _sentence(ask: Ask, grant: Grant | None) -> str:
    if grant is not None:
        return _GRANTS[grant.state]
    if ask.state is AskState.OPEN:
        return f"{NO_GRANT} It takes the signatures that are still missing."
    return f"{NO_GRANT} The ask ended as {ask.state.value}, so none will be."


def _shown(grant: Grant) -> GrantShown:
    return GrantShown(
        grant.id, grant.state.value, grant.minted_at, grant.spend_after, grant.spend_before, grant.ended_at
    )
