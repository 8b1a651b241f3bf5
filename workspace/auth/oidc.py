"""Signing in through an OpenID provider: authorization code with PKCE, state and nonce, and a token that is verified.

Nothing is stored on the way: state, nonce and verifier are derived from a random value in a cookie of this one browser,
so what comes back to another browser, or twice, opens nothing. Who the person is is only the pair of issuer and
subject; an address of e-mail in the token is never read. Such a session answers no bound ask.

OpenID Connect Core 1.0, sections 3.1.2 and 3.1.3.7; RFC 7636.
"""

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from flask import current_app

from gitops_bot.bootstrap.provider import Provider
from gitops_bot.core.errors import Unavailable
from workspace.serving import services

TIMEOUT: Final = 5.0
LASTS: Final = 600
"""How long somebody may be on their way, in seconds."""
BACK: Final = "/sign-in/oidc/back"
ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA", "RS384", "RS512", "PS384", "PS512", "ES384", "ES512")
"""Signatures by a key of the provider alone: no `none`, and no key that both sides have."""
LEEWAY: Final = 120
MOST_SUBJECT: Final = 255
_KNOWN_FOR: Final = 600.0
_FAILED_FOR: Final = 5.0
_KEY: Final = "gitops_bot.oidc"


@dataclass(frozen=True, slots=True)
class Unproven:
    """What came back does not prove who somebody is; why, for the ledger. A person is told in general words."""

    why: str


@dataclass(frozen=True, slots=True)
class Journey:
    """One browser on its way to the provider and back. `next` is where the person wanted to go."""

    secret: str
    next: str

    @property
    def state(self) -> str:
        """Give the state: what this browser alone can be asked for, and where it goes on to."""
        return f"{self._derived('state', self.next)}.{_encoded(self.next.encode('ascii'))}"

    @property
    def nonce(self) -> str:
        """Give the nonce that the token must hold."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Give the PKCE verifier."""
        return self._derived("verifier")

    def _derived(self, what: str, more: str = "") -> str:
        said = f"gitops-bot/oidc/v1\0{what}\0{more}".encode()
        return _encoded(hmac.digest(self.secret.encode("ascii"), said, hashlib.sha256))


def depart(following: str) -> Journey:
    """Begin a journey that ends at a path of ours."""
    return Journey(secrets.token_urlsafe(32), following)


def returned(secret: str | None, state: str) -> Journey | None:
    """Give the journey that this browser began with a state; None when it began none of the kind."""
    _, _, told = state.partition(".")
    try:
        following = base64.urlsafe_b64decode(told + "=" * (-len(told) % 4)).decode("ascii")
    except ValueError:
        return None
    if secret is None:
        return None
    journey = Journey(secret, following)
    return journey if hmac.compare_digest(journey.state, state) else None


class Door:
    """The door that leads through one provider. What it says of itself is read when it is needed, and kept a while."""

    def __init__(self, provider: Provider, origin: str) -> None:
        self.provider = provider
        self._back = origin + BACK
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, Mapping[str, Any] | None]] = {}

    def address(self, journey: Journey) -> str:
        """Give the provider's address to send a browser to.

        Raises:
            Unavailable: the provider does not say where.
        """
        with self._session() as session:
            url, _ = session.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=journey.state,
                nonce=journey.nonce,
                code_verifier=journey.verifier,
                response_mode="query",
            )
        return str(url)

    def subject(self, journey: Journey, code: str, now: int) -> str | Unproven:
        """Change a code for the token of whoever signed in there, verify it and give its subject. `now` in ms.

        Raises:
            Unavailable: the provider does not answer.
        """
        token = self._token(journey, code)
        return token if isinstance(token, Unproven) else self._verified(token["id_token"], journey, now // 1000)

    def _token(self, journey: Journey, code: str) -> Mapping[str, str] | Unproven:
        from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped] # ships no types
        from requests import RequestException

        try:
            with self._session() as session:
                found = session.fetch_token(
                    self._endpoint("token_endpoint"),
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=journey.verifier,
                    allow_redirects=False,
                )
        except AuthlibBaseError as error:
            return Unproven(f"the provider refused the code: {error.error}")
        except (RequestException, ValueError) as error:
            raise Unavailable(f"the OpenID provider does not answer ({type(error).__name__})") from error
        token = found.get("id_token") if isinstance(found, dict) else None
        return {"id_token": token} if isinstance(token, str) else Unproven("the provider gave no token of identity")

    def _verified(self, token: str, journey: Journey, now: int) -> str | Unproven:
        from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped] # ships no types
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        issuer, mine = self.provider.issuer, self.provider.client_id
        keys: Any = self._read(self._endpoint("jwks_uri"))
        try:
            read = jwt.decode(token, KeySet.import_key_set(keys), algorithms=list(ALGORITHMS))
            wanted = {"iss": {"essential": True, "value": issuer}, "aud": {"essential": True, "value": mine}}
            claims = CodeIDToken(read.claims, read.header, wanted, {"nonce": journey.nonce, "client_id": mine})
            claims.validate(now=now, leeway=LEEWAY)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            return Unproven(f"the token of identity does not stand: {type(error).__name__}")
        subject = claims.get("sub")
        if claims.get("iss") != issuer or not isinstance(subject, str) or not 0 < len(subject) <= MOST_SUBJECT:
            return Unproven("the token of identity names nobody")
        if claims.get("aud") not in (mine, [mine]):
            return Unproven("the token of identity is for others too")
        return subject

    def _session(self) -> Any:
        from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped] # ships no types

        session = OAuth2Session(
            self.provider.client_id,
            self.provider.client_secret,
            scope="openid",
            redirect_uri=self._back,
            code_challenge_method="S256",
            default_timeout=TIMEOUT,
        )
        session.trust_env = False
        return session

    def _endpoint(self, name: str) -> str:
        found = self._read(f"{self.provider.issuer.rstrip('/')}/.well-known/openid-configuration")
        address = found.get(name)
        # A provider that calls itself by another name is another one (OpenID Connect Discovery 1.0, section 4.3).
        if (
            found.get("issuer") != self.provider.issuer
            or not isinstance(address, str)
            or not _is_safe(address, self.provider.issuer)
        ):
            raise Unavailable(f"the OpenID provider does not say its {name}")
        return address

    def _read(self, address: str) -> Mapping[str, Any]:
        """Read a document of the provider's; one that cannot be read is not asked for again at once."""
        with self._lock:
            until, known = self._said.get(address, (0.0, None))
            if time.monotonic() >= until:
                known = self._fetch(address)
                until = time.monotonic() + (_FAILED_FOR if known is None else _KNOWN_FOR)
                self._said[address] = (until, known)
        if known is None:
            raise Unavailable("the OpenID provider does not answer")
        return known

    def _fetch(self, address: str) -> Mapping[str, Any] | None:
        from requests import RequestException

        try:
            with self._session() as session:
                answer = session.get(address, withhold_token=True, allow_redirects=False)
                found = answer.json() if answer.status_code == 200 else None
        except (RequestException, ValueError):
            return None
        return found if isinstance(found, dict) else None


def oidc_here() -> Door | None:
    """Give the door of this application that leads through a provider; None where none is set up."""
    mine = services()
    if mine.provider is None:
        return None
    found: Door = current_app.extensions.setdefault(_KEY, Door(mine.provider, mine.site.origin))
    return found


def _is_safe(address: str, issuer: str) -> bool:
    """Tell whether codes and keys may travel to and from an address: https, as the issuer of every policy is."""
    parts = urlsplit(address)
    return bool(parts.hostname) and parts.scheme in ("https", urlsplit(issuer).scheme)


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
