"""One request from token to answer: who asks, limits, planned faults, the route, refusals, ETag, headers, counts.

Knows no Flask. The order is GitHub's: bad credentials before anything else, the limits before the work, the ETag over
the finished body. A conditional request that is answered 304 costs nothing of the primary limit. The lock is held but
while a slow answer is waited for.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.sandbox import scopes
from gitops_bot.sandbox.faults import SECONDARY, Fault
from gitops_bot.sandbox.limits import READ_POINTS, WRITE_POINTS, Allowance
from gitops_bot.sandbox.records import Session
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.skin import Answer, Call, Json, Route
from gitops_bot.sandbox.world import World

DOCUMENTATION: Final = "https://docs.github.com/rest"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came; header names in lower case."""

    method: str
    url_path: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What goes out."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def dispatch(world: World, route: Route, request: Request) -> Response:
    """Answer one request."""
    names = (f"{request.method} {route.path}", f"{request.method} {request.url_path}")
    with world.lock:
        world.requests[(route.method, route.path)] += 1
        token = _token(request.headers.get("authorization", ""))
        known = route.by_app or world.model.directory.session(token, world.now()) is not None
        fault = world.faults.take(*names) if known else None
    if fault is not None and fault.delay:
        world.sleep(fault.delay)
    with world.lock:
        response = _answered(world, route, request, None if fault is None or fault.status is None else fault)
        world.answers[(route.method, route.path, response.status)] += 1
        world.play(world.faults.due_pushes(*names))
        return response


def _answered(world: World, route: Route, request: Request, fault: Fault | None) -> Response:
    token = _token(request.headers.get("authorization", ""))
    try:
        session = _session(world, route, token)
    except Rejected as no:
        return _plain(world, refusal(no), route, None)
    limits, now = world.model.limits, world.now()
    allowance = limits.allowance(session.account_id, now, route.resource)
    if allowance.remaining == 0:
        words = f"API rate limit exceeded for user ID {session.account_id}."
        return _plain(world, refusal(Rejected(403, words)), route, allowance)
    wait = world.model.secondary.retry_after(
        session.account_id, now, resource=route.resource, points=_points(route, request), creates=route.creates
    )
    if wait is not None:
        refused = refusal(Rejected(403, SECONDARY))
        headers = {"Retry-After": str(wait)}
        return _plain(world, Answer(403, refused.payload, headers), route, allowance)
    if fault is not None and not fault.after_effect:
        return _plain(world, _failed(fault), route, limits.use(session.account_id, now, route.resource))
    answer = _work(world, route, request, session)
    if fault is not None:
        return _plain(world, _failed(fault), route, limits.use(session.account_id, now, route.resource))
    if request.method == "GET" and answer.status == 200:
        etag = _etag(token, _encode(answer.payload))
        if _matches(request.headers.get("if-none-match", ""), etag):
            return Response(304, b"", {**_headers(world, route, allowance), "ETag": etag})
        answer = Answer(200, answer.payload, {**answer.headers, "ETag": etag})
    return _plain(world, answer, route, limits.use(session.account_id, now, route.resource))


def _session(world: World, route: Route, token: str) -> Session:
    if not token:
        raise Rejected(401, "Requires authentication")
    if route.by_app:
        known = world.model.apps.authenticate(token, world.now())
        return Session(known.bot_id, known.app)
    session = world.model.directory.session(token, world.now())
    if session is None:
        raise Rejected(401, "Bad credentials")
    if world.model.apps.suspended(session.installation):
        raise Rejected(403, "This installation has been suspended")
    return session


def _points(route: Route, request: Request) -> int:
    if route.resource == "graphql":
        return WRITE_POINTS if b"mutation" in request.body else READ_POINTS
    return READ_POINTS if request.method == "GET" else WRITE_POINTS


def _work(world: World, route: Route, request: Request, session: Session) -> Answer:
    try:
        scopes.require(world.model, route, request.path, session)
        body = _read_body(request)
        return route.answer(Call(world, session, request.path, request.query, body))
    except Rejected as no:
        return refusal(no)
    except Unavailable:
        return refusal(Rejected(500, "Server Error"))


def _read_body(request: Request) -> Json:
    if request.method in {"GET", "DELETE"} or not request.body:
        return {}
    try:
        read = json.loads(request.body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Rejected(400, "Problems parsing JSON") from None
    if not isinstance(read, dict):
        raise Rejected(400, "Body should be a JSON object")
    return read


def refusal(no: Rejected) -> Answer:
    """Write a refusal as GitHub does."""
    shape: dict[str, object] = {"message": no.message}
    if no.errors:
        shape["errors"] = list(no.errors)
    return Answer(no.status, {**shape, "documentation_url": DOCUMENTATION, "status": str(no.status)})


def _failed(fault: Fault) -> Answer:
    assert fault.status is not None
    told = {"message": fault.message, "documentation_url": DOCUMENTATION}
    return Answer(fault.status, None if fault.status == 304 else told, dict(fault.headers))


def _token(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() in {"token", "bearer"} else ""


def _etag(token: str, body: bytes) -> str:
    # An ETag belongs to a token: another one, or a renewed one, gets 200 once (facts: polling).
    digest = hashlib.sha256(token.encode("utf-8") + b"\x00" + body).hexdigest()
    return f'W/"{digest}"'


def _matches(header: str, etag: str) -> bool:
    offered = {part.strip().removeprefix("W/") for part in header.split(",")}
    return "*" in offered or etag.removeprefix("W/") in offered


def _encode(payload: object) -> bytes:
    return b"" if payload is None else json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")


def _plain(world: World, answer: Answer, route: Route, allowance: Allowance | None) -> Response:
    headers = {**_headers(world, route, allowance), **answer.headers}
    if answer.payload is not None:
        headers["Content-Type"] = "application/json; charset=utf-8"
    return Response(answer.status, _encode(answer.payload), headers)


def _headers(world: World, route: Route, allowance: Allowance | None) -> dict[str, str]:
    number = sum(world.requests.values())
    # Without an account the hourly 60 of an unauthenticated address (facts: limits).
    left = allowance or Allowance(60, 1, world.now() + 3600)
    return {
        "Date": formatdate(world.now(), usegmt=True),
        "X-GitHub-Media-Type": "github.v3; format=json",
        "X-GitHub-Request-Id": f"{number:04X}:{world.now():08X}",
        "X-RateLimit-Limit": str(left.limit),
        "X-RateLimit-Remaining": str(left.remaining),
        "X-RateLimit-Reset": str(left.reset),
        "X-RateLimit-Used": str(left.used),
        "X-RateLimit-Resource": route.resource,
        "Cache-Control": "private, max-age=60, s-maxage=60",
        "Vary": "Accept, Authorization, Cookie, X-GitHub-OTP",
    }
