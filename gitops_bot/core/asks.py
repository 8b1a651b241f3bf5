"""An ask is one open question to a person; its states, options and ending are decided here.

OPEN ends once, as one of six terminal states, and stays there (I6). Whoever comes late is told the terminal state.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName

AskId = NewType("AskId", str)
"""A lower-case ULID; not a secret."""


class AskKind(StrEnum):
    """`question` has no effect, `approval` is bound to an action, `gated` is answered by signed commits alone."""

    QUESTION = "question"
    APPROVAL = "approval"
    GATED = "gated"


class AskState(StrEnum):
    """OPEN, or how it ended."""

    OPEN = "OPEN"
    APPROVED = "APPROVED"
    DENIED = "DENIED"
    ANSWERED = "ANSWERED"
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"
    SUPERSEDED = "SUPERSEDED"


VERDICT_STATES: Final = frozenset({AskState.APPROVED, AskState.DENIED, AskState.ANSWERED})
APPROVE: Final = "approve"
DENY: Final = "deny"
MAX_OPTIONS: Final = 20
MAX_TEXT: Final = 8_000


@dataclass(frozen=True, slots=True)
class Option:
    """One offered choice; a verdict names the id, never the label."""

    id: str
    label: str


APPROVAL_OPTIONS: Final = (Option(APPROVE, "Approve"), Option(DENY, "Deny"))


@dataclass(frozen=True, slots=True)
class Binding:
    """What an answer binds: fixed when the ask opens, echoed by whoever answers (I4)."""

    action_hash: Digest
    policy: Digest
    run_version: int


@dataclass(frozen=True, slots=True)
class Ask:
    """One ask as stored. Times are milliseconds since 1970 UTC by the database's clock; `expires_at` is None only for
    plain questions without a limit."""

    id: AskId
    kind: AskKind
    state: AskState
    verb: str | None
    text: str
    why: str
    action: bytes | None
    binding: Binding
    options: tuple[Option, ...]
    candidates: tuple[PrincipalName, ...]
    agent: str
    run: str
    requester: PrincipalName
    owner: PrincipalName | None
    opened_at: int
    expires_at: int | None
    ended_at: int | None = None
    ended_by: str | None = None
    end_reason: str | None = None
    superseded_by: AskId | None = None
    assignee: PrincipalName | None = None
    snoozed_until: int | None = None
    due_at: int | None = None


def number_options(labels: Sequence[str]) -> tuple[Option, ...]:
    """Give a question's labels their ids `o1`, `o2`, … in the order offered."""
    return tuple(Option(f"o{index}", label) for index, label in enumerate(labels, 1))


_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159")
"""Letters and symbols by category that every font shows as nothing: Hangul fillers, the blank Braille pattern, the null
note head."""


def is_blank(text: str) -> bool:
    """Tell whether a text shows nothing of its own: white space of any script, control and format characters, fillers,
    marks without a letter to stand on."""
    return all(unicodedata.category(char)[0] in "ZCM" or char in _FILLERS for char in text)


def late(ask: Ask) -> Refused:
    """Refuse what comes to an ended ask, with its terminal state: who, when, what. The caller knows that it ended."""
    facts = {"state": ask.state.value, "by": ask.ended_by, "at": ask.ended_at, "ask": ask.id}
    match ask.state:
        case AskState.EXPIRED:
            reason = Reason.EXPIRED
        case AskState.WITHDRAWN:
            reason = Reason.WITHDRAWN
        case AskState.SUPERSEDED:
            facts["successor"] = ask.superseded_by
            reason = Reason(ask.end_reason) if ask.end_reason in _STALE else Reason.STALE_ACTION
        case _:
            reason = Reason.ALREADY_SETTLED
    return refuse(reason, f"It ended as {ask.state.value}.", **facts)


_STALE: Final = frozenset({"stale_action", "stale_policy", "stale_run", "stale_head"})


def drift(asked: Binding, echoed: Binding) -> Refused | None:
    """Compare an echoed binding with the one that was asked; name the first part that differs (I4)."""
    if echoed.action_hash != asked.action_hash:
        return refuse(Reason.STALE_ACTION, asked=asked.action_hash, answered=echoed.action_hash)
    if echoed.policy != asked.policy:
        return refuse(Reason.STALE_POLICY, asked=asked.policy, answered=echoed.policy)
    if echoed.run_version != asked.run_version:
        return refuse(Reason.STALE_RUN, asked=asked.run_version, answered=echoed.run_version)
    return None
