"""The four ways in which something is not done, told apart by who must act.

`Malformed`: bytes do not parse; only a grammar raises it. `Refusal`: understood, and the answer is no; goes to the
ledger and to whoever asked. `Unavailable`: the outside failed; retried with a limit. `ConfigError`: start-up only.
Anything else that is raised is our bug and is never caught.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

Fact = str | int | bool | None | tuple[str, ...]


class Reason(StrEnum):
    """The closed list of refusals (design/domain.md). A new one needs a row there and a sentence in `SENTENCES`."""

    GATED = "gated"
    WRONG_CHANNEL = "wrong_channel"
    STALE_ACTION = "stale_action"
    STALE_POLICY = "stale_policy"
    STALE_RUN = "stale_run"
    STALE_HEAD = "stale_head"
    UNBINDABLE = "unbindable"
    ASSERTION_REQUIRED = "assertion_required"
    ASSERTION_INVALID = "assertion_invalid"
    EMPTY = "empty"
    UNKNOWN_OPTION = "unknown_option"
    BAD_PARAMS = "bad_params"
    UNPRINTABLE = "unprintable"
    UNKNOWN_VERB = "unknown_verb"
    LIMIT_EXCEEDED = "limit_exceeded"
    ALREADY_SETTLED = "already_settled"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    NOT_FOUND = "not_found"
    NOT_AUTHORISED = "not_authorised"
    NOT_CANDIDATE = "not_candidate"
    SELF_APPROVAL = "self_approval"
    UNKNOWN_PRINCIPAL = "unknown_principal"
    SERVICE_IDENTITY = "service_identity"
    SUSPENDED = "suspended"
    NEAR_MISS = "near_miss"
    EDITED = "edited"
    MINIMISED = "minimised"
    TOO_OLD = "too_old"
    NOT_DRAFT = "not_draft"
    CLOSED = "closed"
    FROM_BOT = "from_bot"
    VIA_APP = "via_app"
    VIA_EMAIL = "via_email"
    RATE_LIMITED = "rate_limited"
    REPEAT_TOO_SOON = "repeat_too_soon"
    TOO_MANY_OPEN = "too_many_open"
    NO_WAY_BACK = "no_way_back"
    # signed channel (protocols/signed-approvals.md)
    FETCH_REFUSED = "fetch_refused"
    HISTORY_REWRITTEN = "history_rewritten"
    FROZEN = "frozen"
    MERGE_COMMIT = "merge_commit"
    ROOT_COMMIT = "root_commit"
    MALFORMED_COMMIT = "malformed_commit"
    UNEXPECTED_CHANGE = "unexpected_change"
    BAD_PATH = "bad_path"
    TOO_LARGE = "too_large"
    UNSIGNED = "unsigned"
    MULTIPLE_SIGNATURES = "multiple_signatures"
    BAD_SIGNATURE = "bad_signature"
    ENGINES_DISAGREE = "engines_disagree"
    WEAK_DIGEST = "weak_digest"
    WEAK_KEY = "weak_key"
    WEAK_KEY_KIND = "weak_key_kind"
    WRONG_SIGNATURE_CLASS = "wrong_signature_class"
    WRONG_NAMESPACE = "wrong_namespace"
    KEY_EXPIRED = "key_expired"
    KEY_REVOKED = "key_revoked"
    KEY_NOT_YET_VALID = "key_not_yet_valid"
    SIGNATURE_TIME = "signature_time"
    NO_USER_PRESENCE = "no_user_presence"
    UNKNOWN_KEY = "unknown_key"
    WRONG_BRANCH = "wrong_branch"
    BYTES_DIFFER = "bytes_differ"
    MESSAGE_DIFFERS = "message_differs"
    WITHDRAWN_VOTE = "withdrawn_vote"
    DUPLICATE = "duplicate"
    HELD = "held"
    DELAYED = "delayed"
    LAPSED = "lapsed"
    STALE_FETCH = "stale_fetch"
    SPENT = "spent"
    EPOCH = "epoch"


SENTENCES: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.GATED: "Only signed commits answer this verb; no grant was minted. See `gitops-bot approval`.",
        Reason.WRONG_CHANNEL: "The policy does not accept this channel for this verb.",
        Reason.STALE_ACTION: "The action changed after this was shown; look at it again and answer the new ask.",
        Reason.STALE_POLICY: "The policy changed after this was shown; answer the ask that replaced it.",
        Reason.STALE_RUN: "The run that asked has moved on; answer the ask that replaced it, if there is one.",
        Reason.STALE_HEAD: "The pull request moved after the ask was shown; the successor carries the open ask.",
        Reason.UNBINDABLE: "The answer did not echo what binds it: action_hash, policy and run_version.",
        Reason.ASSERTION_REQUIRED: "This needs a passkey's assertion over exactly what is done.",
        Reason.ASSERTION_INVALID: "The passkey assertion does not stand for this.",
        Reason.EMPTY: "There is no answer in this: write some text or choose an option.",
        Reason.UNKNOWN_OPTION: "This option was never offered on this ask.",
        Reason.BAD_PARAMS: "What was sent is not what this takes, or the verb allows.",
        Reason.UNPRINTABLE: "A value holds characters that cannot be shown to the person who decides.",
        Reason.UNKNOWN_VERB: "The policy knows no such verb, so nobody can grant it.",
        Reason.LIMIT_EXCEEDED: "A limit of the policy would be exceeded.",
        Reason.ALREADY_SETTLED: "Somebody else's answer was first.",
        Reason.EXPIRED: "The ask expired before this answer; reopen it from the backlog if it still matters.",
        Reason.WITHDRAWN: "The ask was withdrawn before this answer.",
        Reason.IDEMPOTENCY_CONFLICT: "This idempotency key was used before with another body.",
        Reason.NOT_FOUND: "There is no such thing here.",
        Reason.NOT_AUTHORISED: "The policy does not let this person do that.",
        Reason.NOT_CANDIDATE: "This ask names its candidates, and this person is not among them.",
        Reason.SELF_APPROVAL: "Nobody approves their own request.",
        Reason.UNKNOWN_PRINCIPAL: "This identity belongs to nobody in the policy.",
        Reason.SERVICE_IDENTITY: "A service never approves.",
        Reason.SUSPENDED: "This person is suspended.",
        Reason.NEAR_MISS: "Almost a command; nothing was done. Paste the exact line.",
        Reason.EDITED: "An edited comment never counts; write a new one.",
        Reason.MINIMISED: "A minimised comment never counts; write a new one.",
        Reason.TOO_OLD: "The comment is too old to act on; write a new one.",
        Reason.NOT_DRAFT: "The pull request is no longer a draft.",
        Reason.CLOSED: "The pull request is closed.",
        Reason.FROM_BOT: "Bots do not decide.",
        Reason.VIA_APP: "A comment made through an app is not the person's own.",
        Reason.VIA_EMAIL: "A comment made by e-mail cannot be told from a forwarded one; write it on the page.",
        Reason.RATE_LIMITED: "Too many, too fast; try again later.",
        Reason.REPEAT_TOO_SOON: "The same action was denied a short while ago.",
        Reason.TOO_MANY_OPEN: "This agent has too many open asks.",
        Reason.NO_WAY_BACK: "Nothing could be woken by the answer, so the ask is refused.",
        Reason.FETCH_REFUSED: "Git or the checks of this host refuse what was pushed; see the detail."
        " Push a clean commit.",
        Reason.HISTORY_REWRITTEN: "The branch no longer continues from the tip that was seen. Push that tip again, "
        "or have it thawed on the host.",
        Reason.FROZEN: "This person's branch is frozen since its history was rewritten; nothing on it counts "
        "until it is thawed.",
        Reason.MERGE_COMMIT: "A merge never votes; sign a commit with one parent.",
        Reason.ROOT_COMMIT: "A branch of approvals begins with the signed root of its own repository, environment and "
        "person; `approval sign` makes it.",
        Reason.MALFORMED_COMMIT: "The commit object is not in the strict form that a signature must cover; sign "
        "again with plain git or `approval sign`.",
        Reason.UNEXPECTED_CHANGE: "A vote adds exactly one file and touches nothing else.",
        Reason.BAD_PATH: "The path is none of the form `approvals/<2>/<ask>/<person>.<decision>.<suffix>`.",
        Reason.TOO_LARGE: "The object is larger than a vote may be.",
        Reason.UNSIGNED: "The commit is not signed.",
        Reason.MULTIPLE_SIGNATURES: "The commit carries more than one signature.",
        Reason.BAD_SIGNATURE: "The signature does not stand for these bytes.",
        Reason.ENGINES_DISAGREE: "Two independent engines did not say the same of this signature, so it does not "
        "count.",
        Reason.WEAK_DIGEST: "The signature is over a weak digest; sign with SHA-256, SHA-384 or SHA-512.",
        Reason.WEAK_KEY: "The key is too weak to count.",
        Reason.WEAK_KEY_KIND: "The verb demands a security key with the touch or PIN that the policy names; this key "
        "cannot prove it.",
        Reason.WRONG_SIGNATURE_CLASS: "The signature is of a class that does not bind the exact bytes; sign as a "
        "binary document.",
        Reason.WRONG_NAMESPACE: "The SSH signature was made for another purpose than git.",
        Reason.KEY_EXPIRED: "The key has expired.",
        Reason.KEY_REVOKED: "The key is revoked.",
        Reason.KEY_NOT_YET_VALID: "The key does not count yet at this date.",
        Reason.SIGNATURE_TIME: "The signature was not made between the opening of the ask and now, by its own "
        "date; check the clock and sign again.",
        Reason.NO_USER_PRESENCE: "The security key did not prove that somebody touched it.",
        Reason.UNKNOWN_KEY: "The key is nobody's in the policy.",
        Reason.WRONG_BRANCH: "A person votes on their own branch alone.",
        Reason.BYTES_DIFFER: "The bytes are not exactly those of this request; take the file anew and sign it.",
        Reason.MESSAGE_DIFFERS: "The commit's message is not exactly the one that belongs to the file.",
        Reason.WITHDRAWN_VOTE: "After one's own deny or revoke no approve of one's own counts on this ask.",
        Reason.DUPLICATE: "This person has voted so already; one vote a person.",
        Reason.HELD: "Held: wait until the hold ends, or until the branch that it waits for can be read.",
        Reason.DELAYED: "The delay that the policy demands before the effect is not over.",
        Reason.LAPSED: "The grant was not spent in its time; ask again.",
        Reason.STALE_FETCH: "The last look at the branches is too old to act on.",
        Reason.SPENT: "The grant is spent; nothing can be taken back any more.",
        Reason.EPOCH: "The database is of another epoch than this host's pin.",
    }
)

WHO_REASONS: Final = frozenset(
    {
        Reason.NOT_AUTHORISED,
        Reason.NOT_CANDIDATE,
        Reason.SELF_APPROVAL,
        Reason.UNKNOWN_PRINCIPAL,
        Reason.SERVICE_IDENTITY,
        Reason.SUSPENDED,
    }
)
"""The *who* group of the list: HTTP 403 (design/interfaces.md)."""


class GitopsBotError(Exception):
    """Any of the four; never raised itself."""


class Malformed(GitopsBotError):
    """Bytes do not parse. `where` says what was read (a file, a field), never holds a secret."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class Unavailable(GitopsBotError):
    """The outside failed. Retried with a limit; `retry_after` in seconds where the outside said one, `refused` where it
    understood what it was asked and said no, which the same request again would not change."""

    def __init__(self, message: str, *, retry_after: float | None = None, refused: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.refused = refused


class ConfigError(GitopsBotError):
    """A set-up that must not start. `fix` is the line that repairs it."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(f"{message}\n  fix: {fix}" if fix else message)
        self.message = message
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Refused:
    """A decision's *no* as a value: one reason of the closed list, with facts (who, when, what) for the person."""

    reason: Reason
    detail: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What happened and what to do, in one or two sentences."""
        return f"{SENTENCES[self.reason]} {self.detail}".strip()


class Refusal(GitopsBotError):
    """A `Refused` on its way out of a service, so that the transaction around it is rolled back."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"{refused.reason.value}: {refused.sentence}")
        self.refused = refused


def refuse(reason: Reason, detail: str = "", **facts: Fact) -> Refused:
    """Build a `Refused` from keyword facts."""
    return Refused(reason, detail, MappingProxyType(dict(facts)))
