"""Claim, then Vote, then Verdict: the type says what was checked.

A channel can only leave a `Claim`. A `Vote` was authenticated, authorised and bound, and holds its evidence as bytes.
A `Verdict` is the end of an ask. A `Revocation` comes after it and never touches the ask.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from gitops_bot.core.asks import APPROVE, DENY, Ask, AskId, AskKind, AskState, Binding, is_blank
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName


class Channel(StrEnum):
    """Where an answer may come from; the surface behind it is evidence, not another channel."""

    WORKSPACE = "workspace"
    FORGE = "forge"
    OPERATOR = "operator"
    APP = "app"
    SIGNED = "signed"


class ClaimState(StrEnum):
    """What became of a claim. `held`: a look-up failed, it is retried (I14)."""

    NEW = "new"
    HELD = "held"
    COUNTED = "counted"
    REFUSED = "refused"
    IGNORED = "ignored"


class Decision(StrEnum):
    """What a vote says. `answer` is a plain question's; `revoke` takes back one's own approve."""

    APPROVE = "approve"
    DENY = "deny"
    REVOKE = "revoke"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before any check: an option id or free text, with what it echoes."""

    option: str | None
    text: str | None
    binding: Binding | None


@dataclass(frozen=True, slots=True)
class Vote:
    """A claim that was authenticated, authorised and bound. `evidence` is what was seen, whole."""

    ask: AskId
    principal: PrincipalName
    decision: Decision
    option: str | None
    text: str | None
    channel: Channel
    binding: Binding
    evidence: bytes
    claim: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of an ask by people: exactly one per ask. `at` in milliseconds by the database's clock."""

    ask: AskId
    state: AskState
    option: str | None
    text: str | None
    by: tuple[PrincipalName, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer whose content fits the ask: what it decides, the option it names, the text beside it."""

    decision: Decision
    option: str | None
    text: str | None


def choose(ask: Ask, answer: Answer) -> Choice | Refused:
    """Decide what an answer says on this ask. Who answered and its binding are *not* checked here."""
    text = answer.text
    if answer.option is not None and answer.option not in {option.id for option in ask.options}:
        return refuse(Reason.UNKNOWN_OPTION, offered=tuple(option.id for option in ask.options))
    match ask.kind:
        case AskKind.GATED:
            return refuse(Reason.GATED)
        case AskKind.APPROVAL:
            if answer.option is None:
                return refuse(Reason.EMPTY, "An approval needs the option approve or deny.")
            return Choice({APPROVE: Decision.APPROVE, DENY: Decision.DENY}[answer.option], answer.option, text)
        case AskKind.QUESTION:
            if answer.option is None and (text is None or is_blank(text)):
                return refuse(Reason.EMPTY)
            return Choice(Decision.ANSWER, answer.option, text)
        case _:
            assert_never(ask.kind)
