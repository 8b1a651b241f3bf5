"""The schemas that more than one route answers with, by the name under which the OpenAPI document has them."""

from collections.abc import Mapping
from typing import Final

from gitops_bot.authority.card_history import MOST_ATTEMPTS
from gitops_bot.core.asks import MAX_OPTIONS, AskKind, AskState
from gitops_bot.core.captures import CHECK_STATE, CaptureState
from gitops_bot.core.errors import Reason
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.rules import QuorumState
from workspace.api.described import Schema
from workspace.api.shapes import (
    ANY_OBJECT,
    BOOLEAN,
    COUNT,
    DIGEST,
    INTEGER,
    MS,
    STRING,
    ULID,
    many,
    obj,
    one_of,
    or_null,
    ref,
    text,
)

_REASON: Final = one_of([reason.value for reason in Reason])
_FACT: Final[Schema] = {"type": ["string", "integer", "boolean", "null", "array"], "items": STRING}
SHORT: Final[Mapping[str, Schema]] = {
    "id": ULID,
    "kind": one_of([kind.value for kind in AskKind]),
    "state": one_of([state.value for state in AskState]),
    "verb": or_null(STRING),
    "text": STRING,
    "why": STRING,
    "binding": ref("Binding"),
    "run": STRING,
    "requester": STRING,
    "owner": or_null(STRING),
    "opened_at": MS,
    "expires_at": or_null(MS),
    "due_at": or_null(MS),
    "ended_at": or_null(MS),
    "ended_by": or_null(STRING),
    "end_reason": or_null(STRING),
    "superseded_by": or_null(ULID),
}
WHOLE: Final[Mapping[str, Schema]] = {
    **SHORT,
    "options": many(obj({"id": STRING, "label": STRING}), MAX_OPTIONS),
    "candidates": many(STRING),
    "action": or_null(ANY_OBJECT),
    "summary": or_null(STRING),
    "signed": {"anyOf": [ref("Signed"), {"type": "null"}]},
    "votes": many(ref("Vote")),
    "attempts": many(ref("Attempt"), MOST_ATTEMPTS),
    "quorum": {"anyOf": [ref("Quorum"), obj({"refused": _REASON, "detail": STRING})]},
    "verdict": {"anyOf": [ref("Verdict"), {"type": "null"}]},
}
SCHEMAS: Final[Mapping[str, Schema]] = {
    "Problem": obj(
        {
            "type": STRING,
            "title": STRING,
            "status": INTEGER,
            "detail": STRING,
            "reason": {"anyOf": [ref("Reason"), {"type": "null"}]},
            "remedy": STRING,
            "facts": {"type": "object", "additionalProperties": _FACT},
        }
    ),
    "Reason": _REASON,
    "Refusal": obj(
        {
            "type": STRING,
            "title": STRING,
            "status": INTEGER,
            "detail": STRING,
            "remedy": STRING,
            "reason": ref("Reason"),
            "facts": {"type": "object", "additionalProperties": _FACT},
        }
    ),
    "Binding": obj({"action_hash": DIGEST, "policy": DIGEST, "run_version": INTEGER}),
    "AskShort": obj(SHORT),
    "Ask": obj(WHOLE),
    "AskOpened": obj({**WHOLE, "repeated": BOOLEAN}),
    "Signed": obj({"answered_by": STRING, "repository": or_null(STRING), "branch": STRING, "command": STRING}),
    "Vote": obj(
        {
            "principal": STRING,
            "decision": one_of([decision.value for decision in Decision]),
            "option": or_null(STRING),
            "text": or_null(STRING),
            "channel": one_of([channel.value for channel in Channel]),
            "at": MS,
            "counts": BOOLEAN,
        }
    ),
    "Attempt": obj(
        {
            "who": STRING,
            "at": MS,
            "channel": STRING,
            "reason": STRING,
            "sentence": STRING,
            "remedy": STRING,
            "commit": or_null(STRING),
        }
    ),
    "Quorum": obj(
        {
            "state": one_of([state.value for state in QuorumState]),
            "approve_needed": COUNT,
            "deny_needed": COUNT,
            "approved_by": many(STRING),
            "denied_by": many(STRING),
            "missing": COUNT,
            "may_still": many(STRING),
            "undeclared": BOOLEAN,
        }
    ),
    "Verdict": obj(
        {
            "state": one_of(["APPROVED", "DENIED", "ANSWERED"]),
            "option": or_null(STRING),
            "text": or_null(STRING),
            "by": many(STRING),
            "at": MS,
        }
    ),
    "Capture": obj(
        {
            "id": ULID,
            "handle": ULID,
            "state": one_of(sorted(set(CHECK_STATE.values()))),
            "exact": one_of([state.value for state in CaptureState]),
            "trace_id": STRING,
            "regime": ref("Regime"),
            "environment": STRING,
            "ask": or_null(ULID),
            "approval": or_null(STRING),
            "url": or_null(STRING),
            "why": STRING,
            "requester": STRING,
            "attempt": COUNT,
            "knobs": or_null(ANY_OBJECT),
            "digest": or_null(STRING),
            "error": or_null(STRING),
            "created_at": MS,
            "updated_at": MS,
            "ready_at": or_null(MS),
        }
    ),
    "Regime": obj(
        {
            "model": STRING,
            "concurrency": COUNT,
            "prefixes": COUNT,
            "max_tokens": COUNT,
            "long_tokens": COUNT,
            "long_frac": text(pattern=r"[0-9]{1,3}\.[0-9]{4}"),
        }
    ),
    "CaptureAnswered": obj(
        {
            "status": STRING,
            "trace_id": STRING,
            "handle": or_null(ULID),
            "approval": or_null(STRING),
            "reason": or_null(STRING),
        },
        {"knobs": ANY_OBJECT},
    ),
}
