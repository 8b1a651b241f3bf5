"""What needs a person and what nobody decided, as values and as schemas side by side."""

from collections.abc import Mapping
from typing import Any, Final

from gitops_bot.api.query.grammar import MAX_SOUGHT, RISKS
from gitops_bot.authority.assertions import AnswerChallenge
from gitops_bot.authority.backlog_read import BacklogItem
from gitops_bot.authority.batches import Answered
from gitops_bot.authority.inbox import Row
from gitops_bot.authority.settling import Counted, Revoked, Settled
from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT, AskKind
from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.errors import Refused
from gitops_bot.core.statements import MOST_IN_BATCH
from gitops_bot.core.verdicts import Channel
from workspace.api import documents
from workspace.api.bodies import ASSERTION, FRESH, KEY
from workspace.api.described import Schema
from workspace.api.schemas import SHORT, WHOLE
from workspace.api.shapes import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    DIGEST,
    FLAG,
    LIMIT,
    MS,
    NAME,
    SLUG,
    STRING,
    ULID,
    many,
    obj,
    one_of,
    or_empty,
    or_null,
    page_of,
    ref,
    text,
)

_KIND: Final = one_of([kind.value for kind in AskKind])
_DURATION: Final = text(pattern="[1-9][0-9]{0,5}(?:s|m|h|d)", description="90s, 30m, 2h or 7d")
_ROW: Final = obj(
    {
        **SHORT,
        "options": many(obj({"id": STRING, "label": STRING}), MAX_OPTIONS),
        "agent": STRING,
        "summary": or_null(STRING),
        "answerable": BOOLEAN,
        "channels": many(STRING),
        "risk": one_of(RISKS),
        "missing": COUNT,
        "approve_needed": COUNT,
        "snoozed_until": or_null(MS),
        "blocks": STRING,
        "badges": BOOLEAN,
    }
)
_BACKLOG: Final = obj(
    {
        "ask": ULID,
        "agent": STRING,
        "kind": _KIND,
        "verb": or_null(STRING),
        "summary": or_null(STRING),
        "text": STRING,
        "cause": STRING,
        "entered_at": MS,
        "opened_at": MS,
    }
)
INBOX_QUERY: Final[Mapping[str, Schema]] = {
    "agent": or_empty(SLUG),
    "verb": or_empty(text(pattern="[a-z][a-z0-9_.]{0,130}")),
    "kind": or_empty(_KIND),
    "risk": or_empty(one_of(RISKS)),
    "channel": or_empty(one_of([channel.value for channel in Channel])),
    "text": text(MAX_SOUGHT),
    "snoozed": or_empty(FLAG),
    "before": or_empty(ULID),
    "limit": LIMIT,
}
NEWEST: Final[Mapping[str, Schema]] = {"before": or_empty(ULID), "limit": LIMIT}
INBOX: Final = page_of(_ROW, count=COUNT)
BACKLOG: Final = page_of(_BACKLOG)

_VERSION: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_BOUND: Final = {"action_hash": DIGEST, "policy": DIGEST, "run_version": _VERSION}
_SAID: Final = {"option": or_null(text(64)), "text": or_null(text(MAX_TEXT))}
GIVEN: Final = obj(_BOUND, _SAID)
ANSWER: Final = obj(_BOUND, {**_SAID, "idempotency_key": or_null(KEY), "assertion": or_null(ASSERTION)})
_ITEM: Final = obj({"ask": ULID, **_BOUND}, {**_SAID, "idempotency_key": or_null(KEY)})
BATCH: Final = obj({"answers": many(_ITEM, MOST_IN_BATCH, least=1)}, {"assertion": or_null(ASSERTION)})
CLAIM: Final = obj({}, {"release": or_null(BOOLEAN)})
DELEGATE: Final = obj({"to": NAME}, {"fresh": FRESH})
SNOOZE: Final = obj({"lasts": or_null(_DURATION)})
HOLD: Final = obj({"lasts": _DURATION}, {"reason": or_null(text(1_000))})

_RESULT: Final = one_of(["settled", "counted", "revoked"])
STATEMENT: Final = obj({"id": STRING, "options": ANY_OBJECT, "statement": ANY_OBJECT})
STATEMENTS: Final = obj({"id": STRING, "options": ANY_OBJECT, "statements": many(ANY_OBJECT, MOST_IN_BATCH)})
ANSWERED: Final = obj({**WHOLE, "result": _RESULT, "repeated": BOOLEAN})
UNTIL: Final = obj({**WHOLE, "until": or_null(MS)})
BATCH_ANSWERED: Final = obj(
    {
        "items": many(
            {
                "anyOf": [
                    obj({"ask": ULID, "result": _RESULT, "repeated": BOOLEAN, "state": STRING}),
                    obj({"ask": ULID, "result": one_of(["refused"]), "problem": ref("Refusal")}),
                ]
            },
            MOST_IN_BATCH,
        )
    }
)


def row(one: Row) -> dict[str, Any]:
    """Show what needs a person, in a list."""
    return {
        **documents.ask_short(one.ask),
        "options": [{"id": option.id, "label": option.label} for option in one.ask.options],
        "agent": one.agent,
        "summary": one.summary,
        "answerable": one.answerable,
        "channels": list(one.channels),
        "risk": one.risk,
        "missing": one.missing,
        "approve_needed": one.approve_needed,
        "snoozed_until": one.snoozed_until,
        "blocks": one.blocks,
        "badges": one.badges,
    }


def backlog(item: BacklogItem) -> dict[str, Any]:
    """Show a decision of nobody's."""
    return {
        "ask": item.ask,
        "agent": item.agent,
        "kind": item.kind,
        "verb": item.verb,
        "summary": item.summary,
        "text": item.text.text,
        "cause": item.cause,
        "entered_at": item.entered_at,
        "opened_at": item.opened_at,
    }


def statement(asked: AnswerChallenge) -> dict[str, Any]:
    """Show what a passkey is asked to sign for one answer."""
    return {"id": asked.id, "options": dict(asked.options), "statement": dict(asked.statements[0])}


def statements(asked: AnswerChallenge) -> dict[str, Any]:
    """Show what a passkey is asked to sign for a batch, in order."""
    return {"id": asked.id, "options": dict(asked.options), "statements": [dict(one) for one in asked.statements]}


def result(of: Settled | Counted | Revoked) -> dict[str, Any]:
    """Say what became of an answer: the ask ended by it, it counts and more are needed, or it takes back what ended."""
    name = {Settled: "settled", Counted: "counted", Revoked: "revoked"}[type(of)]
    return {"result": name, "repeated": of.repeated}


def batch_item(one: Answered) -> dict[str, Any]:
    """Say what became of one answer of a batch; a refusal stands as its problem document would."""
    if isinstance(one.result, Refused):
        return {"ask": one.ask, "result": "refused", "problem": documents.refusal(one.result)}
    ended = one.result.verdict.state if isinstance(one.result, Settled) else one.result.ask.state
    return {"ask": one.ask, **result(one.result), "state": ended.value}
