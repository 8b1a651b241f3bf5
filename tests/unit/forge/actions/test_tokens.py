"""A token of a run: one algorithm, by a key that its issuer publishes now, asked for at a bounded rate."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.actions.grammar import Expected, NotValid, Run
from gitops_bot.forge.actions.tokens import AGAIN, KNOWN_FOR, MOST_TOKEN, USED_FOR, Keys, Runs
from tests.workflow_runs import REPOSITORY, WORKFLOW, Issuer, claims_of, key, start

pytestmark = pytest.mark.slow
HERE = "http://localhost:8480"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = start()
    yield found
    found.close()


class Gate:
    """What verifies, with a clock of the test's own; `now` is the real time."""

    def __init__(self, issuer: Issuer) -> None:
        self.at = 1_000.0
        expected = Expected(issuer.url, HERE, (REPOSITORY,), WORKFLOW)
        self.runs = Runs(expected, Keys(issuer.url, clock=lambda: self.at))
        self.now = claims_of("", "")["iat"]

    def __call__(self, token: str) -> object:
        return self.runs.run(token, self.now)


@pytest.fixture
def gate(issuer: Issuer) -> Gate:
    return Gate(issuer)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_of_the_issuer_stands_and_keys_are_asked_for_once(gate: Gate, issuer: Issuer) -> None:
    for _ in range(5):
        assert isinstance(gate(issuer.token(HERE)), Run)
    assert issuer.asked == {"/.well-known/openid-configuration": 1, "/keys": 1}


def forged(issuer: Issuer) -> dict[str, str]:
    """Make tokens that say everything right and are not signed with the issuer's key by the one algorithm."""
    claims = claims_of(issuer.url, HERE)
    public = key("one").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body = encoded({"alg": "HS256", "typ": "JWT", "kid": "one"}), encoded(claims)
    mac = hmac.digest(public, f"{head}.{body}".encode(), hashlib.sha256)
    good = issuer.token(HERE)
    first, _, rest = good.partition(".")
    _, _, signature = rest.partition(".")
    own = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key("two").public_key()))
    return {
        "alg none": f"{encoded({'alg': 'none', 'kid': 'one'})}.{body}.",
        "alg none, signed": f"{encoded({'alg': 'none', 'kid': 'one'})}.{body}.{signature}",
        "alg None in capitals": jwt.encode(claims, None, "none", headers={"kid": "one", "alg": "none"}),
        "the public key as a secret": f"{head}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        "another RSA algorithm": jwt.encode(claims, key("one"), "RS512", headers={"kid": "one"}),
        "PSS": jwt.encode(claims, key("one"), "PS256", headers={"kid": "one"}),
        "another key": issuer.token(HERE, signer="two", kid="one"),
        "a key of its own in the header": jwt.encode(
            claims, key("two"), "RS256", headers={"kid": "one", "jwk": own, "jku": "http://127.0.0.1:1/"}
        ),
        "critical": jwt.encode(claims, key("one"), "RS256", headers={"kid": "one", "crit": ["x"], "x": 1}),
        "no key named": jwt.encode(claims, key("one"), "RS256"),
        "changed claims": f"{first}.{encoded({**claims, 'sub': 'x'})}.{signature}",
        "cut short": good[:-20],
        "a part more": good + ".x",
        "nothing": "",
        "no token": "x",
        "a space": good + " ",
        "too long": good + "A" * MOST_TOKEN,
    }


def test_a_forged_token_does_not(gate: Gate, issuer: Issuer) -> None:
    taken = [name for name, token in forged(issuer).items() if not isinstance(gate(token), NotValid)]
    assert taken == []
    assert isinstance(gate(issuer.token(HERE)), Run)


def test_a_rotated_key_is_found_and_a_withdrawn_one_is_forgotten(gate: Gate, issuer: Issuer) -> None:
    assert isinstance(gate(issuer.token(HERE)), Run)
    issuer.published = ["one", "two"]
    assert isinstance(gate(issuer.token(HERE, "two")), Run)
    issuer.published = ["two"]
    gate.at += KNOWN_FOR + 1
    assert isinstance(gate(issuer.token(HERE, "two")), Run)
    gate.at += AGAIN + 1
    assert gate(issuer.token(HERE)) == NotValid("another key")


def test_a_flood_of_unknown_keys_is_one_request_a_minute(gate: Gate, issuer: Issuer) -> None:
    assert isinstance(gate(issuer.token(HERE)), Run)
    assert gate(issuer.token(HERE, kid="x")) == NotValid("another key")
    for number in range(20):
        with pytest.raises(Unavailable):
            gate(issuer.token(HERE, kid=f"x{number}"))
    assert issuer.asked["/keys"] == 2
    assert isinstance(gate(issuer.token(HERE)), Run), "known keys are not kept from anybody"
    gate.at += AGAIN + 1
    assert gate(issuer.token(HERE, kid="y")) == NotValid("another key")


def test_an_issuer_that_is_away_is_not_a_no(gate: Gate, issuer: Issuer) -> None:
    issuer.configuration = {"issuer": "http://another"}
    with pytest.raises(Unavailable):
        gate(issuer.token(HERE))
    issuer.configuration = {}
    gate.at += 2
    assert isinstance(gate(issuer.token(HERE)), Run)
    issuer.configuration = {"issuer": "http://another"}
    gate.at += KNOWN_FOR + 1
    assert isinstance(gate(issuer.token(HERE)), Run), "for an hour what was read stands"
    gate.at += USED_FOR
    with pytest.raises(Unavailable):
        gate(issuer.token(HERE))


@pytest.mark.parametrize(
    "changes",
    [
        {"jwks_uri": "http://127.0.0.1:1/keys"},
        {"jwks_uri": "https://keys.example.org/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://localhost/keys"},
        {"jwks_uri": None},
        {"jwks_uri": 3},
    ],
)
def test_keys_come_from_the_issuer_s_own_host(gate: Gate, issuer: Issuer, changes: dict[str, Any]) -> None:
    issuer.configuration = changes
    with pytest.raises(Unavailable):
        gate(issuer.token(HERE))
    issuer.configuration = {}
    gate.at += 2
    assert isinstance(gate(issuer.token(HERE)), Run)


def test_weak_and_foreign_keys_are_left_out(issuer: Issuer) -> None:
    shown = issuer.key_set()["keys"][0]
    weak = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key("weak", 1024).public_key())), "kid": "weak"}
    listed: list[object] = [
        weak, {**shown, "kid": "enc", "use": "enc"}, {**shown, "kid": "ps", "alg": "PS256"},
        {"kty": "oct", "k": "eA", "kid": "oct"}, {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"}, 3,
        {**shown, "kid": "good"},
    ]  # fmt: skip

    def fetch(address: str) -> dict[str, Any]:
        return {"keys": listed} if address.endswith("/keys") else {"issuer": "https://i", "jwks_uri": "https://i/keys"}

    keys = Keys("https://i", fetch, clock=lambda: 0.0)
    assert keys.find("good") is not None
    assert keys.find("weak") is None
    assert set(keys._keys) == {"good"}


def test_plain_http_is_for_this_machine_alone(issuer: Issuer) -> None:
    with pytest.raises(Unavailable):
        Keys("http://issuer.example.org").find("one")
    assert Keys(issuer.url).find("one") is not None
