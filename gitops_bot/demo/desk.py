"""A scripted person at the workspace: comes in by the host's code with a software passkey, looks, answers.

Only for the automatic demo. It speaks the HTTP API as a browser does, cookie, origin and token included; the product
has no special way for it.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from http.cookies import SimpleCookie
from typing import Any, Final
from urllib.parse import urlsplit

from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.passkey import SoftwarePasskey

SECONDS: Final = 30.0


class Desk:
    """One person's session. `origin` is the workspace's address as its passkeys know it."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._passkey = SoftwarePasskey(origin)
        self._cookie = ""
        self._csrf = ""

    def come_in(self, code: str) -> str:
        """Enrol the passkey with a code that the host printed; gives who it belongs to.

        Raises:
            Unavailable: the workspace refuses, or does not answer.
        """
        begun = self._post("/auth/enrol/begin", {"code": code, "label": "the demo's own"})
        credential = self._passkey.create(begun["options"])
        let_in = self._post("/auth/enrol/finish", {"ceremony": begun["id"], "credential": credential})
        self._csrf = str(let_in["csrf"])
        return str(let_in["person"])

    def needs_me(self) -> Sequence[Mapping[str, Any]]:
        """Read what waits for this person, the newest first.

        Raises:
            Unavailable: as of `come_in`.
        """
        items: list[Mapping[str, Any]] = self._send("GET", "/needs-you", None)["items"]
        return items

    def ask(self, ask: str) -> Mapping[str, Any]:
        """Read one ask.

        Raises:
            Unavailable: as of `come_in`.
        """
        return self._send("GET", f"/asks/{ask}", None)

    def answer(self, ask: str, option: str, text: str | None = None) -> Mapping[str, Any]:
        """Answer an ask; a bound one with an assertion of the passkey over exactly this answer.

        Raises:
            Unavailable: it is refused, or the workspace does not answer.
        """
        seen = self.ask(ask)
        body: dict[str, Any] = {"option": option, **seen["binding"]}
        if text is not None:
            body["text"] = text
        if seen["kind"] == "approval":
            begun = self._post(f"/asks/{ask}/statement", body)
            credential = self._passkey.get(begun["options"])
            body["assertion"] = {"ceremony": begun["id"], "credential": credential}
        return self._post(f"/asks/{ask}/answer", body)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", path, json.dumps(body).encode("utf-8"))

    def _send(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Cookie": self._cookie}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Origin": self._origin, "X-CSRF-Token": self._csrf}
        parts = urlsplit(self._origin)
        wire = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        try:
            wire.request(method, f"/api/v1{path}", body, {name: value for name, value in headers.items() if value})
            response = wire.getresponse()
            document = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"the workspace does not answer ({type(error).__name__})") from error
        finally:
            wire.close()
        for cookie in SimpleCookie(response.headers.get("Set-Cookie", "")).values():
            self._cookie = f"{cookie.key}={cookie.value}"
        if response.status >= 300:
            raise Unavailable(f"{method} {path}: {response.status} {document.get('detail', '')}")
        return dict(document)
