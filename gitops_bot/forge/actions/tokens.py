"""The OIDC token of a workflow run: its signature is the issuer's, by a key that the issuer publishes now.

One algorithm, RS256, chosen here and not by the token. Keys are read from the address that the issuer names on its own
host, kept a while, and read anew when a token names one that is not among them, at most once a minute: a flood of
tokens makes no flood of requests. What the claims say is judged in the grammar beside.
OpenID Connect Discovery 1.0, section 4; RFC 7517; RFC 8725, sections 3.1 and 3.2.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.core.strictjson import load_object
from gitops_bot.forge.actions.calls import MOST, call, is_safe
from gitops_bot.forge.actions.grammar import Expected, NotOurs, NotValid, Run, read_claims

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHM: Final = "RS256"
LEAST_BITS: Final = 2_048
MOST_TOKEN: Final = 8_192
MOST_KEYS: Final = 50
KNOWN_FOR: Final = 600.0
"""Seconds after which keys are read anew."""
USED_FOR: Final = 3_600.0
"""Seconds for which they are used while that fails."""
AGAIN: Final = 60.0
"""Seconds between two readings for the sake of a key that is not known."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_MOST_KID: Final = 200
# Times, issuer and audience are judged by the grammar, with the database's clock.
_OPTIONS: Final = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
Fetch = Callable[[str], Mapping[str, Any]]
"""Reads a JSON object from an address. Raises `Unavailable`."""


class Keys:
    """The keys of an issuer. `clock` in seconds, monotonic. Safe from several threads, of which one at a time reads."""

    def __init__(self, issuer: str, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._fetch = fetch or _fetch
        self._clock = clock
        self._reading = threading.Lock()
        self._keys: Mapping[str, PyJWK] = {}
        self._read_at: float | None = None
        self._missed_at: float | None = None
        self._failed_at: float | None = None

    def find(self, kid: str) -> "PyJWK | None":
        """Find a key by its id; None where the issuer has none of that id.

        Raises:
            Unavailable: the issuer does not say, or was asked a moment ago.
        """
        now, read_at = self._clock(), self._read_at
        age = None if read_at is None else now - read_at
        if age is None or age > KNOWN_FOR:
            if not self._read(now) and (age is None or age > USED_FOR):
                raise Unavailable("the issuer's keys cannot be read", retry_after=5)
        elif kid not in self._keys:
            if self._missed_at is not None and now - self._missed_at < AGAIN:
                raise Unavailable("the issuer was asked for its keys a moment ago", retry_after=AGAIN)
            self._missed_at = now
            if not self._read(now):
                raise Unavailable("the issuer's keys cannot be read", retry_after=AGAIN)
        return self._keys.get(kid)

    def _read(self, now: float) -> bool:
        """Read the keys, unless somebody does or that failed a moment ago; tell whether they were read."""
        if self._failed_at is not None and now - self._failed_at < 1.0:
            return False
        # Nobody waits for a reader: threads are few, and the issuer may be slow.
        if not self._reading.acquire(blocking=False):
            return False
        try:
            self._keys = self._published()
            self._read_at = now
        except Unavailable:
            self._failed_at = now
            return False
        finally:
            self._reading.release()
        return True

    def _published(self) -> Mapping[str, "PyJWK"]:
        said = self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        address = said.get("jwks_uri")
        # An issuer that calls itself by another name is another one (OpenID Connect Discovery 1.0, section 4.3).
        if said.get("issuer") != self._issuer or not isinstance(address, str) or not _same_host(address, self._issuer):
            raise Unavailable("the issuer does not say where its keys are")
        listed = self._fetch(address).get("keys")
        if not isinstance(listed, list) or len(listed) > MOST_KEYS:
            raise Unavailable("the issuer publishes no set of keys")
        return {found.key_id: found for one in listed if (found := _key(one)) is not None and found.key_id}


class Runs:
    """Tells of which run a token is."""

    def __init__(self, expected: Expected, keys: Keys | None = None) -> None:
        self._expected = expected
        self._keys = keys or Keys(expected.issuer)

    def run(self, token: str, now: int) -> Run | NotValid | NotOurs:
        """Verify a token; `now` in seconds. That it is used for the first time is *not* checked.

        Raises:
            Unavailable: the issuer's keys cannot be read now.
        """
        import jwt

        if len(token) > MOST_TOKEN or not _TOKEN.fullmatch(token):
            return NotValid("it is no token")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            return NotValid("it is no token")
        kid = header.get("kid")
        if header.get("alg") != ALGORITHM or "crit" in header:
            return NotValid("another algorithm")
        if not isinstance(kid, str) or not 0 < len(kid) <= _MOST_KID:
            return NotValid("it names no key")
        key = self._keys.find(kid)
        if key is None:
            return NotValid("another key")
        options: Any = _OPTIONS
        try:
            claims = jwt.decode(token, key, algorithms=[ALGORITHM], options=options)
        except jwt.PyJWTError:
            return NotValid("the signature does not stand")
        return read_claims(claims, self._expected, now)


def _key(published: object) -> "PyJWK | None":
    """Read one published key; None for one of another kind, use or size."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if not isinstance(published, dict) or published.get("kty") != "RSA":
        return None
    if published.get("use", "sig") != "sig" or published.get("alg", ALGORITHM) != ALGORITHM:
        return None
    try:
        found = jwt.PyJWK(published, ALGORITHM)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return found if isinstance(found.key, RSAPublicKey) and found.key.key_size >= LEAST_BITS else None


def _same_host(address: str, issuer: str) -> bool:
    if not is_safe(address) or not is_safe(issuer):
        return False
    one, other = urlsplit(address), urlsplit(issuer)
    return (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)


def _fetch(address: str) -> Mapping[str, Any]:
    answer = call("GET", address)
    if answer.status != 200:
        raise Unavailable(f"the issuer answered {answer.status}")
    try:
        return load_object(answer.body, limit=MOST, floats=True, where="issuer")
    except Malformed as error:
        raise Unavailable("the issuer's answer is no JSON object") from error
