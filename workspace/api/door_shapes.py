"""The objects that the door takes and answers, as values and as schemas side by side."""

from typing import Any, Final

from gitops_bot.api.door.grammar import MAX_CEREMONY, MAX_CODE, MAX_LABEL, MAX_PROVIDED, MAX_SECRET
from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.store.passkeys import Passkey
from gitops_bot.store.person_tables import SessionKind, SessionMethod
from gitops_bot.store.sessions import Session
from workspace.api.shapes import ANY_OBJECT, BOOLEAN, MS, STRING, ULID, many, obj, one_of, or_null, text

_WORD: Final = r"[A-Za-z0-9._~-]+"
_FINISH: Final = obj({"ceremony": text(MAX_CEREMONY, pattern=_WORD), "credential": ANY_OBJECT})
_FRESH: Final = {"fresh": or_null(_FINISH)}
_LABEL: Final = {"label": or_null(text(MAX_LABEL))}
_PASSKEY: Final = obj(
    {
        "id": STRING,
        "label": STRING,
        "created_at": MS,
        "rests_until": MS,
        "used_at": or_null(MS),
        "backed_up": BOOLEAN,
    }
)
_SESSION: Final = obj(
    {
        "id": ULID,
        "kind": one_of([kind.value for kind in SessionKind]),
        "method": one_of([method.value for method in SessionMethod]),
        "label": STRING,
        "created_at": MS,
        "expires_at": MS,
        "seen_at": MS,
        "here": BOOLEAN,
    }
)
_IN: Final = {"person": STRING, "csrf": STRING, "session": _SESSION}

NOTHING: Final = obj({})
OK: Final = obj({"ok": BOOLEAN})
FINISH: Final = _FINISH
ENROL: Final = obj({"code": or_null(text(MAX_CODE))}, _LABEL)
LABELLED: Final = obj({}, {**_LABEL, **_FRESH})
CONFIRMING: Final = obj({}, _FRESH)
ACT: Final = obj({"act": {**ANY_OBJECT, "minProperties": 1}})
CHALLENGE: Final = obj({"id": STRING, "options": ANY_OBJECT})
SIGNED_IN: Final = obj(_IN)
ENROLLED: Final = obj(
    {
        "person": or_null(STRING),
        "csrf": STRING,
        "session": {"anyOf": [_SESSION, {"type": "null"}]},
        "passkey": _PASSKEY,
        "offer_another": BOOLEAN,
    }
)
ADDED: Final = obj({"csrf": STRING, "passkey": _PASSKEY, "offer_another": BOOLEAN})
PROVIDED_IN: Final = obj({**_IN, "next": STRING})
HERE: Final = obj({**_IN, "single_keys": BOOLEAN})
SESSIONS: Final = obj({"items": many(_SESSION)})
ENDED: Final = obj({"ended": {"type": "integer", "minimum": 0}})
SHELL_BEGIN: Final = obj({}, _LABEL)
SHELL: Final = obj({"secret": STRING, "code": STRING, "url": STRING, "expires_at": MS})
TAKE: Final = obj({"secret": text(MAX_SECRET, pattern=_WORD)})
TAKEN: Final = obj({"pending": BOOLEAN, "credential": or_null(STRING), "person": or_null(STRING)})
CONFIRM: Final = obj({"code": or_null(text(MAX_CODE))}, _FRESH)
PREFERENCES: Final = obj({"single_keys": BOOLEAN})
READ: Final = obj({"upto": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}})
PROVIDED: Final = obj({"code": text(MAX_PROVIDED, least=1), "state": text(MAX_PROVIDED, pattern=_WORD)})


def session(row: Session, here: str | None) -> dict[str, Any]:
    """Show a session of the person's own; `here` is the id of the one that asks."""
    return {
        "id": row.id,
        "kind": row.kind.value,
        "method": row.method.value,
        "label": row.label,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "seen_at": row.seen_at,
        "here": row.id == here,
    }


def passkey(row: Passkey) -> dict[str, Any]:
    """Show a passkey of the person's own."""
    return {
        "id": row.id,
        "label": row.label,
        "created_at": row.created_at,
        "rests_until": row.rests_until,
        "used_at": row.used_at,
        "backed_up": bool(row.backed_up),
    }
