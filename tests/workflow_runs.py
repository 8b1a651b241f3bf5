"""An issuer of workflow tokens on loopback: real RSA keys, published as GitHub publishes its own, and the runner's door
at which a step asks for a token.
"""

import json
import time
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

REPOSITORY: Final = "acme/ops"
REPOSITORY_ID: Final = 77
WORKFLOW: Final = ".github/workflows/gitops-bot.yml"
BRANCH: Final = "refs/heads/main"
RUNNER: Final = "the-runner-s-own-bearer"


@cache
def key(name: str, bits: int = 2048) -> RSAPrivateKey:
    """Make a key, once for each name."""
    return generate_private_key(65537, bits)


def claims_of(issuer: str, audience: str, **changes: Any) -> dict[str, Any]:
    """Write the claims of a run as GitHub does (GitHub, OpenID Connect reference); a change to None leaves one out."""
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": f"repo:{REPOSITORY}:ref:{BRANCH}",
        "jti": str(uuid4()),
        "iat": now,
        "nbf": now - 300,
        "exp": now + 300,
        "repository": REPOSITORY,
        "repository_id": str(REPOSITORY_ID),
        "repository_owner": "acme",
        "ref": BRANCH,
        "ref_type": "branch",
        "workflow_ref": f"{REPOSITORY}/{WORKFLOW}@{BRANCH}",
        "job_workflow_ref": f"{REPOSITORY}/{WORKFLOW}@{BRANCH}",
        "event_name": "issue_comment",
        "run_id": "1",
        "run_attempt": "1",
    }
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


@dataclass
class Issuer:
    """The issuer. `published` are the names of the keys in its set; `asked` counts requests by path."""

    server: ThreadingHTTPServer
    published: list[str] = field(default_factory=lambda: ["one"])
    asked: dict[str, int] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Its name."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def token(self, audience: str, signer: str = "one", kid: str | None = None, **changes: Any) -> str:
        """Issue a token for a run."""
        claims = claims_of(self.url, audience, **{**self.changes, **changes})
        return jwt.encode(claims, key(signer), "RS256", headers={"kid": kid or signer})

    def key_set(self) -> dict[str, Any]:
        """Publish the keys."""
        shown = [{**RSAAlgorithm.to_jwk(key(name).public_key(), as_dict=True), "kid": name} for name in self.published]
        return {"keys": [{**one, "use": "sig", "alg": "RS256"} for one in shown]}

    def answer(self, path: str, query: dict[str, list[str]], bearer: str) -> tuple[int, object]:
        """Answer a request."""
        self.asked[path] = self.asked.get(path, 0) + 1
        match path:
            case "/.well-known/openid-configuration":
                return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.configuration}
            case "/keys":
                return 200, self.key_set()
            case "/idtoken" if bearer == f"Bearer {RUNNER}" and query.get("api-version") == ["2.0"]:
                return 200, {"count": 1, "value": self.token(query["audience"][0])}
        return 404, {}

    def environment(self) -> dict[str, str]:
        """Give what a runner with `id-token: write` tells its steps."""
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/idtoken?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": RUNNER,
        }

    def close(self) -> None:
        """Stop."""
        self.server.shutdown()
        self.server.server_close()


def start() -> Issuer:
    """Start an issuer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            status, said = issuer.answer(parts.path, parse_qs(parts.query), self.headers.get("Authorization", ""))
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_said: object) -> None:
            return

    issuer = Issuer(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    Thread(target=issuer.server.serve_forever, daemon=True).start()
    return issuer


def event(comment: int, number: int, body: object, login: str = "alice", **more: Any) -> bytes:
    """Write the event of a comment on a pull request, as far as it is read; `more` are further members."""
    there = {"id": REPOSITORY_ID, "full_name": REPOSITORY, "default_branch": "main", "size": 1.5}
    document = {
        "action": "created",
        "issue": {"number": number, "title": "A capture", "pull_request": {"url": "https://example.org"}},
        "comment": {"id": comment, "body": body, "user": {"login": login, "id": 1001}},
        "repository": there,
        "sender": {"login": login},
        **more,
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
