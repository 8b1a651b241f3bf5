"""The ledger, and people with their keys, as values and as schemas side by side."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from gitops_bot.authority.ledger_read import LedgerPage, LedgerRow
from gitops_bot.authority.people_read import PersonShown
from workspace.api.described import Schema
from workspace.api.shapes import (
    BOOLEAN,
    COUNT,
    DIGEST,
    LIMIT,
    MS,
    NAME,
    SLUG,
    STRING,
    ULID,
    many,
    obj,
    or_empty,
    or_null,
    page_of,
    text,
)

_ENTRY: Final = obj(
    {
        "seq": COUNT,
        "hash": DIGEST,
        "kind": STRING,
        "at": MS,
        "ask": or_null(STRING),
        "run": or_null(STRING),
        "capture": or_null(STRING),
        "agent": or_null(STRING),
        "principal": or_null(STRING),
        "channel": or_null(STRING),
        "reason": or_null(STRING),
        "sentence": or_null(STRING),
        "facts": {"type": "object", "additionalProperties": STRING},
    }
)
LEDGER: Final = {
    **page_of(_ENTRY, head=obj({"seq": COUNT, "hash": DIGEST})),
}
LEDGER_QUERY: Final[Mapping[str, Schema]] = {
    "kind": {**or_empty(text(pattern="[a-z_.]{1,64}")), "description": "the beginning of a kind"},
    "ask": or_empty(ULID),
    "agent": or_empty(SLUG),
    "principal": or_empty(NAME),
    "since": or_empty(MS),
    "until": or_empty(MS),
    "before": {**or_empty(MS), "description": "below this place"},
    "limit": LIMIT,
}
EXPORT_QUERY: Final[Mapping[str, Schema]] = {"after": {**or_empty(MS), "description": "after this place"}}
_IDENTITY: Final = obj(
    {
        "kind": STRING,
        "called": STRING,
        "value": STRING,
        "fingerprint": or_null(STRING),
        "security_key": or_null(BOOLEAN),
        "not_before": or_null(MS),
        "not_after": or_null(MS),
    }
)
_PASSKEY: Final = obj(
    {
        "id": or_null(STRING),
        "short": STRING,
        "label": STRING,
        "created_at": MS,
        "rests_until": MS,
        "rests": BOOLEAN,
        "used_at": or_null(MS),
        "revoked_at": or_null(MS),
        "revoked_by": or_null(STRING),
        "backed_up": BOOLEAN,
        "counts": BOOLEAN,
    }
)
_PERSON: Final = obj(
    {
        "name": STRING,
        "kind": STRING,
        "owner": or_null(STRING),
        "role": or_null(STRING),
        "suspended": or_null(STRING),
        "identities": many(_IDENTITY),
        "passkeys": many(_PASSKEY),
        "policy_names_passkeys": BOOLEAN,
        "votes_on": many(obj({"verb": STRING, "gated": BOOLEAN, "approve": COUNT, "obstacle": or_null(STRING)})),
    }
)
PEOPLE: Final = obj({"items": many(_PERSON)})


def ledger(page: LedgerPage) -> dict[str, Any]:
    """Show a page of the ledger; `next` is its cursor as text."""
    return {
        "items": [entry(row) for row in page.rows],
        "next": None if page.next is None else str(page.next),
        "head": {"seq": page.head.seq, "hash": page.head.hash},
    }


def entry(row: LedgerRow) -> dict[str, Any]:
    """Show one entry; a refusal's code has its sentence beside it."""
    return {
        "seq": row.seq,
        "hash": row.hash,
        "kind": row.kind,
        "at": row.at,
        "ask": row.ask,
        "run": row.run,
        "capture": row.capture,
        "agent": row.agent,
        "principal": row.principal,
        "channel": row.channel,
        "reason": row.code if row.code is not None else None if row.reason is None else row.reason.text,
        "sentence": row.sentence,
        "facts": {name: fact.text for name, fact in row.facts},
    }


def person(one: PersonShown, *, own: bool) -> dict[str, Any]:
    """Show one principal of the policy; the whole id of a passkey to its own person alone."""
    passkeys = [asdict(key) | {"id": key.id if own else None} for key in one.passkeys]
    return {**asdict(one), "passkeys": passkeys}
