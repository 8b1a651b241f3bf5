"""Each code of the signed channel has one sentence on what to do; `docs/approvals.md` has them as a table.

What happened is said by `core.errors.SENTENCES`. Pure.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gitops_bot.core.errors import Reason

_ANEW: Final = "Take file and message anew from the requests branch, and sign them as they are."
_HOST: Final = "Push the stored tip again, or ask for `gitops-bot approval thaw` on the broker's host."
_AGAIN: Final = "Sign again with plain git, as docs/signing.md shows it."
_ENDED: Final = "Nothing; a vote on it would change nothing any more."
_OTHER_KEY: Final = "Sign with a key that the policy names for you, or have the policy changed."

REMEDIES: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.FETCH_REFUSED: "Push a branch that `git fsck` accepts; the detail names what it refuses.",
        Reason.HISTORY_REWRITTEN: _HOST,
        Reason.FROZEN: _HOST,
        Reason.MERGE_COMMIT: "Make the vote a commit with one parent, on top of your branch.",
        Reason.ROOT_COMMIT: "Begin the branch with its signed root, as docs/signing.md shows it.",
        Reason.MALFORMED_COMMIT: "Sign with plain git, without extra headers and without `comment` in gpg.conf.",
        Reason.UNEXPECTED_CHANGE: "Let the commit add the one file of the vote and change nothing else.",
        Reason.BAD_PATH: "Name the file approvals/<2>/<ask>/<you>.<decision>.<8 to 32 of a-z and 0-9>.",
        Reason.TOO_LARGE: _ANEW,
        Reason.UNSIGNED: "Sign the commit: `git commit-tree -S`.",
        Reason.MULTIPLE_SIGNATURES: _AGAIN,
        Reason.BAD_SIGNATURE: _AGAIN,
        Reason.ENGINES_DISAGREE: "Tell who runs the broker; `gitops-bot approval verify` shows what each engine said.",
        Reason.WEAK_DIGEST: "Take `digest-algo SHA1` out of gpg.conf and sign again.",
        Reason.WEAK_KEY: _OTHER_KEY,
        Reason.WEAK_KEY_KIND: "Sign with a security key that the policy names for you.",
        Reason.WRONG_SIGNATURE_CLASS: "Take `textmode` out of gpg.conf and sign again.",
        Reason.WRONG_NAMESPACE: "Let git make the signature; it signs for the namespace `git`.",
        Reason.KEY_EXPIRED: "Prolong the key or take another one, and have the policy adopt it.",
        Reason.KEY_REVOKED: "Take another key, and have the policy adopt it; a revocation is never forgotten.",
        Reason.KEY_NOT_YET_VALID: "Wait for the date that the policy gives, or have it changed.",
        Reason.SIGNATURE_TIME: "Set the clock of the signing machine right and sign again.",
        Reason.NO_USER_PRESENCE: "Touch the security key while it blinks, and sign again.",
        Reason.UNKNOWN_KEY: _OTHER_KEY,
        Reason.WRONG_BRANCH: "Push to your own branch, signed with your own key.",
        Reason.SELF_APPROVAL: "Have somebody else approve; denying is always allowed.",
        Reason.SERVICE_IDENTITY: "Have a person sign; a service's key never votes.",
        Reason.SUSPENDED: "Reinstating takes an adopted policy or the host.",
        Reason.BYTES_DIFFER: _ANEW,
        Reason.MESSAGE_DIFFERS: _ANEW,
        Reason.DUPLICATE: "Nothing; the first vote counts.",
        Reason.WITHDRAWN_VOTE: "Nothing of yours counts on this ask any more; the others decide.",
        Reason.HELD: "Wait; it is tried again by itself. `gitops-bot doctor` says what is missing on the host.",
        Reason.DELAYED: "Wait until the delay is over.",
        Reason.LAPSED: "Have it asked again.",
        Reason.LIMIT_EXCEEDED: "Wait until the window of the limit has moved, or have the policy changed.",
        Reason.STALE_FETCH: "See why the broker cannot look at the branches: `gitops-bot doctor`.",
        Reason.STALE_ACTION: "Answer the ask that replaced it.",
        Reason.STALE_POLICY: "Answer the ask that replaced it; it binds the policy that is in force.",
        Reason.STALE_RUN: "Answer the ask that replaced it, if there is one.",
        Reason.EXPIRED: "Have it asked again.",
        Reason.WITHDRAWN: _ENDED,
        Reason.ALREADY_SETTLED: _ENDED,
        Reason.NOT_FOUND: "See `gitops-bot approval list` for the asks that there are, and what you gave on them.",
        Reason.NOT_AUTHORISED: "Have a voter of this verb sign; `gitops-bot policy explain` names them.",
        Reason.NOT_CANDIDATE: "Have one of the people whom the ask names sign.",
        Reason.UNKNOWN_PRINCIPAL: "Use the name that the policy has for you; `gitops-bot policy explain` shows it.",
        Reason.WRONG_CHANNEL: "Answer this ask where the policy says; signed commits answer gated verbs alone.",
        Reason.UNKNOWN_VERB: "Nothing; the policy in force does not know the verb, so nobody can grant it.",
        Reason.SPENT: "It is too late to stop it; deal with the effect where it happened.",
        Reason.EPOCH: "Restore the newest database, or have the host pinned anew.",
    }
)
"""What the person who signed, or the host, does about a refusal."""


def remedy(code: str) -> str:
    """Say what to do about a code; nothing for one that refuses nothing."""
    return REMEDIES.get(Reason(code), "") if code in tuple(Reason) else ""
