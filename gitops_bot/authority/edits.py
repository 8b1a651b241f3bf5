"""A comment that was claimed and edited later: the ledger notes each edit once, and nothing else changes.

Whether an edited comment may still act is decided by its fresh reading (intake, step 5); what it did before stands.
"""

from gitops_bot.core.errors import Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.readings import CommentHint
from gitops_bot.core.verdicts import Channel
from gitops_bot.store import claims, ledger, settings
from gitops_bot.store.engine import Tx


def note(tx: Tx, hint: CommentHint) -> bool:
    """Note that a claimed comment changed since it was last seen. False: it is no claim, or nothing is new."""
    source = f"{hint.repository_id}:{hint.comment_id}"
    claim = claims.by_source(tx, Channel.FORGE, source)
    if claim is None:
        return False
    name = f"comment:{source}"
    known = settings.cursor(tx, name)
    seen = int(known) if known is not None else claim.facts.get("updated_at")
    if isinstance(seen, int) and hint.updated_at <= seen:
        return False
    settings.set_cursor(tx, name, str(hint.updated_at))
    if not isinstance(seen, int):
        return False  # whoever claimed it did not say when it was changed last: this is where counting begins
    facts: dict[str, Fact] = {"claim": claim.id, "comment": hint.comment_id, "changed_at": hint.updated_at}
    ledger.append(tx, Entry(EventKind.CLAIM_EDITED, tx.now, ask=claim.ask, channel=Channel.FORGE.value, facts=facts))
    return True
