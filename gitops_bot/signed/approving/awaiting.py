"""The broker's word on one commit is awaited on the requests branch, and believed when the bot signed it."""

from collections.abc import Callable
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Malformed, Refused, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.approving.clone import Clone
from gitops_bot.signed.approving.grammar import MAX_RECEIPTS_FILE, read_receipts
from gitops_bot.signed.approving.judging import Judge
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.publication import COUNTED, REVOCATION, Receipt, shard

POLL: Final = 2.0
"""Seconds between looks at the requests branch."""


def receipts_at(clone: Clone, tip: ObjectId, ask: AskId, person: PrincipalName) -> tuple[Receipt, ...]:
    """Read a person's receipts on an ask from a tip whose signature was verified.

    Raises:
        Malformed: they are out of form.
        Unavailable: git failed.
    """
    path = f"receipts/{shard(ask)}/{ask}/{person}.json"
    raw = clone.one(tip, path, MAX_RECEIPTS_FILE)
    return () if raw is None else read_receipts(raw, ask, person)


def receipt_for(receipts: tuple[Receipt, ...], commit: ObjectId) -> Receipt | None:
    """Find the last receipt of a commit."""
    return next((one for one in reversed(receipts) if one.commit == commit), None)


def wait_for(
    clone: Clone,
    judging: Callable[[], Judge],
    ask: AskId,
    person: PrincipalName,
    commit: ObjectId,
    *,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
    seconds: float,
    tell: Callable[[str], None],
) -> Receipt | None:
    """Look until the receipt of a commit is there; None when the time is over.

    A look that fails, and a tip that the bot did not sign, are told once each and waited over.
    """
    end = monotonic() + seconds
    told: set[str] = set()
    seen: ObjectId | None = None
    while True:
        said = None
        try:
            look = clone.look()
            if isinstance(look, Refused):
                said = look.sentence
            elif look.tip != seen:
                signed = judging().newest(look)
                if isinstance(signed, Refused):
                    said = signed.sentence
                else:
                    clone.accept(look.tip)
                    seen = look.tip
                    found = receipt_for(receipts_at(clone, look.tip, ask, person), commit)
                    if found is not None:
                        return found
        except (Unavailable, Malformed) as error:
            said = str(error)
        if said is not None and said not in told:
            told.add(said)
            tell(said)
        left = end - monotonic()
        if left <= 0:
            return None
        sleep(min(POLL, left))


def outcome(receipt: Receipt) -> str:
    """Say in one line what a receipt says."""
    if receipt.code == COUNTED:
        have = len(receipt.votes)
        line = f"counted, {have} of {receipt.needed}"
        waiting = have < receipt.needed and receipt.missing
        return f"{line}, waiting for {' or '.join(receipt.missing)}" if waiting else line
    if receipt.code == REVOCATION:
        return "taken: what was not carried out yet is stopped"
    return f"{receipt.code}: {receipt.sentence}"


def accepted(receipt: Receipt) -> bool:
    """Tell whether the broker took a commit."""
    return receipt.code in (COUNTED, REVOCATION)
