"""A client of the HTTP API for commands and loops: one bearer, each call once, every ending typed.

What the workspace refuses is raised as `Refusal` with its reason; what failed outside as `Unavailable`. Redirects are
not followed and no proxy is asked, so that the token goes to the address that was named and nowhere else. Plain
`http.client`: importing a larger library costs half of the 300 ms in which a command starts.
"""

import http.client
import ipaddress
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from gitops_bot.api.grammar import MAX_ANSWER, read_answer, read_problem
from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refusal, Unavailable, refuse

PREFIX: Final = "/api/v1"
MOST_SAID: Final = 300


class Client:
    """Calls one workspace under one token. `timeout` in seconds, for a connection and for each read."""

    def __init__(self, url: str, token: str, *, timeout: float = 30.0) -> None:
        """Take an address and a token; '' for the few calls that need none.

        Raises:
            ConfigError: an address that is none, or plain HTTP to another machine.
        """
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query or parts.username:
            raise ConfigError("the workspace's address is none", fix="write http://localhost:8480 or https://HOST")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise ConfigError(
                f"plain HTTP would show the token to everybody on the way to {parts.hostname}", fix="use https://"
            )
        self._https = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._base = parts.path.rstrip("/") + PREFIX
        self._token = token
        self._timeout = timeout

    def get(self, path: str, query: Mapping[str, object] | None = None, *, patience: float = 0) -> dict[str, Any]:
        """Read; `patience` seconds are added to the time-out, for a long poll.

        Raises:
            Refusal: the workspace says no.
            Unavailable: it cannot be reached, or failed.
        """
        kept = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        return self._send("GET", path + (f"?{urlencode(kept)}" if kept else ""), None, self._timeout + patience)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Change something, as `get`. Members that are None are left out."""
        kept = {name: value for name, value in (body or {}).items() if value is not None}
        return self._send("POST", path, json.dumps(kept).encode("ascii"), self._timeout)

    def _send(self, method: str, path: str, body: bytes | None, timeout: float) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connect(timeout)
        try:
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            raw = response.read(MAX_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the workspace does not answer ({type(error).__name__})") from error
        finally:
            connection.close()
        return _read(response.status, raw)

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._https:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(status: int, raw: bytes) -> dict[str, Any]:
    """Tell an answer from a refusal and both from a failure."""
    try:
        if 200 <= status < 300:
            return read_answer(raw)
        refused = read_problem(raw) if 400 <= status < 500 else None
    except Malformed:
        raise Unavailable(f"the workspace answered {status} with what is no answer of its API") from None
    if refused is not None:
        raise Refusal(refused)
    if status == http.client.UNAUTHORIZED:
        raise Refusal(
            refuse(
                Reason.NOT_AUTHORISED, "The token stands for nobody, or does no longer; people run `gitops-bot login`."
            )
        )
    raise Unavailable(f"the workspace answered {status}{_said(raw)}")


def _said(raw: bytes) -> str:
    """Give what a problem document says in words, where there is one."""
    try:
        detail = read_answer(raw).get("detail")
    except Malformed:
        return ""
    return f": {detail[:MOST_SAID]}" if isinstance(detail, str) and detail else ""
