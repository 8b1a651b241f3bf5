"""GitHub's published OpenAPI description as a judge of requests and answers (npm `@octokit/openapi`).

The description is OpenAPI 3.0, whose schemas are nearly JSON Schema: `nullable` is rewritten, the rest is read as it
stands. What an operation does not list (401, rate limits, failures of the server) has the shape of a basic error.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

NODE = Path(__file__).parent.parent / "node" / "node_modules" / "@octokit"
FILE = NODE / "openapi" / "generated" / "api.github.com.json"
ROOT = "urn:github"
ANYWHERE = (400, 401, 403, 404, 422, 429, 500, 502, 503)
"""Statuses that every operation may answer with, whether listed or not (GitHub REST, troubleshooting)."""

# Routes that the description names in words only; which operation each is, stands in that operation's own text.
IN_WORDS = {
    "/organizations/{org_id}/team/{team_id}/memberships/{username}": (
        "/orgs/{org}/teams/{team_slug}/memberships/{username}"
    ),
}

FORMATS = FormatChecker(())


@FORMATS.checks("date-time", ValueError)
def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


@FORMATS.checks("uri")
def _is_address(value: object) -> bool:
    return not isinstance(value, str) or bool(urlsplit(value).scheme and urlsplit(value).netloc)


@dataclass(frozen=True)
class Exchange:
    """A request as it was sent and what was answered; `route` is the path in GitHub's notation."""

    method: str
    route: str
    query: Mapping[str, str]
    body: bytes
    status: int
    answer: bytes


def _nullable(node: object) -> object:
    """Rewrite OpenAPI 3.0's `nullable` as JSON Schema, and `oneOf` as `anyOf`: here several alternatives fit often."""
    if isinstance(node, list):
        return [_nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"$ref": f"{ROOT}{node['$ref']}"}  # its siblings mean nothing in 3.0
    made = {key: value if key in {"example", "examples"} else _nullable(value) for key, value in node.items()}
    if isinstance(made.get("oneOf"), list) and "anyOf" not in made:
        made["anyOf"] = made.pop("oneOf")
    if made.pop("nullable", False) is True:
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
            if "enum" in made:
                made["enum"] = [*made["enum"], None]
        else:
            made = {"anyOf": [made, {"type": "null"}]}
    return made


@cache
def description() -> dict:
    """Read the description, its schemas in terms of JSON Schema."""
    read = json.loads(FILE.read_bytes())
    return {"paths": _nullable(read["paths"]), "components": _nullable(read["components"])}


@cache
def _registry() -> Registry:
    return Registry().with_resource(ROOT, DRAFT202012.create_resource(description()))


@cache
def _validator(pointer: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"{ROOT}#{pointer}"}, registry=_registry(), format_checker=FORMATS)


def _pointer(*parts: str) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _resolved(node: Mapping, pointer: str) -> tuple[Mapping, str]:
    if "$ref" not in node:
        return node, pointer
    target = node["$ref"].removeprefix(f"{ROOT}#")
    found: Mapping = description()
    for part in target.split("/")[1:]:
        found = found[part]
    return _resolved(found, target)


@cache
def _paths() -> Mapping[str, str]:
    return {re.sub(r"\{[^}]*\}", "{}", path): path for path in description()["paths"]}


def operation(method: str, route: str) -> tuple[Mapping, str] | None:
    """Find the operation that answers a route (parameter names differ, their places do not), with where it stands."""
    shape = re.sub(r"\{[^}]*\}", "{}", IN_WORDS.get(route, route).replace("/contents/{path...}", "/contents/{path}"))
    path = _paths().get(shape.rstrip("/") if not shape.endswith("/contents/") else shape + "{}")
    found = description()["paths"].get(path, {}).get(method.lower()) if path else None
    return None if found is None else (found, _pointer("paths", path, method.lower()))


def faults_of_request(exchange: Exchange) -> Iterator[str]:
    """Name what of a request the description does not know."""
    known = operation(exchange.method, exchange.route)
    if known is None:
        yield f"{exchange.method} {exchange.route} is not described"
        return
    described, here = known
    parameters = [_resolved(one, _pointer("")) for one in described.get("parameters", [])]
    queries = {one["name"]: one for one, _ in parameters if one["in"] == "query"}
    for name, value in exchange.query.items():
        if name not in queries:
            yield f"query parameter {name} is not described"
            continue
        schema = queries[name]["schema"]
        read = int(value) if schema.get("type") == "integer" and value.isdigit() else value
        checker = Draft202012Validator(schema, registry=_registry(), format_checker=FORMATS)
        yield from (f"query parameter {name}: {error.message}" for error in checker.iter_errors(read))
    required = (name for name, one in queries.items() if one.get("required"))
    yield from (f"query parameter {name} is missing" for name in required if name not in exchange.query)
    body = described.get("requestBody")
    if body is None:
        if exchange.body:
            yield "a body where none is described"
        return
    body, here = _resolved(body, here + "/requestBody")
    if not exchange.body:
        if body.get("required"):
            yield "the body is missing"
        return
    yield from _errors(here + _pointer("content", "application/json", "schema"), json.loads(exchange.body))


def faults_of_answer(exchange: Exchange) -> Iterator[str]:
    """Name what of an answer the description does not know."""
    known = operation(exchange.method, exchange.route)
    if known is None:
        yield f"{exchange.method} {exchange.route} is not described"
        return
    described, here = known
    listed = described["responses"].get(str(exchange.status))
    if listed is None:
        if exchange.status == 304 and exchange.method == "GET":
            yield from (["a body beside 304"] if exchange.answer else [])
        elif exchange.status in ANYWHERE:
            yield from _errors("/components/schemas/basic-error", json.loads(exchange.answer))
        else:
            yield f"status {exchange.status} is not described"
        return
    response, here = _resolved(listed, f"{here}/responses/{exchange.status}")
    kinds = [kind for kind in response.get("content", {}) if re.fullmatch(r"application/(\w+\+)?json", kind)]
    if not kinds:
        if exchange.answer and exchange.status < 400:
            yield f"a body beside {exchange.status}"
        return
    read = json.loads(exchange.answer)
    yield from _errors(here + _pointer("content", kinds[0], "schema"), read)
    if exchange.status < 400:  # a refusal also says its status as text, which the description leaves out
        schema, _ = _resolved(response["content"][kinds[0]]["schema"], "")
        yield from _unknown(schema, read)


def _errors(pointer: str, read: object) -> Iterator[str]:
    for error in _validator(pointer).iter_errors(read):
        yield f"{pointer}: {'/'.join(str(part) for part in error.absolute_path)}: {error.message[:300]}"


def _unknown(schema: Mapping, read: object) -> Iterator[str]:
    """Name members that nobody described: an invention that a test could come to rely on."""
    if isinstance(read, list) and schema.get("type") == "array":
        inner, _ = _resolved(schema["items"], "")
        for item in read[:1]:
            yield from _unknown(inner, item)
    if isinstance(read, dict) and "properties" in schema and "allOf" not in schema:
        for name in sorted(set(read) - set(schema["properties"])):
            yield f"a member that is not described: {name}"


class Judge:
    """Looks at exchanges once each, however often they come."""

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[str, ...]] = {}

    def faults(self, exchange: Exchange, *, of_request: bool) -> tuple[str, ...]:
        """Name what is wrong with an exchange; the request is left out where the sender meant it to be wrong."""
        key = hashlib.sha256(repr((exchange, of_request)).encode()).digest()
        if key not in self._seen:
            request = faults_of_request(exchange) if of_request else ()
            self._seen[key] = (*request, *faults_of_answer(exchange))
        return self._seen[key]
