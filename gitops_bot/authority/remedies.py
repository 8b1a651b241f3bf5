"""What a person does about each refusal, wherever it is shown; what happened is said by `core.errors.SENTENCES`. Pure.

The codes that only a signed commit can get have their remedies in the signed channel; a surface that shows both asks
that channel first. Here every code has a word.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gitops_bot.core.errors import Reason

_RELOAD: Final = "Look at the ask as it is now, and answer the one that replaced it."
_OTHER: Final = "Have one of the people whom the card names answer it."
_PAGE: Final = "Write a new comment of your own on the pull request's page, with the exact line that it shows."
_SIGNED: Final = "Sign again as the card of the ask shows it; `gitops-bot approval verify COMMIT` explains each step."

REMEDIES: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.GATED: "Sign the decision with your own key: the card has the command.",
        Reason.WRONG_CHANNEL: "Answer it where the card says that it can be answered.",
        Reason.STALE_ACTION: _RELOAD,
        Reason.STALE_POLICY: _RELOAD,
        Reason.STALE_RUN: _RELOAD,
        Reason.STALE_HEAD: _RELOAD,
        Reason.UNBINDABLE: "Answer from the page of the ask; a program echoes action_hash, policy and run_version.",
        Reason.ASSERTION_REQUIRED: "Do it on its page in the workspace, where your passkey confirms exactly this.",
        Reason.ASSERTION_INVALID: "Begin again, and confirm it anew with a passkey of yours that counts.",
        Reason.EMPTY: "Choose one of the options, or write an answer.",
        Reason.UNKNOWN_OPTION: "Choose one of the options that the ask offers.",
        Reason.BAD_PARAMS: "Send what is taken: `gitops-bot policy explain` shows the parameters of a verb.",
        Reason.UNPRINTABLE: "Take out the characters that cannot be shown, and send it again.",
        Reason.UNKNOWN_VERB: "Nothing can grant it; have the policy name the verb first.",
        Reason.LIMIT_EXCEEDED: "Send less, or wait until the window of the limit has moved.",
        Reason.ALREADY_SETTLED: "Nothing; the card says who decided, and when.",
        Reason.EXPIRED: "Reopen it from the backlog if it still matters.",
        Reason.WITHDRAWN: "Nothing; whoever asked takes no answer any more. A decision in the backlog can be reopened.",
        Reason.IDEMPOTENCY_CONFLICT: "Send another answer under a key of its own.",
        Reason.NOT_FOUND: "Look for it in the list; the address may be mistyped, or it is not yours to see.",
        Reason.NOT_AUTHORISED: "Have one of the people do it whom the policy lets; the card of an ask names them.",
        Reason.NOT_CANDIDATE: "Have one of its candidates answer, or have it delegated to you by one.",
        Reason.SELF_APPROVAL: "Have somebody else approve; denying is always allowed to a person.",
        Reason.UNKNOWN_PRINCIPAL: "Have the policy name this identity, or answer with one that it names.",
        Reason.SERVICE_IDENTITY: "Have a person answer; a service never does.",
        Reason.SUSPENDED: "Reinstating takes an adopted policy or the broker's host.",
        Reason.NEAR_MISS: "Paste the exact line that the pull request shows, alone in a new comment.",
        Reason.EDITED: _PAGE,
        Reason.MINIMISED: _PAGE,
        Reason.TOO_OLD: _PAGE,
        Reason.NOT_DRAFT: "Convert the pull request back to a draft, or decide in the workspace.",
        Reason.CLOSED: "Reopen the pull request, or decide in the workspace.",
        Reason.FROM_BOT: _OTHER,
        Reason.VIA_APP: _PAGE,
        Reason.VIA_EMAIL: _PAGE,
        Reason.RATE_LIMITED: "Wait a minute and try again.",
        Reason.REPEAT_TOO_SOON: "Wait until the denied action has rested, or ask for another one.",
        Reason.TOO_MANY_OPEN: "Answer or withdraw what this agent has open first.",
        Reason.NO_WAY_BACK: "Mend what the detail names, and ask again.",
        Reason.FROZEN: "Push the stored tip again, or have the branch thawed on the broker's host.",
        Reason.HISTORY_REWRITTEN: "Push the stored tip again, or have the branch thawed on the broker's host.",
        Reason.WITHDRAWN_VOTE: "Nothing of yours counts on this ask any more; the others decide.",
        Reason.DUPLICATE: "Nothing; your first vote counts. A deny of your own may still follow it.",
        Reason.HELD: "Wait until the hold ends; a hold of your own can be left to run out.",
        Reason.DELAYED: "Wait until the delay is over.",
        Reason.LAPSED: "Have it asked again.",
        Reason.STALE_FETCH: "See on the broker's host why the branches cannot be looked at: `gitops-bot doctor`.",
        Reason.SPENT: "It is too late to stop it; deal with the effect where it happened.",
        Reason.EPOCH: "Restore the newest database, or have the host pinned anew.",
    }
)
"""What to do; a code that is not here is of a signed commit alone."""


def remedy_of(code: str) -> str:
    """Say what to do about a code; '' for one that refuses nothing."""
    if code not in tuple(Reason):
        return ""
    return REMEDIES.get(Reason(code), _SIGNED)
