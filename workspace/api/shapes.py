"""Small words for JSON Schemas: exact objects, bounded texts, lists by cursor.

Objects that callers send name every member and allow no other; what is sent back is as exact, so that a test notices
an answer that nobody described.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitops_bot.api.grammar import MAX_PAGE, MAX_WAIT
from gitops_bot.core.canonical import MAX_INTEGER
from workspace.api.described import Schema


def obj(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Give the schema of an object with exactly these members; `optional` ones may be absent."""
    more = optional or {}
    return {
        "type": "object",
        "properties": {**required, **more},
        "required": sorted(required),
        "additionalProperties": False,
    }


def text(most: int | None = None, *, least: int = 0, pattern: str | None = None, **more: Any) -> Schema:
    """Give the schema of a string: its lengths in characters and the whole of what it may be."""
    found: dict[str, Any] = {"type": "string", **more}
    if most is not None:
        found["maxLength"] = most
    if least:
        found["minLength"] = least
    if pattern is not None:
        found["pattern"] = f"^(?:{pattern})$"
    return found


def or_empty(schema: Schema) -> Schema:
    """Give the schema of the same or an empty string: a parameter of a query that says nothing is none."""
    return {"anyOf": [schema, {"type": "string", "maxLength": 0}]}


def or_null(schema: Schema) -> Schema:
    """Give the schema of the same or null."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(values: Sequence[str]) -> Schema:
    """Give the schema of a string out of a closed list."""
    return {"type": "string", "enum": list(values)}


def many(item: Schema, most: int | None = None, *, least: int = 0) -> Schema:
    """Give the schema of a list."""
    found: dict[str, Any] = {"type": "array", "items": item}
    if most is not None:
        found["maxItems"] = most
    if least:
        found["minItems"] = least
    return found


def ref(name: str) -> Schema:
    """Point to a schema of `workspace.api.schemas`."""
    return {"$ref": f"#/components/schemas/{name}"}


def page_of(item: Schema, **more: Schema) -> Schema:
    """Give the schema of one page of a list: `next` is the cursor of the following one, null at the end."""
    return obj({"items": many(item, MAX_PAGE), "next": or_null(STRING), **more})


STRING: Final = text()
BOOLEAN: Final[Schema] = {"type": "boolean"}
INTEGER: Final[Schema] = {"type": "integer"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
MS: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "description": "ms since 1970 UTC"}
ULID: Final = text(pattern="[0-9a-hjkmnp-tv-z]{26}")
NAME: Final = text(pattern="[a-z][a-z0-9-]{0,31}")
SLUG: Final = text(pattern="[a-z][a-z0-9-]{0,62}")
DIGEST: Final = text(pattern="sha256:[0-9a-f]{64}")
ANY_OBJECT: Final[Schema] = {"type": "object"}
LIMIT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50}
FLAG: Final = one_of(["0", "1"])
PAGE: Final[Mapping[str, Schema]] = {"after": or_empty(ULID), "limit": LIMIT}
WAIT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "default": 0}
