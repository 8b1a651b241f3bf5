"""The schemas of what callers send, as exact as the grammars that read it: every member, and no other.

A grammar decides; a schema here that says something else is a fault that the fuzzing of the API finds.
"""

from typing import Final

from gitops_bot.api.grammar import MAX_CANDIDATES, MAX_REASON, MODES
from gitops_bot.api.members import MAX_KEY
from gitops_bot.api.person.grammar import MAX_CEREMONY
from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT
from workspace.api.shapes import ANY_OBJECT, BOOLEAN, MS, NAME, many, obj, one_of, or_null, text

_DURATION: Final = text(pattern="[1-9][0-9]{0,5}(?:s|m|h|d)", description="90s, 30m, 2h or 7d")
KEY: Final = text(MAX_KEY, pattern=r"[\x21-\x7e]+")
ASSERTION: Final = obj({"ceremony": text(MAX_CEREMONY, pattern="[A-Za-z0-9._~-]+"), "credential": ANY_OBJECT})
FRESH: Final = {**or_null(ASSERTION), "description": "what a passkey said to the act that the refusal asks to confirm"}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 9_999_999}

ASK: Final = obj(
    {"question": or_null(text(MAX_TEXT))},
    {
        "options": or_null(many(text(MAX_TEXT), MAX_OPTIONS)),
        "why": or_null(text(MAX_TEXT)),
        "candidates": or_null(many(NAME, MAX_CANDIDATES)),
        "expires_in": or_null(_DURATION),
        "due_at": or_null(MS),
        "idempotency_key": or_null(KEY),
    },
)
VERB: Final = obj(
    {"params": ANY_OBJECT},
    {"why": or_null(text(MAX_TEXT)), "expires_in": or_null(_DURATION), "idempotency_key": or_null(KEY)},
)
CAPTURE: Final = obj(
    {
        "model": text(256),
        "concurrency": _COUNT,
        "prefixes": _COUNT,
        "max_tokens": _COUNT,
        "long_tokens": _COUNT,
        "long_frac": {"anyOf": [{"type": "number", "minimum": 0}, text(pattern=r"[0-9]{1,3}\.[0-9]{4}")]},
    },
    {"why": or_null(text(MAX_TEXT)), "mode": or_null(one_of(MODES)), "idempotency_key": or_null(KEY)},
)
LOOP: Final = obj(
    {"id": text(64), "address": text(300), "broker_token": text(512, pattern=r"[\x21-\x7e]+")},
    {"resume": or_null(BOOLEAN), "shares_user": or_null(BOOLEAN)},
)
REASON: Final = obj({}, {"reason": or_null(text(MAX_REASON))})
