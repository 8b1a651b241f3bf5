"""A browser of a person, for tests of the workspace: real ceremonies with a passkey in software, the token of the page
and the origin on each change, as the pages' own script sends them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gitops_bot.authority.enrolling import issue_code
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store.engine import Database

API = "/api/v1"
AUTH = f"{API}/auth"


@dataclass
class PersonClient:
    """One browser: `http` keeps its cookies, `passkey` its keys. `csrf` is the token of the page that is open."""

    http: FlaskClient
    origin: str
    passkey: SoftwarePasskey
    name: str = ""
    csrf: str = ""

    def open(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str | None] | None = None,
        **more: Any,
    ) -> TestResponse:
        """Send a request as a page of the workspace does; a header that is None here is not sent."""
        sent: dict[str, str | None] = {}
        if method not in ("GET", "HEAD"):
            sent = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": self.csrf}
        sent |= headers or {}
        named = {name: value for name, value in sent.items() if value is not None}
        more.setdefault("buffered", True)
        if body is not None:
            more["json"] = body
        return self.http.open(path, method=method, base_url=self.origin, headers=named, **more)

    def get(self, path: str, **more: Any) -> TestResponse:
        """Open a page, or a path of the API by its whole name."""
        return self.open("GET", path, **more)

    def post(self, path: str, body: object = None, **more: Any) -> TestResponse:
        """Send a change, by its whole path."""
        return self.open("POST", path, {} if body is None else body, **more)

    def call(self, method: str, path: str, body: object = None, **more: Any) -> TestResponse:
        """Call the API, by the path after its prefix."""
        sent = {} if body is None and method != "GET" else body
        return self.open(method, API + path, sent, **more)

    def ok(self, method: str, path: str, body: object = None, **more: Any) -> dict[str, Any]:
        """Call the API and insist on success."""
        response = self.call(method, path, body, **more)
        assert response.status_code < 300, response.get_data(as_text=True)
        document = response.get_json()
        assert isinstance(document, dict)
        return document

    def confirmed(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> TestResponse:
        """Call the API, confirm with the passkey what it asks to be confirmed, and send the same again with that."""
        asked = self.call(method, path, body or {})
        act = (asked.get_json(force=True).get("facts") or {}).get("act") if asked.status_code == 422 else None
        if act is None:
            return asked
        begun = self.ok("POST", "/auth/fresh/begin", {"act": json.loads(act)})
        given = {"ceremony": begun["id"], "credential": self.passkey.get(begun["options"])}
        return self.call(method, path, {**(body or {}), "fresh": given})

    def enrol(self, code: str, label: str = "laptop") -> TestResponse:
        """Use a code up for a new passkey; signed in afterwards."""
        begun = self.call("POST", "/auth/enrol/begin", {"code": code, "label": label})
        if begun.status_code != 200:
            return begun
        document = begun.get_json()
        created = self.passkey.create(document["options"])
        return self._in(self.call("POST", "/auth/enrol/finish", {"ceremony": document["id"], "credential": created}))

    def sign_in(self) -> TestResponse:
        """Sign in with the passkey of this browser."""
        begun = self.call("POST", "/auth/sign-in/begin")
        if begun.status_code != 200:
            return begun
        document = begun.get_json()
        given = self.passkey.get(document["options"])
        return self._in(self.call("POST", "/auth/sign-in/finish", {"ceremony": document["id"], "credential": given}))

    def sign_out(self) -> TestResponse:
        """End the session of this browser."""
        return self.call("POST", "/auth/sign-out")

    def _in(self, response: TestResponse) -> TestResponse:
        if response.status_code < 300:
            document = response.get_json()
            self.csrf, self.name = document["csrf"], document["person"]
        return response

    @property
    def secret(self) -> str | None:
        """The secret in this browser's cookie; None when it has none."""
        kept = self.http.get_cookie("__Host-gitops-bot", "localhost")
        return None if kept is None else kept.value


def browser(app: Flask, services: Services, passkey: SoftwarePasskey | None = None) -> PersonClient:
    """Open a browser in which nobody is signed in."""
    origin = services.site.origin
    return PersonClient(app.test_client(), origin, passkey or SoftwarePasskey(origin))


def bare(app: Flask, services: Services) -> PersonClient:
    """Give a client that keeps no cookie and sends just the Cookie and Host headers that it is told to."""
    origin = services.site.origin
    return PersonClient(app.test_client(use_cookies=False), origin, SoftwarePasskey(origin))


def enrolled(app: Flask, services: Services, host: Database, name: str) -> PersonClient:
    """Open a browser, enrol a passkey of somebody with a code of the host, and be signed in by it."""
    client = browser(app, services)
    with host.write() as tx:
        code = issue_code(tx, services.rules, name)
    response = client.enrol(code)
    assert response.status_code == 201, response.get_data(as_text=True)
    assert client.name == name
    return client
