"""Every error leaves as an RFC 9457 problem document, whatever raised it; nothing of ours inside is shown.

A refusal carries its code in `reason`, what to do about it in `remedy`, and its facts beside it. What is our bug is
logged and told as 500 without more.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from gitops_bot.authority.remedies import remedy_of
from gitops_bot.core.errors import SENTENCES, WHO_REASONS, Malformed, Reason, Refusal, Refused, Unavailable

MEDIA_TYPE: Final = "application/problem+json"
STATUS: Final[Mapping[Reason, int]] = {
    **dict.fromkeys(WHO_REASONS, 403),
    Reason.GATED: 403,
    Reason.WRONG_CHANNEL: 403,
    Reason.NOT_FOUND: 404,
    Reason.STALE_ACTION: 409,
    Reason.STALE_POLICY: 409,
    Reason.STALE_RUN: 409,
    Reason.STALE_HEAD: 409,
    Reason.ALREADY_SETTLED: 409,
    Reason.IDEMPOTENCY_CONFLICT: 409,
    Reason.WITHDRAWN_VOTE: 409,
    Reason.DUPLICATE: 409,
    Reason.HELD: 409,
    Reason.EXPIRED: 410,
    Reason.WITHDRAWN: 410,
    Reason.RATE_LIMITED: 429,
    Reason.REPEAT_TOO_SOON: 429,
    Reason.TOO_MANY_OPEN: 429,
}
"""Statuses of design/interfaces.md; what is not listed was asked or answered wrongly: 422."""
ASKED_WRONGLY: Final = 422
_REASONS: Final = {404: Reason.NOT_FOUND, 413: Reason.LIMIT_EXCEEDED, 429: Reason.RATE_LIMITED}


def status_of(reason: Reason) -> int:
    """Give the HTTP status of a refusal."""
    return STATUS.get(reason, ASKED_WRONGLY)


def refusal(refused: Refused) -> Response:
    """Render a refusal."""
    facts = {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in refused.facts.items()}
    return _problem(
        status_of(refused.reason),
        type=f"urn:gitops-bot:refusal:{refused.reason.value}",
        title=SENTENCES[refused.reason],
        detail=refused.sentence,
        reason=refused.reason.value,
        remedy=remedy_of(refused.reason.value),
        facts=facts,
    )


def _problem(status: int, **members: object) -> Response:
    document = {"status": status, "remedy": "", **members}
    return Response(json.dumps(document, ensure_ascii=True), status=status, content_type=MEDIA_TYPE)


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    reason = _REASONS.get(status)
    title = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Error"
    problem = _problem(
        status,
        type="about:blank",
        title=title,
        detail=error.description or title,
        reason=None if reason is None else reason.value,
        remedy="" if reason is None else remedy_of(reason.value),
        facts={},
    )
    for name, value in error.get_headers():
        if name in ("Allow", "WWW-Authenticate", "Retry-After"):
            problem.headers.add(name, value)
    return problem


def _internal(_error: Exception) -> Response:
    detail = "This is a fault of ours; it is in the log."
    return _problem(500, type="about:blank", title="Internal Server Error", detail=detail, reason=None, facts={})


def _malformed(error: Malformed) -> Response:
    return _problem(
        ASKED_WRONGLY,
        type=f"urn:gitops-bot:refusal:{Reason.BAD_PARAMS.value}",
        title="The request is not one that this call takes.",
        detail=f"{error}.",
        reason=Reason.BAD_PARAMS.value,
        remedy=remedy_of(Reason.BAD_PARAMS.value),
        facts={},
    )


def _refusal(error: Refusal) -> Response:
    return refusal(error.refused)


def _unavailable(error: Unavailable) -> Response:
    detail = "The database, or a service that this needs, did not answer; nothing was done that is not told. Try again."
    problem = _problem(503, type="about:blank", title="Service Unavailable", detail=detail, reason=None, facts={})
    problem.headers["Retry-After"] = str(max(1, int(error.retry_after or 1)))
    return problem


def install(app: Flask) -> None:
    """Let an application answer every error so."""
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(500, _internal)
    app.register_error_handler(Malformed, _malformed)
    app.register_error_handler(Refusal, _refusal)
    app.register_error_handler(Unavailable, _unavailable)
