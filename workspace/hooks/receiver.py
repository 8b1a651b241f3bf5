"""`POST /hooks/github`: a delivery is believed to be the forge's by its signature, and only a hint goes on.

Nothing of a body is parsed before its signature was compared, and of what is signed only ids and states are read
(`forge.hooks.grammar`). 202 is said after the commit. What gets lost here, the poll finds.
"""

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Sequence
from typing import Final

from gitops_bot.authority import hearing
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Malformed
from gitops_bot.core.readings import CommentHint
from gitops_bot.forge.hooks.grammar import EVENTS, MAX_BODY, Hint, Ignored, Ping, ReviewHint, hint_of
from gitops_bot.forge.signature import is_signed
from gitops_bot.store import deliveries
from gitops_bot.store.engine import Tx
from workspace.asgi import Receive, Scope, Send, Turned, start, turn_away
from workspace.bodies import Failed, linger, read_body
from workspace.hooks.secrets import Secrets
from workspace.hooks.writer import Commit, Delivery, Writer
from workspace.screening import Headers

PATH: Final = "/hooks/github"
BODY_SECONDS: Final = 10.0
"""How long the forge itself waits for an answer (GitHub, webhooks)."""
MOST_READING: Final = 128
"""Bodies that are read at once; each may have `MAX_BODY` bytes."""
_GUID: Final = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)
_EVENT: Final = re.compile(r"[a-z0-9_]{1,64}", re.ASCII)
_JSON: Final = re.compile(r'application/json(?: *; *charset="?utf-8"?)?', re.ASCII | re.IGNORECASE)
_SIGNED: Final = re.compile(r"sha256=[0-9a-f]{64}", re.ASCII)
_AGAIN: Final = {"retry-after": "5"}
_NOT_SERVED: Final = Turned(404, "No webhook is served here: no secret is configured.")
_NOT_JSON: Final = Turned(415, "A webhook is application/json here.")
_UNSIGNED: Final = Turned(401, "The signature (X-Hub-Signature-256) is missing or another one's.")
_NO_DELIVERY: Final = Turned(400, "X-GitHub-Event or X-GitHub-Delivery is missing or none.")
_NO_OBJECT: Final = Turned(400, "The body is not a JSON object.")
_BUSY: Final = Turned(503, "Too many deliveries wait. Send it again.", None, _AGAIN)
_UNAVAILABLE: Final = Turned(503, "The database did not answer. Send it again.", None, _AGAIN)
_TURNED: Final = {
    Failed.OVER: Turned(413, f"A delivery may have {MAX_BODY} bytes."),
    Failed.LATE: Turned(408, "The body did not arrive in time."),
}
_log: Final = logging.getLogger(__name__)


class Receiver:
    """The route."""

    def __init__(self, secrets: Secrets, commit: Commit, *, body_seconds: float = BODY_SECONDS) -> None:
        self._secrets = secrets
        self._writer = Writer(commit)
        self._body_seconds = body_seconds
        self._reading = 0
        if not secrets.configured:
            _log.info("no webhook is served: [forge] webhook_secret_files names no secret")

    def close(self) -> None:
        """Commit what waits, and take nothing more."""
        self._writer.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one delivery."""
        headers: Headers = scope["headers"]
        body = await self._body(headers, receive)
        if body is Failed.GONE:
            return
        if isinstance(body, Failed | Turned):
            await turn_away(send, _TURNED[body] if isinstance(body, Failed) else body, finish=False)
            await linger(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        turned = await self._signed(headers, body)
        if turned is not None:
            await turn_away(send, turned)
            return
        answer = b'{"status":"accepted"}'
        await start(send, 202, {"content-type": "application/json", "content-length": str(len(answer))})
        await send({"type": "http.response.body", "body": answer, "more_body": False})

    async def _body(self, headers: Headers, receive: Receive) -> bytes | Failed | Turned:
        """Read the raw bytes of a delivery that is signed with one of the secrets."""
        if not self._secrets.configured:
            return _NOT_SERVED
        declared = _one(headers, b"content-length") or ""
        length = int(declared[:20]) if declared.isdigit() else None
        if length is not None and length > MAX_BODY:
            return Failed.OVER
        if not _JSON.fullmatch(_one(headers, b"content-type") or ""):
            return _NOT_JSON
        given = _one(headers, b"x-hub-signature-256") or ""
        if not _SIGNED.fullmatch(given):
            return _UNSIGNED
        if self._reading >= MOST_READING:
            return _BUSY
        self._reading += 1
        try:
            body = await read_body(receive, length, MAX_BODY, self._body_seconds)
        finally:
            self._reading -= 1
        if isinstance(body, bytes) and not is_signed(body, given, self._secrets.now()):
            return _UNSIGNED
        return body

    async def _signed(self, headers: Headers, body: bytes) -> Turned | None:
        """Take a delivery whose signature fits; None when it is dealt with."""
        guid, event = _one(headers, b"x-github-delivery") or "", _one(headers, b"x-github-event") or ""
        if not _GUID.fullmatch(guid) or not _EVENT.fullmatch(event):
            return _NO_DELIVERY
        if event not in EVENTS:
            return None
        try:
            hint = hint_of(event, body)
        except Malformed:
            return _NO_OBJECT
        if isinstance(hint, Ping | Ignored):
            return None
        committed = self._writer.put(Delivery(guid, hashlib.sha256(body).hexdigest(), event, hint))
        if committed is None:
            return _BUSY
        try:
            async with asyncio.timeout(self._body_seconds):
                return None if await committed else _UNAVAILABLE
        except TimeoutError:
            return _UNAVAILABLE


def commit_to(services: Services, app_id: int) -> Commit:
    """Make what commits deliveries: each once by its id, and once by its bytes, whatever id they come with."""

    def commit(together: Sequence[Delivery]) -> None:
        with services.database.write() as tx:
            for delivery in together:
                if _is_new(tx, delivery):
                    hearing.delivered(tx, delivery.hint, app_id)

    return commit


def _is_new(tx: Tx, delivery: Delivery) -> bool:
    repository, subject = _about(delivery.hint)
    if not deliveries.take(tx, delivery.guid, delivery.event, repository, subject):
        return False
    return deliveries.take(tx, f"{delivery.event}:{delivery.digest}", delivery.event, repository, subject)


def _about(hint: Hint) -> tuple[int | None, str | None]:
    """Say for the record what a hint is about."""
    repository: int | None = getattr(hint, "repository_id", None)
    subject: int | None
    match hint:
        case CommentHint():
            subject = hint.comment_id
        case ReviewHint():
            subject = hint.review_id
        case _:
            subject = getattr(hint, "number", None)
    return repository, None if subject is None else json.dumps(subject)


def _one(headers: Headers, name: bytes) -> str | None:
    """Give a field's value where it came exactly once."""
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None
