"""The OpenAPI 3.1 document of the HTTP API, made from the routes that answer and from what they say of themselves.

`document` reads the application's own map of routes, so nothing can be described that is not there, but for what the
edge answers (`workspace.api.elsewhere`). It is served at `/api/v1/openapi.json` and kept as docs/openapi.json
(`tools/openapi.sh` writes it anew; a test compares).
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flask import Blueprint, Flask, Response, current_app
from werkzeug.routing import Rule

from workspace.api.described import (
    AGENT,
    ANYONE,
    JSON,
    PERSON,
    Media,
    Operation,
    Schema,
    described,
    description_of,
)
from workspace.api.elsewhere import ELSEWHERE
from workspace.api.schemas import SCHEMAS
from workspace.api.shapes import ANY_OBJECT, SLUG, STRING, ULID, ref
from workspace.auth import cookies, csrf
from workspace.problems import MEDIA_TYPE

PREFIX: Final = "/api/v1"
VERSION: Final = "1"
PATH: Final[Mapping[str, Schema]] = {"ask_id": ULID, "capture_id": ULID, "slug": SLUG}
"""The schemas of parameters in paths, by name; others are plain strings."""
PHRASES: Final[Mapping[int, str]] = {
    200: "OK",
    201: "Created",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
"""RFC 9110, section 15, and RFC 6585; the library's own differ from one version of Python to the next."""
_PARAMETER: Final = re.compile(r"<(?:[a-z]+:)?([a-z_]+)>")
_KEPT: Final = "gitops_bot.openapi"
_SECURITY: Final[Mapping[str, list[dict[str, list[str]]]]] = {
    PERSON: [{"cookie": [], "csrf": []}, {"personBearer": []}],
    AGENT: [{"agentBearer": []}],
    ANYONE: [{}],
}
_SCHEMES: Final = {
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": cookies.NAME,
        "description": "A person's session in a browser, opened by a passkey. What changes anything also takes the"
        " token of the page in `X-CSRF-Token`, and the origin of the workspace.",
    },
    "csrf": {"type": "apiKey", "in": "header", "name": csrf.HEADER, "description": "The page's own token."},
    "personBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A person's credential of a shell, `gbs_…`, made by `gitops-bot login` and confirmed in the"
        " workspace.",
    },
    "agentBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of an agent, a run or a loop, `gbt_…`. It asks, looks and withdraws; it never answers.",
    },
}
documents: Final = Blueprint("openapi", __name__, url_prefix=PREFIX)


def operations(app: Flask) -> Iterator[Operation]:
    """Give every described operation: the application's routes in the order of their paths, then the edge's."""
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        view = app.view_functions[rule.endpoint]
        found = description_of(view)
        if rule.rule.startswith(PREFIX + "/") and found is not None:
            for method in methods_of(rule):
                yield Operation(method, _PARAMETER.sub(r"{\1}", rule.rule), rule.endpoint, found)
    yield from ELSEWHERE


def methods_of(rule: Rule) -> list[str]:
    """Give the methods that a route was made for; HEAD and OPTIONS come with every one."""
    return sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})


def document(app: Flask) -> dict[str, Any]:
    """Make the OpenAPI document of an application."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations(app):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    told = {status for one in operations(app) for status in _refusals(one)}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "gitops-bot",
            "version": VERSION,
            "summary": "Agents ask, people answer.",
            "description": "No GET decides anything. Gated verbs are answered by signed commits alone: every call here"
            " shows them and refuses to answer them. Times are milliseconds since 1970 UTC; every list is paged by the"
            " cursor `next`. What is refused is told as a problem document (RFC 9457) whose `reason` is of one closed"
            " list.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "responses": {
                _word(status): {
                    "description": PHRASES[status],
                    "content": {MEDIA_TYPE: {"schema": ref("Problem")}},
                }
                for status in sorted(told)
            },
            "securitySchemes": _SCHEMES,
        },
    }


def written(app: Flask) -> str:
    """Write the document as docs/openapi.json holds it."""
    return json.dumps(document(app), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _refusals(operation: Operation) -> tuple[int, ...]:
    unsafe = operation.method not in ("GET", "HEAD")
    return operation.description.statuses(in_path="{" in operation.path, unsafe=unsafe)


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    ways = [dict(way) for who in operation.description.by for way in _SECURITY[who]]
    if operation.method in csrf.SAFE:
        for way in ways:
            way.pop("csrf", None)
    return ways


def _word(status: int) -> str:
    return PHRASES[status].replace(" ", "")


def _operation(operation: Operation) -> dict[str, Any]:
    told = operation.description
    names = re.findall(r"\{([a-z_]+)\}", operation.path)
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": told.path.get(name) or PATH.get(name, STRING),
        }
        for name in names
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in told.query.items()
    ]
    made: dict[str, Any] = {
        "operationId": operation.name.replace(".", "_"),
        "summary": told.summary,
        "tags": [operation.path.removeprefix(PREFIX + "/").split("/")[0]],
        "security": _security(operation),
        "parameters": parameters,
        "responses": {
            **{str(status): _answer(status, answer) for status, answer in told.answers.items()},
            **{str(status): {"$ref": f"#/components/responses/{_word(status)}"} for status in _refusals(operation)},
        },
    }
    if told.body is not None:
        made["requestBody"] = {
            "required": not told.optional_body,
            "content": {JSON: {"schema": told.body}},
        }
    return made


def _answer(status: int, answer: Schema | Media | None) -> dict[str, Any]:
    phrase = {"description": PHRASES[status]}
    if answer is None:
        return phrase
    media = answer if isinstance(answer, Media) else Media(JSON, answer)
    return {**phrase, "content": {media.content_type: {"schema": media.schema}}}


@documents.get("/openapi.json")
@described("This document.", by=(ANYONE,), answers={200: ANY_OBJECT})
def openapi() -> Response:
    """Give the document of this application."""
    kept = current_app.extensions.get(_KEPT)
    if kept is None:
        kept = current_app.extensions[_KEPT] = json.dumps(document(current_app))
    return Response(kept, content_type=JSON)
