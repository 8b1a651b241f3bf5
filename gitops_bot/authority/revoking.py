"""A passkey ends for good, by its person or on the host, and with it every session that it opened.

It only takes authority away, so on the host nobody else is asked: that is how a lost or stolen device is answered.
"""

from gitops_bot.authority import sessions
from gitops_bot.core.errors import Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import ledger, notices, passkeys
from gitops_bot.store.engine import Tx
from gitops_bot.store.passkeys import Passkey


def revoke(tx: Tx, passkey: Passkey, by: str, channel: str | None = None) -> bool:
    """End a passkey and the sessions that it opened, and tell its person; False when it had ended."""
    if not passkeys.revoke(tx, passkey.id, by):
        return False
    whose = PrincipalName(passkey.principal)
    facts: dict[str, Fact] = {"passkey": passkey.id, "by": by}
    ledger.append(tx, Entry(EventKind.PASSKEY_REVOKED, tx.now, principal=whose, channel=channel, facts=facts))
    sessions.end_opened_by(tx, whose, passkey.id, by)
    notices.tell(tx, [whose], EventKind.PASSKEY_REVOKED.value, f"Your passkey {passkey.label} was revoked by {by}.")
    return True
