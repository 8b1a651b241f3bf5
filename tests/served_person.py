"""A person at a running workspace: real ceremonies over HTTP by a passkey in software, and shells that they let in."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from gitops_bot.demo.passkey import SoftwarePasskey
from tests.served_stage import BOT, Served


@dataclass
class ServedPerson:
    """One browser of one person. The cookie is kept by hand: a library that is no browser sends a secure one over
    https alone."""

    served: Served
    origin: str
    passkey: SoftwarePasskey
    http: requests.Session = field(default_factory=requests.Session)
    cookie: str = ""
    csrf: str = ""

    def send(self, path: str, body: Mapping[str, Any] | None = None) -> requests.Response:
        """Send a change as a page of the workspace does."""
        headers = {"Origin": self.origin, "X-CSRF-Token": self.csrf, "Cookie": self.cookie}
        named = {name: value for name, value in headers.items() if value}
        response = self.http.post(f"{self.origin}/api/v1{path}", json=dict(body or {}), headers=named, timeout=60)
        kept = response.headers.get("Set-Cookie", "")
        if kept.startswith("__Host-gitops-bot="):
            self.cookie = kept.partition(";")[0]
        return response

    def ok(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a change and insist on success; what asks for a passkey gets one."""
        response = self.send(path, body)
        if response.status_code == 422 and "act" in (response.json().get("facts") or {}):
            begun = self.ok("/auth/fresh/begin", {"act": json.loads(response.json()["facts"]["act"])})
            given = {"ceremony": begun["id"], "credential": self.passkey.get(begun["options"])}
            response = self.send(path, {**(body or {}), "fresh": given})
        assert response.status_code < 300, (path, response.text)
        document: dict[str, Any] = response.json()
        self.csrf = document.get("csrf") or self.csrf
        return document

    def shell(self) -> str:
        """Let a shell in; gives its credential."""
        begun = requests.post(f"{self.origin}/api/v1/auth/shells/begin", json={"label": "sh"}, timeout=60).json()
        self.ok("/auth/shells/confirm", {"code": begun["code"]})
        taken = requests.post(f"{self.origin}/api/v1/auth/shells/take", json={"secret": begun["secret"]}, timeout=60)
        return str(taken.json()["credential"])


def enrolled(served: Served, name: str) -> ServedPerson:
    """Enrol a passkey of somebody with a code that the host printed; signed in afterwards."""
    printed = subprocess.run(
        [*BOT, "person", "enrol", name, "--json", "--config", str(served.folder / "gitops-bot.toml")],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    origin = f"http://localhost:{served.port}"
    person = ServedPerson(served, origin, SoftwarePasskey(origin))
    begun = person.ok("/auth/enrol/begin", {"code": json.loads(printed.stdout)["code"], "label": "laptop"})
    person.ok("/auth/enrol/finish", {"ceremony": begun["id"], "credential": person.passkey.create(begun["options"])})
    return person
